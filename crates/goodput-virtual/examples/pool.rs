//! Simulated requests per CPU second of a pool of 16 replicas, with prefix cache, routing and full
//! books: `cargo run --release -p goodput-virtual --example pool`.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example's result is what it prints, and it asks the system for CPU time"
)]

use std::{sync::Arc, time::Duration};

use goodput_dispatch::{Guard, Policy};
use goodput_perf_model::Profile;
use goodput_slo::Slo;
use goodput_virtual::pool::{PoolPlan, ReplicaPlan, StreamPlan, run_pool};
use goodput_workload::{Load, WorkloadSpec};

fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(0.0_f64) / 1e9
}

fn main() {
    let guard = Guard {
        factor: 1.25,
        slack: 5_000_000_000,
    };
    let policies = [
        ("least work", Policy::LeastWork),
        ("power of two", Policy::PowerOfTwo),
        ("prefix affinity", Policy::PrefixAffinity(guard)),
    ];
    let (Some(profile), Ok(workload), Ok(slo)) = (
        Profile::builtin("qwen3-8b-h100"),
        WorkloadSpec::preset("chat-short"),
        Slo::from_argument("ttft=500ms,tpot=50ms"),
    ) else {
        panic!("all of these are built in")
    };
    let workload = Arc::new(workload);
    for (name, policy) in policies {
        let mut plan = PoolPlan::new(policy, 7, Duration::from_mins(1));
        plan.replicas = vec![ReplicaPlan::new(&profile); 16];
        let load = Load::Open { per_second: 800.0 };
        plan.streams = vec![StreamPlan::new(&workload, load, vec![slo.clone()])];
        let began = cpu_s();
        let Ok(run) = run_pool(&plan) else {
            panic!("the pool is sound")
        };
        let spent = cpu_s() - began;
        let sent = run.dispatch.sent;
        let steps: u64 = run.replicas.iter().map(|r| r.counters.steps).sum();
        let row = run.row(&plan, 0);
        println!(
            "{name:<18}{:>10.0} requests a CPU second ({sent} in {spent:.2} s, {steps} steps), attainment {:?}",
            sent as f64 / spent,
            row.and_then(|row| row.slo_attainment),
        );
    }
}
