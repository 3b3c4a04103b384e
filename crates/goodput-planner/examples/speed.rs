//! What a look at a load costs, a search, and a plan over 100 configurations, three classes in every
//! layout of pools and twenty demands, in CPU seconds.
//!
//! `cargo run --release -p goodput-planner --example speed`

#![expect(clippy::print_stdout, reason = "a benchmark talks to whoever runs it")]
#![expect(clippy::disallowed_methods, reason = "a benchmark has a clock")]

use std::{fs, sync::Arc};

use goodput_perf_model::Profile;
use goodput_planner::{
    Effort, PoolClass, PoolQuestion, ReplicaModel, Simulated, compare_pools_over, find,
};
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
    let begun = cpu_s();
    let scales: Vec<f64> = (1..=20).map(f64::from).collect();
    let plans = compare_pools_over(&hundred(), &scales).expect("plans");
    println!(
        "100 configurations, 3 classes, 20 demands: {:.2} CPU s",
        cpu_s() - begun
    );
    for plan in [&plans[0], &plans[19]] {
        for way in &plan.ways {
            println!(
                "  {:?}: {:.2} fractional, {:?} planned {}",
                way.layout,
                way.fractional.value.unwrap_or(f64::NAN),
                way.planned.value,
                way.why_not.as_deref().unwrap_or("")
            );
            for pool in &way.pools {
                println!("    {:?} {}", pool.classes, pool.configuration);
            }
        }
    }
}

/// Ten token budgets times ten batch sizes; two of chat, one of batch work.
fn hundred() -> PoolQuestion {
    let profile = Profile::builtin("qwen3-8b-h100").expect("a built-in profile");
    let mut configurations = Vec::new();
    for tokens in [
        512, 768, 1_024, 1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 16_384,
    ] {
        for slots in [16, 32, 48, 64, 96, 128, 192, 256, 384, 512] {
            configurations.push(Profile {
                max_batched_tokens: u32::try_into(tokens).expect("above 0"),
                max_num_seqs: u32::try_into(slots).expect("above 0"),
                ..profile.clone()
            });
        }
    }
    let class = |name: &str, rate_req_s, slo: &str, workload: &str, priority| PoolClass {
        name: name.into(),
        rate_req_s,
        slo: Slo::from_argument(slo).expect("an SLO"),
        workload: Arc::new(WorkloadSpec::preset(workload).expect("a preset")),
        priority,
    };
    PoolQuestion {
        classes: vec![
            class(
                "chat",
                20.0,
                "ttft<=500ms,tpot<=50ms",
                "azure-conversation",
                0,
            ),
            class("short", 20.0, "ttft<=300ms,tpot<=40ms", "chat-short", 0),
            class("batch", 1.0, "e2e<=10min", "batch-summarisation", 1),
        ],
        configurations,
        price: None,
        spare: 1,
        effort: Effort::requests(4_000),
        seed: 7,
    }
}
