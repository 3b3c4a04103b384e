//! The open-loop search: the highest arrival rate that keeps the objective.

use std::time::Duration;

use goodput_ledger::{Between, PointRow, PointSoFar};
use goodput_stats::{COMPANY, Interval, looks_confidence, wilson};
use goodput_workload::Load;
use serde::{Deserialize, Serialize};

use super::{Ask, Look, Measure, Strategy, Why, schedule::Looks};

/// Without a bracket the next rate is this many times the last one, or that part of it.
const STEP: f64 = 1.25;
/// The bracket is narrow enough when its ends are this close.
const RESOLUTION: f64 = 1.08;
/// After a rate that could not be proven, the next one is this part of it.
const STEP_DOWN: f64 = 0.92;
/// The square of the normal quantile of 95 %: what a rate without misses needs to be proven.
const Z_SQUARED: f64 = 3.84;
/// How much longer than that a rate is given which misses now and then.
const PATIENCE: f64 = 3.0;
/// Below this part of the first rate no further one is tried: where attainment does not recover there,
/// it is not the load that breaks the objective.
const FAR_DOWN: f64 = 0.15;
/// The part of that time after which a rate is judged by its looks while the bracket is narrowed.
const GLANCE: f64 = 0.12;
/// A rate looks as if it kept the objective if its misses are at most this part of those allowed.
const LOOKS_GOOD: f64 = 0.6;
/// More is in flight at the end of a window than at its start by this share of what came: saturated.
const GROWN: f64 = 0.08;

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
    /// Whether it looks as if it kept the objective, sure or not.
    pub seems_to_keep: bool,
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
    /// Whether the two are within a sixth of each other.
    pub resolved: bool,
    /// The highest rate that looks as if it kept the objective, sure or not: where to go on with
    /// more time. Not a rate to sell.
    pub seems_to_keep_req_s: Option<f64>,
    /// Seconds of window in which that rate could be proven, if no request missed. Null once a rate is
    /// proven.
    #[serde(default)]
    pub proof_s: Option<f64>,
    /// Every rate tried, in order.
    pub tried: Vec<Tried>,
    /// Seconds measured.
    pub measured_s: f64,
}

/// What a point under way is for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Purpose {
    /// To see roughly where the objective breaks.
    Bracket,
    /// To be sure of a rate.
    Prove,
}

/// First narrows down by short points where the objective breaks, then proves a rate below.
///
/// A proof takes as many requests as the objective and their company ask for: with the objective at
/// 99 % and without a single miss some 380 times the requests in flight. See the module for who
/// calls what.
#[derive(Clone, Debug)]
pub struct RateSearch {
    plan: RatePlan,
    tried: Vec<Tried>,
    proofs: u32,
    /// Proofs since the bracket last moved that did not come about.
    failed: u32,
    /// The longest window of the point under way.
    most_s: f64,
    spent_s: f64,
    e2e_s: f64,
    in_flight: f64,
    under_way: Option<(f64, Purpose)>,
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
            proofs: 0,
            failed: 0,
            most_s: 0.0,
            spent_s: 0.0,
            e2e_s: f64::INFINITY,
            in_flight: f64::INFINITY,
            under_way: None,
            looks: Looks::from(0.0),
            looked: 0,
        }
    }

    /// What is known now.
    #[must_use]
    pub fn found(&self) -> FoundRate {
        let kept = self.kept();
        let above = self.lowest(|t| t.keeps != Some(true) && kept.is_none_or(|k| t.rate_req_s > k));
        FoundRate {
            rate_req_s: kept,
            above_req_s: above,
            resolved: matches!((kept, above), (Some(k), Some(a)) if a / k <= 7.0 / 6.0),
            seems_to_keep_req_s: self.bracket().0,
            proof_s: self
                .bracket()
                .0
                .filter(|_| kept.is_none() && self.in_flight.is_finite())
                .map(|rate| self.needed_s(rate)),
            tried: self.tried.clone(),
            measured_s: self.spent_s,
        }
    }

    fn lowest(&self, is_it: impl Fn(&Tried) -> bool) -> Option<f64> {
        let those = self.tried.iter().filter(|t| is_it(t));
        those.map(|t| t.rate_req_s).reduce(f64::min)
    }

    /// The highest rate that surely keeps the objective, below every one that surely breaks it.
    fn kept(&self) -> Option<f64> {
        let breaks = self.lowest(|t| t.keeps == Some(false));
        let kept = self.tried.iter().filter(|t| t.keeps == Some(true));
        let rates = kept.map(|t| t.rate_req_s);
        rates
            .filter(|&r| breaks.is_none_or(|b| r < b))
            .reduce(f64::max)
    }

    /// The highest rate that looks good below the lowest that does not, and that one.
    fn bracket(&self) -> (Option<f64>, Option<f64>) {
        let bad = self.lowest(|t| !t.seems_to_keep);
        let good = self.tried.iter().filter(|t| t.seems_to_keep);
        let rates = good.map(|t| t.rate_req_s);
        let good = rates
            .filter(|&r| bad.is_none_or(|b| r < b))
            .reduce(f64::max);
        (good, bad)
    }

    fn next(&self) -> Option<(f64, Purpose)> {
        match self.bracket() {
            (None, None) => Some((self.plan.first, Purpose::Bracket)),
            (None, Some(bad)) => Some((bad / STEP, Purpose::Bracket)),
            (Some(good), None) if self.kept() != Some(good) && self.proofs > 0 => {
                Some((good, Purpose::Prove))
            }
            (Some(good), None) => Some((good * STEP, Purpose::Bracket)),
            (Some(good), Some(bad)) if bad / good > RESOLUTION && self.proofs == 0 => {
                Some((libm::sqrt(good * bad), Purpose::Bracket))
            }
            (Some(good), Some(_)) => self.to_prove(good).map(|rate| (rate, Purpose::Prove)),
        }
    }

    /// The rate to prove next: the highest that looks good, then ever lower ones.
    fn to_prove(&self, good: f64) -> Option<f64> {
        if self.kept().is_some() {
            return None;
        }
        Some(good * libm::pow(STEP_DOWN, f64::from(self.failed)))
    }

    /// Whether a proof will not come about in its time if things go on as they did: where misses are
    /// few, the lower end comes nearer in proportion to the time.
    fn is_out_of_reach(&self, now: Interval, seen: &PointSoFar) -> bool {
        let judged = (seen.met + seen.missed).max(1) as f64;
        let share = seen.met as f64 / judged;
        let then = share - (share - now.low) * (seen.settled_s / self.most_s).min(1.0);
        let prove = matches!(self.under_way, Some((_, Purpose::Prove)));
        prove && seen.settled_s > self.most_s / 4.0 && then < self.plan.objective
    }

    fn left_s(&self) -> f64 {
        self.plan.budget.as_secs_f64() - self.spent_s
    }

    /// No window is shorter: a queue needs time to form.
    fn shortest_s(&self) -> f64 {
        let request_s = Some(self.e2e_s).filter(|s| s.is_finite());
        let shortest_s = self.plan.shortest.as_secs_f64();
        shortest_s.max(5.0 * request_s.unwrap_or(0.0))
    }

    /// Seconds in which a rate that never misses can be proven to keep the objective.
    fn needed_s(&self, rate: f64) -> f64 {
        let miss = (1.0 - self.plan.objective).max(1e-4);
        let company = Some(self.in_flight).filter(|n| n.is_finite());
        let together = 1.0 + COMPANY * company.unwrap_or(0.0);
        Z_SQUARED * self.plan.objective / miss * together / rate
    }
}

/// Whether more came at an open-loop point than was served, so that ever more was in flight. No SLO
/// need be missed at once, but no such rate can be kept up.
#[must_use]
pub fn saturated(row: &PointRow) -> bool {
    let (from, to) = (row.in_flight_at_start, u64::from(row.in_flight_at_end));
    grown((from as f64, to as f64), row.requests as f64, 1.0)
}

/// Whether requests in flight have grown by [`GROWN`] of those that came, and by more than `surely`
/// times what chance may do.
fn grown((from, to): (f64, f64), came: f64, surely: f64) -> bool {
    let by = to - from;
    by > GROWN * came && by > surely * (4.0 * libm::sqrt(from + to) + 10.0)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of requests"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

impl Strategy for RateSearch {
    fn ask(&mut self) -> Ask {
        let (shortest, left) = (self.shortest_s(), self.left_s());
        let Some((per_second, purpose)) = self.next() else {
            return Ask::Done;
        };
        let least = match purpose {
            Purpose::Bracket => shortest,
            // A proof that cannot be finished is not begun.
            Purpose::Prove => shortest.max(self.needed_s(per_second)),
        };
        if left < least || per_second < FAR_DOWN * self.plan.first {
            return Ask::Done;
        }
        self.under_way = Some((per_second, purpose));
        self.looks = Looks::from(shortest);
        self.looked = 0;
        let enough_s = PATIENCE * self.needed_s(per_second);
        let most_s = match purpose {
            Purpose::Bracket => (GLANCE * enough_s).max(1.5 * shortest),
            Purpose::Prove => enough_s.max(3.0 * shortest),
        };
        self.most_s = most_s.min(left);
        Ask::Measure(Measure {
            load: Load::Open { per_second },
            at_least: Duration::from_secs_f64(shortest),
            at_most: Duration::from_secs_f64(self.most_s),
        })
    }

    fn look(&mut self, seen: &PointSoFar) -> Look {
        if !self.looks.due(seen.open_s) {
            return Look::Wait;
        }
        let came = self.under_way.map_or(0.0, |(rate, _)| rate * seen.open_s);
        let (from, to) = (seen.in_flight_at_start as f64, seen.in_flight as f64);
        // Twice as sure as at the end: a burst must not pass for a load that cannot be carried.
        if grown((from, to), 0.5 * came, 2.0) {
            return Look::Close(Why::Saturated);
        }
        self.looked += 1;
        let confidence = looks_confidence(self.looked);
        // What has missed has missed, even if all that is open should still be met.
        let judged = seen.met + seen.missed + seen.in_flight;
        let alone = |requests: u64| whole(requests as f64 / (1.0 + seen.in_flight_mean));
        let (cases, missed) = (alone(judged), alone(seen.missed));
        let at_best = wilson(cases.saturating_sub(missed), cases, confidence);
        if at_best.is_some_and(|i| i.high < self.plan.objective) {
            return Look::Close(Why::Breaks);
        }
        match seen.attainment_interval(confidence) {
            Some(i) if i.high < self.plan.objective => Look::Close(Why::Breaks),
            Some(i) if i.low >= self.plan.objective => Look::Close(Why::Keeps),
            Some(i) if self.is_out_of_reach(i, seen) => Look::Close(Why::OutOfReach),
            _ => Look::GoOn,
        }
    }

    fn tell(&mut self, row: &PointRow) {
        let Some((rate_req_s, purpose)) = self.under_way.take() else {
            return;
        };
        self.spent_s += row.window_s.max(1.0);
        if !row.valid {
            return;
        }
        // An overloaded rate says little of how long requests take, and how many there are, below.
        let e2e_s = row.e2e_p95_ms.map_or(f64::INFINITY, |ms| ms / 1e3);
        self.e2e_s = self.e2e_s.min(e2e_s);
        self.in_flight = self.in_flight.min(row.in_flight_mean);
        let prove = purpose == Purpose::Prove;
        self.proofs += u32::from(prove);
        let objective = self.plan.objective;
        let surely = row.attainment_interval.and_then(|i| {
            let keeps = i.low >= objective;
            (keeps || i.high < objective).then_some(keeps)
        });
        let keeps = if saturated(row) { Some(false) } else { surely };
        let misses = row.slo_attainment.map_or(1.0, |share| 1.0 - share);
        let before = self.bracket();
        self.tried.push(Tried {
            rate_req_s,
            keeps,
            seems_to_keep: keeps.unwrap_or(misses <= LOOKS_GOOD * (1.0 - objective)),
            interval: row.attainment_interval,
        });
        let moved = self.bracket() != before;
        self.failed = if moved {
            0
        } else {
            self.failed + u32::from(prove)
        };
    }
}
