//! Looks at a running point, and the intervals of its row.

use super::*;

/// Books of one request every 100 ms from 1 s on, each of 300 ms, with whether it has ended by `now`.
fn under_way(now: u64, late: impl Fn(u64) -> bool) -> PointBooks {
    let slo = Slo::from_argument("ttft=200ms").unwrap();
    let mut books = PointBooks::new(&[slo], BIN);
    for origin in (1_000..now).step_by(100) {
        let ttft = if late(origin) { 250 } else { 100 };
        let case = Case::ok(origin, ttft, &[300 - ttft]);
        let record = case.record();
        books.arrived(record.summary.arrival());
        if case.ended <= now {
            books.post(&record.summary, &record.gaps, Phase::Measured);
        }
    }
    books
}

#[test]
fn a_look_sees_what_is_settled_and_nothing_else() {
    let at = Timestamp::from_millis;
    // At 5 s the requests from 4.8 s on are still open.
    let books = under_way(5_000, |origin| origin % 1_000 == 0);
    let seen = books.so_far(at(1_000), at(5_000));
    assert!((seen.open_s - 4.0).abs() < 1e-9 && (seen.settled_s - 3.8).abs() < 1e-9);
    assert_eq!((seen.in_flight, seen.in_flight_at_start), (2, 0));
    let sum = |of: fn(&Group) -> u64| seen.groups.iter().map(of).sum::<u64>();
    assert_eq!(seen.groups.len(), 19, "38 bins in groups of two");
    assert_eq!((sum(|g| g.met), sum(|g| g.missed)), (34, 4));
    assert_eq!(sum(|g| g.arrived), 38);
    assert_eq!((seen.met, seen.missed), (34, 4));
    // Nothing is settled before the oldest open request, however much has ended after it.
    let mut stuck = under_way(5_000, |_| false);
    let old = Case::ok(500, 100, &[9_000]).record();
    stuck.arrived(old.summary.arrival());
    let seen = stuck.so_far(at(1_000), at(5_000));
    assert_eq!((seen.settled_s, seen.groups.len()), (0.0, 0));
    assert_eq!((seen.in_flight, seen.in_flight_at_start), (3, 1));
    assert_eq!(seen.goodput(), None);
}

#[test]
fn every_look_widens_the_intervals_of_the_row() {
    let window = Timestamp::from_millis(1_000)..Timestamp::from_millis(61_000);
    let width = |looks: u32| {
        let mut books = under_way(61_000, |origin| origin % 700 == 0);
        (0..looks).for_each(|_| books.looked());
        let row = books.row(&facts(window.clone()));
        let goodput = row.goodput_interval.unwrap();
        let attainment = row.attainment_interval.unwrap();
        (goodput.high - goodput.low, attainment.high - attainment.low)
    };
    assert!(width(0).0 < width(1).0 && width(1).0 < width(4).0);
    assert!(width(0).1 < width(1).1 && width(1).1 < width(4).1);
}

#[test]
fn percentiles_have_intervals_once_there_are_requests_enough() {
    let row = |until: u64| {
        let window = Timestamp::from_millis(1_000)..Timestamp::from_millis(until);
        under_way(until, |origin| origin % 900 == 0).row(&facts(window))
    };
    let few = row(11_000);
    assert!(few.ttft_p50_interval.is_some());
    assert_eq!(
        few.ttft_p99_interval, None,
        "100 requests know no 99th percentile"
    );
    let many = row(101_000);
    let interval = many.ttft_p99_interval.unwrap();
    let p99 = many.ttft_p99_ms.unwrap();
    assert!(
        (interval.low..=interval.high).contains(&p99),
        "{interval:?} {p99}"
    );
    // A ninth of the requests are late, so the 99th percentile surely is.
    assert!((interval.low - 250.0).abs() < 1e-6, "{interval:?}");
}
