//! The loads tested so far, and what they can say of the loads between them.

use std::collections::BTreeMap;

use goodput_ledger::{Between, PointRow};

/// The share of its interval's reach that a load is taken to be worse than it looks.
const CAUTION: f64 = 0.25;
/// Loads with this share of the best score are next to equal.
const NEXT_TO: f64 = 0.985;

/// The share by which a throughput must be out of line, beyond chance, to be odd.
const ODD: f64 = 0.03;

/// What is known of one load, over all its points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tested {
    /// Seconds measured.
    pub(super) seconds: f64,
    /// Good tokens a second.
    pub(super) goodput: f64,
    /// Half the width of its 95 % interval.
    pub(super) reach: f64,
    /// Tokens a second.
    pub(super) throughput: f64,
    /// Half the width of its 95 % interval.
    pub(super) throughput_reach: f64,
    /// Whether every clause held over the longest of its points, and how long that was.
    pub(super) holds: (bool, f64),
    /// Answers a second.
    pub(super) completed_req_s: f64,
    /// Good answers a second.
    pub(super) good_req_s: f64,
    /// Points.
    pub(super) points: u32,
}

impl Tested {
    pub(super) fn of(row: &PointRow) -> Self {
        Self {
            seconds: row.window_s,
            goodput: row.goodput_tok_s,
            reach: reach(row.goodput_interval, row.throughput_tok_s),
            throughput: row.throughput_tok_s,
            throughput_reach: reach(row.throughput_interval, row.throughput_tok_s),
            holds: (row.holds_every_clause(), row.window_s),
            completed_req_s: row.completed_req_s,
            good_req_s: row.goodput_req_s,
            points: 1,
        }
    }

    /// Both together, each weighted by its time.
    pub(super) fn with(self, other: Self) -> Self {
        let seconds = (self.seconds + other.seconds).max(f64::MIN_POSITIVE);
        let (a, b) = (self.seconds / seconds, other.seconds / seconds);
        let mean = |mine: f64, theirs: f64| a * mine + b * theirs;
        Self {
            seconds,
            goodput: mean(self.goodput, other.goodput),
            reach: libm::hypot(a * self.reach, b * other.reach),
            throughput: mean(self.throughput, other.throughput),
            throughput_reach: libm::hypot(a * self.throughput_reach, b * other.throughput_reach),
            holds: if other.holds.1 > self.holds.1 {
                other.holds
            } else {
                self.holds
            },
            completed_req_s: mean(self.completed_req_s, other.completed_req_s),
            good_req_s: mean(self.good_req_s, other.good_req_s),
            points: self.points + other.points,
        }
    }

    /// The share of tokens in time.
    pub(super) fn good_share(&self) -> f64 {
        if self.throughput > 0.0 {
            (self.goodput / self.throughput).min(1.0)
        } else {
            0.0
        }
    }

    pub(super) fn between(&self) -> Between {
        Between {
            low: (self.goodput - self.reach).max(0.0),
            high: self.goodput + self.reach,
        }
    }
}

/// Half the width of an interval. Without one nothing is known: as wide as all that was received.
fn reach(interval: Option<Between>, throughput: f64) -> f64 {
    interval.map_or(throughput, |i| (i.high - i.low) / 2.0)
}

/// The loads tested, rising.
#[derive(Clone, Debug, Default)]
pub(super) struct Curve(pub(super) BTreeMap<u32, Tested>);

/// Where a load might lie that is better than the best one tested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gap {
    /// The load to test: inside the gap, or beyond the last load tested.
    pub(super) probe: u32,
    /// How much better than the best a load inside could be, as a share of the best.
    pub(super) room: f64,
}

impl Curve {
    /// These points together.
    pub(super) fn of(points: &[(u32, Tested)]) -> Self {
        let mut curve = Self::default();
        for &(users, point) in points {
            curve.add(users, point);
        }
        curve
    }

    /// Tokens a second at a load, on the straight line between its neighbours where it was not tested.
    pub(super) fn throughput_at(&self, users: u32) -> Option<f64> {
        let (&low, under) = self.0.range(..=users).next_back()?;
        let (&high, over) = self.0.range(users..).next()?;
        let share = f64::from(users - low) / f64::from((high - low).max(1));
        Some(under.throughput + share * (over.throughput - under.throughput))
    }

    /// Adds a point.
    pub(super) fn add(&mut self, users: u32, new: Tested) {
        self.0
            .entry(users)
            .and_modify(|known| *known = known.with(new))
            .or_insert(new);
    }

    /// The best load. `None` if nothing was in time.
    ///
    /// By what it surely has rather than by what it might have, or the load seen for the shortest
    /// time would win by luck; and the smallest of those next to equal, which is the furthest from
    /// the edge.
    pub(super) fn best(&self) -> Option<u32> {
        let scores: Vec<(u32, f64)> = self
            .smoothed()
            .into_iter()
            .map(|(users, goodput)| (users, goodput - CAUTION * self.0[&users].reach))
            .collect();
        let most = scores.iter().map(|score| score.1).fold(f64::MIN, f64::max);
        if most <= 0.0 {
            // All is noise, but something was in time.
            let good = self.0.iter().filter(|(_, tested)| tested.goodput > 0.0);
            let best = good.max_by(|a, b| a.1.goodput.total_cmp(&b.1.goodput));
            return best.map(|(&users, _)| users);
        }
        let next_to = scores.iter().find(|score| score.1 >= NEXT_TO * most);
        next_to.map(|&(users, _)| users)
    }

    /// Goodput by load, with the share in time made non-increasing by pooling adjacent violators
    /// (Ayer et al. 1955), each load weighted by the tokens it was seen over.
    pub(super) fn smoothed(&self) -> Vec<(u32, f64)> {
        // Blocks of (weight, weighted share, loads in it).
        let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
        for tested in self.0.values() {
            let weight = tested.seconds * tested.throughput.max(1e-9);
            blocks.push((weight, weight * tested.good_share(), 1));
            while let [.., a, b] = blocks.as_slice()
                && a.1 / a.0 < b.1 / b.0
            {
                let pooled = (a.0 + b.0, a.1 + b.1, a.2 + b.2);
                blocks.truncate(blocks.len() - 2);
                blocks.push(pooled);
            }
        }
        let shares = blocks
            .into_iter()
            .flat_map(|(weight, good, loads)| std::iter::repeat_n(good / weight, loads));
        let points = self.0.iter().zip(shares);
        points
            .map(|((&users, tested), share)| (users, share * tested.throughput))
            .collect()
    }

    /// The gap below the best load: down to the next load tested, or unknown territory.
    ///
    /// Throughput does not fall with fewer users by less than in proportion, and the share in time
    /// is nowhere below better than at the load under the gap: that bounds what can hide there.
    pub(super) fn below(&self, best: u32, least: u32, step: f64) -> Option<Gap> {
        let at_best = self.0.get(&best)?;
        let under = self.0.range(..best).next_back();
        let (floor, probe, most) = match under {
            Some((&users, tested)) => {
                let linear = tested.throughput * f64::from(best - 1) / f64::from(users);
                let share = tested.good_share().max(at_best.good_share());
                (
                    users,
                    middle(users, best),
                    linear.min(at_best.throughput.max(tested.throughput)) * share,
                )
            }
            None => (
                least.saturating_sub(1),
                apart(best, 1.0 / step).max(least),
                at_best.throughput,
            ),
        };
        let room = most / at_best.goodput - 1.0;
        (probe > floor && probe < best).then_some(Gap { probe, room })
    }

    /// The gap above the best load: up to the next load tested, or unknown territory.
    ///
    /// Throughput rises at most in proportion to the users, and not above what the load over the
    /// gap reaches; the share in time is nowhere above better than at the best.
    pub(super) fn above(&self, best: u32, most: u32, step: f64) -> Option<Gap> {
        let at_best = self.0.get(&best)?;
        let (ceiling, probe, room) = match self.0.range(best + 1..).next() {
            Some((&users, tested)) => {
                let linear = f64::from(users - 1) / f64::from(best);
                let seen = tested.throughput / at_best.throughput;
                (users, middle(best, users), linear.min(seen.max(1.0)) - 1.0)
            }
            None => (most + 1, apart(best, step).min(most), step - 1.0),
        };
        (probe > best && probe < ceiling).then_some(Gap { probe, room })
    }

    /// Whether the throughput of a load does not fit that of its neighbours: it rises with the load,
    /// by less and less. What does not was measured on a server that has changed meanwhile.
    pub(super) fn is_odd(&self, users: u32) -> bool {
        let (Some(here), below) = (self.0.get(&users), self.0.range(..users).next_back()) else {
            return false;
        };
        let above = self.0.range(users + 1..).next();
        let apart = |from: u32, to: u32| f64::from(to) - f64::from(from);
        let chance = |other: &Tested| {
            1.5 * libm::hypot(here.throughput_reach, other.throughput_reach) + ODD * here.throughput
        };
        let too_high = below.is_some_and(|(&low, tested)| {
            let linear = tested.throughput * f64::from(users) / f64::from(low);
            here.throughput - linear > chance(tested)
        });
        let too_low = match (below, above) {
            (Some((&low, a)), Some((&high, b))) => {
                let share = apart(low, users) / apart(low, high);
                let between = a.throughput + share * (b.throughput - a.throughput);
                between - here.throughput > chance(a).max(chance(b))
            }
            _ => false,
        };
        too_high || too_low
    }

    /// The last load that holds every clause, with all below it, and the first that does not.
    pub(super) fn clauses(&self) -> (Option<u32>, Option<u32>) {
        let holds = |tested: &Tested| tested.holds.0;
        let last = self.0.iter().take_while(|(_, t)| holds(t)).last();
        let first = self.0.iter().find(|(_, t)| !holds(t));
        (
            last.map(|(&users, _)| users),
            first.map(|(&users, _)| users),
        )
    }

    /// Loads whose interval reaches that of the best, rising.
    pub(super) fn not_worse(&self, best: u32) -> Vec<u32> {
        let Some(floor) = self.0.get(&best).map(|t| t.between().low) else {
            return Vec::new();
        };
        let reaches = |t: &Tested| t.between().high >= floor;
        let tested = self.0.iter().filter(|(_, t)| reaches(t));
        tested.map(|(&users, _)| users).collect()
    }
}

/// The whole number halfway in ratio, strictly between the two where there is one.
pub(super) fn middle(low: u32, high: u32) -> u32 {
    let halfway = whole(libm::sqrt(f64::from(low) * f64::from(high)));
    halfway
        .min(high.saturating_sub(1))
        .max(low.saturating_add(1))
}

/// The whole number `factor` times as large, another one in any case.
pub(super) fn apart(users: u32, factor: f64) -> u32 {
    let there = whole(f64::from(users) * factor);
    if factor > 1.0 {
        there.max(users.saturating_add(1))
    } else {
        there.min(users.saturating_sub(1))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is the clamp wanted"
)]
fn whole(value: f64) -> u32 {
    value.round() as u32
}
