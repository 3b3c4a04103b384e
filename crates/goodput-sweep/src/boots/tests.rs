use std::collections::BTreeMap;

use goodput_ledger::{Between, PointRow};
use goodput_stats::{Draws, Interval, Stream};

use super::*;
use crate::{Question, compare::tests::sample};

/// A standard normal draw (the sum of twelve uniform ones).
fn normal(draws: &mut Draws) -> f64 {
    (0..12).map(|_| draws.unit()).sum::<f64>() - 6.0
}

/// Goodputs of `boots` boots of a server whose boots differ by `between` around 100, each measured
/// with an error of `within`, with the interval that it has within its boot. Also the first boot's
/// own truth.
fn measured(seed: u64, boots: usize, between: f64, within: f64) -> (Vec<BootValue>, f64) {
    let mut draws = Draws::new(seed, Stream(4), boots as u64);
    let mut first = None;
    let values = (0..boots)
        .map(|_| {
            let truth = 100.0 + between * normal(&mut draws);
            first.get_or_insert(truth);
            let value = truth + within * normal(&mut draws);
            let reach = 1.96 * within;
            BootValue {
                value,
                interval: Some(Interval {
                    low: value - reach,
                    high: value + reach,
                }),
            }
        })
        .collect();
    (values, first.unwrap())
}

/// How often the interval over boots holds the mean of all boots there could be, and its mean reach.
fn coverage(boots: usize, between: f64, within: f64) -> (f64, f64) {
    let runs = 2000;
    let (mut held, mut reach) = (0_u32, 0.0);
    for seed in 0..runs {
        let (values, _) = measured(seed, boots, between, within);
        let interval = over_boots(&values).unwrap().interval(0.95).unwrap();
        held += u32::from(interval.contains(100.0));
        reach += interval.half_width();
    }
    (f64::from(held) / runs as f64, reach / runs as f64)
}

#[test]
fn an_interval_over_boots_holds_the_mean_of_all_boots() {
    for boots in [3, 5, 10] {
        for (between, within) in [(4.0, 1.0), (4.0, 4.0), (0.0, 1.0)] {
            let (held, _) = coverage(boots, between, within);
            // Two thousand runs know a coverage of 95 % to one percent.
            assert!(held >= 0.935, "{boots} boots, {between}, {within}: {held}");
            let exact = between > within;
            assert!(!exact || held <= 0.97, "{boots} boots: {held} is too wide");
        }
    }
}

#[test]
fn more_boots_narrow_and_longer_ones_do_not() {
    let reach = |boots, within| coverage(boots, 4.0, within).1;
    assert!(reach(10, 1.0) < 0.5 * reach(3, 1.0));
    let (short, long) = (reach(5, 1.0), reach(5, 0.1));
    assert!((short - long).abs() < 0.1 * short, "{short} {long}");
}

#[test]
fn one_boot_holds_its_own_truth_and_not_that_of_the_next() {
    let runs = 2000;
    let (mut own, mut all) = (0_u32, 0_u32);
    for seed in 0..runs {
        let (values, truth) = measured(seed, 1, 4.0, 1.0);
        assert_eq!(
            over_boots(&values),
            None,
            "one boot has no interval over boots"
        );
        let interval = values[0].interval.unwrap();
        own += u32::from(interval.contains(truth));
        all += u32::from(interval.contains(100.0));
    }
    let share = |n: u32| f64::from(n) / runs as f64;
    assert!(share(own) >= 0.935, "{}", share(own));
    assert!(
        share(all) < 0.5,
        "within-boot intervals say nothing of boots: {}",
        share(all)
    );
}

#[test]
fn one_boot_more_lies_within_what_the_others_let_expect() {
    // The contrast of one boot with the mean of five others of the same server covers 0.
    let runs = 2000;
    let held = (0..runs)
        .filter(|&seed| {
            let (values, _) = measured(seed, 6, 4.0, 1.0);
            let (single, others) = (values[0].value, &values[1..]);
            let mean = over_boots(others).unwrap();
            let base = Bounded {
                value: mean.value,
                interval: mean.interval(0.95).unwrap(),
            };
            let other = as_one_of(others, single).unwrap();
            goodput_stats::difference_interval(base, other, 0.0).contains(0.0)
        })
        .count();
    let share = held as f64 / runs as f64;
    assert!((0.935..=0.975).contains(&share), "{share}");
}

/// The sample's points on a boot, with goodput `factor` times as large.
fn boot(number: u32, factor: f64) -> BootSummary {
    let mut points = sample().points;
    for point in &mut points {
        point.goodput_tok_s *= factor;
        point.slos[0].goodput_tok_s = point.goodput_tok_s;
    }
    BootSummary {
        boot: number,
        run: format!("{number:08x}"),
        started: "2026-11-30T09:00:00Z".to_owned(),
        server_started_unix_s: Some(1.0),
        points,
    }
}

fn question() -> Question {
    Question {
        objective: 0.99,
        e2e_at_tokens: 250,
    }
}

#[test]
fn boots_that_are_the_same_merge_into_themselves() {
    let one = boot(1, 1.0);
    let merged = merge_points(&[one.clone(), boot(2, 1.0), boot(3, 1.0)]);
    assert_eq!(merged.len(), one.points.len());
    for (row, alone) in merged.iter().zip(&one.points) {
        assert!((row.goodput_tok_s - alone.goodput_tok_s).abs() < 1e-9);
        let slo = &alone.slos[0];
        let share = slo.met as f64 / (slo.met + slo.missed) as f64;
        assert!((row.slo_attainment.unwrap() - share).abs() < 1e-12);
        assert_eq!(row.requests, 3 * alone.requests);
        assert_eq!(row.ttft_p99_ms.is_some(), alone.ttft_p99_ms.is_some());
        assert_eq!(row.rate_req_s, alone.rate_req_s);
        assert!(row.valid && row.warnings.is_empty());
    }
}

#[test]
fn the_interval_of_a_load_holds_every_boots_mean() {
    let boots = [boot(1, 0.95), boot(2, 1.0), boot(3, 1.05)];
    let merged = merge_points(&boots);
    for (row, alone) in merged.iter().zip(&boots[1].points) {
        let interval = row.goodput_interval.unwrap();
        // Three boots 5 % apart: the mean is known to 4.30 x 5 % / sqrt(3), a little over 12 %.
        let reach = (interval.high - interval.low) / 2.0 / alone.goodput_tok_s;
        assert!((0.12..0.13).contains(&reach), "{reach}");
    }
}

#[test]
fn boots_without_a_miss_prove_no_more_than_their_requests() {
    let mut all: Vec<BootSummary> = (1..=3).map(|n| boot(n, 1.0)).collect();
    for point in all.iter_mut().flat_map(|b| &mut b.points) {
        let slo = &mut point.slos[0];
        (slo.met, slo.missed, slo.attainment) = (100, 0, Some(1.0));
        slo.attainment_interval = Some(Between {
            low: 0.963,
            high: 1.0,
        });
    }
    let interval = merge_points(&all)[0].attainment_interval.unwrap();
    // The mean of three independent shares that are each known to 0.963 and up.
    assert!(
        interval.low <= 0.988 && interval.high > 0.999_999,
        "{interval:?}"
    );
}

#[test]
fn a_figure_that_one_boot_lacks_is_no_mean_of_the_rest() {
    let mut all = [boot(1, 1.0), boot(2, 1.0)];
    all[1].points[0].ttft_p99_ms = None;
    let merged = merge_points(&all);
    assert_eq!(merged[0].ttft_p99_ms, None);
    assert!(merged[1].ttft_p99_ms.is_some());
}

#[test]
fn a_point_that_is_not_valid_on_a_boot_is_left_out_and_said() {
    let mut all = [boot(1, 1.0), boot(2, 1.0), boot(3, 9.0)];
    all[2].points[0].valid = false;
    let merged = merge_points(&all);
    assert!((merged[0].goodput_tok_s - all[0].points[0].goodput_tok_s).abs() < 1e-9);
    assert_eq!(merged[0].warnings, ["valid on 2 of 3 boots"]);
    all[1].points[0].valid = false;
    let alone = &merge_points(&all)[0];
    assert!(alone.valid && alone.goodput_interval.is_none() && alone.attainment_interval.is_none());
    for boot in &mut all {
        boot.points[0].valid = false;
    }
    assert!(!merge_points(&all)[0].valid, "no boot, no valid point");
}

#[test]
fn a_load_measured_again_counts_once() {
    let mut again = boot(1, 1.0);
    let mut later: PointRow = again.points[0].clone();
    (later.point, later.goodput_tok_s) = (99, 2.0 * later.goodput_tok_s);
    again.points.push(later.clone());
    assert_eq!(again.at(&later), Some(&later));
    assert_eq!(
        merge_points(&[again, boot(2, 1.0)]).len(),
        boot(1, 1.0).points.len()
    );
}

#[test]
fn a_result_says_for_how_many_boots_it_holds() {
    let boots = vec![boot(1, 0.98), boot(2, 1.0), boot(3, 1.02)];
    let merged = merge_result(sample(), boots, question());
    assert_eq!(merged.holds_for.boot, "3 boots, spread 4.0 %");
    assert_eq!(merged.boots.len(), 3);
    let charted: Vec<u32> = merged.charts.iter().map(|c| c.point).collect();
    let of = |number: &u32| merged.points.iter().any(|p| p.point == *number);
    assert!(charted.iter().all(of), "{charted:?}");
    let one = merge_result(sample(), vec![boot(1, 1.0)], question());
    assert_eq!(one.holds_for.boot, sample().holds_for.boot);
    assert_eq!(one.points, sample().points);
    let text = serde_json::to_string(&merged).unwrap();
    assert_eq!(
        serde_json::from_str::<crate::RunResult>(&text).unwrap(),
        merged
    );
}

#[test]
fn what_one_boot_shows_is_said_of_that_boot() {
    let mut boots = vec![boot(1, 1.0), boot(2, 1.0)];
    boots[1].points[3].valid = false;
    let merged = merge_result(sample(), boots, question());
    let invalid: Vec<_> = merged
        .findings
        .iter()
        .filter(|f| f.name == "invalid-points")
        .collect();
    assert_eq!(invalid.len(), 1);
    assert!(invalid[0].evidence.starts_with("boot 2: "), "{invalid:?}");
}

#[test]
fn a_result_from_before_boots_is_read() {
    let mut old: BTreeMap<String, serde_json::Value> =
        serde_json::from_value(serde_json::to_value(sample()).unwrap()).unwrap();
    old.remove("boots");
    let read: crate::RunResult =
        serde_json::from_value(serde_json::to_value(old).unwrap()).unwrap();
    assert!(read.boots.is_empty());
}
