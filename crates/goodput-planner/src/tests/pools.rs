use std::{num::NonZeroU32, sync::Arc};

use goodput_perf_model::{Profile, StepTime};
use goodput_slo::Slo;
use goodput_workload::WorkloadSpec;

use crate::{
    ClassLoad, Effort, LoadFigures, PlanError, PoolClass, PoolQuestion, PoolsPlan, compare_pools,
    compare_pools_over, run_mix,
};

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

/// The replica of which the models' order of pools is told: a step of 6.57 ms, 11.3 us a sequence,
/// 46.8 ns a token of context, 19 us a prompt token; 28,000 blocks of 16.
fn replica(tokens: u32) -> Profile {
    let mut profile = Profile::builtin("qwen3-8b-h100").unwrap();
    profile.kv_blocks = 28_000;
    profile.prefix_cache = false;
    profile.max_num_seqs = NonZeroU32::new(1_024).unwrap();
    profile.max_batched_tokens = NonZeroU32::new(tokens).unwrap();
    profile.step_time = StepTime {
        overhead_s: 6.57e-3,
        sequence_s: 1.13e-5,
        context_s: 4.68e-8,
        prefill_s: 1.9e-5,
        ..StepTime::default()
    };
    profile
}

/// 200 req/s, of which `share` are batch work of about 4,000 in and 400 out within 10 minutes; the
/// others chat of about 512 in and 128 out within 500 ms / 50 ms for 99 %.
fn classes(share: f64) -> [PoolClass; 2] {
    let class = |name: &str, rate, slo: &str, workload, priority| PoolClass {
        name: name.into(),
        rate_req_s: rate,
        slo: Slo::from_argument(slo).unwrap(),
        workload,
        priority,
    };
    [
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
    ]
}

/// What the classes get from one of so many replicas over a window of so many seconds.
fn over(
    profile: &Profile,
    replicas: f64,
    of: &[&PoolClass],
    prioritised: bool,
    window_s: f64,
) -> Vec<LoadFigures> {
    let loads: Vec<ClassLoad<'_>> = of
        .iter()
        .map(|class| ClassLoad {
            workload: &class.workload,
            slo: &class.slo,
            rate_req_s: class.rate_req_s / replicas,
            priority: if prioritised { class.priority } else { 0 },
        })
        .collect();
    run_mix(profile, &loads, window_s, 7)
}

/// The order of the models at 10 % of batch work: separate < priority < compromise.
///
/// `--example order -- 0.1 5 40000` puts them at 7.01 [6.99..7.03], 7.11 [7.10..7.13] and 7.83
/// [7.80..7.86]. Held here, for the arrivals of one seed: 7.06 replicas do for pools of their own, each with its own
/// token budget. They are too few for priorities with any budget; 7.25 do. These are too few for one queue with any.
/// With seeds 7 to 12, looked at in steps of 0.02, separate pools did with 7.00 to 7.06, and with each seed priorities
/// needed more. The priority pool's batch class is overloaded at 7.06: its SLO of 600 s breaks only late in a window, so
/// the window is long.
#[test]
fn separate_pools_need_less_than_priorities_and_these_less_than_a_compromise() {
    let [chat, batch] = classes(0.1);
    let pools = [512, 1_024, 2_048, 8_192].map(|tokens| Profile {
        max_num_seqs: NonZeroU32::new(tokens.min(1_024)).unwrap(),
        ..replica(tokens)
    });
    let keeps = |profile: &Profile, replicas: f64, of: &[&PoolClass], prioritised, window_s| {
        let seen = over(profile, replicas, of, prioritised, window_s);
        seen.iter().all(LoadFigures::seems_to_keep)
    };
    let both = [&chat, &batch];
    assert!(keeps(&pools[2], 3.30, &[&chat], false, 4_000.0));
    assert!(keeps(&pools[1], 3.76, &[&batch], false, 10_000.0));
    for profile in &pools {
        let tokens = profile.max_batched_tokens;
        assert!(!keeps(profile, 7.06, &both, true, 10_000.0), "{tokens}");
        assert!(!keeps(profile, 7.25, &both, false, 4_000.0), "{tokens}");
    }
    assert!(keeps(&pools[1], 7.25, &both, true, 4_000.0));
}

/// The search over configurations and layouts, for an objective that short looks can prove.
#[test]
fn layouts_are_searched_once_for_all_demands() {
    let mut classes = classes(0.1).to_vec();
    classes[0].slo = Slo::from_argument("ttft<=500ms,tpot<=50ms,objective=90%").unwrap();
    let question = PoolQuestion {
        classes,
        configurations: vec![replica(1_024)],
        price: None,
        spare: 1,
        effort: Effort::requests(1_000),
        seed: 7,
    };
    let plans = compare_pools_over(&question, &[1.0, 10.0]).unwrap();
    let fractional = |plan: &PoolsPlan| -> Vec<f64> {
        let each = plan.ways.iter().map(|way| {
            let why = way.why_not.as_deref();
            way.fractional.value.ok_or(why).unwrap()
        });
        each.collect()
    };
    let (one, ten) = (fractional(&plans[0]), fractional(&plans[1]));
    assert_eq!(one.len(), 3);
    for (one, ten) in one.iter().zip(&ten) {
        assert!((10.0 * one - ten).abs() < 1e-9 && (5.0..9.0).contains(one));
    }
    let between = plans[0].ways[0].fractional.interval.unwrap();
    assert!(between.low < one[0] && between.high >= one[0]);
    assert!(between.low > 0.9 * one[0], "{between:?}");
}

fn mix(share: f64) -> PoolQuestion {
    PoolQuestion {
        classes: classes(share).to_vec(),
        configurations: vec![replica(2_048)],
        price: None,
        spare: 1,
        effort: Effort::requests(500),
        seed: 7,
    }
}

#[test]
fn pools_without_classes_or_with_absurd_rates_are_refused() {
    let mut none = mix(0.1);
    none.classes.clear();
    assert_eq!(compare_pools(&none).unwrap_err(), PlanError::NoDemand);
    let mut absurd = mix(0.1);
    absurd.classes[0].rate_req_s = f64::NAN;
    assert!(matches!(compare_pools(&absurd), Err(PlanError::Demand(_))));
}
