//! `goodput report --import`: another tool's requests as a result of our own.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use goodput_results::{Folder, Import, ImportAsk, JsonLines, ToldLoad, Tool, read_result};
use goodput_slo::Slo;
use goodput_sweep::{
    HoldsFor, Question, RunResult, SCHEMA_VERSION, ServerFacts, WorkloadFacts, answers, findings,
};

use super::E2E_AT;
use crate::{
    exit::{Exit, Failure},
    flags::{ForeignFlags, ReportFlags},
    measure::{definitions, deliver, slo_facts, started, verdict},
    slo,
    talk::Voice,
};

/// Reads the files, judges their requests and writes a result folder.
pub(super) fn import(flags: &ReportFlags, voice: Voice) -> Result<Exit, Failure> {
    let foreign = &flags.foreign;
    let named = if foreign.slo.is_empty() {
        vec!["chat".to_owned()]
    } else {
        foreign.slo.clone()
    };
    let slos = slo::load(&named, voice)?;
    let ask = ask(foreign)?;
    if let Some(out) = &flags.out {
        Folder::is_free(out)?;
    }
    let read = goodput_results::import(&flags.paths, &ask)?;
    let place = flags.out.clone().unwrap_or_else(|| place(&slos));
    let folder = Folder::create(&place)?;
    let mut lines = JsonLines::create(&folder.file("requests.jsonl"))?;
    let imported = read
        .judge(&slos, |row| lines.write(&row))
        .map_err(Failure::untrusted)?;
    lines.flush().map_err(Failure::untrusted)?;
    let mut result = document(imported, &flags.paths, &slos, foreign);
    if let Some(own) = own(&flags.paths[0]).filter(|_| result.run == Tool::Goodput.flag()) {
        judged_anew(&mut result, own);
    }
    deliver(&result, &folder, verdict(&result), flags.format, voice)
}

fn ask(flags: &ForeignFlags) -> Result<ImportAsk, Failure> {
    let tool = flags.from.as_deref().map(|name| {
        let known = Tool::ALL.into_iter();
        known.clone().find(|t| t.flag() == name).ok_or_else(|| {
            let names: Vec<&str> = known.map(Tool::flag).collect();
            Failure::usage(format!("--from {name}: no such tool"))
                .hint(format!("one of {}", names.join(", ")))
        })
    });
    if let Some(rate) = flags.rate.filter(|rate| !(rate.is_finite() && *rate > 0.0)) {
        return Err(Failure::usage(format!("--rate {rate} is not a rate"))
            .hint("name the arrivals a second, such as 16"));
    }
    let users = flags.concurrency.map(ToldLoad::Users);
    Ok(ImportAsk {
        tool: tool.transpose()?,
        run: flags.run.clone(),
        load: users.or(flags.rate.map(ToldLoad::Rate)),
        model: flags.model.clone(),
        gpus: flags.gpus,
    })
}

fn place(slos: &[Slo]) -> PathBuf {
    let now = jiff::Timestamp::now().strftime("%m%d-%H%M%S").to_string();
    let name = slos.first().map_or("slo", |slo| slo.name());
    PathBuf::from(format!("runs/import-{name}-{now}"))
}

/// The names of the files, without their folders.
fn sources(paths: &[PathBuf]) -> String {
    let name = |path: &PathBuf| {
        let name = path.file_name().unwrap_or(path.as_os_str());
        name.to_string_lossy().into_owned()
    };
    paths.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn document(import: Import, paths: &[PathBuf], slos: &[Slo], flags: &ForeignFlags) -> RunResult {
    let tool = import.tool;
    let question = Question {
        objective: slos.first().map_or(1.0, |slo| slo.objective().share),
        e2e_at_tokens: E2E_AT,
    };
    let operating_point = answers(&import.points, question);
    let holds_for = HoldsFor {
        model: import.model.unwrap_or_default(),
        slos: slos.iter().map(slo_facts).collect(),
        workload: workload(tool, paths, import.input, import.output),
        server: ServerFacts::default(),
        gpus: flags.gpus,
        hardware: None,
        boot: "this boot only".to_owned(),
    };
    let mut told = import.findings;
    told.extend(findings(&import.points, &operating_point, &holds_for));
    let epoch = written(&paths[0]);
    let mut settings = BTreeMap::from([
        ("imported_from".to_owned(), tool.flag().to_owned()),
        ("files".to_owned(), sources(paths)),
    ]);
    settings.extend(flags.run.clone().map(|run| ("run".to_owned(), run)));
    RunResult {
        schema_version: SCHEMA_VERSION,
        goodput_version: env!("CARGO_PKG_VERSION").to_owned(),
        kind: "import".to_owned(),
        run: tool.flag().to_owned(),
        started: started(epoch),
        epoch_unix_ns: epoch,
        duration_s: import.longest_s,
        complete: true,
        incomplete_because: None,
        under_way: None,
        seed: import.digest,
        holds_for,
        findings: told,
        operating_point,
        points: import.points,
        definitions: definitions(),
        charts: import.charts,
        boots: Vec::new(),
        settings,
    }
}

/// The result of our own beside a file.
fn own(path: &Path) -> Option<RunResult> {
    read_result(&path.with_file_name("result.json")).ok()
}

/// Of requests that we sent ourselves everything is known but the new verdict.
fn judged_anew(result: &mut RunResult, own: RunResult) {
    result.seed = own.seed;
    result.started = own.started;
    result.epoch_unix_ns = own.epoch_unix_ns;
    // One that was killed says no more than how long it had gone on when it last wrote.
    result.duration_s = own.duration_s.max(result.duration_s);
    result.complete = own.complete;
    result.incomplete_because = own.incomplete_because;
    result.holds_for = HoldsFor {
        slos: std::mem::take(&mut result.holds_for.slos),
        ..own.holds_for
    };
}

/// The workload as it was served: what was asked for is not in the files.
fn workload(
    tool: Tool,
    paths: &[PathBuf],
    input: [Option<f64>; 3],
    output: [Option<f64>; 3],
) -> WorkloadFacts {
    WorkloadFacts {
        name: format!("as {tool} sent it"),
        source: sources(paths),
        // A length that no file tells is shown as such by the lengths of every point.
        input: input.map(Option::unwrap_or_default),
        output: output.map(Option::unwrap_or_default),
        arrivals: "as recorded".to_owned(),
        output_policy: "as the tool asked".to_owned(),
        prompts: "not told".to_owned(),
        counted_by: "the tool or the server; see the requests".to_owned(),
        ..WorkloadFacts::default()
    }
}

/// When the file was written, in nanoseconds since 1970-01-01 UTC: what a tool's clock says is
/// often no time of day.
fn written(path: &Path) -> u64 {
    let changed = std::fs::metadata(path).and_then(|about| about.modified());
    let since = |at: SystemTime| at.duration_since(UNIX_EPOCH).ok();
    let span = changed.ok().and_then(since).unwrap_or_default();
    u64::try_from(span.as_nanos()).unwrap_or_default()
}
