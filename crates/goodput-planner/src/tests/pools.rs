use std::{num::NonZeroU32, sync::Arc};

use goodput_perf_model::Profile;
use goodput_slo::Slo;
use goodput_workload::WorkloadSpec;

use crate::{Effort, Layout, PlanError, PoolClass, PoolQuestion, compare_pools};

fn lengths(name: &str, input: u32, output: u32) -> Arc<WorkloadSpec> {
    let text = format!(
        "class = \"{name}\"\noutput_policy = \"max_tokens\"\narrivals = \"poisson\"\n\
         input.log_normal = {{ median = {input}, sigma = 0.5, max = {} }}\n\
         output.log_normal = {{ median = {output}, sigma = 0.5, max = {} }}\n",
        8 * input,
        8 * output
    );
    Arc::new(WorkloadSpec::parse(name, &text).unwrap())
}

/// The mix of 200 req/s with 10 % of long batch work, on a replica whose coefficients are those of
/// Qwen3-8B on an H100: chat of about 512 in and 128 out within 500 ms / 50 ms for 99 %, batch of
/// about 4,000 in and 400 out within 10 minutes.
fn mix(share: f64, budgets: &[u32], requests: u32) -> PoolQuestion {
    let class = |name: &str, rate, slo: &str, workload, priority| PoolClass {
        name: name.into(),
        rate_req_s: rate,
        slo: Slo::from_argument(slo).unwrap(),
        workload,
        priority,
    };
    let mut profile = Profile::builtin("qwen3-8b-h100").unwrap();
    profile.kv_blocks = 28_000;
    profile.prefix_cache = false;
    profile.step_time.pair_s = 0.0;
    let configurations = budgets.iter().map(|&tokens| Profile {
        max_batched_tokens: NonZeroU32::new(tokens).unwrap(),
        ..profile.clone()
    });
    PoolQuestion {
        classes: vec![
            class(
                "chat",
                200.0 * (1.0 - share),
                "ttft<=500ms,tpot<=50ms",
                lengths("chat", 452, 113),
                0,
            ),
            class(
                "batch",
                200.0 * share,
                "e2e<=600s",
                lengths("batch", 3_530, 353),
                1,
            ),
        ],
        configurations: configurations.collect(),
        price: None,
        spare: 1,
        effort: Effort::requests(requests),
        seed: 7,
    }
}

/// The price of one pool for all is paid in the chat class's tail, which stands behind the prompts of
/// the batch class. Separate pools and priorities avoid it, and lie within 10 % of each other; which
/// of them is ahead depends on the token budgets to choose from.
#[test]
fn separate_pools_and_priorities_need_less_than_a_compromise() {
    let plan = compare_pools(&mix(0.1, &[1_024], 1_000)).unwrap();
    let needs = |layout| {
        let way = plan.ways.iter().find(|way| way.layout == layout).unwrap();
        way.fractional.value.unwrap()
    };
    let [separate, priority, compromise] =
        [Layout::Separate, Layout::Priority, Layout::Compromise].map(needs);
    assert!(
        separate < compromise && priority < compromise,
        "{separate} {priority} {compromise}"
    );
    assert!(
        (0.9..1.1).contains(&(separate / priority)),
        "{separate} {priority}"
    );
}

#[test]
fn pools_without_classes_or_with_absurd_rates_are_refused() {
    let mut none = mix(0.1, &[2_048], 500);
    none.classes.clear();
    assert_eq!(compare_pools(&none).unwrap_err(), PlanError::NoDemand);
    let mut absurd = mix(0.1, &[2_048], 500);
    absurd.classes[0].rate_req_s = f64::NAN;
    assert!(matches!(compare_pools(&absurd), Err(PlanError::Demand(_))));
}
