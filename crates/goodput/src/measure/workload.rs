//! Reading of workloads, and what a result says of them.

use std::path::Path;

use goodput_slo::{LengthPercentiles, Slo, WorkloadStatement};
use goodput_stats::whole_u32;
use goodput_sweep::WorkloadFacts;
use goodput_workload::{KeyOfNames, WorkloadSpec};

use crate::{
    exit::Failure,
    flags::{AskFlags, Format, TraceFlags},
    slo::has_extension,
    talk::Voice,
    text::read_text,
    trace,
};

/// The workload of this preset or file; a recorded trace is a workload too.
pub(crate) fn load(name: &str, voice: Voice) -> Result<WorkloadSpec, Failure> {
    let path = Path::new(name);
    if has_extension(path, "toml") {
        let text = read_text("the workload", path)?;
        return WorkloadSpec::parse(name, &text)
            .map_err(|e| Failure::usage(e.render(name, &text, voice.color_err)));
    }
    if path.is_file() {
        return from_trace(path, voice);
    }
    WorkloadSpec::preset(name)
        .map_err(|e| Failure::usage(e.render("--workload", name, voice.color_err)))
}

/// The workload that a recorded trace is: its arrivals, lengths, prefixes and sessions.
fn from_trace(path: &Path, voice: Voice) -> Result<WorkloadSpec, Failure> {
    let flags = TraceFlags {
        file: path.to_owned(),
        form: None,
        skip_broken: false,
        format: Format::Human,
    };
    let name = path
        .file_stem()
        .map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let text = trace::read(&flags, voice)?.convert(&name, KeyOfNames([0, 0]));
    WorkloadSpec::parse(&name, &text)
        .map_err(|e| Failure::usage(e.render(&name, &text, voice.color_err)))
}

/// The workload to use: the one asked for, else the SLO's own; for a first look, as on the emulated
/// replica, a `short` one, so that it takes minutes.
pub(crate) fn choose(
    asked: Option<&str>,
    slo: &Slo,
    short: bool,
    voice: Voice,
) -> Result<WorkloadSpec, Failure> {
    if let Some(name) = asked {
        return load(name, voice);
    }
    if short {
        return load("chat-short", voice);
    }
    let own = slo.workload().and_then(|w| w.preset.as_deref());
    load(own.unwrap_or("azure-conversation"), voice)
}

/// In what a workload differs from what the SLO says of its own.
fn disagreements(slo: &Slo, spec: &WorkloadSpec) -> Vec<String> {
    let Some(stated) = slo.workload() else {
        return Vec::new();
    };
    let facts = spec.describe();
    let three = |p: &goodput_workload::Percentiles| {
        let [p50, p90, p99] = [p.p50, p.p90, p.p99].map(whole_u32);
        LengthPercentiles::of(p50, p90, p99)
    };
    stated.differences(&WorkloadStatement {
        preset: Some(spec.name().to_owned()),
        input_tokens: Some(three(&facts.input_tokens)),
        output_tokens: Some(three(&facts.output_tokens)),
        cached_share: Some(facts.reusable_share),
        ..WorkloadStatement::default()
    })
}

/// Warns where an SLO and the workload disagree; with `--strict` that is an error. `short`: whether
/// a short workload stands in for the SLO's own.
pub(crate) fn agree(
    slos: &[Slo],
    spec: &WorkloadSpec,
    flags: &AskFlags,
    short: bool,
    voice: Voice,
) -> Result<(), Failure> {
    let differences: Vec<String> = slos
        .iter()
        .flat_map(|slo| disagreements(slo, spec))
        .collect();
    let Some(first) = differences.first() else {
        return Ok(());
    };
    if flags.workload.is_none() && short {
        voice.say(&format!(
            "note: the workload is {}, short for a first look, not the SLO's own; --workload names another",
            spec.name()
        ));
        return Ok(());
    }
    if flags.strict {
        return Err(
            Failure::usage(format!("SLO and workload disagree: {first}"))
                .hint("state the workload in the SLO file, or leave --strict out"),
        );
    }
    for difference in &differences {
        voice.say(&format!("warning: SLO and workload disagree: {difference}"));
    }
    Ok(())
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
