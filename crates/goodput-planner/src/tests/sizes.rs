use std::time::Duration;

use proptest::prelude::*;

use crate::{
    DecidedBy, Demand, DemandError, JudgedBy, Rule, SizeError, decode_seconds, judged_by, on_list,
    size,
};

/// Case O-PL-05: 95 req/s, 10 req/s a replica, target 0.7, one may fail.
#[test]
fn an_ideal_lower_bound_is_not_sold_as_a_plan() {
    let sizing = size(95.0, 10.0, None, &Rule::of_class(true)).unwrap();
    assert_eq!(
        [sizing.lower_bound, sizing.plan, sizing.with_spare],
        [10, 14, 15]
    );
    assert!((sizing.utilisation(10) - 0.95).abs() < 1e-12);
    assert!((sizing.utilisation(14) - 0.68).abs() < 0.005);
    assert_eq!(sizing.decided_by, DecidedBy::Target);
}

#[test]
fn with_few_replicas_the_one_that_may_fail_decides_with_many_the_target_does() {
    let rule = Rule::of_class(true);
    let decided = |demand| size(demand, 10.0, None, &rule).unwrap();
    assert_eq!(decided(3.0).decided_by, DecidedBy::Spare);
    assert_eq!(decided(3.0).with_spare, 2);
    assert_eq!(decided(300.0).decided_by, DecidedBy::Target);
    // A burst of 2 within one cold start needs half of the pool free: more than the target leaves.
    let burst = size(300.0, 10.0, Some(2.0), &rule).unwrap();
    assert_eq!((burst.plan, burst.decided_by), (60, DecidedBy::Burst));
    let small = size(300.0, 10.0, Some(1.2), &rule).unwrap();
    assert_eq!(small.decided_by, DecidedBy::Target);
}

#[test]
fn one_fewer_is_taken_where_the_target_would_leave_the_band() {
    let rule = Rule {
        spare: 0,
        ..Rule::of_class(true)
    };
    // 3 replicas would run at 0.493, 2 run at 0.74.
    assert_eq!(size(14.8, 10.0, None, &rule).unwrap().plan, 2);
    // Neither 2 (0.8) nor 3 (0.53) lies within: headroom first.
    assert_eq!(size(16.0, 10.0, None, &rule).unwrap().plan, 3);
    assert_eq!(size(0.5, 10.0, None, &rule).unwrap().plan, 1);
}

proptest! {
    #[test]
    fn more_demand_never_takes_fewer_replicas_and_a_plan_never_lies_outside_its_band(
        demand in 0.01..5_000.0_f64, more in 1.0..2.0_f64, budget in 0.1..100.0_f64, burst in 1.0..3.0_f64,
    ) {
        let rule = Rule::of_class(true);
        let plan = |demand: f64| size(demand, budget, None, &rule).unwrap();
        let (less, all) = (plan(demand), plan(demand * more));
        prop_assert!(less.lower_bound <= all.lower_bound && less.plan <= all.plan);
        prop_assert!(less.lower_bound <= less.plan && less.with_spare == less.plan + 1);
        prop_assert!(less.utilisation(less.plan) <= rule.band[1] + 1e-9);
        // From four replicas on a whole number of them lands in the band.
        if less.plan >= 5 {
            prop_assert!(less.utilisation(less.plan) >= 0.55);
        }
        let bursty = size(demand, budget, Some(burst), &rule).unwrap();
        prop_assert!(bursty.utilisation(bursty.plan) <= 1.0 / burst + 1e-9);
    }
}

#[test]
fn what_no_number_on_the_list_serves_is_said() {
    assert_eq!(on_list(5, &[8, 2, 4]), Ok(8));
    assert_eq!(on_list(5, &[]), Ok(5));
    let few = on_list(15, &[2, 4, 8]).unwrap_err();
    assert_eq!(few, SizeError::TooFew { needs: 15, most: 8 });
    assert!(matches!(
        size(1.0, 1.0, None, &Rule::of_class(true).with_target(0.0)),
        Err(SizeError::Target(_))
    ));
}

#[test]
fn growth_compounds_and_absurd_demands_are_refused() {
    let today = Demand::rate(100.0, "--rate").unwrap();
    let grown = today.grown(0.1, 12.0).unwrap();
    assert!((grown.rate_req_s - 313.842_837_672_1).abs() < 1e-6);
    assert!(grown.from.contains("(1 + 0.1)^12"));
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e9] {
        assert!(
            matches!(Demand::rate(bad, ""), Err(DemandError::Rate(_))),
            "{bad}"
        );
    }
    for months in [-1.0, 121.0, f64::NAN] {
        assert!(matches!(
            today.grown(0.1, months),
            Err(DemandError::Months(_))
        ));
    }
    for growth in [-1.0, f64::NAN, 50.0] {
        assert!(matches!(
            today.grown(growth, 1.0),
            Err(DemandError::Growth(_))
        ));
    }
    assert!(matches!(today.grown(9.0, 100.0), Err(DemandError::Rate(_))));
}

const COLD: Duration = Duration::from_mins(2);

#[test]
fn the_peak_quarter_hour_drives_never_the_mean() {
    // An hour of one a second; 20 minutes in, a quarter of an hour at four a second.
    let mut times = Vec::new();
    for second in 0..3_600_u64 {
        let busy = (1_200..2_100).contains(&second);
        let step = if busy { 4 } else { 1 };
        times.extend((0..step).map(|n| second * 1_000_000_000 + n * 250_000_000));
    }
    let demand = Demand::of_trace(&times, 10.0, COLD, "a trace").unwrap();
    assert!(
        (demand.rate_req_s - 40.0).abs() < 0.1,
        "{}",
        demand.rate_req_s
    );
    assert!((demand.mean_req_s.unwrap() - 17.5).abs() < 0.1);
    assert!(demand.from.starts_with("peak quarter hour"));
    assert!((demand.burst.unwrap().ratio - 1.0).abs() < 0.01);
    assert!(demand.dispersion.unwrap() > 5.0);
}

#[test]
fn a_burst_within_one_cold_start_is_seen() {
    // A quarter of an hour of one a second, and two minutes of it at three.
    let mut times = Vec::new();
    for second in 0..1_800_u64 {
        let step = if (900..1_020).contains(&second) { 3 } else { 1 };
        times.extend((0..step).map(|n| second * 1_000_000_000 + n * 300_000_000));
    }
    let demand = Demand::of_trace(&times, 1.0, COLD, "a trace").unwrap();
    let quarter = (780.0 + 360.0) / 900.0;
    assert!(
        (demand.rate_req_s - quarter).abs() < 0.01,
        "{}",
        demand.rate_req_s
    );
    assert!((demand.burst.unwrap().ratio - 3.0 / quarter).abs() < 0.03);
    assert!(matches!(
        Demand::of_trace(&[5], 1.0, COLD, ""),
        Err(DemandError::Trace(1))
    ));
    assert!(matches!(
        Demand::of_trace(&[5, 5], 1.0, COLD, ""),
        Err(DemandError::Trace(2))
    ));
}

/// The essay "Inference SLOs": a reasoning answer of 3,000 tokens at 30 tok/s needs about 100 s of
/// decode alone. Nobody watches that long, whatever its stream feels like: its deadline judges it.
#[test]
fn a_reasoning_answer_takes_100_s_and_is_judged_by_its_deadline() {
    let seconds = decode_seconds(3_000, 30.0);
    assert!((seconds - 100.0).abs() < 0.1, "{seconds}");
    assert_eq!(judged_by(3_000, 30.0, true), JudgedBy::Deadline);
    assert_eq!(judged_by(250, 30.0, true), JudgedBy::Stream);
    assert_eq!(judged_by(250, 30.0, false), JudgedBy::Deadline);
}
