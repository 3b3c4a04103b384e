//! The closed-loop search: the load of largest goodput.

use std::{num::NonZeroU32, time::Duration};

use goodput_ledger::{Between, PointRow, PointSoFar};
use goodput_stats::{looks_confidence, looks_interval, wilson};
use goodput_workload::Load;
use serde::{Deserialize, Serialize};

use super::{
    Ask, Look, Measure, Strategy, Why,
    curve::{Curve, Gap, Tested, apart, middle},
    history::History,
    schedule::Looks,
};

/// A gap between tested loads is left alone once no load inside could be better than the best by
/// more than this share.
const TOLERANCE: f64 = 0.03;
/// From one load to the next where nothing is tested yet, once the first loads are through.
const STEP: f64 = 1.4;
/// A load whose goodput is surely below this share of the best's ends the climb.
const FALLEN: f64 = 0.85;
/// Half widths, as a share of the best goodput, at which a point is known well enough: on the way
/// up, around the best, between the best and its rivals.
const ROUGH: f64 = 0.12;
const CLOSE: f64 = 0.025;
const FINE: f64 = 0.015;
/// No window is shorter than this many times the 95th percentile of E2E.
const REQUESTS: f64 = 1.5;
/// Nothing new is begun with less than this share of the budget: it would be seen once, by luck.
const ENOUGH: f64 = 1.0 / 15.0;
/// The best load is measured again after this many points of other loads.
const STALE: u32 = 4;

/// What a [`PeakSearch`] may try, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct PeakPlan {
    /// The loads tried first, rising, until goodput has clearly fallen.
    pub first: Vec<NonZeroU32>,
    /// The smallest load that may be tried.
    pub least: NonZeroU32,
    /// The largest load that may be tried.
    pub most: NonZeroU32,
    /// Whether loads beside the first ones may be tried.
    pub refine: bool,
    /// The windows of all points together last no longer.
    pub budget: Duration,
    /// No window is shorter.
    pub shortest: Duration,
}

impl PeakPlan {
    /// Doublings from one user to `most`, refined within `budget`.
    #[must_use]
    pub fn new(most: NonZeroU32, budget: Duration) -> Self {
        let first = crate::geometric(most.get(), 2.0);
        Self {
            first: first.into_iter().filter_map(NonZeroU32::new).collect(),
            least: NonZeroU32::MIN,
            most,
            refine: true,
            budget,
            shortest: Duration::from_secs(5),
        }
    }

    /// Exactly these loads first; then around the best of them, from one user up to the largest.
    #[must_use]
    pub fn of(first: &[NonZeroU32], budget: Duration) -> Self {
        let mut loads = first.to_vec();
        loads.sort_unstable();
        loads.dedup();
        let most = loads.last().copied().unwrap_or(NonZeroU32::MIN);
        Self {
            first: loads,
            ..Self::new(most, budget)
        }
    }
}

/// What a [`PeakSearch`] has found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Found {
    /// The load of largest goodput. `None`: no request met the SLO at any load.
    pub best: Option<u32>,
    /// Its goodput, over all its points.
    pub goodput_tok_s: Option<f64>,
    /// The 95 % interval of that.
    pub interval: Option<Between>,
    /// Tested loads that are not distinguishably worse, the best included.
    pub not_worse: Vec<u32>,
    /// Whether loads on both sides of the best were tested and are no better, or there is none.
    pub bracketed: bool,
    /// Whether no load that could be better than the best by more than 3 % was left untested, and
    /// no tested one could be. `false`: the budget did not suffice.
    pub resolved: bool,
    /// Whether a load measured again had changed; what was measured before was then set aside.
    pub changed: bool,
    /// Every load tested, in the order in which they were first tried.
    pub tested: Vec<u32>,
    /// Seconds measured.
    pub measured_s: f64,
}

/// What a point under way is for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Purpose {
    Climb,
    Refine,
    Contest,
    Clauses,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct PeakSearch {
    plan: PeakPlan,
    history: History,
    tested: Vec<u32>,
    climbed: bool,
    changed: bool,
    /// Whether the last point was out of line with those before, so that the best load is measured again.
    odd: bool,
    /// Points since the best load was measured.
    since_best: u32,
    spent_s: f64,
    e2e_s: f64,
    under_way: Option<(u32, Purpose)>,
    looks: Looks,
    looked: u32,
}

impl PeakSearch {
    /// A search that has measured nothing.
    #[must_use]
    pub const fn new(plan: PeakPlan) -> Self {
        Self {
            plan,
            history: History::new(),
            tested: Vec::new(),
            climbed: false,
            changed: false,
            odd: false,
            since_best: 0,
            spent_s: 0.0,
            e2e_s: 0.0,
            under_way: None,
            looks: Looks::from(0.0),
            looked: 0,
        }
    }

    /// What is known now.
    #[must_use]
    pub fn found(&self) -> Found {
        let best = self.curve().best();
        let known = best.and_then(|users| self.curve().0.get(&users));
        let not_worse = best.map(|users| self.curve().not_worse(users));
        Found {
            best,
            goodput_tok_s: known.map(|t| t.goodput),
            interval: known.map(Tested::between),
            not_worse: not_worse.unwrap_or_default(),
            bracketed: best.is_some_and(|users| self.bracketed(users)),
            resolved: best.is_some_and(|_| self.gap().is_none() && self.rival().is_none()),
            changed: self.changed,
            tested: self.tested.clone(),
            measured_s: self.spent_s,
        }
    }

    /// Takes in a point that it did not ask for, so that what it has found is the best of all loads
    /// measured. The point costs nothing of the budget.
    pub fn tell_of(&mut self, row: &PointRow) {
        let Some(users) = row.concurrency else {
            return;
        };
        if !self.tested.contains(&users) {
            self.tested.push(users);
        }
        if row.valid {
            self.learn(users, Tested::of(row));
        }
    }

    /// Where an open-loop search begins: at the answers a second of the last load that holds every
    /// clause or, where that is more, a little below the good answers a second of the best load.
    #[must_use]
    pub fn first_rate(&self) -> Option<f64> {
        let at = |users: Option<u32>| users.and_then(|users| self.curve().0.get(&users));
        let cap = at(self.curve().clauses().0).map_or(0.0, |t| t.completed_req_s);
        let peak = at(self.curve().best()).map_or(0.0, |t| 0.8 * t.good_req_s);
        Some(cap.max(peak)).filter(|rate| *rate > 0.0)
    }

    fn bracketed(&self, best: u32) -> bool {
        let above = self.curve().0.range(best + 1..).next().is_some();
        let below = best == 1 || self.curve().0.range(..best).next().is_some();
        above && below
    }

    /// The loads measured since the server last changed.
    const fn curve(&self) -> &Curve {
        &self.history.curve
    }

    fn left_s(&self) -> f64 {
        self.plan.budget.as_secs_f64() - self.spent_s
    }

    /// No window is shorter than this: a point must see whole requests.
    fn shortest_s(&self) -> f64 {
        self.plan.shortest.as_secs_f64().max(REQUESTS * self.e2e_s)
    }

    /// With less than this left nothing is begun.
    fn least_s(&self) -> f64 {
        let best = self
            .curve()
            .best()
            .and_then(|best| self.curve().0.get(&best));
        if best.is_some_and(|known| known.points > 1) {
            self.shortest_s().max(self.enough_s())
        } else {
            // No answer yet, or one by luck: another short point can only mend it.
            self.shortest_s()
        }
    }

    fn enough_s(&self) -> f64 {
        ENOUGH * self.plan.budget.as_secs_f64()
    }

    /// The next load, what it is for, and the longest window it may have.
    fn next(&mut self) -> Option<(u32, Purpose, f64)> {
        let (budget, left) = (self.plan.budget.as_secs_f64(), self.left_s());
        if left < self.least_s() {
            return None;
        }
        if let Some(users) = self.doubted() {
            return Some((users, Purpose::Contest, budget / 10.0));
        }
        if let Some(users) = self.climb() {
            return Some((users, Purpose::Climb, budget / 16.0));
        }
        if let Some(users) = self.lower() {
            return Some((users, Purpose::Refine, budget / 10.0));
        }
        if let Some(gap) = self.gap() {
            return Some((gap.probe, Purpose::Refine, budget / 10.0));
        }
        if let Some(users) = self.outdated() {
            return Some((users, Purpose::Refine, budget / 10.0));
        }
        if let Some(users) = self.rival() {
            return Some((users, Purpose::Contest, budget / 6.0));
        }
        let users = self.clause_gap()?;
        Some((users, Purpose::Clauses, budget / 8.0))
    }

    /// The best load, if there is a doubt that it still is what it was.
    fn doubted(&self) -> Option<u32> {
        let stale = self.climbed && self.since_best >= STALE;
        self.curve().best().filter(|_| self.odd || stale)
    }

    /// The next of the first loads, until goodput has clearly fallen.
    fn climb(&mut self) -> Option<u32> {
        let highest = self.curve().0.last_key_value().map(|(&users, _)| users);
        let next = self.plan.first.iter().map(|users| users.get());
        let next = next
            .filter(|&users| highest.is_none_or(|h| users > h))
            .min();
        self.climbed |= next.is_none() || self.fallen();
        next.filter(|_| !self.climbed)
    }

    fn fallen(&self) -> bool {
        let Some((&highest, last)) = self.curve().0.last_key_value() else {
            return false;
        };
        match self.curve().best() {
            Some(best) => {
                let floor = self.curve().0[&best].between().low;
                highest > best && last.between().high < FALLEN * floor
            }
            // Nothing in time at two loads: more load will not mend it.
            None => self.curve().0.len() >= 2,
        }
    }

    /// A lower load, where nothing is in time at those known.
    fn lower(&self) -> Option<u32> {
        let lost = self.plan.refine && self.curve().best().is_none();
        let (&lowest, _) = self.curve().0.first_key_value().filter(|_| lost)?;
        let lower = apart(lowest, 1.0 / STEP).max(self.plan.least.get());
        (lower < lowest).then_some(lower)
    }

    /// The gap beside the best load in which the most could hide, if it is worth a point.
    fn gap(&self) -> Option<Gap> {
        let best = self.curve().best().filter(|_| self.plan.refine)?;
        let below = self.curve().below(best, self.plan.least.get(), STEP);
        let above = self.curve().above(best, self.plan.most.get(), STEP);
        let gaps = below.into_iter().chain(above);
        let worth = gaps.filter(|gap| gap.room > TOLERANCE);
        worth.max_by(|a, b| a.room.total_cmp(&b.room))
    }

    /// The load next above the best, if it was last measured before the best was tried at all: by
    /// then the server may have been another, or its short point bad luck.
    fn outdated(&self) -> Option<u32> {
        let best = self.curve().best()?;
        let twice = self.curve().0.get(&best)?.points > 1;
        let (&above, _) = self.curve().0.range(best + 1..).next()?;
        (twice && self.history.is_older(above, best)).then_some(above)
    }

    /// The load to measure once more: the best, until it has two points; then whichever of it and
    /// the rival that is most likely to be better is known less well.
    fn rival(&self) -> Option<u32> {
        let best = self.curve().best()?;
        let leader = self.curve().0.get(&best)?;
        if leader.points < 2 {
            return Some(best);
        }
        let room = |t: &Tested| (t.between().high - leader.between().low) / leader.goodput;
        let behind = |t: &Tested| {
            let chance = libm::hypot(t.reach, leader.reach).max(f64::MIN_POSITIVE);
            (leader.goodput - t.goodput) / chance
        };
        let others = self.curve().0.iter().filter(|(users, _)| **users != best);
        let open = others.filter(|(_, t)| room(t) > 2.0 * TOLERANCE);
        let (&users, rival) = open.min_by(|a, b| behind(a.1).total_cmp(&behind(b.1)))?;
        Some(if rival.reach > leader.reach {
            users
        } else {
            best
        })
    }

    /// A load between the last that holds every clause and the first that does not.
    fn clause_gap(&self) -> Option<u32> {
        let (Some(last), Some(first)) = self.curve().clauses() else {
            return None;
        };
        let wide = first > last + 1 && f64::from(first) > 1.06 * f64::from(last);
        (self.plan.refine && wide).then(|| middle(last, first))
    }

    /// Books a point.
    fn learn(&mut self, users: u32, now: Tested) {
        let best = self.curve().best();
        self.since_best = if best == Some(users) {
            0
        } else {
            self.since_best + 1
        };
        let doubted = std::mem::take(&mut self.odd);
        let changed = self.history.add(users, now);
        self.changed |= changed;
        let settled = doubted || changed || best == Some(users);
        self.odd = !settled && self.curve().is_odd(users);
    }

    /// Whether so few of the requests that have ended were in time that the load cannot come near
    /// the best, were its throughput as much above the best's as its users are. The first to end
    /// are the quick ones, so this is rather too kind.
    fn is_lost(&self, users: u32, seen: &PointSoFar) -> bool {
        let confidence = looks_confidence(self.looked);
        let share = wilson(seen.met, seen.met + seen.missed, confidence);
        let best = self
            .curve()
            .best()
            .and_then(|best| Some((best, self.curve().0.get(&best)?)));
        let (Some(share), Some((best, known))) = (share, best) else {
            return false;
        };
        let scale = (f64::from(users) / f64::from(best)).max(1.0);
        best != users && share.high * scale * known.throughput < FALLEN * known.between().low
    }

    fn judge(&mut self, users: u32, purpose: Purpose, seen: &PointSoFar) -> Look {
        self.looked += 1;
        if purpose != Purpose::Clauses && self.is_lost(users, seen) {
            return Look::Close(Why::Worse);
        }
        let Some(goodput) = seen.goodput().and_then(|e| looks_interval(&e, self.looked)) else {
            return Look::GoOn;
        };
        let others = self.curve().0.iter().filter(|(other, _)| **other != users);
        let best = others.map(|(_, t)| t.between());
        let best = best.max_by(|a, b| a.low.total_cmp(&b.low));
        let floor = best.map_or(0.0, |b| b.low);
        if purpose != Purpose::Clauses && goodput.high < FALLEN * floor {
            return Look::Close(Why::Worse);
        }
        let target = match purpose {
            Purpose::Climb => ROUGH,
            Purpose::Refine | Purpose::Clauses => CLOSE,
            Purpose::Contest => FINE,
        };
        let scale = floor.max(goodput.high);
        if goodput.half_width() <= target * scale {
            return Look::Close(Why::Settled);
        }
        Look::GoOn
    }
}

impl Strategy for PeakSearch {
    fn ask(&mut self) -> Ask {
        let shortest = self.shortest_s();
        let left = self.left_s();
        let Some((users, purpose, most_s)) = self.next() else {
            return Ask::Done;
        };
        let Some(load) = NonZeroU32::new(users).map(Load::Closed) else {
            return Ask::Done;
        };
        self.under_way = Some((users, purpose));
        self.looks = Looks::from(shortest);
        self.looked = 0;
        let most_s = most_s.max(shortest).min(left);
        // What would be too little for another point is given to this one.
        let over = left - most_s < self.enough_s();
        Ask::Measure(Measure {
            load,
            at_least: Duration::from_secs_f64(shortest),
            at_most: Duration::from_secs_f64(if over { left } else { most_s }),
        })
    }

    fn look(&mut self, seen: &PointSoFar) -> Look {
        match self.under_way {
            Some((users, purpose)) if self.looks.due(seen.open_s) => {
                self.judge(users, purpose, seen)
            }
            _ => Look::Wait,
        }
    }

    fn tell(&mut self, row: &PointRow) {
        let Some((users, _)) = self.under_way.take() else {
            return;
        };
        // Time passes even for a point that is empty, or a search could ask for ever.
        self.spent_s += row.window_s.max(1.0);
        if !self.tested.contains(&users) {
            self.tested.push(users);
        }
        if !row.valid {
            return;
        }
        self.e2e_s = row.e2e_p95_ms.map_or(self.e2e_s, |ms| ms / 1e3);
        self.learn(users, Tested::of(row));
    }
}
