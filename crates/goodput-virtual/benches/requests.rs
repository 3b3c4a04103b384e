//! Simulated requests per second of CPU time, judged and booked: `cargo bench -p goodput-virtual`.

#![expect(
    clippy::print_stdout,
    reason = "a benchmark's result is what it prints"
)]

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use goodput_perf_model::Profile;
use goodput_slo::Slo;
use goodput_sweep::auto::Look;
use goodput_virtual::{Detail, PointPlan, Replica, Setting, run_point};
use goodput_workload::{CoursePlan, Load, Settle, Window, WorkloadSpec};

/// CPU time of this thread so far; zero where the system does not tell.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

fn run(name: &str, profile: &Profile, workload: &str, rate: f64, count: u32, detail: Detail) {
    let spec = Arc::new(WorkloadSpec::parse("w.toml", workload).expect("a workload"));
    let slos = [Slo::from_argument("ttft<=500ms,tpot<=50ms").expect("an SLO")];
    let setting = Setting {
        detail,
        ..Setting::new(&spec, &slos, 7)
    };
    let course = CoursePlan::new(
        Settle::Fixed(Duration::from_secs(10)),
        Window::Requests(NonZeroU32::new(count).expect("some")),
    );
    let plan = PointPlan::new(0, Load::Open { per_second: rate }, course);
    let mut replica = Replica::new(profile);
    let begin = cpu();
    let measured = run_point(&mut replica, &setting, &plan, |_, _, _| Look::Wait);
    let spent = (cpu() - begin).as_secs_f64();
    let row = measured.row(&plan);
    println!(
        "{name:32} {:7.0} ns/request {:6.2} M/s   in SLO {:.4} ttft p99 {:.1} ms tpot p99 {:.2} ms",
        spent * 1e9 / f64::from(count),
        f64::from(count) / spent / 1e6,
        row.slo_attainment.unwrap_or(f64::NAN),
        row.ttft_p99_ms.unwrap_or(f64::NAN),
        row.tpot_p99_ms.unwrap_or(f64::NAN),
    );
}

/// Requests of a run.
const COUNT: u32 = 300_000;

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

fn main() {
    let profile = Profile::builtin("qwen3-8b-h100").expect("built in");
    for rate in [4.0, 20.0, 40.0, 48.0] {
        let name = format!("plain {rate}/s, ends");
        run(&name, &profile, PLAIN, rate, COUNT, Detail::Ends);
    }
}
