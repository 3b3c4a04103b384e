//! Prefixes and sessions that stay where their cache is.

use goodput_record::{BlockRun, Timestamp};

use crate::*;

fn fleet(config: Config, replicas: usize) -> Dispatcher {
    let mut dispatcher = Dispatcher::new(config).unwrap();
    for _ in 0..replicas {
        let id = dispatcher
            .join(Role::Whole, Limits::in_flight(1_000), 1.0)
            .unwrap();
        dispatcher.up(Timestamp::ZERO, id);
    }
    dispatcher
}

const GUARD: Guard = Guard {
    factor: 1.25,
    slack: 400,
};

/// The chain of a prompt of `blocks` blocks of group `group`, of which `shared` are the group's.
fn chain(group: u64, shared: u64, own: u64, blocks: u64) -> Vec<BlockRun> {
    let block = |i| {
        if i < shared {
            group << 20 | i
        } else {
            own << 32 | i
        }
    };
    (0..blocks).map(block).map(BlockRun::one).collect()
}

fn send(dispatcher: &mut Dispatcher, offer: &Offer<'_>) -> (Ticket, ReplicaId) {
    match dispatcher.offer(Timestamp::ZERO, offer) {
        Route::Send { ticket, replica } => (ticket, replica),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_group_stays_together_while_the_load_allows_it() {
    let mut dispatcher = fleet(Config::new(Policy::PrefixAffinity(GUARD)), 8);
    let (mut homes, mut held) = (vec![Vec::new(); 40], Vec::new());
    for id in 0..4_000_u64 {
        let group = id * 7 % 40;
        let prefix = chain(group, 20, 1_000 + id, 32);
        let offer = Offer {
            prefix: &prefix,
            ..Offer::new(id, 10, 10)
        };
        let (ticket, replica) = send(&mut dispatcher, &offer);
        homes[usize::try_from(group).unwrap()].push(replica);
        held.push(ticket);
        if held.len() > 60 {
            dispatcher.settle(Timestamp::ZERO, held.remove(0), Ended::Ok, None);
        }
    }
    let (mut again, mut total) = (0, 0);
    for group in &homes {
        again += group.windows(2).filter(|pair| pair[0] == pair[1]).count();
        total += group.len() - 1;
    }
    assert!(again * 100 > total * 85, "{again} of {total}");
    // And all replicas have something to do.
    let mut used: Vec<ReplicaId> = homes.into_iter().flatten().collect();
    used.sort_unstable();
    used.dedup();
    assert_eq!(used.len(), 8);
}

#[test]
fn a_hot_prefix_overloads_nobody() {
    let mut dispatcher = fleet(Config::new(Policy::PrefixAffinity(GUARD)), 8);
    let prefix = chain(1, 32, 0, 32);
    for id in 0..800 {
        let offer = Offer {
            prefix: &prefix,
            ..Offer::new(id, 10, 10)
        };
        send(&mut dispatcher, &offer);
        let work = |r| dispatcher.in_hand(ReplicaId(r)).1;
        let mean = (0..8).map(work).sum::<u64>() / 8;
        let most = (0..8).map(work).max().unwrap();
        assert!(
            most as f64 <= 1.25 * mean as f64 + 400.0 + 25.0,
            "{most} {mean}"
        );
    }
}

#[test]
fn a_session_stays_with_its_replica_until_that_is_gone() {
    let config = Config {
        sticky_sessions: Some(GUARD),
        ..Config::new(Policy::RoundRobin)
    };
    let mut dispatcher = fleet(config, 4);
    let turn = |dispatcher: &mut Dispatcher, session| {
        let offer = Offer {
            session: Some(session),
            ..Offer::new(session, 10, 10)
        };
        let (ticket, replica) = send(dispatcher, &offer);
        dispatcher.settle(Timestamp::ZERO, ticket, Ended::Ok, None);
        replica
    };
    let first: Vec<ReplicaId> = (0..40).map(|s| turn(&mut dispatcher, s)).collect();
    let second: Vec<ReplicaId> = (0..40).rev().map(|s| turn(&mut dispatcher, s)).collect();
    assert!(first.iter().eq(second.iter().rev()));
    dispatcher.drain(Timestamp::ZERO, first[0]);
    let third: Vec<ReplicaId> = (0..40).map(|s| turn(&mut dispatcher, s)).collect();
    for (before, after) in first.iter().zip(&third) {
        assert_ne!(*after, first[0]);
        assert!(before == after || *before == first[0]);
    }
}

/// A replica that never saw the prompt is not always the same one.
#[test]
fn who_misses_the_cache_goes_where_there_is_least_to_do() {
    let mut dispatcher = fleet(Config::new(Policy::PrefixAffinity(GUARD)), 4);
    for id in 0..400 {
        let prefix = chain(id, 32, 0, 32);
        let offer = Offer {
            prefix: &prefix,
            ..Offer::new(id, 10, 10)
        };
        send(&mut dispatcher, &offer);
    }
    for replica in 0..4 {
        assert_eq!(dispatcher.in_hand(ReplicaId(replica)), (100, 2_000));
    }
}
