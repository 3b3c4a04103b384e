//! The open-loop search.

use super::*;

#[test]
fn a_rate_is_only_recommended_if_it_was_tested_and_surely_keeps() {
    let server = Server {
        closed: at_12,
        open: |rate: f64| if rate <= 9.0 { 0.9995 } else { 0.9 },
        reach: 0.1,
    };
    let mut search = RateSearch::new(RatePlan {
        first: 12.0,
        objective: 0.99,
        budget: Duration::from_hours(1),
        shortest: Duration::from_secs(20),
    });
    let rows = server.run(&mut search);
    let found = search.found();
    let rate = found.rate_req_s.unwrap();
    assert!((8.0..=9.0).contains(&rate), "{found:?}");
    let tested = rows.iter().find(|row| row.rate_req_s == found.rate_req_s);
    assert!(tested.unwrap().attainment_interval.unwrap().low >= 0.99);
}

#[test]
fn where_no_rate_keeps_the_objective_none_is_recommended() {
    let server = Server {
        closed: at_12,
        open: |_: f64| 0.97,
        reach: 0.1,
    };
    let plan = RatePlan {
        first: 12.0,
        objective: 0.99,
        budget: Duration::from_mins(10),
        shortest: Duration::from_secs(20),
    };
    let mut search = RateSearch::new(plan);
    server.run(&mut search);
    let found = search.found();
    assert_eq!((found.rate_req_s, found.resolved), (None, false));
}

#[test]
fn a_rate_that_outruns_the_server_is_saturated_even_if_nothing_is_late() {
    let server = Server {
        closed: at_12,
        open: never,
        reach: 0.1,
    };
    let next = Measure {
        load: Load::Open { per_second: 10.0 },
        at_least: Duration::ZERO,
        at_most: Duration::from_mins(1),
    };
    let row = PointRow {
        requests: 600,
        in_flight_at_start: 20,
        in_flight_at_end: 150,
        ..server.row(&next, 0)
    };
    assert!(saturated(&row));
    let steady = PointRow {
        in_flight_at_end: 35,
        ..row
    };
    assert!(!saturated(&steady));
}
