//! `goodput slo`, and the reading of SLOs for every other verb.

use std::path::Path;

use goodput_config::Severity;
use goodput_slo::{Slo, SloFile, presets as all_presets, presets_table};

use crate::{
    exit::{Exit, Failure},
    flags::Format,
    print,
    talk::Voice,
    text::read_text,
};

/// Reads what `--slo` names: a file, a preset, or clauses. Several SLOs are tiers.
pub(crate) fn load(arguments: &[String], voice: Voice) -> Result<Vec<Slo>, Failure> {
    let mut slos = Vec::new();
    for argument in arguments {
        slos.extend(load_one(argument, voice)?);
    }
    let mut names: Vec<&str> = slos.iter().map(Slo::name).collect();
    names.sort_unstable();
    let mut neighbours = names.iter().zip(names.iter().skip(1));
    if let Some((twice, _)) = neighbours.find(|(a, b)| a == b) {
        return Err(Failure::usage(format!("two SLOs are called `{twice}`"))
            .hint("give each tier a name of its own"));
    }
    Ok(slos)
}

fn load_one(argument: &str, voice: Voice) -> Result<Vec<Slo>, Failure> {
    let path = Path::new(argument);
    let is_file = path.is_file() || has_extension(path, "toml");
    if !is_file {
        return Slo::from_argument(argument)
            .map(|slo| vec![slo])
            .map_err(|e| Failure::usage(e.render("--slo", argument, voice.color_err)));
    }
    let text = read_text("the SLO file", path)?;
    let file = SloFile::check(argument, &text)
        .map_err(|e| Failure::usage(e.render(argument, &text, voice.color_err)))?;
    for warning in &file.warnings {
        voice.say(&warning.render(argument, &text, Severity::Warning, voice.color_err));
    }
    Ok(file.slos)
}

/// Whether a path ends in this extension.
pub(crate) fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension()
        .is_some_and(|e| e.eq_ignore_ascii_case(extension))
}

/// `goodput slo check`.
pub(crate) fn check(argument: &str, voice: Voice) -> Result<Exit, Failure> {
    let slos = load_one(argument, voice)?;
    let sentences: Vec<String> = slos
        .iter()
        .map(|slo| format!("{:<16} {}", slo.name(), slo.sentence()))
        .collect();
    print(&sentences.join("\n"))?;
    Ok(Exit::Yes)
}

/// `goodput slo presets`.
pub(crate) fn presets(format: Format) -> Result<Exit, Failure> {
    let rows = || -> Vec<serde_json::Value> {
        let row = |p: &goodput_slo::Preset| {
            serde_json::json!({
                "name": p.name, "interaction": p.interaction, "clauses": p.clauses,
                "objective": p.objective, "streamed": p.streamed, "workload": p.workload,
                "reason": p.reason, "source": p.source,
            })
        };
        all_presets().iter().map(row).collect()
    };
    match format {
        Format::Human => print(&presets_table())?,
        Format::Json => print(&format!("{:#}", serde_json::Value::from(rows())))?,
        Format::Csv => print(&goodput_report::csv::table(
            &[
                "name",
                "clauses",
                "objective",
                "streamed",
                "workload",
                "interaction",
                "reason",
                "source",
            ],
            &rows(),
        ))?,
    }
    Ok(Exit::Yes)
}
