use std::{cell::RefCell, num::NonZeroU32, sync::Arc};

use goodput_perf_model::Profile;
use goodput_slo::{Slo, Verdict};
use goodput_workload::{CoursePlan, Settle, Window, WorkloadSpec};

use crate::{Detail, Measured, Pace, Replica, run_point, run_point_before};

use super::*;

fn point(profile: &Profile, rate: f64, window: Window, detail: Detail) -> (Measured, PointPlan) {
    let spec = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
    let slos = [Slo::from_argument("ttft<=300ms,tpot<=20ms").unwrap()];
    let setting = Setting {
        detail,
        ..Setting::new(&spec, &slos, 11)
    };
    let course = CoursePlan::new(Settle::Fixed(Duration::from_secs(5)), window);
    let plan = PointPlan::new(3, Load::Open { per_second: rate }, course);
    let mut replica = Replica::new(profile);
    let measured = run_point(&mut replica, &setting, &plan, |_, _, _| Look::Wait);
    (measured, plan)
}

#[test]
fn a_brief_point_has_the_figures_of_a_whole_one() {
    let profile = Profile::builtin("laptop").unwrap();
    let count = Window::Requests(NonZeroU32::new(900).unwrap());
    for (rate, window) in [
        (5.0, count),
        (30.0, Window::Duration(Duration::from_secs(40))),
        (70.0, count),
    ] {
        let (whole, plan) = point(&profile, rate, window, Detail::EveryToken);
        let (brief, _) = point(&profile, rate, window, Detail::Ends);
        assert_eq!(whole.window, brief.window);
        assert_eq!(whole.span, brief.span);
        assert_eq!(
            (whole.in_flight_peak, whole.in_flight_at_end),
            (brief.in_flight_peak, brief.in_flight_at_end)
        );
        let (whole, brief) = (whole.row(&plan), brief.row(&plan));
        assert!(whole.requests > 100);
        assert_eq!(whole.requests, brief.requests);
        assert_eq!(whole.outcomes, brief.outcomes);
        assert_eq!(whole.slo_attainment, brief.slo_attainment);
        let figures = |row: &goodput_ledger::PointRow| {
            [
                row.ttft_p50_ms,
                row.ttft_p99_ms,
                row.tpot_p50_ms,
                row.tpot_p99_ms,
                row.tpot_mean_ms,
                row.e2e_p50_ms,
                row.e2e_p99_ms,
                row.itl_mean_ms,
                Some(row.in_flight_mean),
                Some(row.goodput_req_s),
            ]
        };
        assert_eq!(figures(&whole), figures(&brief), "{rate}");
        // A gap is cut to whole nanoseconds here, and its two ends there.
        let stalls = whole.stall_p99_ms.zip(brief.stall_p99_ms).unwrap();
        assert!((stalls.0 - stalls.1).abs() < 2e-6, "{stalls:?}");
        // Tokens count where the last one came.
        let tokens = whole.throughput_tok_s / brief.throughput_tok_s;
        assert!((tokens - 1.0).abs() < 0.05, "{tokens}");
        assert_eq!(brief.tpot_median_p50_ms, None, "no gap is known");
    }
}

#[test]
fn a_clause_on_single_gaps_is_never_judged_in_brief() {
    let spec = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
    let slos = [Slo::from_argument("ttft<=300ms,tpot_median<=2ms").unwrap()];
    let setting = Setting {
        detail: Detail::Ends,
        ..Setting::new(&spec, &slos, 11)
    };
    let window = Window::Requests(NonZeroU32::new(50).unwrap());
    let plan = PointPlan::new(
        0,
        Load::Open { per_second: 5.0 },
        CoursePlan::new(Settle::None, window),
    );
    let mut replica = Replica::new(&Profile::builtin("laptop").unwrap());
    let row = run_point(&mut replica, &setting, &plan, |_, _, _| Look::Wait).row(&plan);
    assert_eq!(row.slo_attainment, Some(0.0));
}

/// Number, part, end in ns, TTFT, and whether it met every SLO.
type Ended = (u64, Phase, u64, Option<Duration>, bool);

/// Keeps what it hears, and stops the point after some samples.
#[derive(Default)]
struct Ear {
    /// Whether it wants whole records, and so has the point told at length.
    whole: bool,
    stop_after: Option<usize>,
    ended: RefCell<Vec<Ended>>,
    samples: RefCell<Vec<(EngineSample, u32, u64)>>,
}

impl Witness for Ear {
    fn ended(&self, record: &RequestRecord, phase: Phase, verdicts: &[Verdict]) {
        let seen = &record.summary;
        let met = verdicts.iter().all(|verdict| verdict.is_met());
        let end = (seen.id(), phase, seen.ended().nanos(), seen.ttft(), met);
        self.ended.borrow_mut().push(end);
    }

    fn needs_whole_records(&self) -> bool {
        self.whole
    }

    fn sample_every(&self) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }

    fn sampled(&self, sampled: &Sampled) {
        let mut sample = sampled.sample;
        // A request that is on its way to the engine stands in its queue already, and is cancelled
        // there when the point is over.
        (sample.waiting, sample.requests_ended) = (None, None);
        let seen = (sample, sampled.in_flight, sampled.ended);
        self.samples.borrow_mut().push(seen);
    }

    fn stops(&self) -> bool {
        let samples = self.samples.borrow().len();
        self.stop_after.is_some_and(|after| samples > after)
    }
}

/// What is simulated, and how.
struct Case {
    profile: Profile,
    pace: Pace,
    rate: f64,
    course: CoursePlan,
    stop_after: Option<usize>,
}

impl Case {
    fn new(profile: &Profile, rate: f64, window: Window) -> Self {
        let settle = Settle::Fixed(Duration::from_secs(5));
        Self {
            profile: profile.clone(),
            pace: Pace::default(),
            rate,
            course: CoursePlan::new(settle, window),
            stop_after: None,
        }
    }

    /// Two points in a row; what is said of the second one's requests and of the replica meanwhile.
    fn run(&self, detail: Detail) -> (Measured, PointPlan, Ear) {
        let spec = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
        let slos = ["ttft<=300ms,tpot<=20ms", "e2e<=2s"];
        let slos = slos.map(|slo| Slo::from_argument(slo).unwrap());
        let setting = Setting {
            detail,
            ..Setting::new(&spec, &slos, 11)
        };
        let mut replica = Replica::with_pace(&self.profile, self.pace.clone());
        let load = Load::Open {
            per_second: self.rate,
        };
        // What the first one leaves is cut, and the engine is in the middle of a step.
        let mut before = CoursePlan::new(Settle::None, Window::Duration(Duration::from_secs(3)));
        before.drain = Duration::ZERO;
        let before = PointPlan::new(0, load, before);
        run_point(&mut replica, &setting, &before, |_, _, _| Look::Wait);
        let plan = PointPlan::new(3, load, self.course);
        let ear = Ear {
            whole: detail == Detail::EveryToken,
            stop_after: self.stop_after,
            ..Ear::default()
        };
        // A look changes nothing but how far the intervals reach.
        let look = |_: &PointBooks, _, _| Look::GoOn;
        let measured = match detail {
            Detail::EveryToken => run_point_before(&mut replica, &setting, &plan, &ear, look),
            _ => run(&mut replica, &setting, &plan, &ear, look).expect("told in brief"),
        };
        (measured, plan, ear)
    }

    fn holds(&self) {
        let (whole, plan, long) = self.run(Detail::EveryToken);
        let (brief, _, short) = self.run(Detail::Bins);
        assert_eq!(whole.window, brief.window);
        let (ends, brief_ends) = (long.ended.into_inner(), short.ended.into_inner());
        for (a, b) in ends.iter().zip(&brief_ends) {
            assert_eq!(a, b);
        }
        assert_eq!(ends.len(), brief_ends.len());
        assert_eq!(whole.span, brief.span);
        assert_eq!(whole.interrupted, brief.interrupted);
        assert_eq!(whole.gave_up, brief.gave_up);
        assert_eq!(whole.arrivals_due, brief.arrivals_due);
        let (samples, brief_samples) = (long.samples.into_inner(), short.samples.into_inner());
        for (a, b) in samples.iter().zip(&brief_samples) {
            assert_eq!(a, b);
        }
        assert_eq!(samples.len(), brief_samples.len());
        let (mut of_whole, mut of_brief) = (whole.row(&plan), brief.row(&plan));
        of_whole.forget_gaps();
        of_brief.forget_gaps();
        assert!(of_whole.requests > 100);
        assert_eq!(of_whole, of_brief);
        let charted = |measured: &Measured| {
            let charted = measured.books.charted(&measured.window);
            let [ttft, tpot, e2e, _] = charted.quantiles;
            (ttft, tpot, e2e, charted.timeline)
        };
        assert_eq!(charted(&whole), charted(&brief));
    }
}

#[test]
fn a_point_told_in_steps_has_every_figure_but_those_of_gaps() {
    let profile = Profile::builtin("laptop").unwrap();
    let count = Window::Requests(NonZeroU32::new(900).unwrap());
    let span = Window::Duration(Duration::from_secs(40));
    Case::new(&profile, 5.0, count).holds();
    Case::new(&profile, 30.0, span).holds();
    Case::new(&profile, 70.0, count).holds();
    let slower = [(Timestamp::from_millis(9_000), 1.7)];
    let paced = Case {
        pace: Pace::steps(slower.to_vec()),
        ..Case::new(&profile, 20.0, span)
    };
    paced.holds();
    let stopped = Case {
        stop_after: Some(30),
        ..Case::new(&profile, 20.0, span)
    };
    stopped.holds();
    // Requests that are cut, in the middle of their answers.
    let mut cut = Case::new(&profile, 90.0, span);
    cut.course.drain = Duration::from_millis(700);
    cut.holds();
}

#[test]
fn it_has_them_where_requests_are_preempted_and_come_late_to_the_engine() {
    let profile = Profile {
        kv_blocks: 180,
        ingest_s: 0.013,
        ..Profile::builtin("laptop").unwrap()
    };
    let case = Case::new(&profile, 25.0, Window::Duration(Duration::from_mins(1)));
    let (.., ear) = case.run(Detail::Bins);
    let preempted = ear.samples.borrow().last().and_then(|s| s.0.preemptions);
    assert!(preempted > Some(100), "{preempted:?}");
    case.holds();
    // Without a cache, what they lost is computed again.
    let mut uncached = case;
    uncached.profile.prefix_cache = false;
    uncached.holds();
}
