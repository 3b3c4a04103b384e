use super::*;
use crate::{Batch, Catalogue, Coefficient};

/// T(1) of Qwen3-8B in bf16 on one H100 was measured at 6.87 ms; Llama-70B in fp8 on two, 5000 tokens
/// in and 500 out, at 18.6 ms between tokens with one request in flight (NIM 1.8.0).
#[test]
fn first_principles_come_near_what_was_measured() {
    let catalogue = Catalogue::builtin().unwrap();
    let alone = |model, gpus, precision, context: u32| {
        let profile = Profile::from_catalogue(
            catalogue.model(model).unwrap(),
            catalogue.accelerator("H100-SXM").unwrap(),
            NonZeroU32::new(gpus).unwrap(),
            precision,
            &Assumptions::default(),
        );
        let mut batch = Batch::default();
        batch.decode(context, u32::MAX);
        profile.unwrap().step_time.seconds(&batch)
    };
    let small = alone("Qwen/Qwen3-8B", 1, Precision::Bf16, 500);
    assert!((small / 6.87e-3 - 1.0).abs() < 0.05, "{small}");
    let large = alone("meta-llama/Meta-Llama-3.1-70B", 2, Precision::Fp8, 5_250);
    assert!((large / 18.6e-3 - 1.0).abs() < 0.08, "{large}");
}

#[test]
fn what_cannot_be_served_so_is_refused_with_its_reason() {
    let catalogue = Catalogue::builtin().unwrap();
    let check = |model, device, gpus, precision, part: &str| {
        let refused = Profile::from_catalogue(
            catalogue.model(model).unwrap(),
            catalogue.accelerator(device).unwrap(),
            NonZeroU32::new(gpus).unwrap(),
            precision,
            &Assumptions::default(),
        );
        let told = refused.unwrap_err().to_string();
        assert!(told.contains(part), "{told}");
    };
    let large = "meta-llama/Meta-Llama-3.1-405B";
    check(large, "H100-SXM", 8, Precision::Bf16, "needs 103");
    check(
        large,
        "A100-SXM-80GB",
        8,
        Precision::Fp8,
        "no fp8 peak for A100",
    );
    check(
        large,
        "H100-SXM",
        5,
        Precision::Fp8,
        "128 attention heads and 8 KV heads",
    );
    check(large, "L4", 2, Precision::W4a16, "no link speed for L4");
    check(
        "Qwen/Qwen3-8B",
        "RTX-5090",
        1,
        Precision::Bf16,
        "no bf16 peak for RTX-5090",
    );
    let refused = Profile::from_catalogue(
        catalogue.model("Qwen/Qwen3-8B").unwrap(),
        catalogue.accelerator("H100-SXM").unwrap(),
        NonZeroU32::MIN,
        Precision::Bf16,
        &Assumptions {
            flops_share: 1.5,
            ..Assumptions::default()
        },
    );
    assert_eq!(
        refused.unwrap_err().to_string(),
        "flops_share of 1.5 is out of range"
    );
}

#[test]
fn every_model_of_the_catalogue_fits_some_devices_or_is_refused_for_a_reason() {
    let catalogue = Catalogue::builtin().unwrap();
    let device = catalogue.accelerator("B200-SXM").unwrap();
    for model in &catalogue.models {
        let sizes = [1, 2, 4, 8, 16].map(|n| NonZeroU32::new(n).unwrap());
        let served = sizes.into_iter().find_map(|gpus| {
            let assumed = Assumptions::default();
            Profile::from_catalogue(model, device, gpus, Precision::Fp8, &assumed).ok()
        });
        let profile = served.unwrap_or_else(|| panic!("{} fits nowhere", model.name));
        let again = Profile::parse("again.toml", &profile.to_toml());
        assert_eq!(again.as_ref(), Ok(&profile), "{}", model.name);
        for coefficient in Coefficient::ALL {
            let value = coefficient.of(&profile.step_time);
            assert!(
                value.is_none_or(|v| v.is_finite() && v >= 0.0),
                "{}",
                model.name
            );
        }
    }
}

#[test]
fn a_users_catalogue_adds_and_replaces_and_is_checked() {
    let mut catalogue = Catalogue::builtin().unwrap();
    let (devices, models) = (catalogue.accelerators.len(), catalogue.models.len());
    let text = "
[[accelerator]]
name = 'L4'
memory_bytes = 24_000_000_000
bandwidth_bytes_per_s = 300e9
bf16_flops = 121e12
link_bytes_per_s = 16e9
source = 'our rack'

[[model]]
name = 'ours/tiny'
layers = 2
hidden = 64
heads = 4
kv_heads = 2
parameters = 1000
active_parameters = 1000
context_limit = 1024
source = 'our config'
";
    catalogue.with("mine.toml", text).unwrap();
    assert_eq!(
        (catalogue.accelerators.len(), catalogue.models.len()),
        (devices, models + 1)
    );
    assert_eq!(
        catalogue.accelerator("L4").unwrap().link_bytes_per_s,
        Some(16e9)
    );
    let before = catalogue.clone();
    for (from, to, part) in [
        ("kv_heads = 2", "kv_heads = 0", "`ours/tiny` cannot be"),
        ("300e9", "-300e9", "a speed is not a number above 0"),
        (
            "active_parameters = 1000",
            "active_parameters = 1001",
            "between 1 and parameters",
        ),
        (
            "layers = 2",
            "layers = 2\nwindow_layers = 3\nwindow_tokens = 8",
            "window_layers some",
        ),
        ("layers = 2", "layers = 2\nexperts = 8", "come together"),
        ("source = 'our rack'", "", "missing field `source`"),
    ] {
        let text = text.replacen(from, to, 1);
        let refused = catalogue.with("mine.toml", &text).unwrap_err();
        let told = refused.render("mine.toml", &text, false);
        assert!(told.contains(part), "{part} in\n{told}");
        assert_eq!(catalogue, before);
    }
}
