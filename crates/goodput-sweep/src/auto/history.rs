//! The points measured so far in order, and which of them belong to the server as it is now.

use std::collections::BTreeMap;

use super::curve::{Curve, Tested};

/// A load measured again must differ by this share in throughput, and by more than chance, for the
/// server to have changed.
const CHANGED: f64 = 0.05;
/// Beyond chance is more than so many times what both 95 % intervals together allow.
const CHANCE: f64 = 1.15;
/// The part of a change of pace by which the throughput of a point may miss the new pace, both in
/// ratio, for the point to have been taken after the change.
const FITS: f64 = 1.0 / 3.0;

/// Points of the server as it is now.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    points: Vec<(u32, Tested)>,
    /// All of them together.
    pub(super) curve: Curve,
}

impl History {
    pub(super) const fn new() -> Self {
        Self {
            points: Vec::new(),
            curve: Curve(BTreeMap::new()),
        }
    }

    /// Books a point; whether it shows that the server has changed.
    ///
    /// What was measured before the change belongs to a server that is no more and is set aside.
    pub(super) fn add(&mut self, users: u32, now: Tested) -> bool {
        let before = self.curve.0.get(&users).copied();
        let before = before.filter(|before| differs(before, &now));
        if let Some(before) = before {
            self.keep_since(users, libm::log(now.throughput / before.throughput));
        }
        self.points.push((users, now));
        self.curve.add(users, now);
        before.is_some()
    }

    /// Keeps those points since this load was last measured whose throughput fits a change of pace by
    /// this much, as a logarithm.
    fn keep_since(&mut self, users: u32, pace: f64) {
        let upto = self.last(users).map_or(0, |at| at + 1);
        let since = self.points.split_off(upto);
        let old = Curve::of(&self.points);
        let fits = |(load, point): &(u32, Tested)| {
            let then = old.throughput_at(*load);
            let moved = then.map(|then| libm::log(point.throughput / then));
            moved.is_some_and(|moved| (moved - pace).abs() < FITS * pace.abs())
        };
        self.points = since.into_iter().filter(fits).collect();
        self.curve = Curve::of(&self.points);
    }

    /// Whether a load was last measured before the other one was tried at all.
    pub(super) fn is_older(&self, users: u32, than: u32) -> bool {
        let first = self.points.iter().position(|(other, _)| *other == than);
        self.last(users) < first
    }

    fn last(&self, users: u32) -> Option<usize> {
        self.points.iter().rposition(|(other, _)| *other == users)
    }
}

/// Whether the throughput of a point differs from that of its load before by more than chance. Goodput
/// is no witness: at the edge it comes and goes on a server that stays as it is.
fn differs(before: &Tested, now: &Tested) -> bool {
    let chance = CHANCE * libm::hypot(now.throughput_reach, before.throughput_reach);
    let by = (now.throughput - before.throughput).abs();
    by > chance.max(CHANGED * before.throughput)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tested(throughput: f64) -> Tested {
        Tested {
            seconds: 30.0,
            goodput: throughput,
            reach: 0.01 * throughput,
            throughput,
            throughput_reach: 0.01 * throughput,
            holds: (true, 30.0),
            completed_req_s: throughput / 50.0,
            good_req_s: throughput / 50.0,
            points: 1,
        }
    }

    /// At the edge of an SLO goodput comes and goes while the server stays as it is.
    #[test]
    fn a_change_is_one_of_throughput() {
        let mut history = History::default();
        assert!(!history.add(8, tested(800.0)));
        let mut late = tested(800.0);
        late.goodput = 100.0;
        assert!(!history.add(8, late));
        assert_eq!(history.curve.0[&8].points, 2);
        assert!(!history.add(8, tested(770.0)), "4 % less may be chance");
        assert!(history.add(8, tested(700.0)));
        assert_eq!(history.curve.0[&8].points, 1);
    }

    /// Of what was measured before a change was noticed, the points taken after it are kept.
    #[test]
    fn points_that_fit_the_new_pace_outlive_the_change() {
        let mut history = History::default();
        for (users, throughput) in [(4, 400.0), (16, 1_600.0), (8, 800.0)] {
            assert!(!history.add(users, tested(throughput)));
        }
        // The server slows down by a fifth. A new load is tried after that, and one while it happens.
        assert!(!history.add(10, tested(800.0)));
        assert!(!history.add(12, tested(1_080.0)));
        assert!(history.add(8, tested(640.0)), "a fifth less is a change");
        let left: Vec<u32> = history.curve.0.keys().copied().collect();
        assert_eq!(left, [8, 10]);
        assert!((history.curve.0[&8].throughput - 640.0).abs() < 1e-9);
    }
}
