//! What holds of a whole pool to the last block, token and nanosecond.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use goodput_dispatch::{Guard, Limits, Policy};
use goodput_ledger::Latency;
use goodput_perf_model::Profile;
use goodput_slo::Slo;
use goodput_workload::{
    CoursePlan, Load, Settle, SharedRequests, Window, WorkloadSpec, point_seed,
};

use super::{run::Run, *};
use crate::Detail;

/// Prompts of which the first part is one of six.
const SHARED: &str = "
    prefixes.groups = { count = 6, zipf = 1.0, tokens = { uniform = { min = 100, max = 300 } } }
    input.log_normal = { median = 300, sigma = 0.5, max = 1500 }
    output.log_normal = { median = 150, sigma = 0.7, max = 300 }";
const REQUESTS: u32 = 1_500;

/// Three replicas of which the caches are so small that requests lose their places.
fn plan(policy: Policy, detail: Detail) -> PoolPlan {
    let mut plan = PoolPlan::new(policy, 11, Duration::from_secs(1));
    let profile = Profile {
        kv_blocks: 120,
        ..Profile::builtin("laptop").unwrap()
    };
    let mut replica = ReplicaPlan::new(&profile);
    replica.limits = Limits::in_flight(12);
    plan.replicas = vec![replica; 3];
    let workload = Arc::new(WorkloadSpec::parse("shared.toml", SHARED).unwrap());
    let slos = vec![Slo::from_argument("ttft=500ms,tpot=40ms").unwrap()];
    let load = Load::Open { per_second: 30.0 };
    plan.streams = vec![StreamPlan::new(&workload, load, slos)];
    let window = Window::Requests(NonZeroU32::new(REQUESTS).unwrap());
    plan.course = CoursePlan {
        drain: Duration::from_hours(1),
        ..CoursePlan::new(Settle::None, window)
    };
    // Nobody is refused, however long the queue becomes.
    plan.dispatch.queue_limit = u32::MAX;
    for class in &mut plan.dispatch.classes {
        (class.queue_limit, class.max_wait) = (u32::MAX, Duration::from_hours(10));
    }
    plan.detail = detail;
    plan
}

#[test]
fn blocks_tokens_and_time_are_conserved() {
    let guard = Guard {
        factor: 1.25,
        slack: 2_000_000_000,
    };
    let policies = [Policy::LeastWork, Policy::PrefixAffinity(guard)];
    let details = [Detail::EveryToken, Detail::Bins, Detail::Ends];
    for (policy, detail) in policies.into_iter().flat_map(|p| details.map(|d| (p, d))) {
        let plan = plan(policy, detail);
        let mut run = Run::begin(&plan).unwrap();
        let (mut area, mut most_held) = (0_u64, 0.0_f64);
        while !run.course.over() {
            let (open, since) = (u64::from(run.desk.in_flight), run.now);
            if !run.step() {
                break;
            }
            area += open * u64::try_from(run.now.since(since).unwrap().as_nanos()).unwrap();
            let held = run.replicas[0].engine.sample().kv_used.unwrap();
            most_held = most_held.max(held);
        }
        // No block is held for nobody.
        for replica in &run.replicas {
            assert_eq!(replica.engine.sample().kv_used, Some(0.0));
        }
        assert!(most_held > 0.9, "{most_held}");
        let finished = run.finish();
        let counters: Vec<_> = finished.replicas.iter().map(|r| r.counters).collect();
        let preemptions: u64 = counters.iter().map(|c| c.preemptions).sum();
        assert!(preemptions > 5, "{preemptions}");
        assert!(counters.iter().map(|c| c.prefix_hits).sum::<u64>() > 10_000);
        // Tokens answered, and booked, are those that were asked for.
        let row = finished.row(&plan, 0).unwrap();
        assert_eq!(row.outcomes.len(), 1, "{:?}", row.outcomes);
        let seed = point_seed(plan.seed, 0);
        let mut asked = SharedRequests::new(&plan.streams[0].workload, 30.0, seed).unwrap();
        let asked = (0..REQUESTS).map(|_| u64::from(asked.take().unwrap().output_tokens));
        let answered: u64 = counters.iter().map(|c| c.output_tokens).sum();
        let asked: u64 = asked.sum();
        assert_eq!(answered, asked);
        let booked = row.lengths.output_mean.unwrap() * f64::from(REQUESTS);
        assert!((booked - asked as f64).abs() < 1e-3, "{booked} {asked}");
        // Little's law: the area under the requests in the pool is the sum of their stays.
        let books = &finished.streams[0].books;
        let e2e = books.distribution(Latency::E2e);
        let stays = e2e.mean().unwrap() * f64::from(REQUESTS);
        assert_eq!(books.measured(), u64::from(REQUESTS));
        assert!((area as f64 / stays - 1.0).abs() < 1e-12, "{area} {stays}");
    }
}
