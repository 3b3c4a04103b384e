//! Reading of workloads, and what a result says of them.

use std::{fs, path::Path};

use goodput_slo::{LengthPercentiles, Slo};
use goodput_sweep::WorkloadFacts;
use goodput_workload::WorkloadSpec;

use crate::{exit::Failure, slo::has_extension, talk::Voice};

/// How far a length percentile may lie from the SLO's statement before it is another workload.
const LENGTHS_APART: f64 = 0.25;
/// The same for the cached share, in points of share.
const CACHE_APART: f64 = 0.1;

/// The workload of this preset or file.
pub(crate) fn load(name: &str, voice: Voice) -> Result<WorkloadSpec, Failure> {
    let path = Path::new(name);
    if path.is_file() || has_extension(path, "toml") {
        let text = fs::read_to_string(path)
            .map_err(|e| Failure::usage(format!("cannot read the workload {name}: {e}")))?;
        return WorkloadSpec::parse(name, &text)
            .map_err(|e| Failure::usage(e.render(name, &text, voice.color_err)));
    }
    WorkloadSpec::preset(name)
        .map_err(|e| Failure::usage(e.render("--workload", name, voice.color_err)))
}

/// The workload to use: the one asked for, else the SLO's own; on the emulated replica a short one,
/// so that a first look takes minutes.
pub(crate) fn choose(asked: Option<&str>, slo: &Slo, emulated: bool, voice: Voice) -> Result<WorkloadSpec, Failure> {
    if let Some(name) = asked {
        return load(name, voice);
    }
    if emulated {
        return load("chat-short", voice);
    }
    let own = slo.workload().and_then(|w| w.preset.as_deref());
    load(own.unwrap_or("azure-conversation"), voice)
}

/// In what a workload differs from what the SLO says of its own.
pub(crate) fn disagreements(slo: &Slo, facts: &goodput_workload::WorkloadFacts) -> Vec<String> {
    let Some(stated) = slo.workload() else { return Vec::new() };
    let mut found = Vec::new();
    let mut lengths = |what: &str, stated: Option<&LengthPercentiles>, has: &goodput_workload::Percentiles| {
        let Some(stated) = stated else { return };
        let pairs = [("p50", Some(stated.p50), has.p50), ("p90", stated.p90, has.p90), ("p99", stated.p99, has.p99)];
        for (name, stated, has) in pairs {
            if let Some(stated) = stated.map(f64::from)
                && (has - stated).abs() > LENGTHS_APART * stated
            {
                found.push(format!("{what} {name} is {has:.0} tokens, the SLO `{}` is for {stated:.0}", slo.name()));
            }
        }
    };
    lengths("input", stated.input_tokens.as_ref(), &facts.input_tokens);
    lengths("output", stated.output_tokens.as_ref(), &facts.output_tokens);
    if let Some(share) = stated.cached_share
        && (facts.reusable_share - share).abs() > CACHE_APART
    {
        found.push(format!(
            "{:.0}% of input can come from cache, the SLO `{}` is for {:.0}%",
            100.0 * facts.reusable_share,
            slo.name(),
            100.0 * share
        ));
    }
    found
}

/// What the result says of the workload.
pub(crate) fn facts(spec: &WorkloadSpec, counted_by: &str) -> WorkloadFacts {
    let facts = spec.describe();
    let three = |p: &goodput_workload::Percentiles| [p.p50, p.p90, p.p99];
    WorkloadFacts {
        name: facts.name.clone(),
        source: facts.source.clone(),
        input: three(&facts.input_tokens),
        output: three(&facts.output_tokens),
        cached_share: facts.reusable_share,
        arrivals: facts.arrivals.clone(),
        output_policy: facts.output_policy.clone(),
        prompts: match spec.text() {
            goodput_workload::TextSource::Prose => "built-in natural prose".to_owned(),
            goodput_workload::TextSource::File(name) => format!("text of {name}"),
        },
        counted_by: counted_by.to_owned(),
    }
}
