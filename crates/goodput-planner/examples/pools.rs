//! Pools compared: separate, one with priorities, one compromise, for several shares of batch work.
//!
//! `cargo run --release -p goodput-planner --example pools -- [REQUESTS] [SHARE] [SIGMA] [SEED] [SLOTS]`
//!
//! 200 req/s, of which SHARE (0.02, 0.1 and 0.3 in turn where it is 0) are batch work of 4,000 tokens in and 400 out, to finish
//! in 10 minutes; the others chat of 512 and 128 within 500 ms and 50 ms for 99 %. A step takes
//! 6.57 ms, 11.3 us a sequence, 46.8 ns a token of context and 19 us a prompt token; 28,000 blocks of 16.
//! SIGMA is the standard deviation of the logarithm of all lengths; their means stay.
//! SLOTS is the most sequences of a batch (1024: none of these loads reaches it).

#![expect(clippy::print_stdout, reason = "a study talks to whoever runs it")]
#![expect(clippy::disallowed_methods, reason = "a study reads its arguments")]

use std::{num::NonZeroU32, sync::Arc};

use goodput_perf_model::{Profile, StepTime};
use goodput_planner::{Effort, PoolClass, PoolQuestion, compare_pools};
use goodput_slo::Slo;
use goodput_workload::WorkloadSpec;

fn main() {
    let requests = std::env::args()
        .nth(1)
        .and_then(|a| a.parse().ok())
        .unwrap_or(10_000);
    let only = std::env::args()
        .nth(2)
        .and_then(|a| a.parse().ok())
        .filter(|share| *share > 0.0);
    let shares = only.map_or_else(|| vec![0.02, 0.1, 0.3], |share: f64| vec![share]);
    let sigma = std::env::args()
        .nth(3)
        .and_then(|a| a.parse().ok())
        .unwrap_or(0.5);
    let seed = std::env::args()
        .nth(4)
        .and_then(|a| a.parse().ok())
        .unwrap_or(7);
    let slots = std::env::args()
        .nth(5)
        .and_then(|a| a.parse().ok())
        .unwrap_or(NonZeroU32::new(1_024).expect("above 0"));
    for share in shares {
        let mut question = PoolQuestion {
            seed,
            ..mix(share, requests, sigma)
        };
        question
            .configurations
            .retain(|profile| profile.max_batched_tokens >= slots);
        for profile in &mut question.configurations {
            profile.max_num_seqs = slots;
        }
        let plan = compare_pools(&question).expect("a comparison");
        println!("batch share {share}");
        for way in &plan.ways {
            println!(
                "  {:<12} {:>6.2} fractional ({:.2?}), {:?} whole, {:?} with spares, {:?} planned  {}",
                format!("{:?}", way.layout),
                way.fractional.value.unwrap_or(f64::NAN),
                way.fractional.interval.map(|i| [i.low, i.high]),
                way.replicas.value,
                way.with_spare.value,
                way.planned.value,
                way.why_not.as_deref().unwrap_or(""),
            );
            for pool in &way.pools {
                println!(
                    "      {:?} {} {:?} {}",
                    pool.classes,
                    pool.configuration,
                    pool.budget_req_s.value,
                    pool.budget_req_s.from
                );
            }
        }
    }
}

fn mix(share: f64, requests: u32, sigma: f64) -> PoolQuestion {
    let class = |name: &str, rate: f64, slo: &str, lengths: (u32, u32), priority| PoolClass {
        name: name.into(),
        rate_req_s: rate,
        slo: Slo::from_argument(slo).expect("an SLO"),
        workload: workload(name, lengths, sigma),
        priority,
    };
    let mut profile = Profile::builtin("qwen3-8b-h100").expect("a built-in profile");
    profile.kv_blocks = 28_000;
    profile.prefix_cache = false;
    profile.step_time = StepTime {
        overhead_s: 6.57e-3,
        sequence_s: 1.13e-5,
        context_s: 4.68e-8,
        prefill_s: 1.9e-5,
        ..StepTime::default()
    };
    let configurations = [512, 1_024, 2_048, 8_192]
        .into_iter()
        .map(|tokens| Profile {
            max_batched_tokens: u32::try_into(tokens).expect("above 0"),
            ..profile.clone()
        });
    PoolQuestion {
        classes: vec![
            class(
                "chat",
                200.0 * (1.0 - share),
                "ttft<=500ms,tpot<=50ms",
                (512, 128),
                0,
            ),
            class("batch", 200.0 * share, "e2e<=600s", (4_000, 400), 1),
        ],
        configurations: configurations.collect(),
        price: None,
        spare: 1,
        effort: Effort::requests(requests),
        seed: 7,
    }
}

/// Log-normal lengths with these means.
fn workload(name: &str, (input, output): (u32, u32), sigma: f64) -> Arc<WorkloadSpec> {
    let lengths = |mean: u32| {
        let median = f64::from(mean) * (-sigma * sigma / 2.0).exp();
        format!(
            ".log_normal = {{ median = {median:.0}, sigma = {sigma:?}, max = {} }}",
            8 * mean
        )
    };
    let text = format!(
        "class = \"{name}\"\noutput_policy = \"max_tokens\"\narrivals = \"poisson\"\ninput{}\noutput{}\n",
        lengths(input),
        lengths(output)
    );
    Arc::new(WorkloadSpec::parse(name, &text).expect("a workload"))
}
