use std::{num::NonZeroU32, sync::Arc};

use goodput_perf_model::Profile;
use goodput_slo::Slo;
use goodput_workload::{CoursePlan, Settle, Window, WorkloadSpec};

use crate::{Detail, Measured, Replica, run_point};

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
