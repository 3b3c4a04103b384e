use std::{num::NonZeroU32, sync::Arc, time::Duration};

use goodput_ledger::PointRow;
use goodput_perf_model::Profile;
use goodput_record::Timestamp;
use goodput_slo::Slo;
use goodput_sweep::auto::{Look, PeakPlan, PeakSearch, Why};
use goodput_workload::{CoursePlan, Load, Settle, Window, WorkloadSpec};

use crate::*;

fn laptop() -> Profile {
    Profile::builtin("laptop").unwrap()
}

fn closed(users: u32) -> Load {
    Load::Closed(NonZeroU32::new(users).unwrap())
}

fn plan(load: Load, seconds: u64) -> PointPlan {
    let settle = match load {
        Load::Closed(_) => Settle::FirstWave {
            at_most: Duration::from_secs(10),
        },
        Load::Open { .. } => Settle::Fixed(Duration::from_secs(2)),
    };
    let window = Window::Duration(Duration::from_secs(seconds));
    PointPlan::new(3, load, CoursePlan::new(settle, window))
}

fn measure(pace: Pace, plan: &PointPlan, detail: Detail) -> (Measured, PointRow) {
    let workload = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
    let slos = [Slo::from_argument("ttft=300ms,tpot=40ms").unwrap()];
    let setting = Setting {
        detail,
        ..Setting::new(&workload, &slos, 5)
    };
    let mut replica = Replica::with_pace(&laptop(), pace);
    let measured = run_point(&mut replica, &setting, plan, |_, _, _| Look::Wait);
    let row = measured.row(plan);
    (measured, row)
}

#[test]
fn every_request_of_a_point_ends_and_the_window_is_as_long_as_asked() {
    for load in [closed(8), Load::Open { per_second: 6.0 }] {
        let (measured, row) = measure(Pace::default(), &plan(load, 20), Detail::EveryToken);
        assert_eq!(measured.books.open(), 0);
        assert!((row.window_s - 20.0).abs() < 1e-9, "{}", row.window_s);
        assert_eq!(row.outcomes.get("ok"), Some(&row.requests));
        // Little's law over the window: in flight = arrivals a second x time in flight.
        let arrived = row.requests as f64 / row.window_s;
        let mean_e2e = measured
            .books
            .distribution(goodput_ledger::Latency::E2e)
            .mean()
            .unwrap()
            / 1e9;
        let little = arrived * mean_e2e;
        assert!(
            (row.in_flight_mean / little - 1.0).abs() < 0.15,
            "{little} {row:?}"
        );
    }
}

#[test]
fn the_same_point_is_the_same_in_every_run() {
    let row = || measure(Pace::default(), &plan(closed(8), 10), Detail::EveryToken).1;
    assert_eq!(row(), row());
}

/// Telling the books of tokens by bins saves time and changes nothing that goodput is made of.
#[test]
fn less_detail_is_the_same_goodput() {
    for load in [closed(12), Load::Open { per_second: 9.0 }] {
        let row = |detail| measure(Pace::default(), &plan(load, 20), detail).1;
        let (all, bins) = (row(Detail::EveryToken), row(Detail::Bins));
        assert_eq!(all.slo_attainment, bins.slo_attainment);
        assert_eq!(all.goodput_interval, bins.goodput_interval);
        assert!((all.goodput_tok_s - bins.goodput_tok_s).abs() < 1e-9);
        assert_eq!(
            (all.ttft_p99_ms, all.tpot_p99_ms),
            (bins.ttft_p99_ms, bins.tpot_p99_ms)
        );
        assert_eq!(
            (all.e2e_p95_ms, all.requests),
            (bins.e2e_p95_ms, bins.requests)
        );
    }
}

#[test]
fn a_clause_about_gaps_keeps_every_token() {
    let workload = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
    let slos = [Slo::from_argument("stall=7ms").unwrap()];
    let row = |detail| {
        let setting = Setting {
            detail,
            ..Setting::new(&workload, &slos, 5)
        };
        let plan = plan(closed(12), 10);
        let mut replica = Replica::new(&laptop());
        run_point(&mut replica, &setting, &plan, |_, _, _| Look::Wait).row(&plan)
    };
    let (all, bins) = (row(Detail::EveryToken), row(Detail::Bins));
    assert!(all.slo_attainment.is_some_and(|share| share < 1.0));
    assert_eq!(all, bins);
}

#[test]
fn a_replica_at_half_the_pace_takes_twice_as_long() {
    let row = |pace| measure(pace, &plan(closed(1), 30), Detail::Bins).1;
    let (quick, slow) = (row(Pace::default()), row(Pace::steady(2.0)));
    let ratio = slow.tpot_p50_ms.unwrap() / quick.tpot_p50_ms.unwrap();
    assert!((ratio - 2.0).abs() < 0.02, "{ratio}");
}

/// The way to the engine is part of every TTFT and of no TPOT.
#[test]
fn what_the_way_to_the_engine_takes_is_time_to_first_token() {
    let workload = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
    let slos = [Slo::from_argument("chat").unwrap()];
    let setting = Setting::new(&workload, &slos, 5);
    let row = |ingest_s| {
        let mut replica = Replica::new(&Profile {
            ingest_s,
            ..laptop()
        });
        let plan = plan(closed(1), 20);
        run_point(&mut replica, &setting, &plan, |_, _, _| Look::Wait).row(&plan)
    };
    let (near, far) = (row(0.0), row(0.015));
    let ttft = |row: &PointRow| row.ttft_p50_ms.unwrap();
    assert!((ttft(&far) - ttft(&near) - 15.0).abs() < 1.0);
    let tpot = |row: &PointRow| row.tpot_p50_ms.unwrap();
    assert!((tpot(&far) / tpot(&near) - 1.0).abs() < 0.01);
}

/// A witness sees every request once, and each sample after all that came before it.
#[test]
fn a_witness_hears_of_every_request_and_changes_none() {
    #[derive(Default)]
    struct Heard {
        ended: std::cell::RefCell<Vec<(Timestamp, goodput_record::Phase)>>,
        samples: std::cell::RefCell<Vec<Sampled>>,
    }
    impl Witness for Heard {
        fn ended(
            &self,
            record: &goodput_record::RequestRecord,
            phase: goodput_record::Phase,
            verdicts: &[goodput_slo::Verdict],
        ) {
            assert_eq!(verdicts.len(), 1);
            let at = record.summary.ended();
            self.ended.borrow_mut().push((at, phase));
        }
        fn sample_every(&self) -> Option<Duration> {
            Some(Duration::from_millis(500))
        }
        fn sampled(&self, sampled: &Sampled) {
            let ended = self.ended.borrow().len() as u64;
            assert_eq!(sampled.ended, ended);
            let running = sampled.sample.running.unwrap() + sampled.sample.waiting.unwrap();
            assert_eq!(running, sampled.in_flight);
            self.samples.borrow_mut().push(*sampled);
        }
    }
    let workload = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
    let slos = [Slo::from_argument("chat").unwrap()];
    let setting = Setting::new(&workload, &slos, 5);
    for load in [closed(8), Load::Open { per_second: 30.0 }] {
        let plan = plan(load, 10);
        let alone = run_point(&mut Replica::new(&laptop()), &setting, &plan, |_, _, _| {
            Look::Wait
        });
        let heard = Heard::default();
        let mut replica = Replica::new(&laptop());
        let seen = run_point_before(&mut replica, &setting, &plan, &heard, |_, _, _| Look::Wait);
        assert_eq!(alone.row(&plan), seen.row(&plan));
        assert_eq!(alone.span, seen.span);
        let measured = heard
            .ended
            .borrow()
            .iter()
            .filter(|e| e.1 == goodput_record::Phase::Measured)
            .count();
        assert_eq!(measured as u64, seen.books.measured());
        let samples = heard.samples.borrow();
        assert!(samples.len() >= 20);
        assert!(samples.is_sorted_by(|a, b| a.sample.at <= b.sample.at));
    }
}

/// A replica that can take none of the requests measures nothing, and says why.
#[test]
fn a_replica_that_refuses_everything_is_given_up() {
    let workload = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
    let slos = [Slo::from_argument("chat").unwrap()];
    let setting = Setting::new(&workload, &slos, 5);
    for load in [closed(4), Load::Open { per_second: 5.0 }] {
        let mut replica = Replica::new(&Profile {
            kv_blocks: 1,
            block_tokens: NonZeroU32::MIN,
            ..laptop()
        });
        let plan = plan(load, 20);
        let measured = run_point(&mut replica, &setting, &plan, |_, _, _| Look::Wait);
        assert_eq!(measured.taken, 0);
        let why = measured.gave_up.as_deref().unwrap();
        assert!(why.contains("KV blocks, has 1"), "{why}");
        let row = measured.row(&plan);
        assert!(!row.valid && row.ttft_p50_ms.is_none(), "{row:?}");
    }
}

#[test]
fn a_pace_holds_from_its_instant_on() {
    let at = |s: u64| Timestamp::from_millis(1_000 * s);
    let pace = Pace::steps(vec![(at(10), 1.2), (at(5), 1.1)]);
    for (second, factor) in [(0, 1.0), (5, 1.1), (9, 1.1), (10, 1.2), (99, 1.2)] {
        assert!((pace.at(at(second)) - factor).abs() < 1e-12);
    }
    assert_eq!(pace.next_change(at(5)), Some(at(10)));
    assert_eq!(pace.next_change(at(10)), None);
    // And in the middle of a point.
    let steps = Pace::steps(vec![(at(15), 2.0)]);
    let (_, row) = measure(steps, &plan(closed(1), 30), Detail::Bins);
    let (_, steady) = measure(Pace::default(), &plan(closed(1), 30), Detail::Bins);
    let share = row.throughput_tok_s / steady.throughput_tok_s;
    assert!((0.6..0.9).contains(&share), "{share}");
}

#[test]
fn a_look_closes_the_window_and_what_is_in_flight_is_drained() {
    let workload = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
    let slos = [Slo::from_argument("chat").unwrap()];
    let setting = Setting::new(&workload, &slos, 5);
    let mut replica = Replica::new(&laptop());
    let plan = plan(closed(8), 60);
    let measured = run_point(&mut replica, &setting, &plan, |books, opened, now| {
        let seen = books.so_far(opened, now);
        assert!(seen.settled_s <= seen.open_s);
        if seen.open_s >= 7.0 {
            Look::Close(Why::Settled)
        } else {
            Look::GoOn
        }
    });
    let row = measured.row(&plan);
    assert!((7.0..8.1).contains(&row.window_s), "{}", row.window_s);
    assert_eq!((measured.books.open(), row.cut_by_end_of_run), (0, 0));
}

/// What a look says of the settled part is what the row would say of it.
#[test]
fn what_is_settled_does_not_change_any_more() {
    let workload = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
    let slos = [Slo::from_argument("chat").unwrap()];
    let setting = Setting::new(&workload, &slos, 9);
    let mut replica = Replica::new(&laptop());
    let plan = plan(closed(30), 20);
    let mut looks = Vec::new();
    let measured = run_point(&mut replica, &setting, &plan, |books, opened, now| {
        looks.push((opened, books.so_far(opened, now)));
        Look::Wait
    });
    assert!(looks.len() >= 15);
    for (opened, seen) in looks {
        let upto = Timestamp::from_seconds(opened.seconds() + seen.settled_s);
        let later = measured.books.so_far(opened, upto);
        assert_eq!(seen.groups, later.groups);
    }
}

#[test]
fn a_sweep_finds_where_the_slots_of_the_laptop_fill_up() {
    let workload = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
    let slos = [Slo::from_argument("ttft=500ms,tpot=50ms").unwrap()];
    let setting = Setting {
        detail: Detail::Bins,
        ..Setting::new(&workload, &slos, 11)
    };
    let mut replica = Replica::new(&laptop());
    let plan = PeakPlan::new(NonZeroU32::new(256).unwrap(), Duration::from_secs(200));
    let mut search = PeakSearch::new(plan);
    let points = sweep(&mut replica, &setting, &mut search);
    let found = search.found();
    // 48 slots: more users wait, and their wait is time to first token.
    let best = found.best.unwrap();
    assert!((48..=90).contains(&best), "{found:?}");
    assert!(found.bracketed && !found.changed, "{found:?}");
    assert!(found.not_worse.contains(&best));
    assert!(points.len() < 25 && found.measured_s <= 200.0);
}
