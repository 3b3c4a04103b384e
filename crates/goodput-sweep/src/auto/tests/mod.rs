mod rate;

use std::{num::NonZeroU32, time::Duration};

use goodput_ledger::{
    Between, ClauseRow, Group, Mode, PointBooks, PointFacts, PointRow, PointSoFar,
};
use goodput_record::Timestamp;
use goodput_slo::Slo;
use goodput_workload::Load;
use proptest::{prop_assert, proptest};

use super::*;

/// A server whose figures are known and come without noise, give or take the width of an interval.
struct Server<C, A> {
    /// Tokens a second and the share of them in time, by users.
    closed: C,
    /// The share in time, by requests a second.
    open: A,
    /// Half widths as a share of the value.
    reach: f64,
}

/// A throughput that rises by less and less, all in time up to `peak` users and nothing from there
/// on a fifth higher.
fn cliff(users: f64, peak: f64) -> (f64, f64) {
    let late = (users / peak - 1.0) / 0.2;
    (
        1_000.0 * users / (users + 30.0),
        (1.0 - late).clamp(0.0, 1.0),
    )
}

fn at_12(users: u32) -> (f64, f64) {
    cliff(f64::from(users), 12.0)
}

fn never(_: f64) -> f64 {
    1.0
}

impl<C: Fn(u32) -> (f64, f64), A: Fn(f64) -> f64> Server<C, A> {
    fn row(&self, next: &Measure, point: u32) -> PointRow {
        let seconds = next.at_least.as_secs_f64();
        let slo = Slo::from_argument("ttft=500ms").unwrap();
        let window = Timestamp::ZERO..Timestamp::from_seconds(seconds);
        let (mode, concurrency, rate_req_s) = match next.load {
            Load::Closed(users) => (Mode::Closed, Some(users.get()), None),
            Load::Open { per_second } => (Mode::Open, None, Some(per_second)),
        };
        let facts = PointFacts {
            concurrency,
            rate_req_s,
            ..PointFacts::new(point, mode, window)
        };
        let empty = PointBooks::new(&[slo], Duration::from_millis(100)).row(&facts);
        let (throughput, share) = match next.load {
            Load::Closed(users) => (self.closed)(users.get()),
            Load::Open { per_second } => (50.0 * per_second, (self.open)(per_second)),
        };
        let around = |value: f64| {
            Some(Between {
                low: value * (1.0 - self.reach),
                high: (value * (1.0 + self.reach)).max(value),
            })
        };
        let clause = ClauseRow {
            holds: Some(share >= 0.99),
            ..empty.slos[0].clauses[0].clone()
        };
        let mut row = PointRow {
            throughput_tok_s: throughput,
            throughput_interval: around(throughput),
            goodput_tok_s: throughput * share,
            goodput_interval: around(throughput * share),
            slo_attainment: Some(share),
            attainment_interval: Some(Between {
                low: (share - self.reach * (1.0 - share) - 0.001).max(0.0),
                high: (share + self.reach * (1.0 - share)).min(1.0),
            }),
            completed_req_s: throughput / 50.0,
            goodput_req_s: throughput * share / 50.0,
            e2e_p95_ms: Some(2_000.0),
            ..empty
        };
        row.slos[0].clauses = vec![clause];
        row
    }

    /// Runs a strategy to its end, every point for its shortest window; returns the points.
    fn run(&self, strategy: &mut impl Strategy) -> Vec<PointRow> {
        let mut rows = Vec::new();
        while let Ask::Measure(next) = strategy.ask() {
            assert!(next.at_least <= next.at_most, "{next:?}");
            let row = self.row(&next, u32::try_from(rows.len()).unwrap());
            strategy.tell(&row);
            rows.push(row);
            assert!(rows.len() < 500, "a search without end");
        }
        rows
    }
}

fn users(list: &[u32]) -> Vec<NonZeroU32> {
    list.iter().copied().filter_map(NonZeroU32::new).collect()
}

const BUDGET: Duration = Duration::from_mins(10);

fn search(most: u32) -> PeakSearch {
    PeakSearch::new(PeakPlan::new(NonZeroU32::new(most).unwrap(), BUDGET))
}

/// Case O-CI-03: "only powers of two are allowed, or a linear grid between two measured ends; the
/// knee is missed". Right: any list or range; refinement finds a peak at 12 within 1 and says which
/// points it tested; a peak at the last point is not bracketed.
#[test]
fn case_o_ci_03_a_peak_between_the_points_of_any_grid_is_found() {
    let server = Server {
        closed: at_12,
        open: never,
        reach: 0.01,
    };
    let best_is_12 = |search: &mut PeakSearch| {
        server.run(search);
        let found = search.found();
        assert!((11..=13).contains(&found.best.unwrap()), "{found:?}");
        assert!(found.bracketed && found.resolved, "{found:?}");
        found.tested
    };
    // Powers of two: the peak lies between 8 and 16.
    let tested = best_is_12(&mut search(128));
    assert_eq!(tested[..5], [1, 2, 4, 8, 16]);
    assert!(tested.iter().any(|n| (11..=13).contains(n)), "{tested:?}");
    // The case's own range, all of it past the peak.
    let range = users(&[50, 60, 70, 80, 90, 100]);
    let tested = best_is_12(&mut PeakSearch::new(PeakPlan::of(&range, BUDGET)));
    assert_eq!(tested[0], 50);
    // A peak at the last load that may be tried is not bracketed.
    let mut search = PeakSearch::new(PeakPlan::of(&users(&[2, 4, 8]), BUDGET));
    server.run(&mut search);
    let found = search.found();
    assert_eq!((found.best, found.bracketed), (Some(8), false), "{found:?}");
}

/// A list that is not to be refined is measured, and nothing else.
#[test]
fn a_list_without_refinement_is_what_is_measured() {
    let plan = PeakPlan {
        refine: false,
        ..PeakPlan::of(&users(&[3, 5, 7]), BUDGET)
    };
    let mut search = PeakSearch::new(plan);
    let server = Server {
        closed: at_12,
        open: never,
        reach: 0.01,
    };
    server.run(&mut search);
    assert_eq!(search.found().tested, [3, 5, 7]);
}

#[test]
fn a_load_at_which_all_is_late_is_never_the_best() {
    let server = Server {
        closed: |users: u32| (100.0 * f64::from(users), 0.0),
        open: never,
        reach: 0.01,
    };
    let mut search = search(64);
    let rows = server.run(&mut search);
    let found = search.found();
    assert_eq!((found.best, found.resolved), (None, false));
    assert_eq!(found.interval, None);
    assert!(
        rows.len() <= 2,
        "more load does not mend it: {:?}",
        found.tested
    );
}

/// A short search ends at one user; the point beyond it that shows what overload costs is better.
#[test]
fn a_point_that_was_not_asked_for_may_be_the_best() {
    let plan = PeakPlan::new(NonZeroU32::new(8).unwrap(), Duration::from_secs(5));
    let mut search = PeakSearch::new(plan);
    let server = Server {
        closed: at_12,
        open: never,
        reach: 0.01,
    };
    let beyond = |users| Measure {
        load: Load::Closed(NonZeroU32::new(users).unwrap()),
        at_least: Duration::from_secs(5),
        at_most: Duration::from_secs(5),
    };
    server.run(&mut search);
    let before = search.found();
    assert_eq!((before.best, before.tested), (Some(1), vec![1]));

    search.tell_of(&server.row(&beyond(2), 1));
    let found = search.found();
    assert_eq!(found.best, Some(2), "{found:?}");
    assert_eq!((found.tested, found.bracketed), (vec![1, 2], false));
    assert_eq!(
        found.measured_s.to_bits(),
        before.measured_s.to_bits(),
        "it costs nothing of the budget"
    );

    // Past the peak it brackets, and is not the best.
    search.tell_of(&server.row(&beyond(64), 2));
    assert_eq!(
        (search.found().best, search.found().bracketed),
        (Some(2), true)
    );
    // What is not valid decides nothing.
    let lost = PointRow {
        valid: false,
        ..server.row(&beyond(8), 3)
    };
    search.tell_of(&lost);
    assert_eq!(search.found().best, Some(2));
}

#[test]
fn a_budget_that_does_not_suffice_is_said() {
    let plan = PeakPlan::new(NonZeroU32::new(64).unwrap(), Duration::from_secs(30));
    let mut search = PeakSearch::new(plan);
    let server = Server {
        closed: at_12,
        open: never,
        reach: 0.01,
    };
    server.run(&mut search);
    let found = search.found();
    assert!(!found.resolved && found.measured_s <= 30.0, "{found:?}");
}

/// A server that has become slower is noticed when the best load is measured again, and what was
/// measured before is set aside.
#[test]
fn a_server_that_changes_is_noticed_and_searched_again() {
    let point = std::cell::Cell::new(0);
    let server = Server {
        closed: |users: u32| {
            point.set(point.get() + 1);
            let slow = if point.get() > 8 { 0.7 } else { 1.0 };
            let (throughput, share) = cliff(f64::from(users), 24.0 * slow);
            (slow * throughput, share)
        },
        open: never,
        reach: 0.01,
    };
    let mut search = search(128);
    server.run(&mut search);
    let found = search.found();
    assert!(found.changed, "{found:?}");
    assert!((16..=18).contains(&found.best.unwrap()), "{found:?}");
}

/// A server that has become faster after the load above the best was found to be too much for it: that
/// load is measured again before the search ends, and carried.
#[test]
fn a_load_given_up_before_the_server_became_faster_is_tried_again() {
    let point = std::cell::Cell::new(0);
    let server = Server {
        closed: |users: u32| {
            point.set(point.get() + 1);
            let pace = if point.get() > 5 { 1.3 } else { 1.0 };
            let (throughput, share) = cliff(f64::from(users), 14.0 * pace);
            (pace * throughput, share)
        },
        open: never,
        reach: 0.01,
    };
    let mut search = search(128);
    let tested = server.run(&mut search);
    let loads: Vec<_> = tested.iter().filter_map(|row| row.concurrency).collect();
    assert_eq!(loads[..5], [1, 2, 4, 8, 16]);
    let found = search.found();
    assert!(found.changed, "{found:?}");
    assert!((17..=19).contains(&found.best.unwrap()), "{found:?}");
}

/// What is left of the budget goes to the load that may well be better, not to the one of which
/// least is known.
#[test]
fn the_rival_measured_next_is_the_likeliest_to_be_better() {
    let plan = PeakPlan {
        refine: false,
        ..PeakPlan::of(&users(&[8, 9, 16]), BUDGET)
    };
    let mut search = PeakSearch::new(plan);
    let server = Server {
        closed: |_: u32| (1_000.0, 1.0),
        open: never,
        reach: 0.01,
    };
    let points = [(8, 1_000.0, 50.0), (9, 990.0, 200.0), (16, 600.0, 600.0)];
    for (number, (users, goodput, reach)) in (0..).zip([points[0], points[1], points[2], points[0]])
    {
        let next = Measure {
            load: Load::Closed(NonZeroU32::new(users).unwrap()),
            at_least: Duration::from_secs(30),
            at_most: Duration::from_secs(30),
        };
        search.tell_of(&PointRow {
            goodput_tok_s: goodput,
            goodput_interval: Some(Between {
                low: goodput - reach,
                high: goodput + reach,
            }),
            ..server.row(&next, number)
        });
    }
    let asked = search.ask();
    let nine = Load::Closed(NonZeroU32::new(9).unwrap());
    assert!(
        matches!(asked, Ask::Measure(next) if next.load == nine),
        "{asked:?}"
    );
}

/// A budget that ends before the question is settled is spent to its end: the last point is given
/// what would be too little for another one.
#[test]
fn an_open_question_has_the_whole_budget() {
    let server = Server {
        closed: |users: u32| cliff(f64::from(users), 60.0),
        open: never,
        reach: 0.2,
    };
    let mut search = search(64);
    for point in 0.. {
        let Ask::Measure(next) = search.ask() else {
            break;
        };
        // The first points are closed early.
        let share = if point < 6 { 0.9 } else { 1.0 };
        let at_least = next.at_most.mul_f64(share);
        search.tell(&server.row(&Measure { at_least, ..next }, point));
    }
    let found = search.found();
    assert!(!found.resolved, "{found:?}");
    let left_s = BUDGET.as_secs_f64() - found.measured_s;
    assert!(left_s.abs() < 1e-6, "{found:?}");
}

/// Too little for a new load is enough for a second look at the only answer.
#[test]
fn an_answer_seen_once_is_looked_at_again_with_what_is_left() {
    let loads = users(&[8]);
    let mut search = PeakSearch::new(PeakPlan::of(&loads, Duration::from_secs(100)));
    let server = Server {
        closed: at_12,
        open: never,
        reach: 0.01,
    };
    let mut asked = Vec::new();
    for seconds in [94, 5] {
        let Ask::Measure(next) = search.ask() else {
            break;
        };
        asked.push(next.load);
        let at_least = Duration::from_secs(seconds);
        search.tell(&server.row(&Measure { at_least, ..next }, 0));
    }
    assert_eq!(asked.len(), 2, "6 s are left after the first");
    assert_eq!(search.ask(), Ask::Done, "1 s is too little for anything");
}

fn so_far(good: u64, seconds: f64) -> PointSoFar {
    let group = Group {
        met: 10,
        missed: 0,
        good_tokens: good,
        tokens: good,
        arrived: 10,
    };
    PointSoFar {
        open_s: seconds,
        settled_s: seconds,
        group_s: seconds / 30.0,
        request_s: 1.0,
        // Some spread, or every interval would be a point.
        groups: (0..30)
            .map(|i| Group {
                good_tokens: good + good * (i * 7 % 5) / 20,
                ..group
            })
            .collect(),
        met: 300,
        ..PointSoFar::default()
    }
}

#[test]
fn a_point_is_closed_when_its_interval_suffices_and_looks_are_few() {
    let mut search = search(64);
    assert!(matches!(search.ask(), Ask::Measure(_)));
    let looks: Vec<Look> = (1..=20)
        .map(|second| search.look(&so_far(1_000, f64::from(second))))
        .collect();
    let closed = looks
        .iter()
        .position(|look| *look == Look::Close(Why::Settled));
    assert!(closed.is_some(), "{looks:?}");
    let taken = looks.iter().filter(|look| **look != Look::Wait).count();
    assert!(taken <= 5, "looks on a geometric schedule: {looks:?}");
    assert_eq!(
        looks[0],
        Look::Wait,
        "a point of one second is not looked at"
    );
}

proptest! {
    /// Whatever the curve, if throughput rises by less and less and the share in time does not rise,
    /// the load found is within the tolerance of the best: the bounds on what a gap can hide are
    /// true. (Without noise; a point costs its time.)
    #[test]
    fn no_load_hides_in_a_gap(peak in 1.0_f64..90.0, half in 2.0_f64..400.0, width in 0.02_f64..2.0) {
        let closed = |users: u32| {
            let users = f64::from(users);
            let late = (users / peak - 1.0) / width;
            (1_000.0 * users / (users + half), (1.0 - late).clamp(0.0, 1.0))
        };
        let server = Server { closed, open: never, reach: 0.001 };
        let budget = Duration::from_mins(50);
        let mut search = PeakSearch::new(PeakPlan::new(NonZeroU32::new(128).unwrap(), budget));
        server.run(&mut search);
        let found = search.found();
        let goodput = |users: u32| closed(users).0 * closed(users).1;
        let most = (1..=128).map(goodput).fold(0.0, f64::max);
        let best = found.best.map_or(0.0, goodput);
        prop_assert!(best >= 0.95 * most, "{} of {}: {:?}", best, most, found);
    }

    /// A search ends within its budget, whatever it sees.
    #[test]
    fn a_search_keeps_to_its_budget(seed in 0_u64..1_000, budget_s in 10_u64..400) {
        let closed = |users: u32| {
            let mut draws = goodput_stats::Draws::new(seed, goodput_stats::Stream(1), u64::from(users));
            (100.0 + 900.0 * draws.unit(), draws.unit())
        };
        let server = Server { closed, open: never, reach: 0.2 };
        let budget = Duration::from_secs(budget_s);
        let mut search = PeakSearch::new(PeakPlan::new(NonZeroU32::new(64).unwrap(), budget));
        server.run(&mut search);
        prop_assert!(search.found().measured_s <= budget.as_secs_f64() + 1e-6);
    }
}
