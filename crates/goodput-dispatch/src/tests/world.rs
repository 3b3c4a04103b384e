//! Servers that take requests one after the other, behind a dispatcher.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use goodput_record::{Timestamp, nanos_of};
use goodput_stats::{Draws, Stream, sampler::exponential};

use crate::*;

/// A request of the tests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) at: Timestamp,
    pub(super) class: u8,
    pub(super) tenant: u32,
    pub(super) service: Duration,
    /// As told to the dispatcher.
    pub(super) work: u64,
    pub(super) deadline: Option<Timestamp>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Served {
        replica: ReplicaId,
        began: Timestamp,
        ended: Timestamp,
    },
    Shed(Why),
    Expired(Timestamp),
}

pub(super) fn seconds(s: f64) -> Timestamp {
    Timestamp::from_nanos(nanos_of(s))
}

/// Poisson arrivals at `rate` with exponential service of 1 s on average, predicted exactly.
pub(super) fn poisson(seed: u64, rate: f64, count: u64) -> Vec<Job> {
    let mut at = 0.0;
    let jobs = (0..count).map(|index| {
        at += exponential(&mut Draws::new(seed, Stream(1), index)) / rate;
        let service = exponential(&mut Draws::new(seed, Stream(2), index));
        Job {
            at: seconds(at),
            class: 0,
            tenant: 0,
            service: Duration::from_nanos(nanos_of(service)),
            work: nanos_of(service) / 1_000,
            deadline: None,
        }
    });
    jobs.collect()
}

/// Runs jobs, sorted by arrival, through `servers` servers that may each have `limit` requests at
/// once, of which they work on one at a time.
pub(super) fn run(config: Config, servers: u16, limit: u32, jobs: &[Job]) -> Vec<Fate> {
    let mut world = World::new(config, jobs.len());
    for _ in 0..servers {
        world.add(Limits::in_flight(limit));
    }
    world.run(jobs);
    world.fates.into_iter().map(Option::unwrap).collect()
}

pub(super) struct World {
    pub(super) dispatcher: Dispatcher,
    pub(super) fates: Vec<Option<Fate>>,
    free: Vec<Timestamp>,
    ends: BinaryHeap<Reverse<(Timestamp, Ticket, u64)>>,
}

impl World {
    pub(super) fn new(config: Config, jobs: usize) -> Self {
        Self {
            dispatcher: Dispatcher::new(config).unwrap(),
            fates: vec![None; jobs],
            free: Vec::new(),
            ends: BinaryHeap::new(),
        }
    }

    pub(super) fn add(&mut self, limits: Limits) -> ReplicaId {
        let id = self.dispatcher.join(Role::Whole, limits, 1.0).unwrap();
        self.dispatcher.up(Timestamp::ZERO, id);
        self.free.push(Timestamp::ZERO);
        while self.dispatcher.poll(Timestamp::ZERO).is_some() {}
        id
    }

    fn begin(&mut self, now: Timestamp, jobs: &[Job], id: u64, ticket: Ticket, replica: ReplicaId) {
        let place = usize::try_from(id).unwrap();
        let free = &mut self.free[replica.index()];
        let began = now.max(*free);
        let ended = began.after(jobs[place].service);
        *free = ended;
        self.ends.push(Reverse((ended, ticket, id)));
        self.fates[place] = Some(Fate::Served {
            replica,
            began,
            ended,
        });
    }

    pub(super) fn run(&mut self, jobs: &[Job]) {
        let mut arrivals = (0..).zip(jobs).peekable();
        loop {
            let due = arrivals.peek().map(|(_, job)| job.at);
            let end = self.ends.peek().map(|end| end.0.0);
            let event = self.dispatcher.next_event();
            let Some(now) = [due, end, event].into_iter().flatten().min() else {
                break;
            };
            if end == Some(now) {
                let Reverse((_, ticket, _)) = self.ends.pop().unwrap();
                assert!(self.dispatcher.settle(now, ticket, Ended::Ok, None));
            } else if due == Some(now) {
                let (id, job) = arrivals.next().unwrap();
                let offer = Offer {
                    class: job.class,
                    tenant: TenantId(job.tenant),
                    deadline: job.deadline,
                    ..Offer::new(id, job.work, 0)
                };
                match self.dispatcher.offer(now, &offer) {
                    Route::Send { ticket, replica } => self.begin(now, jobs, id, ticket, replica),
                    Route::Wait { .. } => {}
                    Route::Shed { why, .. } => self.tell(id, Fate::Shed(why)),
                }
            }
            while let Some(event) = self.dispatcher.poll(now) {
                match event {
                    Event::Send {
                        id,
                        ticket,
                        replica,
                    } => self.begin(now, jobs, id, ticket, replica),
                    Event::Shed { id, why, .. } => self.tell(id, Fate::Shed(why)),
                    Event::Expired { id, .. } => self.tell(id, Fate::Expired(now)),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn tell(&mut self, id: u64, fate: Fate) {
        let place = &mut self.fates[usize::try_from(id).unwrap()];
        assert_eq!(*place, None, "one fate each");
        *place = Some(fate);
    }
}

/// Seconds from arrival to the begin of service, of those that were served.
pub(super) fn waits(jobs: &[Job], fates: &[Fate]) -> Vec<f64> {
    let wait = |(job, fate): (&Job, &Fate)| match fate {
        Fate::Served { began, .. } => Some(began.since(job.at).unwrap().as_secs_f64()),
        _ => None,
    };
    jobs.iter().zip(fates).filter_map(wait).collect()
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A class without end to patience or queue.
pub(super) fn patient(order: Order) -> Class {
    Class {
        order,
        max_wait: Duration::from_secs(1_000_000),
        queue_limit: u32::MAX,
        ..Class::new()
    }
}

pub(super) fn config(policy: Policy, classes: Vec<Class>) -> Config {
    Config {
        classes,
        queue_limit: u32::MAX,
        fair_tenants: false,
        ..Config::new(policy)
    }
}
