use std::time::Duration;

use super::*;

fn heads(layers: u32, kv_heads: u32, head_dim: u32) -> KvShape {
    KvShape::Heads {
        layers,
        kv_heads,
        head_dim,
    }
}

fn shape(layers: u32, heads: u32, kv_heads: u32, hidden: u32, head_dim: Option<u32>) -> KvShape {
    let config = ModelConfig {
        name: String::new(),
        layers,
        hidden,
        heads,
        kv_heads,
        head_dim,
        latent_values: None,
        kv_layers: None,
        window_layers: None,
        window_tokens: None,
        pair_operations: None,
        embedding_parameters: None,
        experts: None,
        experts_per_token: None,
        expert_parameters: None,
        parameters: 1,
        active_parameters: 1,
        weight_bits: None,
        context_limit: 1,
        source: String::new(),
        note: None,
        low_confidence: false,
    };
    config.kv_shape()
}

/// Case O-PL-01.
#[test]
fn kv_bytes_count_kv_heads_and_the_configs_own_head_size() {
    let a = shape(32, 32, 8, 4096, None);
    assert_eq!(a.bytes_per_token(2), 131_072);
    let b = shape(36, 32, 8, 2560, Some(128));
    assert_eq!(b.bytes_per_token(2), 147_456);
}

/// Case O-PL-02.
#[test]
fn expert_reads_grow_with_the_batch() {
    let experts = Experts {
        count: 128,
        per_token: 8,
        read_s: 0.027,
    };
    let step = StepTime {
        weights_s: 0.003,
        experts: Some(experts),
        ..StepTime::default()
    };
    for (tokens, distinct, millis) in [(1, 8.0, 4.69), (16, 82.4, 20.38), (64, 125.9, 29.56)] {
        assert!(
            (experts.distinct(tokens) - distinct).abs() < 0.05,
            "{tokens}"
        );
        let batch = Batch {
            decodes: tokens,
            ..Batch::default()
        };
        let seconds = step.seconds(&batch);
        assert!((seconds * 1e3 - millis).abs() < 0.01, "{tokens}: {seconds}");
    }
}

/// Case O-PL-04.
#[test]
fn a_device_has_whole_heads_and_a_whole_latent_vector() {
    let gqa = heads(64, 8, 128);
    for (devices, bytes) in [(4, 65_536), (8, 32_768), (16, 32_768)] {
        assert_eq!(gqa.bytes_per_token_per_device(2, devices), bytes);
    }
    let latent = KvShape::Latent {
        layers: 61,
        values: 576,
    };
    assert_eq!(latent.bytes_per_token_per_device(2, 8), 70_272);
}

#[test]
fn the_catalogue_gives_the_published_kv_sizes() {
    let catalogue = Catalogue::builtin().unwrap();
    let values = [
        ("Qwen/Qwen3-0.6B", 57_344),
        ("Qwen/Qwen3-8B", 73_728),
        ("Qwen/Qwen3-32B", 131_072),
        ("meta-llama/Meta-Llama-3.1-70B", 163_840),
        ("deepseek-ai/DeepSeek-R1", 35_136),
    ];
    for (name, per_token) in values {
        let shape = catalogue.model(name).unwrap().kv_shape();
        assert_eq!(shape.bytes_per_token(1), per_token, "{name}");
    }
    assert!(catalogue.models.len() >= 10 && catalogue.accelerators.len() >= 8);
    assert!(catalogue.models.iter().all(|m| !m.source.is_empty()));
    assert!(catalogue.accelerators.iter().all(|a| !a.source.is_empty()));
}

#[test]
fn no_block_fits_beside_weights_that_fill_the_device() {
    let memory = KvMemory {
        device_bytes: 24 << 30,
        utilization: 0.9,
        weight_bytes: 30 << 30,
        other_bytes: 0,
    };
    assert_eq!(memory.blocks(131_072, 16), 0);
}

#[test]
fn arithmetic_hides_behind_the_weight_reads_until_it_outgrows_them() {
    let step = StepTime {
        weights_s: 0.010,
        compute_s: 0.0001,
        ..StepTime::default()
    };
    let at = |decodes| {
        step.seconds(&Batch {
            decodes,
            ..Batch::default()
        })
    };
    assert!((at(1) - 0.010).abs() < 1e-12);
    assert!((at(100) - 0.010).abs() < 1e-12);
    assert!((at(200) - 0.020).abs() < 1e-12);
}

#[test]
fn chunks_of_a_prompt_sum_to_its_attention_pairs() {
    let mut whole = Batch::default();
    whole.prefill(0, 1_000);
    let mut parts = Batch::default();
    for (before, tokens) in [(0, 300), (300, 512), (812, 188)] {
        parts.prefill(before, tokens);
    }
    assert_eq!(whole, parts);
    assert_eq!(whole.prefill_pairs, 500_500);
}

#[test]
fn the_closed_form_gives_the_published_limits() {
    let step = StepTime {
        overhead_s: 6.57e-3,
        sequence_s: 1.9e-5,
        context_s: 4.68e-8,
        prefill_s: 1.9e-5,
        ..StepTime::default()
    };
    // Log-normal lengths of mean 511 in and 127.7 out; the coefficients of variation that make the
    // published saturation of 62.85 requests per second.
    let demand = Demand {
        prefill_tokens: 511.0,
        prefill_pairs: 0.0,
        output_tokens: 127.7,
        context_tokens: 633.0,
    };
    let limit = step.saturation_rate(&demand).unwrap();
    assert!((limit - 62.85).abs() < 0.3, "{limit}");
    for (rate, millis) in [(20.0, 9.64), (40.0, 18.07), (48.0, 27.81)] {
        let tpot = step.tpot_at(&demand, rate).unwrap().as_secs_f64() * 1e3;
        assert!((tpot / millis - 1.0).abs() < 0.02, "{rate}: {tpot}");
    }
    assert_eq!(step.tpot_at(&demand, limit), None);
    let at_bound = step
        .rate_within(&demand, Duration::from_millis(50))
        .unwrap();
    assert!((step.tpot_at(&demand, at_bound).unwrap().as_secs_f64() - 0.050).abs() < 1e-6);
    assert_eq!(step.rate_within(&demand, Duration::from_millis(6)), None);
}

#[test]
fn demand_is_biased_to_long_answers() {
    let demand = Demand::of(&[(100, 10), (100, 90)]).unwrap();
    assert!((demand.output_tokens - 50.0).abs() < 1e-9);
    assert!((demand.context_tokens - (100.0 + 8_200.0 / 200.0)).abs() < 1e-9);
    assert_eq!(Demand::of(&[]), None);
}

#[test]
fn a_served_name_is_the_models_or_one_of_its_variants() {
    let catalogue = Catalogue::builtin().unwrap();
    let of = |id| catalogue.model_served_as(id).map(|m| m.name.as_str());
    for (id, name) in [
        ("Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-32B"),
        ("qwen3-32b", "Qwen/Qwen3-32B"),
        (
            "meta-llama/Llama-3.1-8B-Instruct",
            "meta-llama/Meta-Llama-3.1-8B",
        ),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen/Qwen3-30B-A3B"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-ai/DeepSeek-R1"),
        ("/models/Qwen3-8B-AWQ", "Qwen/Qwen3-8B"),
    ] {
        assert_eq!(of(id), Some(name), "{id}");
    }
    for id in [
        "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
        "Qwen/Qwen3-8B2",
        "Qwen/Qwen3",
        "default",
        "",
    ] {
        assert_eq!(of(id), None, "{id}");
    }
}

// 8.03 G parameters of two bytes at 3.35 TB/s: the 4.79 ms that the published TPOT of half the
// truth (3.47 ms) lies below, and the truth (6.9 ms) above.
#[test]
fn the_weights_read_bound_a_step_from_below() {
    let catalogue = Catalogue::builtin().unwrap();
    let llama = catalogue.model("meta-llama/Meta-Llama-3.1-8B").unwrap();
    let device = catalogue.accelerator("H100-SXM").unwrap();
    let floor = llama.weight_read_s(device, 1, 16);
    assert!((floor - 4.794e-3).abs() < 1e-6, "{floor}");
    assert!((llama.weight_read_s(device, 2, 8) - floor / 4.0).abs() < 1e-12);
    // Of a mixture of experts only what a token wakes is read.
    let moe = catalogue.model("Qwen/Qwen3-30B-A3B").unwrap();
    assert!((moe.weight_read_s(device, 1, 16) - 2.0017e-3).abs() < 1e-6);
}

fn everything() -> StepTime {
    StepTime {
        overhead_s: 2.2e-3,
        weights_s: 5e-3,
        compute_s: 3e-5,
        tile_tokens: 128,
        sequence_s: 9e-6,
        context_s: 3e-8,
        window: Some(Window {
            tokens: 128,
            context_s: 2e-8,
        }),
        prefill_s: 1e-6,
        pair_s: 1e-9,
        communication_s: 4e-4,
        communication_token_s: 1e-6,
        ..StepTime::default()
    }
}

#[test]
fn a_step_is_affine_in_its_contexts_and_its_rest_does_not_know_them() {
    let step = everything();
    let at = |contexts: &[u32]| {
        let mut batch = Batch::default();
        for &context in contexts {
            batch.decode(context, step.window_tokens());
        }
        batch.prefill(100, 200);
        batch
    };
    let (short, long) = (at(&[10, 100, 128]), at(&[4_000, 100, 127]));
    assert_eq!(
        step.fixed_seconds(&short).to_bits(),
        step.fixed_seconds(&long).to_bits()
    );
    assert_eq!((short.window_tokens, long.window_tokens), (238, 355));
    for batch in [short, long] {
        let context = 3e-8 * batch.context_tokens as f64 + 2e-8 * batch.window_tokens as f64;
        let whole = step.fixed_seconds(&batch) + context;
        assert!((step.seconds(&batch) - whole).abs() < 1e-15);
    }
    let slow = step.slowed(2.0);
    assert!((slow.seconds(&long) / step.seconds(&long) - 2.0).abs() < 1e-12);
}

#[test]
fn arithmetic_of_decoding_rises_by_whole_tiles() {
    let step = StepTime {
        compute_s: 1e-4,
        tile_tokens: 128,
        ..StepTime::default()
    };
    let at = |decodes| {
        step.seconds(&Batch {
            decodes,
            ..Batch::default()
        })
    };
    for (tokens, seconds) in [(1, 0.0128), (128, 0.0128), (129, 0.0256), (256, 0.0256)] {
        assert!((at(tokens) - seconds).abs() < 1e-12, "{tokens}");
    }
}

#[test]
fn a_draft_costs_a_wider_step_and_gains_a_geometric_sum() {
    let speculation = Speculation {
        draft_tokens: 3,
        acceptance: 0.5,
        draft_s: 1e-3,
    };
    assert!((speculation.tokens_per_step() - 1.875).abs() < 1e-12);
    let step = StepTime {
        compute_s: 1e-4,
        prefill_s: 1e-4,
        communication_token_s: 1e-5,
        speculation: Some(speculation),
        ..StepTime::default()
    };
    let mut batch = Batch::default();
    batch.prefill(0, 10);
    assert!((step.seconds(&batch) - 10.0 * 1.1e-4).abs() < 1e-12);
    for _ in 0..5 {
        batch.decode(100, step.window_tokens());
    }
    assert_eq!(step.model_tokens(&batch), 30);
    assert!((step.seconds(&batch) - 30.0 * 1.1e-4 - 3e-3).abs() < 1e-12);
    let sure = Speculation {
        acceptance: 1.0,
        ..speculation
    };
    assert!((sure.tokens_per_step() - 4.0).abs() < 1e-12);
}
