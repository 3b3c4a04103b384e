//! The open-loop search: the highest arrival rate that keeps the objective.

use std::time::Duration;

use goodput_ledger::{Between, PointRow, PointSoFar};
use goodput_stats::looks_confidence;
use goodput_workload::Load;
use serde::{Deserialize, Serialize};

use super::{Ask, Look, Measure, Strategy, Why, schedule::Looks};

/// Without a bracket the next rate is this many times the last one, or that part of it.
const STEP: f64 = 1.2;
/// The search ends when the highest rate that keeps the objective and the lowest that does not are
/// this close.
const RESOLUTION: f64 = 1.06;
/// What is in flight has grown to this many times what it was, and by [`GROWN_BY`]: saturated.
const GROWN: f64 = 4.0;
/// Requests by which what is in flight must have grown.
const GROWN_BY: u64 = 50;

/// What a [`RateSearch`] may spend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatePlan {
    /// The rate to begin with, in requests a second.
    pub first: f64,
    /// The share of requests that must meet the SLO.
    pub objective: f64,
    /// The windows of all points together last no longer.
    pub budget: Duration,
    /// No window is shorter.
    pub shortest: Duration,
}

/// What became of one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tried {
    /// Requests a second.
    pub rate_req_s: f64,
    /// Whether it surely keeps the objective (`Some(true)`), surely breaks it, or neither.
    pub keeps: Option<bool>,
    /// The interval of its attainment.
    pub interval: Option<Between>,
}

/// What a [`RateSearch`] has found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FoundRate {
    /// The highest rate that was tested and surely keeps the objective, below the lowest that
    /// surely breaks it.
    pub rate_req_s: Option<f64>,
    /// The lowest rate tested above it that does not surely keep it. `None`: not bracketed.
    pub above_req_s: Option<f64>,
    /// Whether the two are within 6 % of each other.
    pub resolved: bool,
    /// Every rate tried, in order.
    pub tried: Vec<Tried>,
    /// Seconds measured.
    pub measured_s: f64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct RateSearch {
    plan: RatePlan,
    tried: Vec<Tried>,
    spent_s: f64,
    e2e_s: f64,
    under_way: Option<f64>,
    looks: Looks,
    looked: u32,
}

impl RateSearch {
    /// A search that has measured nothing.
    #[must_use]
    pub const fn new(plan: RatePlan) -> Self {
        Self {
            plan,
            tried: Vec::new(),
            spent_s: 0.0,
            e2e_s: 0.0,
            under_way: None,
            looks: Looks::from(0.0),
            looked: 0,
        }
    }

    /// What is known now.
    #[must_use]
    pub fn found(&self) -> FoundRate {
        let (kept, above) = self.bracket();
        FoundRate {
            rate_req_s: kept,
            above_req_s: above,
            resolved: matches!((kept, above), (Some(k), Some(a)) if a / k <= RESOLUTION),
            tried: self.tried.clone(),
            measured_s: self.spent_s,
        }
    }

    /// The highest rate that keeps the objective below the first that surely breaks it, and the
    /// lowest above it that does not keep it.
    fn bracket(&self) -> (Option<f64>, Option<f64>) {
        let rates = |keeps: Option<bool>| {
            let those = self.tried.iter().filter(move |t| t.keeps == keeps);
            those.map(|t| t.rate_req_s)
        };
        let breaks = rates(Some(false)).fold(f64::INFINITY, f64::min);
        let kept = rates(Some(true)).filter(|&r| r < breaks).reduce(f64::max);
        let above = rates(Some(false)).chain(rates(None));
        let above = above
            .filter(|&r| kept.is_none_or(|k| r > k))
            .reduce(f64::min);
        (kept, above)
    }

    fn next(&self) -> Option<f64> {
        match self.bracket() {
            (None, None) => Some(self.plan.first),
            (None, Some(above)) => Some(above / STEP),
            (Some(kept), None) => Some(kept * STEP),
            (Some(kept), Some(above)) => {
                (above / kept > RESOLUTION).then(|| libm::sqrt(above * kept))
            }
        }
    }

    fn left_s(&self) -> f64 {
        self.plan.budget.as_secs_f64() - self.spent_s
    }

    /// No window is shorter: a queue needs time to form.
    fn shortest_s(&self) -> f64 {
        self.plan.shortest.as_secs_f64().max(5.0 * self.e2e_s)
    }

    /// Seconds in which a rate slightly better than the objective can prove it.
    fn enough_s(&self, rate: f64) -> f64 {
        let miss = (1.0 - self.plan.objective).max(1e-4);
        30.0 / miss / rate
    }
}

impl Strategy for RateSearch {
    fn ask(&mut self) -> Ask {
        let (shortest, left) = (self.shortest_s(), self.left_s());
        let Some(per_second) = self.next().filter(|_| left >= shortest) else {
            return Ask::Done;
        };
        self.under_way = Some(per_second);
        self.looks = Looks::from(shortest);
        self.looked = 0;
        let most_s = self.enough_s(per_second).max(2.0 * shortest).min(left);
        Ask::Measure(Measure {
            load: Load::Open { per_second },
            at_least: Duration::from_secs_f64(shortest),
            at_most: Duration::from_secs_f64(most_s),
        })
    }

    fn look(&mut self, seen: &PointSoFar) -> Look {
        let grown = seen.in_flight > seen.in_flight_at_start + GROWN_BY
            && seen.in_flight as f64 > GROWN * seen.in_flight_at_start.max(1) as f64;
        if grown {
            return Look::Close(Why::Saturated);
        }
        if !self.looks.due(seen.open_s) {
            return Look::Wait;
        }
        self.looked += 1;
        let confidence = looks_confidence(self.looked);
        // What has missed has missed, even if all that is open should still be met.
        let judged = seen.met + seen.missed + seen.in_flight;
        let at_best = goodput_stats::wilson(judged - seen.missed, judged, confidence);
        if at_best.is_some_and(|i| i.high < self.plan.objective) {
            return Look::Close(Why::Breaks);
        }
        match seen.attainment_interval(confidence) {
            Some(i) if i.high < self.plan.objective => Look::Close(Why::Breaks),
            Some(i) if i.low >= self.plan.objective => Look::Close(Why::Keeps),
            _ => Look::GoOn,
        }
    }

    fn tell(&mut self, row: &PointRow) {
        let Some(rate_req_s) = self.under_way.take() else {
            return;
        };
        self.spent_s += row.window_s.max(1.0);
        if !row.valid {
            return;
        }
        self.e2e_s = row.e2e_p95_ms.map_or(self.e2e_s, |ms| ms / 1e3);
        let objective = self.plan.objective;
        let keeps = row.attainment_interval.and_then(|i| {
            let keeps = i.low >= objective;
            (keeps || i.high < objective).then_some(keeps)
        });
        self.tried.push(Tried {
            rate_req_s,
            keeps,
            interval: row.attainment_interval,
        });
    }
}
