//! Simulated requests per second of CPU time, judged and booked: `cargo bench -p goodput-virtual`.
//!
//! `cargo bench -p goodput-virtual -- CASE COUNT` runs one case with so many requests: what
//! `suites/instructions.sh` counts the instructions of.

#![expect(
    clippy::print_stdout,
    reason = "a benchmark's result is what it prints"
)]

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use goodput_dispatch::Policy;
use goodput_ledger::PointRow;
use goodput_perf_model::Profile;
use goodput_slo::Slo;
use goodput_sweep::auto::Look;
use goodput_virtual::{
    Detail, PointPlan, Replica, Setting,
    pool::{PoolPlan, ReplicaPlan, StreamPlan, run_pool},
    run_point,
};
use goodput_workload::{CoursePlan, Load, Settle, Window, WorkloadSpec};

/// Requests of a case that names no count.
const COUNT: u32 = 300_000;

/// The plain regime: log-normal lengths around 512 in and 128 out, Poisson arrivals, one replica.
const PLAIN: &str = r#"
class = "plain"
arrivals = "poisson"
[input.log_normal]
median = 450
sigma = 0.5
max = 8000
[output.log_normal]
median = 113
sigma = 0.5
max = 4000
"#;

/// Answers so long that the cache thrashes.
const LONG: &str = r#"
class = "long"
arrivals = "poisson"
[input.log_normal]
median = 450
sigma = 0.5
max = 8000
[output.log_normal]
median = 450
sigma = 0.5
max = 4000
"#;

/// Prompts of which the first half is one of twenty.
const SHARED: &str = r#"
class = "shared"
arrivals = "poisson"
prefixes.groups = { count = 20, zipf = 1.0, tokens = { fixed = 256 } }
[input.log_normal]
median = 450
sigma = 0.5
max = 8000
[output.log_normal]
median = 113
sigma = 0.5
max = 4000
"#;

/// CPU time of this thread so far; zero where the system does not tell.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

fn workload(text: &str) -> Arc<WorkloadSpec> {
    Arc::new(WorkloadSpec::parse("workload.toml", text).expect("a workload"))
}

fn slos() -> [Slo; 1] {
    [Slo::from_argument("ttft<=500ms,tpot<=50ms").expect("an SLO")]
}

/// One replica under an open load, told in brief.
fn replica(profile: &Profile, text: &str, rate: f64, count: u32) -> Option<PointRow> {
    let (spec, slos) = (workload(text), slos());
    let setting = Setting {
        detail: Detail::Ends,
        ..Setting::new(&spec, &slos, 7)
    };
    let course = CoursePlan::new(
        Settle::Fixed(Duration::from_secs(10)),
        Window::Requests(NonZeroU32::new(count)?),
    );
    let plan = PointPlan::new(0, Load::Open { per_second: rate }, course);
    let mut replica = Replica::new(profile);
    let measured = run_point(&mut replica, &setting, &plan, |_, _, _| Look::Wait);
    Some(measured.row(&plan))
}

/// Sixteen replicas with prefix caches behind a dispatcher, with whole books.
fn pool(profile: &Profile, rate: f64, count: u32) -> Option<PointRow> {
    let span = Duration::from_secs_f64(f64::from(count) / rate);
    let mut plan = PoolPlan::new(Policy::LeastWork, 7, span);
    plan.detail = Detail::Ends;
    plan.replicas = vec![ReplicaPlan::new(profile); 16];
    let load = Load::Open { per_second: rate };
    plan.streams = vec![StreamPlan::new(&workload(SHARED), load, slos().to_vec())];
    run_pool(&plan).ok()?.row(&plan, 0)
}

fn run(case: &str, count: u32) {
    let profile = Profile::builtin("qwen3-8b-h100").expect("built in");
    let begin = cpu();
    let row = match case {
        "light" => replica(&profile, PLAIN, 4.0, count),
        "plain" => replica(&profile, PLAIN, 40.0, count),
        "full" => replica(&profile, PLAIN, 48.0, count),
        "thrash" => {
            let small = Profile {
                kv_blocks: 8_000,
                ..profile
            };
            replica(&small, LONG, 15.0, count)
        }
        "pool" => pool(&profile, 640.0, count),
        _ => panic!("no such case: {case}"),
    };
    let row = row.expect("a row");
    let spent = (cpu() - begin).as_secs_f64();
    println!(
        "{case:8} {:7.0} ns a request, {:6.2} M a CPU second; {} requests, {:.4} in SLO, ttft p99 {:.1} ms",
        spent * 1e9 / f64::from(count),
        f64::from(count) / spent / 1e6,
        row.requests,
        row.slo_attainment.unwrap_or(f64::NAN),
        row.ttft_p99_ms.unwrap_or(f64::NAN),
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark is told which case to run"
)]
fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let mut words = given.iter().filter(|word| !word.starts_with('-'));
    let Some(case) = words.next() else {
        for case in ["light", "plain", "full", "thrash", "pool"] {
            run(case, COUNT);
        }
        return;
    };
    let count = words.next().and_then(|count| count.parse().ok());
    run(case, count.unwrap_or(COUNT));
}
