//! The mix of chat and batch work of which the studies of pools ask.

use std::{num::NonZeroU32, sync::Arc};

use goodput_perf_model::{Profile, StepTime};
use goodput_planner::{Effort, PoolClass, PoolQuestion};
use goodput_slo::Slo;
use goodput_workload::WorkloadSpec;

/// The question: `share` of 200 req/s are batch work; `sigma` is the spread of all lengths, `slots` the most sequences of a batch.
pub(crate) fn mix(share: f64, requests: u32, sigma: f64, slots: f64) -> PoolQuestion {
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
    let slots = NonZeroU32::new(goodput_stats::whole_u32(slots)).expect("above 0");
    profile.max_num_seqs = slots;
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
        })
        .filter(|profile| profile.max_batched_tokens >= slots);
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
