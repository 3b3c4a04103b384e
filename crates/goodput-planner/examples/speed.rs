//! What a look at a load costs, and a search, in CPU seconds.
//!
//! `cargo run --release -p goodput-planner --example speed`

#![expect(clippy::print_stdout, reason = "a benchmark talks to whoever runs it")]
#![expect(clippy::disallowed_methods, reason = "a benchmark has a clock")]

use std::{fs, sync::Arc};

use goodput_perf_model::Profile;
use goodput_planner::{Effort, ReplicaModel, Simulated, find};
use goodput_slo::Slo;
use goodput_workload::WorkloadSpec;

/// CPU seconds of this process so far, user and system.
fn cpu_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = stat
        .split(' ')
        .skip(13)
        .take(2)
        .filter_map(|t| t.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

fn main() {
    let cases = [
        (
            "qwen3-8b-h100",
            "chat-short",
            "ttft<=500ms,tpot<=50ms",
            30.0,
        ),
        (
            "qwen3-8b-h100",
            "azure-conversation",
            "ttft<=500ms,tpot<=50ms",
            12.0,
        ),
        ("qwen3-8b-h100", "azure-conversation", "chat", 12.0),
        ("laptop", "chat-short", "ttft<=500ms,tpot<=10ms", 40.0),
    ];
    for (profile, workload, slo, rate) in cases {
        let mut replica = Simulated::new(
            Profile::builtin(profile).expect("a built-in profile"),
            Arc::new(WorkloadSpec::preset(workload).expect("a preset")),
            Slo::from_argument(slo).expect("an SLO"),
            7,
        );
        let begun = cpu_s();
        let at = replica.at(rate, 40_000);
        let looked = cpu_s();
        let guess = replica.guess().unwrap_or(1.0);
        let found = find(&mut replica, guess, Effort::of(0.99));
        let done = cpu_s();
        println!(
            "{profile} {workload} {slo}: {:.0} requests a CPU second at {rate} req/s; search {:.2} CPU s, {} (guess {guess:.1})",
            at.requests as f64 / (looked - begun),
            done - looked,
            found.map_or_else(
                |no| no.to_string(),
                |f| format!(
                    "{:.2} req/s after {} looks of up to {}",
                    f.at.rate_req_s, f.looked_at, f.at.requests
                )
            ),
        );
    }
}
