//! Whatever happens in whatever order: every request has one end, and every count comes back to 0.

use std::{collections::BTreeMap, time::Duration};

use goodput_record::{BlockRun, Timestamp};
use proptest::prelude::*;

use crate::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Offer { class: u8, tenant: u32, work: u64 },
    Settle(usize, Ended),
    Retry(usize, Ended),
    Cancel(usize),
    FirstToken(usize),
    Limit(u16, u32),
    Up(u16),
    Down(u16),
    Drain(u16),
    Join,
    Probed(u16, Option<u64>),
    HandOver(usize),
    Pass(u64),
}

fn ended() -> impl Strategy<Value = Ended> {
    prop_oneof![
        Just(Ended::Ok),
        Just(Ended::Cancelled),
        Just(Ended::Failed),
        Just(Ended::Refused { retry_after: None }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let offer = (0..3_u8, 0..6_u32, 0..50_u64);
    let offer = offer.prop_map(|(class, tenant, work)| Step::Offer {
        class,
        tenant,
        work,
    });
    prop_oneof![
        8 => offer,
        5 => (any::<usize>(), ended()).prop_map(|(i, how)| Step::Settle(i, how)),
        1 => (any::<usize>(), ended()).prop_map(|(i, how)| Step::Retry(i, how)),
        2 => any::<usize>().prop_map(Step::Cancel),
        1 => any::<usize>().prop_map(Step::FirstToken),
        1 => any::<usize>().prop_map(Step::HandOver),
        1 => (0..6_u16, 0..4_u32).prop_map(|(r, limit)| Step::Limit(r, limit)),
        1 => (0..6_u16).prop_map(Step::Up),
        1 => (0..6_u16).prop_map(Step::Down),
        1 => (0..6_u16).prop_map(Step::Drain),
        1 => Just(Step::Join),
        1 => (0..6_u16, proptest::option::of(1..100_u64)).prop_map(|(r, t)| Step::Probed(r, t)),
        3 => (0..20_000_u64).prop_map(Step::Pass),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    let guard = Guard {
        factor: 1.25,
        slack: 10,
    };
    prop_oneof![
        Just(Policy::RoundRobin),
        Just(Policy::Random),
        Just(Policy::LeastWork),
        Just(Policy::PowerOfTwo),
        Just(Policy::PrefixAffinity(guard)),
    ]
}

/// How often each request has ended as what.
#[derive(Default)]
struct Books {
    now: u64,
    offered: u64,
    fates: BTreeMap<u64, Vec<&'static str>>,
    /// Tickets that were handed out and have not ended, with their request.
    live: Vec<(Ticket, u64)>,
}

impl Books {
    fn fate(&mut self, id: u64, fate: &'static str) {
        self.fates.entry(id).or_default().push(fate);
        self.live.retain(|(_, live)| *live != id);
    }

    fn pick(&self, i: usize) -> Option<(Ticket, u64)> {
        (!self.live.is_empty()).then(|| self.live[i % self.live.len()])
    }

    fn offer(&mut self, dispatcher: &mut Dispatcher, class: u8, tenant: TenantId, work: u64) {
        let now = Timestamp::from_millis(self.now);
        let id = self.offered;
        self.offered += 1;
        let prefix = [u64::from(tenant.0), u64::from(tenant.0) << 8, work].map(BlockRun::one);
        let offer = Offer {
            class,
            tenant,
            session: Some(u64::from(tenant.0)),
            prefix: &prefix,
            ..Offer::new(id, work, work)
        };
        match dispatcher.offer(now, &offer) {
            Route::Send { ticket, .. } | Route::Wait { ticket, .. } => {
                self.live.push((ticket, id));
            }
            Route::Shed { .. } => self.fate(id, "shed"),
        }
    }

    fn step(&mut self, dispatcher: &mut Dispatcher, step: Step, joined: &mut Vec<ReplicaId>) {
        let now = Timestamp::from_millis(self.now);
        match step {
            Step::Offer {
                class,
                tenant,
                work,
            } => self.offer(dispatcher, class, TenantId(tenant), work),
            Step::Settle(i, how) => {
                if let Some((ticket, id)) = self.pick(i)
                    && dispatcher.settle(now, ticket, how, None)
                {
                    self.fate(id, "settled");
                }
            }
            Step::Retry(i, how) => {
                if let Some((ticket, id)) = self.pick(i) {
                    let waiting = dispatcher.open();
                    let route = dispatcher.retry(now, ticket, how);
                    if matches!(route, Route::Shed { .. }) && dispatcher.open() < waiting {
                        self.fate(id, "settled");
                    }
                }
            }
            Step::Cancel(i) => {
                if let Some((ticket, id)) = self.pick(i) {
                    let was = dispatcher.cancel(now, ticket);
                    assert_ne!(was, Was::Over);
                    self.fate(id, "cancelled");
                }
            }
            Step::FirstToken(i) => {
                if let Some((ticket, _)) = self.pick(i) {
                    dispatcher.first_token(now, ticket, Duration::from_millis(3));
                }
            }
            Step::HandOver(i) => {
                if let Some((ticket, _)) = self.pick(i) {
                    dispatcher.hand_over(now, ticket);
                }
            }
            Step::Pass(ms) => self.now += ms,
            other => change_fleet(dispatcher, now, other, joined),
        }
        let now = Timestamp::from_millis(self.now);
        while let Some(event) = dispatcher.poll(now) {
            match event {
                Event::Shed { id, .. } => self.fate(id, "shed"),
                Event::Expired { id, .. } => self.fate(id, "expired"),
                Event::Send { id, ticket, .. } => {
                    assert!(self.live.contains(&(ticket, id)), "sent, but not open");
                }
                _ => {}
            }
        }
        assert!(
            dispatcher.next_event().is_none_or(|at| at > now),
            "something is left undone"
        );
        assert_eq!(dispatcher.open(), self.live.len());
    }
}

fn change_fleet(
    dispatcher: &mut Dispatcher,
    now: Timestamp,
    step: Step,
    joined: &mut Vec<ReplicaId>,
) {
    match step {
        Step::Limit(r, limit) => {
            dispatcher.set_limits(now, ReplicaId(r), Limits::in_flight(limit));
        }
        Step::Up(r) => dispatcher.up(now, ReplicaId(r)),
        Step::Down(r) => dispatcher.down(now, ReplicaId(r)),
        Step::Drain(r) => dispatcher.drain(now, ReplicaId(r)),
        Step::Join if joined.len() < 6 => {
            let role = [Role::Whole, Role::Whole, Role::Prefill, Role::Decode][joined.len() % 4];
            joined.extend(dispatcher.join(role, Limits::in_flight(2), 1.0));
        }
        Step::Join => {}
        Step::Probed(r, ttft) => {
            dispatcher.probed(now, ReplicaId(r), ttft.map(Duration::from_millis));
        }
        other => panic!("{other:?} is no change of the fleet"),
    }
}

fn check(policy: Policy, gate: bool, fair: bool, steps: &[Step]) {
    let class = Class {
        max_wait: Duration::from_secs(20),
        queue_limit: 5,
        ..Class::new()
    };
    let lesser = Class {
        guaranteed_share: 0.3,
        in_flight_share: 0.5,
        order: Order::ShortestFirst {
            ageing: Duration::from_millis(10),
        },
        ..class
    };
    let config = Config {
        classes: vec![class, lesser],
        queue_limit: 8,
        fair_tenants: fair,
        gate: gate.then(Gate::new),
        slow_start: gate.then_some(1),
        tenants: 4,
        sticky_sessions: fair.then_some(Guard {
            factor: 1.5,
            slack: 5,
        }),
        terms: Terms {
            open: Some(6),
            ..Terms::new()
        },
        ..Config::new(policy)
    };
    let mut dispatcher = Dispatcher::new(config).unwrap();
    let (mut books, mut joined) = (Books::default(), Vec::new());
    let warm = [Step::Join, Step::Join, Step::Up(0), Step::Up(1)];
    for &step in warm.iter().chain(steps) {
        books.step(&mut dispatcher, step, &mut joined);
        let c = dispatcher.counters();
        let ends = c.sent + c.shed.iter().sum::<u64>() + c.expired + c.cancelled;
        let unsent = c.offered - ends;
        assert!(unsent <= u64::from(dispatcher.waiting()), "{c:?}");
    }
    while let Some((ticket, _)) = books.pick(0) {
        dispatcher.cancel(Timestamp::from_millis(books.now), ticket);
        books.live.remove(0);
        while dispatcher.poll(Timestamp::from_millis(books.now)).is_some() {}
    }
    let c = *dispatcher.counters();
    let ends = c.sent + c.shed.iter().sum::<u64>() + c.expired + c.cancelled;
    assert_eq!(
        (c.offered, ends, c.settled),
        (books.offered, books.offered, c.sent)
    );
    for fates in books.fates.values() {
        assert_eq!(fates.len(), 1, "{fates:?}");
    }
    assert_eq!((dispatcher.open(), dispatcher.waiting()), (0, 0));
    for &replica in &joined {
        assert_eq!(dispatcher.in_hand(replica), (0, 0));
    }
    for tenant in 0..7 {
        assert_eq!(dispatcher.open_of(TenantId(tenant)), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_request_has_one_end(
        policy in policy(),
        gate: bool,
        fair: bool,
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        check(policy, gate, fair, &steps);
    }

    #[test]
    fn a_tournament_is_a_minimum(
        sets in proptest::collection::vec((0..40_usize, proptest::option::of(0..20_u32)), 1..200),
    ) {
        let mut tree = Tournament::new();
        let mut plain = [None; 40];
        for (place, key) in sets {
            tree.set(place, key);
            plain[place] = key;
            let least = plain.iter().enumerate().filter_map(|(i, k)| Some((i, (*k)?)));
            let least = least.min_by_key(|&(i, k)| (k, i));
            prop_assert_eq!(tree.first(), least);
        }
    }
}
