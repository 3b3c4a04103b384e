//! Engine profiles computed from the catalogue: `MODEL@DEVICE`, as any `--profile` takes them.

use std::{num::NonZeroU32, path::Path};

use goodput_perf_model::{Accelerator, Assumptions, Catalogue, ModelConfig, Precision, Profile};

use crate::{exit::Failure, talk::Voice, text::read_text};

/// How such a profile is named.
pub(crate) const FORM: &str = "MODEL@[COUNTx]DEVICE[:PRECISION][+FILE]";

/// The profile that `MODEL@[COUNTx]DEVICE[:PRECISION][+FILE]` names: the model on so many devices
/// (default 1) in a precision (default: that of the published weights, else bf16), from the built-in
/// catalogue and a file of the user's own. `None` where the text is no such name.
pub(crate) fn derived(name: &str, voice: Voice) -> Option<Result<Profile, Failure>> {
    let (model, rest) = name.split_once('@')?;
    Some(of(model, rest, voice))
}

fn of(model: &str, rest: &str, voice: Voice) -> Result<Profile, Failure> {
    let (rest, file) = match rest.split_once('+') {
        Some((rest, file)) => (rest, Some(Path::new(file))),
        None => (rest, None),
    };
    let (device, precision) = match rest.split_once(':') {
        Some((device, precision)) => (device, Some(precision)),
        None => (rest, None),
    };
    let (gpus, device) = counted(device)?;
    let catalogue = catalogue(file, voice)?;
    let model = model_of(&catalogue, model)?;
    let device = device_of(&catalogue, device)?;
    let precision = precision_of(precision, model)?;
    Profile::from_catalogue(model, device, gpus, precision, &Assumptions::default())
        .map_err(|error| Failure::usage(error.to_string()).hint(error.hint()))
}

/// `2xH100-SXM` is two of them, `H100-SXM` one.
fn counted(text: &str) -> Result<(NonZeroU32, &str), Failure> {
    let counted = text.split_once('x').filter(|(count, _)| {
        !count.is_empty() && count.bytes().all(|digit| digit.is_ascii_digit())
    });
    let Some((count, device)) = counted else {
        return Ok((NonZeroU32::MIN, text));
    };
    let count = count.parse().map_err(|_| {
        Failure::usage(format!("{count} is no number of devices")).hint("e.g. 2xH100-SXM")
    })?;
    Ok((count, device))
}

fn catalogue(file: Option<&Path>, voice: Voice) -> Result<Catalogue, Failure> {
    let mut catalogue =
        Catalogue::builtin().map_err(|_| Failure::untrusted("the built-in catalogue is broken"))?;
    if let Some(path) = file {
        let name = path.display().to_string();
        let text = read_text("the catalogue", path)?;
        let added = catalogue.with(&name, &text);
        added.map_err(|e| Failure::usage(e.render(&name, &text, voice.color_err)))?;
    }
    Ok(catalogue)
}

fn model_of<'a>(catalogue: &'a Catalogue, name: &str) -> Result<&'a ModelConfig, Failure> {
    let short = |model: &&ModelConfig| {
        let short = model.name.rsplit('/').next();
        short.is_some_and(|short| short.eq_ignore_ascii_case(name))
    };
    let found = catalogue.model(name);
    let found = found.or_else(|| catalogue.models.iter().find(short));
    found
        .or_else(|| catalogue.model_served_as(name))
        .ok_or_else(|| {
            let known = catalogue.models.iter().map(|model| model.name.as_str());
            unknown("model", name, &known.collect::<Vec<_>>())
        })
}

fn device_of<'a>(catalogue: &'a Catalogue, name: &str) -> Result<&'a Accelerator, Failure> {
    let devices = &catalogue.accelerators;
    let found = devices.iter().find(|d| d.name.eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        let known = devices.iter().map(|device| device.name.as_str());
        unknown("accelerator", name, &known.collect::<Vec<_>>())
    })
}

fn unknown(what: &str, name: &str, known: &[&str]) -> Failure {
    let failure = Failure::usage(format!("there is no {what} `{name}` in the catalogue"));
    match goodput_config::suggest(name, known) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure.hint(format!(
            "known: {}; +FILE adds a catalogue of your own",
            known.join(", ")
        )),
    }
}

fn precision_of(named: Option<&str>, model: &ModelConfig) -> Result<Precision, Failure> {
    const KNOWN: &str = "bf16, fp8, fp4, w8a16, w4a16";
    match (named, model.weight_bits) {
        (Some(name), _) => Precision::named(name).ok_or_else(|| {
            Failure::usage(format!("there is no precision `{name}`"))
                .hint(format!("known: {KNOWN}"))
        }),
        (None, None | Some(16)) => Ok(Precision::Bf16),
        (None, Some(8)) => Ok(Precision::Fp8),
        // Four bits are an arithmetic on some devices, and only a form of the weights on others.
        (None, Some(bits)) => Err(Failure::usage(format!(
            "{} has weights of {bits} bits, and how the device computes with them is not said",
            model.name
        ))
        .hint(format!("add :PRECISION, one of {KNOWN}"))),
    }
}
