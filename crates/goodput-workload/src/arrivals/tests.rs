//! Laws of schedules.

use goodput_stats::{cv, index_of_dispersion};

use super::{RatePoint, Schedule};

fn times(mut schedule: Schedule, count: usize) -> Vec<f64> {
    let mut times = Vec::new();
    while times.len() < count {
        let Some((number, due)) = schedule.peek() else {
            break;
        };
        assert_eq!(number, times.len() as u64);
        times.push(due.seconds());
        schedule.advance();
    }
    times
}

fn gaps(times: &[f64]) -> Vec<f64> {
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

fn poisson(rate: f64, seed: u64) -> Schedule {
    Schedule::renewal(None, rate, Vec::new(), seed)
}

/// Case O-WL-03: whatever a send costs, the schedule stays where it is. Sleeping each drawn gap
/// after the send before it would lose 8% of the rate.
#[test]
fn sending_moves_no_arrival() {
    let (rate, count, send_cost) = (200.0, 10_000, 0.000_45);
    for shape in [None, Some(0.1)] {
        let due = times(Schedule::renewal(shape, rate, Vec::new(), 3), count);
        // The sender works off what is due; each send takes its time.
        let free = due
            .iter()
            .fold(0.0_f64, |free, &due| free.max(due) + send_cost);
        let (planned, achieved) = (count as f64 / due[count - 1], count as f64 / free);
        assert!(achieved >= 0.999 * planned, "{achieved} of {planned}");
        let slept = count as f64 / (due[count - 1] + count as f64 * send_cost);
        assert!(slept < 0.92 * planned);
        // A count of Poisson arrivals is free to vary by 1%; nearly even gaps are not.
        assert!(shape.is_none() || achieved >= 198.0, "{achieved}");
    }
}

#[test]
fn gaps_have_the_rate_and_the_cv_asked_for() {
    for (asked, rate) in [
        (None, 50.0),
        (Some(0.5), 3.0),
        (Some(2.0), 20.0),
        (Some(4.0), 1.0),
    ] {
        let times = times(Schedule::renewal(asked, rate, Vec::new(), 8), 200_000);
        let gaps = gaps(&times);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean * rate - 1.0).abs() < 0.03, "{asked:?}: mean {mean}");
        let asked = asked.unwrap_or(1.0);
        let cv = cv(&gaps).unwrap();
        assert!((cv / asked - 1.0).abs() < 0.03, "{asked}: {cv}");
    }
}

/// The counts of a Poisson process vary as much as their mean; no total is forced.
#[test]
fn a_poisson_process_has_poisson_counts() {
    let times = times(poisson(5.0, 4), 100_000);
    for window in [1.0, 10.0] {
        let in_window = |i: u32| {
            let from = f64::from(i) * window;
            let early = |time: f64| times.partition_point(|&t| t < time) as u64;
            early(from + window) - early(from)
        };
        let counts: Vec<u64> = (0..1_500).map(in_window).collect();
        let dispersion = index_of_dispersion(&counts).unwrap();
        assert!((dispersion - 1.0).abs() < 0.08, "{window}: {dispersion}");
    }
    let ends: Vec<f64> = (0..200)
        .map(|seed| *self::times(poisson(5.0, seed), 100).last().unwrap())
        .collect();
    let spread = cv(&ends).unwrap();
    assert!(
        (spread - 0.1).abs() < 0.02,
        "the last arrival is as free as any: {spread}"
    );
}

#[test]
fn a_profile_bends_the_rate() {
    let point = |at_s, factor| RatePoint { at_s, factor };
    let profile = vec![point(10.0, 0.5), point(110.0, 1.5), point(110.5, 0.25)];
    let times = times(Schedule::renewal(None, 100.0, profile, 1), 15_000);
    let count =
        |from: f64, to: f64| times.iter().filter(|&&t| (from..to).contains(&t)).count() as f64;
    let check = |from, to, expected: f64| {
        let seen = count(from, to);
        assert!(
            (seen - expected).abs() < 4.0 * expected.sqrt(),
            "{from}: {seen} for {expected}"
        );
    };
    check(0.0, 10.0, 500.0);
    check(10.0, 60.0, 3_750.0);
    check(60.0, 110.0, 6_250.0);
    check(111.0, 151.0, 1_000.0);
}

#[test]
fn rising_times_stay_rising_and_exact() {
    let due = times(poisson(1_000.0, 9), 50_000);
    assert!(gaps(&due).iter().all(|&gap| gap >= 0.0));
    let given = [3_000, 3_001, 5_000, 9_000].map(|ms| ms * 1_000_000);
    // At its own rate a trace comes back to the nanosecond.
    let schedule = Schedule::given(&given, 0.5, Vec::new(), false);
    let back: Vec<u64> = std::iter::successors(Some(schedule), |s| {
        let mut next = s.clone();
        next.advance();
        Some(next)
    })
    .map_while(|s| s.peek())
    .map(|(_, due)| due.nanos())
    .collect();
    assert_eq!(back, [0, 1_000_000, 2_000_000_000, 6_000_000_000]);
    assert_eq!(Schedule::given(&[], 1.0, Vec::new(), true).peek(), None);
    let one = Schedule::given(&[7], 2.0, Vec::new(), true);
    assert_eq!(times(one, 3), [0.0, 0.5, 1.0]);
}
