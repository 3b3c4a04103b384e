//! How far each side's figure may be off, and how much of that both sides share.

use std::collections::BTreeMap;

use goodput_ledger::{MeasuredPoint, Mode, Pairs, PointRow, Sampled};
use goodput_stats::{Bounded, Interval};
use serde::{Deserialize, Serialize};

use super::figure::Figure;
use crate::{
    boots::{BootValue, as_one_of, over_boots},
    document::RunResult,
};

/// Standard errors in the reach of a 95 % interval.
const STANDARD_ERRORS: f64 = 1.96;

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
        if let Some(known) = self.paired(figure) {
            return known;
        }
        let base = within_boot(self.base, figure);
        let other = within_boot(self.other, figure);
        Known {
            base,
            other,
            correlation: 0.0,
            evidence: match base.and(other) {
                None => Evidence::Missing,
                Some(_) => Evidence::Independent,
            },
            samples: self.samples(figure),
        }
    }

    /// From the requests of both, where they are the same ones and that is to be seen in the figure.
    /// Both intervals must come from the same blocks as the correlation, so that what is shared
    /// cancels.
    fn paired(&self, figure: &Figure) -> Option<Known> {
        let sampled = figure.sampled?;
        // Users of a closed loop keep the server busy whatever they ask: its rate by the arrival of
        // tokens hardly depends on the plan, and is known better than by origin of requests.
        let busy = matches!(sampled, Sampled::Rate(_)) && self.base.1.mode == Mode::Closed;
        if busy && (figure.stated)(self.base.1).is_some() {
            return None;
        }
        let correlation = self.pairs.as_ref()?.correlation(sampled);
        let (base, base_shared) = from_requests(self.base, figure)?;
        let (other, other_shared) = from_requests(self.other, figure)?;
        let correlation = correlation * base_shared * other_shared;
        (correlation > 0.0).then(|| Known {
            base: Some(base),
            other: Some(other),
            correlation,
            evidence: Evidence::Paired,
            samples: self.samples(figure),
        })
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
            interval: (figure.stated)(p).map(Interval::from),
        })
    };
    side.result
        .boots
        .iter()
        .filter_map(|boot| of(boot.at(row)?))
        .collect()
}

/// The figure of one point with the interval that it has within its boot: what the point states, else
/// what its requests say.
fn within_boot(at: (&Side<'_>, &PointRow), figure: &Figure) -> Option<Bounded> {
    let value = (figure.of)(at.1)?;
    if let Some(stated) = (figure.stated)(at.1) {
        return Some(Bounded {
            value,
            interval: stated.into(),
        });
    }
    from_requests(at, figure).map(|(bounded, _)| bounded)
}

/// The figure of one point with the interval that its requests give it, and which share of that
/// interval's length is theirs.
///
/// Rates of requests count by origin, those of the point by the instant at which tokens came: at the
/// edges of the window the two differ, and how far they do is how far either may be off for that
/// reason. Nothing of it is shared by two runs.
fn from_requests(at: (&Side<'_>, &PointRow), figure: &Figure) -> Option<(Bounded, f64)> {
    let value = (figure.of)(at.1)?;
    let sampled = requests(at)?.bounded(figure.sampled?)?;
    if sampled.value <= 0.0 {
        // Nothing of it was seen in either: a share of none, a rate of no tokens.
        return (value <= 0.0).then_some((sampled, 1.0));
    }
    let own = sampled.scaled(value / sampled.value);
    let edges = match figure.sampled? {
        Sampled::Rate(_) => STANDARD_ERRORS * (value - sampled.value / figure.gpus(at.1)).abs(),
        // Of exactly the requests of the point.
        Sampled::Attainment | Sampled::Quantile(..) => 0.0,
    };
    let both = |reach: f64| (reach * reach + edges * edges).sqrt();
    let interval = Interval {
        low: value - both(value - own.interval.low),
        high: value + both(own.interval.high - value),
    };
    let share = if interval.half_width() > 0.0 {
        own.interval.half_width() / interval.half_width()
    } else {
        1.0
    };
    Some((Bounded { value, interval }, share))
}
