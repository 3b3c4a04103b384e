//! How far each side's figure may be off, and how much of that both sides share.

use std::collections::BTreeMap;

use goodput_ledger::{Between, MeasuredPoint, Pairs, PointRow};
use goodput_stats::{Bounded, Interval};
use serde::{Deserialize, Serialize};

use super::figure::Figure;
use crate::{
    boots::{BootValue, as_one_of, over_boots},
    document::RunResult,
};

/// A result with what is known of its requests.
#[derive(Clone, Debug)]
pub struct Side<'a> {
    /// The document.
    pub result: &'a RunResult,
    /// Its measured requests by point, where `requests.jsonl` is there.
    pub measured: BTreeMap<u32, MeasuredPoint>,
}

impl<'a> Side<'a> {
    /// A result of which there are no requests.
    #[must_use]
    pub const fn alone(result: &'a RunResult) -> Self {
        Self {
            result,
            measured: BTreeMap::new(),
        }
    }
}

/// Where the interval of a difference comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// From the same requests in both: what they share is taken out.
    Paired,
    /// From both points as independent ones.
    Independent,
    /// From restarts of the server on at least one side.
    Boots,
    /// From the tested loads next to the answer.
    TestedLoads,
    /// There is none.
    Missing,
}

/// A figure of both sides with what is known of its noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Known {
    pub(crate) base: Option<Bounded>,
    pub(crate) other: Option<Bounded>,
    pub(crate) correlation: f64,
    pub(crate) evidence: Evidence,
    /// The fewest requests behind one side's figure, where known.
    pub(crate) samples: Option<u64>,
}

/// One load of both sides.
pub(crate) struct Shared<'a> {
    pub(crate) base: (&'a Side<'a>, &'a PointRow),
    pub(crate) other: (&'a Side<'a>, &'a PointRow),
    /// Their common requests, where both ran one schedule.
    pub(crate) pairs: Option<Pairs>,
}

impl<'a> Shared<'a> {
    pub(crate) fn new(
        base: (&'a Side<'a>, &'a PointRow),
        other: (&'a Side<'a>, &'a PointRow),
    ) -> Self {
        let one_schedule = base.0.result.seed == other.0.result.seed
            && base.0.result.boots.len() < 2
            && other.0.result.boots.len() < 2;
        let pairs = requests(base)
            .zip(requests(other))
            .filter(|_| one_schedule)
            .and_then(|(a, b)| Pairs::of(a, b));
        Self { base, other, pairs }
    }

    /// What is known of one figure.
    pub(crate) fn known(&self, figure: &Figure) -> Known {
        if let Some(known) = self.over_boots(figure) {
            return known;
        }
        let base = within_boot(self.base, figure);
        let other = within_boot(self.other, figure);
        let correlation = self
            .pairs
            .as_ref()
            .zip(figure.sampled)
            .map(|(pairs, sampled)| pairs.correlation(sampled));
        let evidence = match (base.and(other), correlation) {
            (None, _) => Evidence::Missing,
            (Some(_), Some(r)) if r > 0.0 => Evidence::Paired,
            (Some(_), _) => Evidence::Independent,
        };
        Known {
            base,
            other,
            correlation: correlation.unwrap_or(0.0),
            evidence,
            samples: self.samples(figure),
        }
    }

    fn samples(&self, figure: &Figure) -> Option<u64> {
        let of = |side| Some(requests(side)?.samples(figure.sampled?));
        Some(of(self.base)?.min(of(self.other)?))
    }

    /// Where a side has several boots, they speak; a side with one boot is taken as one of the
    /// other's kind.
    fn over_boots(&self, figure: &Figure) -> Option<Known> {
        let (base, other) = (of_boots(self.base, figure), of_boots(self.other, figure));
        if base.len() < 2 && other.len() < 2 {
            return None;
        }
        let bounded = |mine: &[BootValue], theirs: &[BootValue], row: &PointRow| {
            let own = over_boots(mine).and_then(|e| {
                Some(Bounded {
                    value: e.value,
                    interval: e.interval(goodput_stats::CONFIDENCE)?,
                })
            });
            own.or_else(|| as_one_of(theirs, (figure.of)(row)?))
        };
        Some(Known {
            base: bounded(&base, &other, self.base.1),
            other: bounded(&other, &base, self.other.1),
            correlation: 0.0,
            evidence: Evidence::Boots,
            samples: None,
        })
    }
}

fn requests<'a>((side, row): (&'a Side<'a>, &PointRow)) -> Option<&'a MeasuredPoint> {
    side.measured.get(&row.point)
}

/// The figure on every boot of a side that has it.
fn of_boots((side, row): (&Side<'_>, &PointRow), figure: &Figure) -> Vec<BootValue> {
    let of = |p: &PointRow| {
        Some(BootValue {
            value: (figure.of)(p)?,
            interval: (figure.stated)(p).map(interval),
        })
    };
    side.result
        .boots
        .iter()
        .filter_map(|boot| of(boot.at(row.mode, row.load())?))
        .collect()
}

/// The figure of one point with the interval that it has within its boot: what the point states, else
/// what its requests say.
fn within_boot(at: (&Side<'_>, &PointRow), figure: &Figure) -> Option<Bounded> {
    let value = (figure.of)(at.1)?;
    if let Some(stated) = (figure.stated)(at.1) {
        return Some(Bounded {
            value,
            interval: interval(stated),
        });
    }
    let sampled = requests(at)?.bounded(figure.sampled?)?;
    // Rates of requests count by origin and differ a little from the point's: their relative
    // distances are taken over. Percentiles are the same ones.
    if sampled.value <= 0.0 {
        return (sampled.value == value).then_some(sampled);
    }
    Some(sampled.scaled(value / sampled.value))
}

pub(crate) fn interval(between: Between) -> Interval {
    Interval {
        low: between.low,
        high: between.high,
    }
}

pub(crate) fn between(interval: Interval) -> Between {
    Between {
        low: interval.low,
        high: interval.high,
    }
}
