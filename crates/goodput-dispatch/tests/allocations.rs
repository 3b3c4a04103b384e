//! A request that finds a replica costs no allocation.

use goodput_dispatch::{
    Config, Dispatcher, Ended, Guard, Limits, Offer, Policy, Role, Route, TenantId, Ticket,
};
use goodput_record::{BlockRun, Timestamp};

const REPLICAS: u16 = 16;

fn pair(dispatcher: &mut Dispatcher, held: &mut Vec<Ticket>, id: u64) {
    let now = Timestamp::from_nanos(id * 1_000);
    let prefix = [id % 7, id % 7 + 100, id].map(BlockRun::one);
    let offer = Offer {
        tenant: TenantId(u32::try_from(id % 50).unwrap_or(0)),
        session: Some(id % 100),
        prefix: &prefix,
        ..Offer::new(id, 100, 100)
    };
    if let Route::Send { ticket, .. } = dispatcher.offer(now, &offer) {
        held.push(ticket);
    }
    if held.len() > 200 {
        let ticket = held.swap_remove(7);
        assert!(dispatcher.settle(now, ticket, Ended::Ok, None));
    }
    while dispatcher.poll(now).is_some() {}
}

#[test]
fn deciding_allocates_nothing_once_everything_is_as_large_as_it_gets() {
    let guard = Guard {
        factor: 1.25,
        slack: 1_000,
    };
    for policy in [
        Policy::LeastWork,
        Policy::PowerOfTwo,
        Policy::PrefixAffinity(guard),
    ] {
        let config = Config {
            sticky_sessions: Some(guard),
            ..Config::new(policy)
        };
        let mut dispatcher = Dispatcher::new(config).unwrap();
        for _ in 0..REPLICAS {
            let id = dispatcher.join(Role::Whole, Limits::in_flight(64), 1.0);
            dispatcher.up(Timestamp::ZERO, id.unwrap());
        }
        let mut held = Vec::with_capacity(300);
        (1..2_000).for_each(|id| pair(&mut dispatcher, &mut held, id));
        let measured = allocation_counter::measure(|| {
            (2_000..12_000).for_each(|id| pair(&mut dispatcher, &mut held, id));
        });
        assert_eq!(measured.count_total, 0, "{policy:?}");
        assert_eq!(dispatcher.counters().sent, 11_999);
    }
}
