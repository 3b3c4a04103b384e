//! The hardware behind the endpoint, as far as it bounds a decode step from below.

use goodput_perf_model::{Accelerator, Catalogue, Profile};
use goodput_sweep::HardwareFacts;

use crate::{exit::Failure, flags::RunFlags};

/// Words of a model's name that tell the bits of its weights.
const NAMED_BITS: [(&str, u32); 12] = [
    ("fp8", 8),
    ("int8", 8),
    ("w8a8", 8),
    ("w8a16", 8),
    ("fp4", 4),
    ("int4", 4),
    ("w4a16", 4),
    ("awq", 4),
    ("gptq", 4),
    ("4bit", 4),
    ("bf16", 16),
    ("fp16", 16),
];

/// Refuses a device that is not known or not counted, before anything is started.
pub(crate) fn check(flags: &RunFlags) -> Result<(), Failure> {
    let Some(name) = &flags.accelerator else {
        return Ok(());
    };
    if flags.server.url.is_none() {
        return Err(
            Failure::usage("--accelerator names real hardware, and there is no --url")
                .hint("the emulated replica's hardware is that of its --profile"),
        );
    }
    if flags.ask.gpus.is_none() {
        return Err(
            Failure::usage("--accelerator names a device, not how many there are")
                .hint("say so with --gpus N"),
        );
    }
    device(&catalogue()?, name).map(drop)
}

/// Names and figures of all devices, for `--accelerator list`.
pub(crate) fn list() -> Result<String, Failure> {
    let rows: Vec<String> = catalogue()?
        .accelerators
        .iter()
        .map(|device| {
            format!(
                "{:<20} {:>6.0} GB/s   {}",
                device.name,
                device.bandwidth_bytes_per_s / 1e9,
                device.source
            )
        })
        .collect();
    Ok(rows.join("\n"))
}

/// What is known of the hardware behind a server of `model`. A note says why nothing is, where an
/// accelerator was named.
pub(crate) fn named(
    flags: &RunFlags,
    model: &str,
) -> Result<(Option<HardwareFacts>, Option<String>), Failure> {
    let Some(name) = &flags.accelerator else {
        return Ok((None, None));
    };
    let catalogue = catalogue()?;
    let device = device(&catalogue, name)?;
    let Some(config) = catalogue.model_served_as(model) else {
        let note = format!(
            "the catalogue has no model `{}`: TPOT is not checked against {name}",
            goodput_protocol::one_line(model)
        );
        return Ok((None, Some(note)));
    };
    let count = flags.ask.gpus.unwrap_or(1);
    let told = flags.weight_bits.or_else(|| bits_in(model));
    let bits = told.or(config.weight_bits).unwrap_or(16);
    let facts = HardwareFacts {
        accelerator: device.name.clone(),
        count,
        weight_bits: bits,
        bits_known: told.is_some(),
        weight_read_ms: 1e3 * config.weight_read_s(device, count, bits),
        source: device.source.clone(),
    };
    Ok((Some(facts), None))
}

/// The same of an emulated replica. A profile without a real GPU has none, and what a mixture of
/// experts reads is not its profile's whole weight.
pub(crate) fn emulated(profile: &Profile) -> Option<HardwareFacts> {
    if profile.step_time.experts.is_some() {
        return None;
    }
    Some(HardwareFacts {
        accelerator: profile.gpu.clone(),
        count: profile.gpus.get(),
        weight_bits: bits_in(&profile.precision)?,
        bits_known: true,
        weight_read_ms: 1e3 * profile.weight_floor_s()?,
        source: format!("profile {}", profile.name),
    })
}

fn bits_in(name: &str) -> Option<u32> {
    let name = name.to_ascii_lowercase();
    let found = NAMED_BITS.iter().find(|(word, _)| name.contains(word));
    found.map(|&(_, bits)| bits)
}

fn catalogue() -> Result<Catalogue, Failure> {
    Catalogue::builtin()
        .map_err(|_| Failure::untrusted("the built-in catalogue of accelerators is broken"))
}

fn device<'a>(catalogue: &'a Catalogue, name: &str) -> Result<&'a Accelerator, Failure> {
    let named = |device: &&Accelerator| device.name.eq_ignore_ascii_case(name);
    if let Some(device) = catalogue.accelerators.iter().find(named) {
        return Ok(device);
    }
    let known: Vec<&str> = catalogue
        .accelerators
        .iter()
        .map(|device| device.name.as_str())
        .collect();
    let failure = Failure::usage(format!("there is no accelerator `{name}` in the catalogue"));
    Err(match goodput_config::suggest(name, &known) {
        Some(near) => failure.hint(format!(
            "did you mean `{near}`? --accelerator list prints all"
        )),
        None => failure.hint(format!("known: {}", known.join(", "))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_read_from_names() {
        for (name, bits) in [
            ("Qwen/Qwen3-32B-FP8", Some(8)),
            ("nvidia/Llama-3.1-70B-Instruct-NVFP4", Some(4)),
            ("Qwen3-8B-AWQ", Some(4)),
            ("Qwen/Qwen3-8B", None),
            ("bf16", Some(16)),
        ] {
            assert_eq!(bits_in(name), bits, "{name}");
        }
    }

    #[test]
    fn profiles_of_real_gpus_have_a_floor_below_their_own_steps() {
        let mut checked = 0;
        for name in Profile::builtin_names() {
            let profile = Profile::builtin(name).unwrap();
            let Some(facts) = emulated(&profile) else {
                continue;
            };
            let step = profile.step_time.overhead_s + profile.step_time.weights_s;
            assert!(facts.weight_read_ms < step * 1e3, "{name}");
            checked += 1;
        }
        assert!(checked >= 4);
    }
}
