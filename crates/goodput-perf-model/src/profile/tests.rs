use super::*;
use crate::{
    Assumptions, Catalogue, Coefficient, CoefficientInterval, Experts, Extent, KvMemory, Precision,
    Speculation, StepTime, Window,
};

#[test]
fn every_builtin_profile_can_be_read_and_bears_its_name() {
    for (name, text) in BUILTIN {
        let profile = Profile::parse(name, text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(profile.name, name);
        assert_eq!(Profile::builtin(name), Some(profile));
    }
    assert_eq!(Profile::builtin("gpt-9"), None);
    assert_eq!(Profile::builtin_names().next(), Some("laptop"));
}

#[test]
fn every_builtin_profile_of_a_real_gpu_agrees_with_the_catalogue() {
    let catalogue = Catalogue::builtin().unwrap();
    let real = BUILTIN.iter().filter_map(|(name, _)| {
        let profile = Profile::builtin(name)?;
        (profile.weight_bytes.is_some()).then_some(profile)
    });
    for profile in real {
        let gpu = catalogue.accelerator(&profile.gpu).unwrap();
        let bandwidth = gpu.bandwidth_bytes_per_s * f64::from(profile.gpus.get());
        assert_eq!(
            profile.bandwidth_bytes_per_s,
            Some(bandwidth),
            "{}",
            profile.name
        );
        let floor = profile.weight_floor_s().unwrap();
        let time = &profile.step_time;
        let reads = time.weights_s + time.experts.map_or(0.0, |e| e.read_s);
        assert!(reads > 0.995 * floor, "{}: {reads} < {floor}", profile.name);
    }
}

#[test]
fn kv_blocks_are_what_is_left_beside_the_weights() {
    let catalogue = Catalogue::builtin().unwrap();
    let check = |name, model, utilization, other_gib: u64, kv_bytes| {
        let profile = Profile::builtin(name).unwrap();
        let model = catalogue.model(model).unwrap();
        let gpus = profile.gpus.get();
        let memory = KvMemory {
            device_bytes: catalogue.accelerator(&profile.gpu).unwrap().memory_bytes,
            utilization,
            weight_bytes: profile.weight_bytes.unwrap() / u64::from(gpus),
            other_bytes: other_gib << 30,
        };
        let token = model.kv_shape().bytes_per_token_per_device(kv_bytes, gpus);
        assert_eq!(memory.blocks(token, 16), profile.kv_blocks, "{name}");
    };
    check("qwen3-8b-h100", "Qwen/Qwen3-8B", 0.9, 2, 2);
    check("qwen3-8b-h100-shared", "Qwen/Qwen3-8B", 0.35, 2, 2);
    check(
        "llama-3.1-8b-h200",
        "meta-llama/Meta-Llama-3.1-8B",
        0.9,
        2,
        2,
    );
    check("qwen3-32b-fp8-h200", "Qwen/Qwen3-32B", 0.9, 3, 2);
    check(
        "llama-3.3-70b-fp8-2xh100",
        "meta-llama/Meta-Llama-3.1-70B",
        0.9,
        4,
        1,
    );
    check("qwen3-30b-a3b-h100", "Qwen/Qwen3-30B-A3B", 0.9, 2, 2);
}

#[test]
fn a_profile_says_all_that_is_wrong_with_it() {
    let text = BUILTIN[0].1;
    let text = text.replace("overhead_us = 1000", "overhead_us = -1");
    let text = text.replace("weights_us = 3000", "weights_us = nan");
    let text = text.replace("chunked_prefill = true", "chunked_prefill = false");
    let text = text.replace("kv_blocks", "kv_block");
    let refused = Profile::parse("mine.toml", &text).unwrap_err();
    let told = refused.render("mine.toml", &text, false);
    for part in ["did you mean `kv_blocks`?", "mine.toml"] {
        assert!(told.contains(part), "{part} in\n{told}");
    }
    let text = text.replace("kv_block ", "kv_blocks ");
    let refused = Profile::parse("mine.toml", &text).unwrap_err();
    assert_eq!(refused.problems.len(), 3, "{refused}");
}

/// A profile with every part a file can have, none of its numbers round.
fn odd() -> Profile {
    let third = 1.0 / 3.0;
    let laptop = Profile::builtin("laptop").unwrap();
    Profile {
        source: "two lines\nwith \"quotes\" and a \\".to_owned(),
        weight_bytes: Some(7),
        bandwidth_bytes_per_s: Some(third * 1e12),
        ingest_s: 15_600.0 * 1e-6,
        template_tokens: 24,
        step_time: StepTime {
            overhead_s: third * 1e-3,
            weights_s: 0.0,
            experts: Some(Experts {
                count: 128,
                per_token: 8,
                read_s: third * 1e-2,
            }),
            compute_s: third * 1e-5,
            tile_tokens: 128,
            sequence_s: 11.3 * 1e-6,
            context_s: third * 1e-8,
            window: Some(Window {
                tokens: 128,
                context_s: third * 1e-9,
            }),
            prefill_s: 19.0 * 1e-6,
            pair_s: 1.84 * 1e-9,
            communication_s: third * 1e-3,
            communication_token_s: third * 1e-6,
            speculation: Some(Speculation {
                draft_tokens: 3,
                acceptance: third,
                draft_s: 0.0,
            }),
        },
        intervals: vec![
            CoefficientInterval {
                coefficient: Coefficient::Overhead,
                low_s: third * 0.9e-3,
                high_s: third * 1.1e-3,
            },
            CoefficientInterval {
                coefficient: Coefficient::Pair,
                low_s: 0.0,
                high_s: third * 1e-8,
            },
        ],
        fitted_on: Some(FittedOn {
            decodes: Some(Extent {
                min: 1.0,
                max: 63.5,
            }),
            rate_req_s: Some(Extent {
                min: third,
                max: 2.0,
            }),
            ..FittedOn::default()
        }),
        ..laptop
    }
}

#[test]
fn a_profile_that_is_written_is_read_back_to_the_same_bits() {
    let catalogue = Catalogue::builtin().unwrap();
    let builtin = Profile::builtin_names().filter_map(Profile::builtin);
    let derived = Profile::from_catalogue(
        catalogue.model("openai/gpt-oss-120b").unwrap(),
        catalogue.accelerator("H100-SXM").unwrap(),
        NonZeroU32::new(2).unwrap(),
        Precision::W4a16,
        &Assumptions::default(),
    );
    for profile in builtin.chain([odd(), derived.unwrap()]) {
        let text = profile.to_toml();
        let again = Profile::parse("again.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(again, profile, "{text}");
    }
    let readable = Profile::builtin("qwen3-8b-h100").unwrap().to_toml();
    assert!(readable.contains("us_per_sequence = 11.3\n"), "{readable}");
}

proptest::proptest! {
    #[test]
    fn no_coefficient_loses_a_bit_in_a_file(values in proptest::array::uniform4(0.0..1.0_f64)) {
        let mut profile = Profile::builtin("laptop").unwrap();
        profile.step_time.overhead_s = values[0];
        profile.step_time.context_s = values[1] * 1e-7;
        profile.step_time.prefill_s = values[2] * 1e-4;
        profile.step_time.pair_s = values[3] * 1e-9;
        let again = Profile::parse("again.toml", &profile.to_toml()).unwrap();
        proptest::prop_assert_eq!(again, profile);
    }
}

#[test]
fn a_profile_is_refused_where_the_fault_is() {
    let text = Profile::to_toml(&odd());
    let check = |from: &str, to: &str, parts: &[&str]| {
        assert!(text.contains(from), "{from} in\n{text}");
        let text = text.replace(from, to);
        let refused = Profile::parse("mine.toml", &text).unwrap_err();
        let told = refused.render("mine.toml", &text, false);
        for part in parts {
            assert!(told.contains(part), "{part} in\n{told}");
        }
    };
    check(
        "weights_us = 0.0\n",
        "",
        &["`weights_us` is missing", "[step_time]"],
    );
    check(
        "us_per_sequence = 11.3",
        "us_per_sequence = 11.3\nsequence_s = 1e-5",
        &["twice"],
    );
    check(
        "prefill_token = 19",
        "prefill_token = -19",
        &["-19", "0 or more"],
    );
    check(
        "prefill_pair = 1.84",
        "prefill_pair = nan",
        &["a step cannot take NaN"],
    );
    check(
        "ingest_us = 15600.0",
        "ingest_us = -1.0",
        &["ingest_us = -1.0"],
    );
    check(
        "draft_tokens = 3",
        "draft_tokens = 0",
        &["draft_tokens = 0"],
    );
    check(
        "acceptance = 0.3333333333333333",
        "acceptance = 1.5",
        &["1.5", "from 0 to 1"],
    );
    check(
        "pair_s = [",
        "pairs_s = [",
        &["no coefficient `pairs_s`", "did you mean `pair_s`?"],
    );
    check("63.5", "0.5", &["1 to 0.5 is no range"]);
}

#[test]
fn knobs_change_one_number() {
    let mut profile = Profile::builtin("qwen3-8b-h100").unwrap();
    let before = profile.clone();
    for set in [
        "max_num_seqs=128",
        "engine.max_num_batched_tokens = 2048",
        "kv_blocks=x0.5",
        "chunked_prefill=true",
        "prefix-cache=off",
        "step_time.prefill_s=x2",
        "sequence_s=9.5us",
        "step_time.context_s=30.5ns",
        "ingest_s=0.0156",
        "template_tokens=11",
        "speculation=3,0.7",
        "speculation.acceptance=0.8",
    ] {
        profile.with(set).unwrap_or_else(|e| panic!("{set}: {e}"));
    }
    let speculation = Speculation {
        draft_tokens: 3,
        acceptance: 0.8,
        draft_s: 0.0,
    };
    let expected = Profile {
        max_num_seqs: NonZeroU32::new(128).unwrap(),
        max_batched_tokens: NonZeroU32::new(2048).unwrap(),
        kv_blocks: before.kv_blocks / 2,
        prefix_cache: false,
        ingest_s: 0.0156,
        template_tokens: 11,
        step_time: StepTime {
            prefill_s: before.step_time.prefill_s * 2.0,
            sequence_s: profile.step_time.sequence_s,
            context_s: 30.5 * 1e-9,
            speculation: Some(speculation),
            ..before.step_time
        },
        ..before
    };
    assert_eq!(profile, expected);
    assert!((profile.step_time.sequence_s - 9.5e-6).abs() < 1e-12);
    profile.with("chunked_prefill=false").unwrap();
    assert!(profile.check().is_err());
}

#[test]
fn a_knob_that_cannot_be_set_is_refused_and_changes_nothing() {
    let mut profile = Profile::builtin("laptop").unwrap();
    let before = profile.clone();
    for (set, part) in [
        ("max_num_seq=2", "did you mean `max_num_seqs`?"),
        ("max_num_seqs", "sets nothing"),
        ("max_num_seqs=0", "too small"),
        ("max_num_seqs=1.5", "no whole number"),
        ("max_num_seqs=many", "no number"),
        ("prefill_s=-1us", "below zero"),
        ("prefill_s=-1", "negative"),
        ("prefill_s=inf", "no number"),
        ("chunked_prefill=maybe", "neither"),
        ("experts_read_s=1", "has no"),
        ("window_tokens=1", "has no"),
        ("acceptance=0.5", "speculation=3,0.7"),
        ("speculation=3", "acceptance"),
        ("speculation=3,1.5", "no share"),
        ("gpus=2", "fitted or written by hand"),
    ] {
        let told = profile.with(set).unwrap_err().to_string();
        assert!(told.contains(part), "{set}: {told}");
        assert_eq!(profile, before, "{set}");
    }
}

#[test]
fn devices_are_a_knob_of_a_computed_profile_only_while_it_is_as_computed() {
    let catalogue = Catalogue::builtin().unwrap();
    let on = |gpus| {
        Profile::from_catalogue(
            catalogue.model("meta-llama/Meta-Llama-3.1-70B").unwrap(),
            catalogue.accelerator("H100-SXM").unwrap(),
            NonZeroU32::new(gpus).unwrap(),
            Precision::Fp8,
            &Assumptions::default(),
        )
    };
    let mut profile = on(2).unwrap();
    profile.with("max_num_seqs=64").unwrap();
    profile.scheduler = Scheduler::Slots { unified_kv: true };
    profile.with("gpus=4").unwrap();
    assert_eq!(profile.scheduler, Scheduler::Slots { unified_kv: true });
    let four = on(4).unwrap();
    assert_eq!(profile.step_time, four.step_time);
    assert_eq!(profile.kv_blocks, four.kv_blocks);
    assert_eq!(profile.max_num_seqs.get(), 64);
    let mut again = Profile::parse("p.toml", &profile.to_toml()).unwrap();
    again.with("gpus=8").unwrap();
    let told = again.with("gpus=3").unwrap_err().to_string();
    assert!(
        told.contains("split over 3") && told.contains("hint"),
        "{told}"
    );
    again.with("memory_utilization=0.5").unwrap();
    assert!(again.kv_blocks < on(8).unwrap().kv_blocks);
    let before = again.step_time.weights_s;
    again.with("bandwidth_share=x0.5").unwrap();
    assert!((again.step_time.weights_s / before - 2.0).abs() < 1e-9);
    again.with("kv_value_bytes=1").unwrap();
    assert!(again.kv_blocks > on(8).unwrap().kv_blocks / 2);
    for refused in [
        "flops_share=1.5",
        "other_bytes=-1",
        "all_reduce_s=-1",
        "attention_share=nan",
    ] {
        let same = again.clone();
        assert!(again.with(refused).is_err(), "{refused}");
        assert_eq!(again, same);
    }
    again.with("kv_blocks=1000").unwrap();
    let told = again.with("gpus=2").unwrap_err().to_string();
    assert!(told.contains("were changed since"), "{told}");
}

#[test]
fn a_profile_names_its_scheduler() {
    let text = BUILTIN[0].1;
    let slots = text.replace(
        "[engine]",
        "[engine]\nscheduler = \"slots\"\nunified_kv = true",
    );
    let unified = Scheduler::Slots { unified_kv: true };
    let mut profile = Profile::parse("mine.toml", &slots).unwrap();
    assert_eq!(profile.scheduler, unified);
    let written = profile.to_toml();
    assert_eq!(Profile::parse("mine.toml", &written), Ok(profile.clone()));
    profile.with("unified_kv=false").unwrap();
    assert_eq!(profile.scheduler, Scheduler::Slots { unified_kv: false });
    profile.with("scheduler=continuous").unwrap();
    assert!(profile.with("unified_kv=true").is_err());
    assert!(profile.with("scheduler=fifo").is_err());
    let laptop = Profile::parse("laptop.toml", text).unwrap();
    assert!(!laptop.to_toml().contains("scheduler"));
    let alone = text.replace("[engine]", "[engine]\nunified_kv = true");
    let refused = Profile::parse("mine.toml", &alone).unwrap_err();
    let told = refused.render("mine.toml", &alone, false);
    assert!(told.contains("only slots"), "{told}");
}
