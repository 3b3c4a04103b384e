//! The life of replicas.

use std::time::Duration;

use goodput_record::Timestamp;

use crate::*;

const fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn events(dispatcher: &mut Dispatcher, now: Timestamp) -> Vec<Event> {
    std::iter::from_fn(|| dispatcher.poll(now)).collect()
}

fn gated() -> Dispatcher {
    let config = Config {
        gate: Some(Gate::new()),
        ..Config::new(Policy::LeastWork)
    };
    Dispatcher::new(config).unwrap()
}

fn join(dispatcher: &mut Dispatcher, now: Timestamp, limit: u32) -> ReplicaId {
    let limits = Limits::in_flight(limit);
    let id = dispatcher.join(Role::Whole, limits, 1.0).unwrap();
    dispatcher.up(now, id);
    id
}

#[test]
fn the_first_replica_is_ready_when_its_probes_have_settled() {
    let mut dispatcher = gated();
    let replica = join(&mut dispatcher, at(0), 8);
    let waits = dispatcher.offer(at(0), &Offer::new(1, 1, 1));
    assert!(matches!(waits, Route::Wait { .. }));
    // Two cold generations, then warm ones.
    for (probe, ms) in [2_000, 2_100, 50, 52, 51].into_iter().enumerate() {
        assert_eq!(dispatcher.state(replica), ReplicaState::Warming, "{probe}");
        assert_eq!(events(&mut dispatcher, at(0)), [Event::Probe { replica }]);
        dispatcher.probed(at(0), replica, Some(Duration::from_millis(ms)));
    }
    assert_eq!(dispatcher.state(replica), ReplicaState::Ready);
    let told = events(&mut dispatcher, at(0));
    assert!(matches!(
        told[..],
        [Event::Ready { .. }, Event::Send { id: 1, .. }]
    ));
}

#[test]
fn a_later_replica_is_held_against_the_fleet() {
    let mut dispatcher = gated();
    let old = join(&mut dispatcher, at(0), 100);
    for _ in 0..3 {
        dispatcher.probed(at(0), old, Some(Duration::from_millis(50)));
    }
    for id in 0..20 {
        let Route::Send { ticket, .. } = dispatcher.offer(at(1), &Offer::new(id, 1, 1)) else {
            panic!()
        };
        dispatcher.first_token(at(60), ticket, Duration::from_millis(58));
        dispatcher.settle(at(90), ticket, Ended::Ok, None);
    }
    let new = join(&mut dispatcher, at(100), 100);
    // Steady, but far from the fleet's median of 58 ms.
    for _ in 0..10 {
        dispatcher.probed(at(100), new, Some(Duration::from_millis(400)));
        assert_eq!(dispatcher.state(new), ReplicaState::Warming);
    }
    // A failed probe is repeated after a pause.
    events(&mut dispatcher, at(100));
    dispatcher.probed(at(100), new, None);
    assert_eq!(dispatcher.next_event(), Some(at(1_100)));
    assert_eq!(events(&mut dispatcher, at(1_099)), []);
    assert_eq!(
        events(&mut dispatcher, at(1_100)),
        [Event::Probe { replica: new }]
    );
    for _ in 0..3 {
        dispatcher.probed(at(1_200), new, Some(Duration::from_millis(69)));
    }
    assert_eq!(dispatcher.state(new), ReplicaState::Ready);
    // Its process dies: it starts again, and nothing is sent.
    dispatcher.down(at(1_300), new);
    assert_eq!(dispatcher.state(new), ReplicaState::Starting);
    dispatcher.up(at(1_400), new);
    assert_eq!(dispatcher.state(new), ReplicaState::Warming);
}

#[test]
fn a_new_replica_begins_slowly_where_asked_to() {
    let config = Config {
        slow_start: Some(2),
        ..Config::new(Policy::LeastWork)
    };
    let mut dispatcher = Dispatcher::new(config).unwrap();
    let replica = join(&mut dispatcher, at(0), 100);
    let mut tickets: Vec<Ticket> = (0..2)
        .map(|id| match dispatcher.offer(at(0), &Offer::new(id, 1, 1)) {
            Route::Send { ticket, .. } => ticket,
            other => panic!("{other:?}"),
        })
        .collect();
    let waits = dispatcher.offer(at(0), &Offer::new(9, 1, 1));
    assert!(matches!(waits, Route::Wait { .. }));
    // Each answer makes room for itself and for one more.
    for id in 10..40 {
        dispatcher.offer(at(0), &Offer::new(id, 1, 1));
    }
    dispatcher.settle(at(1), tickets.pop().unwrap(), Ended::Ok, None);
    assert_eq!(dispatcher.in_hand(replica).0, 3);
    dispatcher.settle(at(2), tickets.pop().unwrap(), Ended::Ok, None);
    assert_eq!(dispatcher.in_hand(replica).0, 4);
}

fn fail(dispatcher: &mut Dispatcher, now: Timestamp) -> ReplicaId {
    let Route::Send { ticket, replica } = dispatcher.offer(now, &Offer::new(0, 1, 1)) else {
        panic!()
    };
    dispatcher.settle(now, ticket, Ended::Failed, None);
    replica
}

#[test]
fn a_failing_replica_is_left_out_then_tried_with_one_request() {
    let mut dispatcher = Dispatcher::new(Config::new(Policy::RoundRobin)).unwrap();
    let bad = join(&mut dispatcher, at(0), 10);
    for _ in 0..5 {
        assert_eq!(fail(&mut dispatcher, at(0)), bad);
    }
    // The only one: at most half may be left out, so it goes on.
    assert_eq!(dispatcher.state(bad), ReplicaState::Ready);
    let good = join(&mut dispatcher, at(0), 10);
    while dispatcher.state(bad) == ReplicaState::Ready {
        let Route::Send { ticket, replica } = dispatcher.offer(at(0), &Offer::new(0, 1, 1)) else {
            panic!()
        };
        let how = if replica == bad {
            Ended::Failed
        } else {
            Ended::Ok
        };
        dispatcher.settle(at(0), ticket, how, None);
    }
    assert_eq!(dispatcher.state(bad), ReplicaState::LeftOut(at(10_000)));
    assert_eq!(dispatcher.next_event(), Some(at(10_000)));
    events(&mut dispatcher, at(10_000));
    // On probation it gets one request at a time; a failure takes it out for twice as long.
    let mut held = Vec::new();
    for id in 0..8 {
        if let Route::Send { ticket, replica } = dispatcher.offer(at(10_000), &Offer::new(id, 1, 1))
        {
            held.push((ticket, replica));
        }
    }
    let at_bad: Vec<_> = held.iter().filter(|(_, r)| *r == bad).collect();
    assert_eq!(at_bad.len(), 1);
    dispatcher.settle(at(10_000), at_bad[0].0, Ended::Failed, None);
    assert_eq!(dispatcher.state(bad), ReplicaState::LeftOut(at(30_000)));
    // A success the next time makes it a replica like the others.
    events(&mut dispatcher, at(30_000));
    while let Route::Send { ticket, replica } = dispatcher.offer(at(30_000), &Offer::new(0, 1, 1)) {
        if replica == bad {
            dispatcher.settle(at(30_000), ticket, Ended::Ok, None);
            break;
        }
    }
    assert_eq!(dispatcher.state(good), ReplicaState::Ready);
    let more = (0..30).filter_map(
        |id| match dispatcher.offer(at(30_000), &Offer::new(id, 1, 1)) {
            Route::Send { replica, .. } => Some(replica),
            _ => None,
        },
    );
    assert!(more.filter(|r| *r == bad).count() > 5);
}

#[test]
fn what_drains_ends_its_work_and_is_gone() {
    let mut dispatcher = Dispatcher::new(Config::new(Policy::LeastWork)).unwrap();
    let first = join(&mut dispatcher, at(0), 10);
    let Route::Send { ticket, .. } = dispatcher.offer(at(0), &Offer::new(1, 1, 1)) else {
        panic!()
    };
    let second = join(&mut dispatcher, at(0), 10);
    dispatcher.drain(at(1), first);
    events(&mut dispatcher, at(1));
    for id in 0..10 {
        let Route::Send { replica, .. } = dispatcher.offer(at(1), &Offer::new(id, 1, 1)) else {
            panic!()
        };
        assert_eq!(replica, second);
    }
    dispatcher.settle(at(2), ticket, Ended::Ok, None);
    assert_eq!(
        events(&mut dispatcher, at(2)),
        [Event::Drained { replica: first }]
    );
    assert_eq!(dispatcher.state(first), ReplicaState::Gone);
    // Its number is given again.
    assert_eq!(join(&mut dispatcher, at(3), 10), first);
}

#[test]
fn prefill_replicas_hand_over_and_keep_the_blocks_until_there_is_room() {
    let mut dispatcher = Dispatcher::new(Config::new(Policy::LeastWork)).unwrap();
    let mut add = |role, limit| {
        let id = dispatcher
            .join(role, Limits::in_flight(limit), 1.0)
            .unwrap();
        dispatcher.up(at(0), id);
        id
    };
    let (prefill, decode) = (add(Role::Prefill, 2), add(Role::Decode, 1));
    let offer =
        |dispatcher: &mut Dispatcher, id| match dispatcher.offer(at(0), &Offer::new(id, 100, 40)) {
            Route::Send { ticket, replica } => {
                assert_eq!(replica, prefill);
                Some(ticket)
            }
            _ => None,
        };
    let a = offer(&mut dispatcher, 1).unwrap();
    let b = offer(&mut dispatcher, 2).unwrap();
    assert_eq!(offer(&mut dispatcher, 3), None);
    assert_eq!(dispatcher.in_hand(prefill), (2, 200));
    let went = dispatcher.hand_over(at(10), a);
    assert!(matches!(went, Route::Send { replica, .. } if replica == decode));
    assert_eq!(dispatcher.in_hand(decode), (1, 40));
    // The third took the place of the first; the second has to wait for a place to decode.
    assert_eq!(dispatcher.in_hand(prefill), (2, 200));
    assert!(matches!(
        dispatcher.hand_over(at(11), b),
        Route::Wait { .. }
    ));
    assert_eq!(dispatcher.in_hand(prefill), (2, 200));
    events(&mut dispatcher, at(11));
    dispatcher.settle(at(20), a, Ended::Ok, None);
    let told = events(&mut dispatcher, at(20));
    assert!(matches!(told[..], [Event::Send { id: 2, replica, .. }] if replica == decode));
    assert_eq!(dispatcher.in_hand(prefill), (1, 100));
    assert_eq!(dispatcher.cancel(at(21), b), Was::At(decode));
    assert_eq!(dispatcher.in_hand(decode), (0, 0));
    assert_eq!(dispatcher.counters().handed_over, 2);
}
