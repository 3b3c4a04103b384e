//! CPU time of a decision: `cargo bench -p goodput-dispatch`.
//!
//! Each line is an offer and the settlement of an earlier request, with half of the replicas' room
//! taken; "queued" with all of it taken, so that every request waits in a queue of 1,000.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark's result is what it prints, and it asks the system for CPU time"
)]

use std::{collections::VecDeque, hint::black_box, time::Duration};

use goodput_dispatch::{
    Config, Dispatcher, Ended, Event, Guard, Limits, Offer, Policy, Role, Route, TenantId, Ticket,
};
use goodput_record::{BlockRun, Timestamp};

const PAIRS: u64 = 400_000;
const LIMIT: u32 = 64;

/// CPU time of this thread, in nanoseconds, to the tick of the system's accounting.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(0)
}

struct Bench {
    dispatcher: Dispatcher,
    held: VecDeque<Ticket>,
    now: u64,
    id: u64,
    prefix: Vec<BlockRun>,
    tenants: u32,
}

impl Bench {
    fn new(policy: Policy, replicas: u16, tenants: u32) -> Self {
        let config = Config::new(policy);
        let Ok(mut dispatcher) = Dispatcher::new(config) else {
            panic!("the configuration is sound")
        };
        for _ in 0..replicas {
            let id = dispatcher.join(Role::Whole, Limits::in_flight(LIMIT), 1.0);
            if let Some(id) = id {
                dispatcher.up(Timestamp::ZERO, id);
            }
        }
        Self {
            dispatcher,
            held: VecDeque::new(),
            now: 0,
            id: 0,
            prefix: (0..64).map(BlockRun::one).collect(),
            tenants,
        }
    }

    fn offer(&mut self) {
        self.id += 1;
        self.now += 1_000;
        let group = self.id % 37;
        for (depth, hash) in (0..).zip(&mut self.prefix) {
            *hash = BlockRun::one(group << 8 | depth);
        }
        let offer = Offer {
            tenant: TenantId(u32::try_from(self.id % u64::from(self.tenants)).unwrap_or(0)),
            prefix: &self.prefix,
            ..Offer::new(self.id, 400 + group, 100 + self.id % 100)
        };
        let now = Timestamp::from_nanos(self.now);
        if let Route::Send { ticket, .. } = black_box(self.dispatcher.offer(now, &offer)) {
            self.held.push_back(ticket);
        }
    }

    fn settle(&mut self) {
        let now = Timestamp::from_nanos(self.now);
        if let Some(ticket) = self.held.pop_front() {
            self.dispatcher.settle(now, ticket, Ended::Ok, None);
        }
        while let Some(event) = self.dispatcher.poll(now) {
            if let Event::Send { ticket, .. } = event {
                self.held.push_back(ticket);
            }
        }
    }

    /// Nanoseconds of a pair with `open` requests open.
    fn run(&mut self, open: u32) -> f64 {
        for _ in 0..open {
            self.offer();
        }
        let began = cpu_ns();
        for _ in 0..PAIRS {
            self.offer();
            self.settle();
        }
        (cpu_ns() - began) as f64 / PAIRS as f64
    }
}

fn main() {
    let guard = Guard {
        factor: 1.25,
        slack: 2_000,
    };
    let policies = [
        ("round robin", Policy::RoundRobin),
        ("least work", Policy::LeastWork),
        ("power of two", Policy::PowerOfTwo),
        ("prefix affinity", Policy::PrefixAffinity(guard)),
    ];
    let began = cpu_ns();
    println!(
        "{:<28}{:>10}{:>10}  (ns of CPU per offer + settle)",
        "replicas", 16, 64
    );
    for (name, policy) in policies {
        let at = |replicas: u16| {
            let mut bench = Bench::new(policy, replicas, 1);
            bench.run(u32::from(replicas) * LIMIT / 2)
        };
        println!("{name:<28}{:>10.0}{:>10.0}", at(16), at(64));
    }
    for tenants in [1, 1_000] {
        let at = |replicas: u16| {
            let mut bench = Bench::new(Policy::LeastWork, replicas, tenants);
            bench.run(u32::from(replicas) * LIMIT + 1_000)
        };
        let name = format!("least work, queued, {tenants} tenants");
        println!("{name:<28}{:>8.0}{:>10.0}", at(16), at(64));
    }
    let spent = Duration::from_nanos(cpu_ns() - began);
    println!("{} s of CPU in all", spent.as_secs());
}
