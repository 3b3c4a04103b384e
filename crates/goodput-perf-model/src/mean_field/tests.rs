use std::num::NonZeroU32;

use super::*;
use crate::{Assumptions, Catalogue, Experts, KvShape, Precision, Speculation};

/// The coefficients and lengths of the published comparison: 6.57 ms, 19 us, 46.8 ns, 19 us.
fn linear() -> (Profile, Demand) {
    let profile = Profile {
        step_time: StepTime {
            overhead_s: 6.57e-3,
            sequence_s: 1.9e-5,
            context_s: 4.68e-8,
            prefill_s: 1.9e-5,
            ..StepTime::default()
        },
        max_num_seqs: NonZeroU32::new(100_000).unwrap(),
        max_batched_tokens: NonZeroU32::new(1_000_000).unwrap(),
        kv_blocks: 100_000_000,
        ..Profile::builtin("laptop").unwrap()
    };
    let demand = Demand {
        prefill_tokens: 511.0,
        prefill_pairs: 0.0,
        output_tokens: 127.7,
        context_tokens: 633.0,
    };
    (profile, demand)
}

#[test]
fn without_bends_the_fixed_point_is_the_closed_form() {
    let (profile, demand) = linear();
    let limit = profile.step_time.saturation_rate(&demand).unwrap();
    for share in [0.1, 0.5, 0.8, 0.9, 0.98] {
        let field = profile.mean_field(&demand, share * limit).unwrap();
        let closed = profile.step_time.tpot_at(&demand, share * limit).unwrap();
        assert!(
            (field.tpot_s / closed.as_secs_f64() - 1.0).abs() < 1e-6,
            "{share}"
        );
    }
    assert_eq!(profile.mean_field(&demand, 1.01 * limit), Err(Limit::Steps));
    let capacity = profile.capacity(&demand).unwrap();
    assert_eq!(capacity.limit, Limit::Steps);
    assert!(
        (capacity.rate_req_s / limit - 1.0).abs() < 0.005,
        "{capacity:?}"
    );
    let bound = Duration::from_millis(50);
    let rate = profile.mean_rate_within(&demand, bound).unwrap();
    let closed = profile.step_time.rate_within(&demand, bound).unwrap();
    assert!((rate / closed - 1.0).abs() < 0.002);
    assert_eq!(
        profile.mean_rate_within(&demand, Duration::from_millis(6)),
        None
    );
}

#[test]
fn what_runs_out_first_is_named() {
    let (mut profile, demand) = linear();
    profile.max_num_seqs = NonZeroU32::new(64).unwrap();
    let slots = profile.capacity(&demand).unwrap();
    assert_eq!(slots.limit, Limit::Sequences);
    let field = profile.mean_field(&demand, slots.rate_req_s).unwrap();
    assert!((field.decodes / 64.0 - 1.0).abs() < 0.01, "{field:?}");
    profile.kv_blocks = 32 * 40;
    let kv = profile.capacity(&demand).unwrap();
    assert_eq!(kv.limit, Limit::KvCache);
    assert!(kv.rate_req_s < slots.rate_req_s);
    let (mut profile, demand) = linear();
    profile.max_batched_tokens = NonZeroU32::new(200).unwrap();
    assert_eq!(profile.capacity(&demand).unwrap().limit, Limit::StepTokens);
}

#[test]
fn a_bend_is_found_at_its_first_crossing() {
    let (mut profile, demand) = linear();
    profile.step_time.weights_s = 4e-3;
    profile.step_time.compute_s = 6e-5;
    let free = {
        let mut without = profile.clone();
        without.step_time.compute_s = 0.0;
        without
    };
    // While reads hide the arithmetic, nothing changes; later the replica saturates earlier.
    let light = profile.mean_field(&demand, 5.0).unwrap();
    assert_eq!(light, free.mean_field(&demand, 5.0).unwrap());
    let (with, without) = (profile.capacity(&demand), free.capacity(&demand));
    assert!(with.unwrap().rate_req_s < 0.75 * without.unwrap().rate_req_s);
}

#[test]
fn a_draft_makes_tokens_cheaper_where_arithmetic_is_free() {
    let (mut profile, demand) = linear();
    let before = profile.mean_field(&demand, 20.0).unwrap();
    profile.step_time.speculation = Some(Speculation {
        draft_tokens: 3,
        acceptance: 0.7,
        draft_s: 0.0,
    });
    let after = profile.mean_field(&demand, 20.0).unwrap();
    assert!(after.tpot_s < before.tpot_s / 2.0, "{after:?} {before:?}");
    assert!((after.step_s / after.tpot_s - 2.533).abs() < 1e-9);
}

#[test]
fn woken_experts_slow_a_loaded_replica() {
    let (mut profile, demand) = linear();
    profile.step_time.experts = Some(Experts {
        count: 128,
        per_token: 8,
        read_s: 0.02,
    });
    let alone = profile.step_time.mean_seconds(1.0, 633.0, 0.0, 0.0);
    assert!(
        (alone
            - profile.step_time.seconds(&Batch {
                decodes: 1,
                context_tokens: 633,
                window_tokens: 633,
                ..Batch::default()
            }))
        .abs()
            < 1e-12
    );
    let loaded = profile.mean_field(&demand, 20.0).unwrap();
    assert!(loaded.step_s > alone + 0.015);
}

/// `TPOT = T_dec(n) + (n / E[l]) c_p E[p]`: the prefill share of published closed loops.
#[test]
fn a_closed_loop_carries_the_prompts_of_those_who_join() {
    let (profile, demand) = linear();
    let field = profile.closed_loop(&demand, 64.0);
    let step = &profile.step_time;
    let decode_only = step.mean_seconds(field.decodes, demand.context_tokens, 0.0, 0.0);
    let share = field.decodes / demand.output_tokens * 511.0 * 1.9e-5;
    assert!((field.step_s - decode_only - share).abs() < 1e-9);
    // Little's law over the whole loop.
    let present = field.rate_req_s * (field.tpot_s * demand.output_tokens + field.step_s);
    assert!((present / 64.0 - 1.0).abs() < 1e-9, "{present}");
    // An open loop at the rate of the closed one has the same step.
    let open = profile.mean_field(&demand, field.rate_req_s).unwrap();
    assert!((open.step_s / field.step_s - 1.0).abs() < 1e-6);
}

#[test]
fn a_closed_loop_beyond_the_cache_waits_and_keeps_its_pace() {
    let (mut profile, demand) = linear();
    profile.kv_blocks = 40 * 50;
    let room = profile.kv_sequences(&demand);
    assert!((49.0..51.0).contains(&room), "{room}");
    let (full, over) = (
        profile.closed_loop(&demand, room),
        profile.closed_loop(&demand, room + 30.0),
    );
    assert!((full.tpot_s / over.tpot_s - 1.0).abs() < 1e-12);
    assert!((over.waiting - 30.0).abs() < 1e-9);
}

/// Published closed loops of this configuration hold 85.2 to 85.8 sequences of 5000 + 500 tokens.
#[test]
fn the_cache_of_two_h100_caps_llama_70b_near_the_measured_85() {
    let profile = Profile::builtin("llama-3.3-70b-fp8-2xh100").unwrap();
    let demand = Demand::of(&[(5_000, 500)]).unwrap();
    let room = profile.kv_sequences(&demand);
    assert!((81.0..90.0).contains(&room), "{room}");
}

#[test]
fn the_first_token_of_a_lone_prompt_takes_its_own_step() {
    let profile = Profile::builtin("qwen3-8b-h100").unwrap();
    let demand = Demand::of(&[(1_000, 100)]).unwrap();
    let alone = profile.ttft_at(&demand, 1e-6, 1_000).unwrap();
    let mut batch = Batch::default();
    batch.prefill(0, 1_000);
    let step = profile.step_time.seconds(&batch);
    assert!((alone.as_secs_f64() / step - 1.0).abs() < 1e-3);
    let busy = profile.ttft_at(&demand, 10.0, 1_000).unwrap();
    assert!(busy > alone);
    let long = profile
        .ttft_at(&demand, 1e-6, 20_000)
        .unwrap()
        .as_secs_f64();
    assert!(long > 20.0 * step, "attention grows with the square");
    assert_eq!(profile.ttft_at(&demand, 1e6, 1_000), None);
}

#[test]
fn the_token_budget_keeps_the_others_within_their_bound() {
    let step = StepTime {
        overhead_s: 6.57e-3,
        sequence_s: 1.9e-5,
        context_s: 4.68e-8,
        prefill_s: 1.9e-5,
        ..StepTime::default()
    };
    let bound = Duration::from_millis(50);
    let budget = step.prefill_within(64, 633, 0, bound).unwrap();
    let linear: f64 = (0.050 - 6.57e-3 - 64.0 * 1.9e-5 - 64.0 * 633.0 * 4.68e-8) / 1.9e-5;
    assert!(
        (f64::from(budget) - linear.floor()).abs() < 1.5,
        "{budget} {linear}"
    );
    assert_eq!(
        step.prefill_within(64, 633, 0, Duration::from_millis(8)),
        None
    );
}

fn qwen_with_kv_heads(kv_heads: u32) -> StepTime {
    let catalogue = Catalogue::builtin().unwrap();
    let mut model = catalogue.model("Qwen/Qwen3-32B").unwrap().clone();
    model.kv_heads = kv_heads;
    let device = catalogue.accelerator("B200-SXM").unwrap();
    let assumed = Assumptions::default();
    let one = NonZeroU32::MIN;
    Profile::from_catalogue(&model, device, one, Precision::Bf16, &assumed)
        .unwrap()
        .step_time
}

#[test]
fn grouped_queries_read_an_eighth_and_move_the_knee_as_the_closed_form_says() {
    let shape = |kv_heads| KvShape::Heads {
        layers: 64,
        kv_heads,
        head_dim: 128,
    };
    assert_eq!(
        shape(64).bytes_per_token(2),
        8 * shape(8).bytes_per_token(2)
    );
    let (full, grouped) = (qwen_with_kv_heads(64), qwen_with_kv_heads(8));
    assert!((full.context_s / grouped.context_s - 8.0).abs() < 1e-12);
    // T(n) = a + b n + k n c: twice T(1) at n = a / (b + k c) + 2.
    let context = 3_000_u32;
    let closed = |step: &StepTime| {
        let idle = step.overhead_s + step.weights_s;
        idle / (step.sequence_s + step.context_s * f64::from(context)) + 2.0
    };
    for step in [&full, &grouped] {
        let knee = f64::from(step.knee(context).unwrap());
        assert!(
            (knee / closed(step) - 1.0).abs() < 0.05,
            "{knee} {}",
            closed(step)
        );
    }
    let moved = f64::from(grouped.knee(context).unwrap()) / f64::from(full.knee(context).unwrap());
    assert!(
        (moved / (closed(&grouped) / closed(&full)) - 1.0).abs() < 0.05,
        "{moved}"
    );
    assert_eq!(StepTime::default().knee(1), None);
}
