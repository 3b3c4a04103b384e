use super::*;
use crate::{Draws, Stream};
use proptest::prelude::*;

#[track_caller]
fn close(found: Option<Interval>, low: f64, high: f64, by: f64) {
    let found = found.unwrap();
    assert!(
        (found.low - low).abs() <= by && (found.high - high).abs() <= by,
        "{found:?} against {low}..{high}"
    );
}

#[test]
fn wilson_agrees_with_newcombe_1998() {
    // Table I of Newcombe, "Two-sided confidence intervals for the single proportion".
    close(wilson(81, 263, 0.95), 0.2553, 0.3662, 0.000_06);
    close(wilson(15, 148, 0.95), 0.0624, 0.1605, 0.000_06);
    close(wilson(0, 20, 0.95), 0.0, 0.1611, 0.000_06);
    close(wilson(1, 29, 0.95), 0.0061, 0.1718, 0.000_06);
    assert_eq!(wilson(0, 0, 0.95), None);
    assert_eq!(wilson(2, 1, 0.95), None);
}

#[test]
fn the_mean_of_a_few_values_has_student_s_interval() {
    // Student 1908, the sleep data: extra sleep by the first drug, 95 % from -0.53 to 2.03 h.
    let sleep = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    close(mean_interval(&sleep, 0.95), -0.53, 2.03, 0.005);
    assert_eq!(mean_interval(&[1.0], 0.95), None);
}

#[test]
fn a_difference_has_the_degrees_of_welch() {
    // The same data: drug 2 minus drug 1, t = 1.8608 with 17.776 degrees (R's t.test).
    let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
    let (first, second) = (
        mean_estimate(&first).unwrap(),
        mean_estimate(&second).unwrap(),
    );
    let difference = second.minus(&first);
    assert!(
        (difference.degrees - 17.776).abs() < 0.001,
        "{difference:?}"
    );
    assert!((difference.value / difference.standard_error - 1.8608).abs() < 0.0001);
    close(difference.interval(0.95), -0.205, 3.365, 0.001);
}

#[test]
fn equal_bins_have_no_spread_and_too_few_have_no_interval() {
    assert_eq!(
        mean_rate_interval(&[5.0; 8]),
        Some(Interval {
            low: 5.0,
            high: 5.0
        })
    );
    assert_eq!(mean_rate_interval(&[5.0, 6.0]), None);
    assert_eq!(ratio_interval(&[(1.0, 0.0); 5], 1.0, 0.95), None);
    let flawless = attainment_interval(&[(10, 10); 6], Watched::default(), 0.95);
    assert_eq!(flawless, wilson(60, 60, 0.95));
}

/// An AR(1) series of this length with unit noise and mean 10.
fn correlated(phi: f64, length: u64, seed: u64) -> Vec<f64> {
    let noise = |index| {
        let unit = Draws::new(seed, Stream(1), index).unit();
        normal_quantile(unit.max(1e-300)).unwrap()
    };
    let mut state = noise(u64::MAX) / libm::sqrt(1.0 - phi * phi);
    (0..length)
        .map(|index| {
            state = phi * state + noise(index);
            10.0 + state
        })
        .collect()
}

/// How often the interval of 95 % holds the true mean, over 600 series.
fn coverage(phi: f64, length: u64, interval: impl Fn(&[f64]) -> Option<Interval>) -> f64 {
    let hit = |&seed: &u64| {
        interval(&correlated(phi, length, seed))
            .unwrap()
            .contains(10.0)
    };
    (0..600).filter(hit).count() as f64 / 600.0
}

#[test]
fn intervals_of_correlated_bins_hold_the_truth_as_often_as_they_say() {
    for (phi, length, least) in [
        (0.0, 12, 0.93),
        (0.0, 60, 0.93),
        (0.5, 60, 0.91),
        (0.5, 300, 0.93),
        (0.8, 300, 0.91),
    ] {
        let seen = coverage(phi, length, mean_rate_interval);
        assert!(seen >= least, "phi {phi}, {length} bins: {seen}");
        assert!(
            seen < 0.999,
            "phi {phi}, {length} bins: so wide that it never fails: {seen}"
        );
    }
    // What it is for: taking the same bins as independent is far too sure.
    assert!(coverage(0.8, 300, |bins| mean_interval(bins, 0.95)) < 0.6);
}

#[test]
fn bursts_of_misses_widen_the_interval_of_attainment() {
    // The same 2 % missed: one here and there, or all within three of sixty seconds.
    let spread: Vec<(u64, u64)> = (0..60).map(|i| (50 - u64::from(i % 5 < 5), 50)).collect();
    let burst: Vec<(u64, u64)> = (0..60)
        .map(|i| (if (30..33).contains(&i) { 30 } else { 50 }, 50))
        .collect();
    let (good, total) = (60 * 49, 60 * 50);
    assert_eq!(burst.iter().map(|bin| bin.0).sum::<u64>(), good);
    let alone = wilson(good, total, 0.95).unwrap();
    let seen = attainment_interval(&spread, Watched::default(), 0.95).unwrap();
    assert!(
        seen.half_width() < 1.1 * alone.half_width(),
        "{seen:?} against {alone:?}"
    );
    let widened = attainment_interval(&burst, Watched::default(), 0.95).unwrap();
    assert!(
        widened.half_width() > 2.0 * alone.half_width(),
        "{widened:?} against {alone:?}"
    );
}

/// Short series of things that last long: what Student's t with a degree a value is too sure of.
#[test]
fn a_steady_mean_holds_the_truth_on_short_series_if_it_is_told_how_long_things_last() {
    // The last series is two or three correlation times long in all.
    let cases = [
        (0.0, 30, 1.0, 0.94),
        (0.7, 30, 5.0, 0.93),
        (0.9, 60, 15.0, 0.88),
    ];
    for (phi, length, memory, least) in cases {
        let told = |values: &[f64]| steady_mean(values, memory)?.interval(0.95);
        let seen = coverage(phi, length, told);
        assert!(seen >= least, "phi {phi}, {length} values: {seen}");
        assert!(seen < 0.999, "phi {phi}, {length} values: {seen}");
    }
    let blind = |values: &[f64]| mean_rate_interval(values);
    assert!(coverage(0.9, 60, blind) < 0.86);
}

#[test]
fn few_misses_in_company_prove_little() {
    // 30 bins of 100 requests, of which so many miss one, or every bin so many.
    let interval = |(bins, missed): (u64, u64), together: f64| {
        let bins: Vec<(u64, u64)> = (0..30)
            .map(|i| (100 - u64::from(i % 30 < bins) * missed, 100))
            .collect();
        let watched = Watched {
            memory: 1.0,
            together,
        };
        attainment_interval(&bins, watched, 0.95).unwrap()
    };
    // 3,000 requests without a miss: alone they prove 99.8 %, in company of 50 only what 97 would.
    assert!(interval((0, 0), 0.0).low > 0.998);
    let company = interval((0, 0), 50.0);
    let fewer = wilson(97, 97, 0.95).unwrap();
    assert!(
        (company.low - fewer.low).abs() < 0.001,
        "{company:?} {fewer:?}"
    );
    assert!(company.high >= 1.0);
    // The more misses were seen, the less is assumed.
    let wider = |missed| interval(missed, 50.0).half_width() / interval(missed, 0.0).half_width();
    assert!(wider((30, 1)) > wider((30, 10)) && wider((30, 10)) > wider((30, 50)));
    assert!(wider((30, 50)) < 1.2, "{}", wider((30, 50)));
}

#[test]
fn order_statistics_at_the_levels_hold_the_quantile() {
    assert_eq!(quantile_levels(0.99, 367.0, 0.95), None, "0.99^367 > 2.5 %");
    assert!(quantile_levels(0.99, 368.0, 0.95).is_some());
    for (q, cases) in [(0.5, 40_u64), (0.9, 200), (0.99, 2_000)] {
        let truth = -libm::log(1.0 - q);
        let levels = quantile_levels(q, cases as f64, 0.95).unwrap();
        let holds = |&seed: &u64| {
            let draw = |i| crate::sampler::exponential(&mut Draws::new(seed, Stream(6), i));
            let mut values: Vec<f64> = (0..cases).map(draw).collect();
            values.sort_by(f64::total_cmp);
            let at = |level| crate::quantile(&values, level).unwrap();
            (at(levels.low)..=at(levels.high)).contains(&truth)
        };
        let share = (0..400).filter(holds).count() as f64 / 400.0;
        assert!((0.92..0.995).contains(&share), "p{q}: {share}");
    }
}

#[test]
fn values_that_come_in_pairs_are_worth_half() {
    // Every value twice, one after the other, in bins of ten pairs.
    let value = |i: u64| crate::sampler::normal(&mut Draws::new(1, Stream(5), i));
    let bins = |copies: u64| -> Vec<(f64, f64)> {
        let bin = |b: u64| (0..10).map(|i| value(10 * b + i)).sum::<f64>() * copies as f64;
        (0..400).map(|b| (bin(b), 10.0 * copies as f64)).collect()
    };
    let alone = independent_values(&bins(1), 1.0, 0.0).unwrap();
    let pairs = independent_values(&bins(2), 1.0, 0.0).unwrap();
    assert!((3_200.0..=4_000.0).contains(&alone), "{alone}");
    assert!((0.9..1.25).contains(&(pairs / 4_000.0)), "{pairs}");
    assert_eq!(independent_values(&bins(1), 0.0, 0.0), None);
}

/// Bins of 50 requests of a server that is well or unwell for several bins on end: it misses 0.5 %
/// or 8 % of them. The true share of misses is 2 %.
fn moody(bins: u64, seed: u64) -> Vec<(u64, u64)> {
    let mut draws = Draws::new(seed, Stream(3), 0);
    let mut unwell = draws.unit() < 0.2;
    (0..bins)
        .map(|_| {
            if draws.unit() < 0.25 {
                unwell = draws.unit() < 0.2;
            }
            let miss = if unwell { 0.08 } else { 0.005 };
            let met = (0..50).filter(|_| draws.unit() >= miss).count();
            (met as u64, 50)
        })
        .collect()
}

#[test]
fn the_interval_of_attainment_holds_the_truth_where_misses_come_in_bursts() {
    let held = |bins: u64, interval: fn(&[(u64, u64)]) -> Option<Interval>| {
        let hit = |&seed: &u64| interval(&moody(bins, seed)).unwrap().contains(0.98);
        (0..300).filter(hit).count() as f64 / 300.0
    };
    let blind = |bins: &[(u64, u64)]| {
        let sum = |of: fn(&(u64, u64)) -> u64| bins.iter().map(of).sum();
        wilson(sum(|bin| bin.0), sum(|bin| bin.1), 0.95)
    };
    let aware = |bins: &[(u64, u64)]| {
        let watched = Watched {
            memory: 4.0,
            together: 0.0,
        };
        attainment_interval(bins, watched, 0.95)
    };
    for (bins, least) in [(30, 0.7), (120, 0.88), (400, 0.93)] {
        let (aware, blind) = (held(bins, aware), held(bins, blind));
        assert!(aware >= least, "{bins} bins: {aware}");
        assert!(blind < aware - 0.25, "{bins} bins: {blind} against {aware}");
    }
}

proptest! {
    #[test]
    fn wilson_holds_the_share_and_narrows_with_more_cases(good in 0_u64..500, bad in 0_u64..500) {
        prop_assume!(good + bad > 0);
        let few = wilson(good, good + bad, 0.95).unwrap();
        let many = wilson(good * 10, (good + bad) * 10, 0.95).unwrap();
        let share = good as f64 / (good + bad) as f64;
        prop_assert!(0.0 <= few.low && few.contains(share) && few.high <= 1.0);
        prop_assert!(many.half_width() < few.half_width());
    }

    #[test]
    fn the_order_of_bins_moves_no_ratio_and_scale_moves_no_shape(
        bins in prop::collection::vec((0.0..100.0_f64, 1.0..100.0_f64), 3..40),
    ) {
        let estimate = ratio_estimate(&bins, 1.0).unwrap();
        let doubled: Vec<_> = bins.iter().map(|&(a, b)| (2.0 * a, b)).collect();
        let twice = ratio_estimate(&doubled, 1.0).unwrap();
        prop_assert!((twice.value - 2.0 * estimate.value).abs() < 1e-9);
        prop_assert!((twice.standard_error - 2.0 * estimate.standard_error).abs() < 1e-9);
        let interval = estimate.interval(0.95).unwrap();
        prop_assert!(interval.contains(estimate.value));
        prop_assert!(interval.low.is_finite() && interval.high.is_finite());
    }
}
