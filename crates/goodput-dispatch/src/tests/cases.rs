//! Faults of gateways that people reported, as far as dispatch could be their cause.

use std::time::Duration;

use goodput_record::Timestamp;
use goodput_stats::{Draws, Stream};

use crate::*;

const fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn fleet(config: Config, replicas: u16) -> Dispatcher {
    let mut dispatcher = Dispatcher::new(config).unwrap();
    for _ in 0..replicas {
        let id = dispatcher
            .join(Role::Whole, Limits::in_flight(50), 1.0)
            .unwrap();
        dispatcher.up(at(0), id);
    }
    while dispatcher.poll(at(0)).is_some() {}
    dispatcher
}

/// O-GW-02, and O-GW-01 for what is dispatch's: aborts at any moment leave no count behind.
#[test]
fn aborts_leave_no_count_behind() {
    let mut dispatcher = fleet(Config::new(Policy::LeastWork), 2);
    let mut draws = Draws::new(1, Stream(9), 0);
    let mut held: Vec<Ticket> = Vec::new();
    for id in 0..200 {
        let now = at(id);
        match dispatcher.offer(now, &Offer::new(id, 100, 100)) {
            Route::Send { ticket, .. } | Route::Wait { ticket, .. } => held.push(ticket),
            Route::Shed { .. } => panic!("there is room"),
        }
        if draws.unit() < 0.3 {
            let ticket = held[0];
            dispatcher.first_token(now, ticket, Duration::from_millis(5));
        }
        if draws.unit() < 0.6 {
            let ticket = held.swap_remove(0);
            assert_ne!(dispatcher.cancel(now, ticket), Was::Over);
            // Once more, as when body and connection both notice: nothing happens.
            assert_eq!(dispatcher.cancel(now, ticket), Was::Over);
            assert!(!dispatcher.settle(now, ticket, Ended::Failed, None));
        }
    }
    for ticket in held {
        dispatcher.cancel(at(300), ticket);
    }
    assert_eq!((dispatcher.open(), dispatcher.waiting()), (0, 0));
    assert_eq!(dispatcher.open_of(TenantId(0)), 0);
    let mut split = [0; 2];
    for replica in 0..2 {
        assert_eq!(dispatcher.in_hand(ReplicaId(replica)), (0, 0));
    }
    for id in 0..100 {
        if let Route::Send { ticket, replica } = dispatcher.offer(at(400), &Offer::new(id, 9, 9)) {
            split[replica.index()] += 1;
            dispatcher.settle(at(400), ticket, Ended::Ok, None);
        }
    }
    assert!(split[0] >= 40 && split[1] >= 40, "{split:?}");
}

/// O-GW-03, dispatch's part: one retry on another replica, then no more.
#[test]
fn a_retry_goes_elsewhere_and_there_is_one() {
    let mut dispatcher = fleet(Config::new(Policy::LeastWork), 2);
    let Route::Send { ticket, replica } = dispatcher.offer(at(0), &Offer::new(1, 9, 9)) else {
        panic!()
    };
    let Route::Send {
        ticket,
        replica: other,
    } = dispatcher.retry(at(1), ticket, Ended::Failed)
    else {
        panic!()
    };
    assert_ne!(replica, other);
    let given_up = dispatcher.retry(at(2), ticket, Ended::Failed);
    assert!(matches!(
        given_up,
        Route::Shed {
            why: Why::Attempts,
            ..
        }
    ));
    let counters = dispatcher.counters();
    assert_eq!(
        (counters.sent, counters.settled, counters.retries),
        (1, 1, 1)
    );
    assert_eq!(dispatcher.open(), 0);
}

/// O-GW-05, dispatch's part: whoever shares a dispatcher shares its limits, however many they are.
#[test]
fn ten_a_minute_are_ten_a_minute_from_however_many_workers() {
    let mut dispatcher = fleet(Config::new(Policy::RoundRobin), 2);
    let terms = Terms {
        requests: Some(Rate {
            per_second: 10.0 / 60.0,
            burst: 10.0,
        }),
        ..Terms::new()
    };
    dispatcher.set_terms(TenantId(3), terms).unwrap();
    let mut passed = 0;
    for id in 0..30 {
        let offer = Offer {
            tenant: TenantId(3),
            ..Offer::new(id, 9, 9)
        };
        match dispatcher.offer(at(id * 33), &offer) {
            Route::Send { .. } => passed += 1,
            Route::Shed { why, retry_after } => {
                assert_eq!(why, Why::TenantRate);
                assert!(retry_after > Duration::from_secs(4));
            }
            Route::Wait { .. } => panic!("there is room"),
        }
    }
    assert_eq!(passed, 10);
}

/// O-GW-10, dispatch's part: no request before the warm-up is over, and again after a restart.
#[test]
fn no_request_goes_to_a_replica_that_is_not_warm() {
    let config = Config {
        gate: Some(Gate::new()),
        slow_start: Some(1),
        ..Config::new(Policy::LeastWork)
    };
    let mut dispatcher = Dispatcher::new(config).unwrap();
    let limits = Limits::in_flight(8);
    let replica = dispatcher.join(Role::Whole, limits, 1.0).unwrap();
    let (mut sent, mut probes) = (0, 0);
    // Its port is bound at once, its model is there at 3 s, its first two answers take 2 s, then 50 ms.
    dispatcher.up(at(3_000), replica);
    let mut now = 3_000;
    dispatcher.offer(at(now), &Offer::new(1, 9, 9));
    while dispatcher.state(replica) == ReplicaState::Warming {
        while let Some(event) = dispatcher.poll(at(now)) {
            if matches!(event, Event::Send { .. }) {
                sent += 1;
            }
        }
        let took = if probes < 2 { 2_000 } else { 50 };
        (now, probes) = (now + took, probes + 1);
        assert_eq!(sent, 0, "a request before the replica is warm");
        dispatcher.probed(at(now), replica, Some(Duration::from_millis(took)));
    }
    assert_eq!((now, probes), (7_150, 5));
    dispatcher.offer(at(now), &Offer::new(2, 9, 9));
    assert_eq!(dispatcher.in_hand(replica).0, 1, "a slow start");
    dispatcher.down(at(8_000), replica);
    dispatcher.up(at(9_000), replica);
    assert_eq!(dispatcher.state(replica), ReplicaState::Warming);
}

/// O-GW-12: a throttled replica is left out for as long as it says, up to a cap, without blame.
#[test]
fn a_refusing_replica_cools_down_for_no_longer_than_the_cap() {
    let mut dispatcher = fleet(Config::new(Policy::RoundRobin), 2);
    let day = Some(Duration::from_hours(24));
    let refused = Ended::Refused { retry_after: day };
    let Route::Send { ticket, replica: a } = dispatcher.offer(at(0), &Offer::new(1, 9, 9)) else {
        panic!()
    };
    let Route::Send { ticket, replica: b } = dispatcher.retry(at(0), ticket, refused) else {
        panic!()
    };
    assert_ne!(a, b);
    assert_eq!(dispatcher.state(a), ReplicaState::LeftOut(at(60_000)));
    dispatcher.settle(at(5), ticket, Ended::Ok, None);
    // The other one, too: whoever comes is told when one of them is back.
    let Route::Send { ticket, .. } = dispatcher.offer(at(10_000), &Offer::new(2, 9, 9)) else {
        panic!()
    };
    let told = dispatcher.retry(at(10_000), ticket, refused);
    let back = Route::Shed {
        why: Why::NoReplica,
        retry_after: Duration::from_secs(50),
    };
    assert_eq!(told, back);
    assert_eq!(dispatcher.offer(at(10_000), &Offer::new(3, 9, 9)), back);
    // Within the longest wait it is worth waiting.
    let waits = dispatcher.offer(at(40_000), &Offer::new(4, 9, 9));
    assert!(matches!(waits, Route::Wait { .. }));
    let mut told = Vec::new();
    while let Some(event) = dispatcher.poll(at(60_000)) {
        told.push(event);
    }
    assert!(
        told.iter()
            .any(|e| matches!(e, Event::Send { id: 4, replica, .. } if *replica == a))
    );
    assert_eq!(dispatcher.state(a), ReplicaState::Ready);
}

/// O-AS-06, dispatch's part: with no replica yet a request waits for the one that starts, but not
/// for ever.
#[test]
fn the_first_request_waits_for_the_first_replica() {
    let mut dispatcher = Dispatcher::new(Config::new(Policy::LeastWork)).unwrap();
    let nobody = dispatcher.offer(at(0), &Offer::new(1, 9, 9));
    assert!(matches!(
        nobody,
        Route::Shed {
            why: Why::NoReplica,
            ..
        }
    ));
    let id = dispatcher
        .join(Role::Whole, Limits::in_flight(5), 1.0)
        .unwrap();
    let Route::Wait { until, .. } = dispatcher.offer(at(0), &Offer::new(2, 9, 9)) else {
        panic!()
    };
    assert_eq!(until, at(30_000));
    dispatcher.offer(at(25_000), &Offer::new(3, 9, 9));
    let told: Vec<Event> = std::iter::from_fn(|| dispatcher.poll(at(30_000))).collect();
    assert!(
        matches!(told[..], [Event::Expired { id: 2, retry_after }] if retry_after >= Duration::from_secs(1))
    );
    dispatcher.up(at(33_000), id);
    let told: Vec<Event> = std::iter::from_fn(|| dispatcher.poll(at(33_000))).collect();
    assert!(told.iter().any(|e| matches!(e, Event::Send { id: 3, .. })));
}

/// O-GW-13, dispatch's part: what is closing refuses the new and ends the old.
#[test]
fn closing_takes_nothing_new_and_lets_all_else_end() {
    let mut dispatcher = Dispatcher::new(Config::new(Policy::LeastWork)).unwrap();
    let id = dispatcher
        .join(Role::Whole, Limits::in_flight(1), 1.0)
        .unwrap();
    dispatcher.up(at(0), id);
    let Route::Send { ticket, .. } = dispatcher.offer(at(0), &Offer::new(1, 9, 9)) else {
        panic!()
    };
    dispatcher.offer(at(0), &Offer::new(2, 9, 9));
    dispatcher.close();
    let late = dispatcher.offer(at(1), &Offer::new(3, 9, 9));
    assert!(matches!(
        late,
        Route::Shed {
            why: Why::Closing,
            ..
        }
    ));
    dispatcher.settle(at(2), ticket, Ended::Ok, None);
    let told: Vec<Event> = std::iter::from_fn(|| dispatcher.poll(at(2))).collect();
    assert!(told.iter().any(|e| matches!(e, Event::Send { id: 2, .. })));
}

/// Cancelled requests do not stay in the queue and block those behind them (a fault of a router).
#[test]
fn a_cancelled_request_blocks_nobody_and_takes_no_room() {
    let mut dispatcher = fleet(Config::new(Policy::LeastWork), 1);
    dispatcher.set_limits(at(0), ReplicaId(0), Limits::in_flight(1));
    dispatcher.offer(at(0), &Offer::new(0, 9, 9));
    for id in 1..50_000 {
        let Route::Wait { ticket, .. } = dispatcher.offer(at(1), &Offer::new(id, 9, 9)) else {
            panic!("one waits at a time")
        };
        assert_eq!(dispatcher.cancel(at(1), ticket), Was::Waiting);
    }
    assert_eq!((dispatcher.waiting(), dispatcher.open()), (0, 1));
    dispatcher.offer(at(2), &Offer::new(7, 9, 9));
    dispatcher.set_limits(at(2), ReplicaId(0), Limits::in_flight(2));
    let told: Vec<Event> = std::iter::from_fn(|| dispatcher.poll(at(2))).collect();
    assert!(told.iter().any(|e| matches!(e, Event::Send { id: 7, .. })));
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let with = |change: fn(&mut Config)| {
        let mut config = Config::new(Policy::LeastWork);
        change(&mut config);
        Dispatcher::new(config).err().map(|e| e.to_string())
    };
    assert_eq!(with(|_| ()), None);
    let told = with(|c| c.classes.clear()).unwrap();
    assert!(told.contains("0 classes"), "{told}");
    let told = with(|c| c.classes[0].guaranteed_share = f64::NAN).unwrap();
    assert!(told.contains("from 0 to 1"), "{told}");
    let told = with(|c| {
        let guard = Guard {
            factor: 0.5,
            slack: 0,
        };
        c.policy = Policy::PrefixAffinity(guard);
    });
    assert!(told.unwrap().contains("1 or more"));
    let told = with(|c| {
        c.terms.work = Some(Rate {
            per_second: 0.0,
            burst: 1.0,
        });
    });
    assert!(told.unwrap().contains("above 0"));
}
