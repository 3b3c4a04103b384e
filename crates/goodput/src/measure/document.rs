//! What a run leaves behind: the document, the files, the printed answer, the exit code.

use std::collections::BTreeMap;

use goodput_ledger::PointRow;
use goodput_loadgen as loadgen;
use goodput_protocol::{EngineKind, one_line};
use goodput_report::json;
use goodput_slo::Slo;
use goodput_sweep::{
    ClauseFacts, Finding, HoldsFor, RunResult, SCHEMA_VERSION, ServerFacts, SloFacts, UnderWay,
    WorkloadFacts, answers, findings, same_point, seen,
};

use super::{
    files::{show, write_files},
    run::Run,
};
use crate::{
    exit::{Exit, Failure},
    flags::Format,
    talk::{Voice, error_line},
};

/// Why a document is not complete that its run still writes.
const KILLED: &str = "the run did not come to its end: it is still going on, or was killed";

/// What is known of a run before it measures.
#[derive(Clone, Debug)]
pub(crate) struct Paper {
    pub(crate) kind: String,
    pub(crate) run: String,
    pub(crate) epoch_unix_ns: u64,
    pub(crate) seed: u64,
    pub(crate) holds_for: HoldsFor,
    pub(crate) settings: BTreeMap<String, String>,
}

/// What the figures hold for, without the replica that a run may have started for itself.
pub(crate) fn holds_for(
    url: &str,
    facts: &loadgen::ServerFacts,
    slos: &[Slo],
    workload: WorkloadFacts,
    gpus: Option<u32>,
) -> HoldsFor {
    HoldsFor {
        // A server's words are shown, not obeyed: they may hold what steers a terminal.
        model: one_line(&facts.model),
        slos: slos.iter().map(slo_facts).collect(),
        workload,
        server: ServerFacts {
            url: url.to_owned(),
            engine: match facts.identity.engine {
                EngineKind::Unknown => None,
                known => Some(known.name().to_owned()),
            },
            version: facts.identity.version.clone(),
            flags: facts.identity.flags.iter().cloned().collect(),
            emulated: facts.identity.engine == EngineKind::GoodputEmulator,
            not_watched: (!facts.metrics).then(|| "the server shows no metrics".to_owned()),
            ..ServerFacts::default()
        },
        gpus,
        hardware: None,
        boot: "this boot only".to_owned(),
    }
}

/// An SLO in the words of the document.
pub(crate) fn slo_facts(slo: &Slo) -> SloFacts {
    let clauses = slo
        .clauses()
        .iter()
        .enumerate()
        .map(|(index, clause)| ClauseFacts {
            metric: clause.metric.to_string(),
            clause: clause.to_string(),
            bound_ms: clause.fixed_bound().map(goodput_record::millis),
            needed: slo.required_share(index).share(),
        });
    let preset = goodput_slo::presets().iter().find(|p| p.name == slo.name());
    SloFacts {
        name: slo.name().to_owned(),
        sentence: slo.sentence(),
        objective: slo.objective().share,
        window_days: slo.objective().window.as_secs_f64() / 86_400.0,
        clauses: clauses.collect(),
        reason: preset
            .map(|p| format!("{}; {}", p.reason, p.source))
            .unwrap_or_default(),
    }
}

/// The document as far as a run has come. `why`: what is missing of it, if anything is.
fn so_far(run: &Run, why: Option<String>) -> RunResult {
    let paper = &run.paper;
    let operating_point = run.answers();
    let mut holds_for = paper.holds_for.clone();
    holds_for.server.seen = seen(&run.points);
    RunResult {
        schema_version: SCHEMA_VERSION,
        goodput_version: env!("CARGO_PKG_VERSION").to_owned(),
        kind: paper.kind.clone(),
        run: paper.run.clone(),
        started: started(paper.epoch_unix_ns),
        epoch_unix_ns: paper.epoch_unix_ns,
        duration_s: run.duration().as_secs_f64(),
        complete: why.is_none(),
        incomplete_because: why,
        under_way: None,
        seed: paper.seed,
        findings: findings(&run.points, &operating_point, &holds_for),
        holds_for,
        operating_point,
        points: run.points.clone(),
        boots: Vec::new(),
        definitions: definitions(),
        charts: run.charts.clone(),
        settings: paper.settings.clone(),
    }
}

/// Writes what is known before anything is measured: a run that is killed at its first point leaves
/// what it was to be, and what it was at.
pub(crate) fn begin(run: &Run, at: Option<UnderWay>) {
    let mut result = so_far(run, Some(KILLED.to_owned()));
    result.under_way = at;
    let _ = run.folder.write("result.json", &json::document(&result));
}

/// Writes what was found so far, after every point: however the program dies, the folder can be
/// read. Whether the disk takes it is told by the rows and at the end.
pub(crate) fn keep(run: &Run) {
    let result = so_far(run, Some(KILLED.to_owned()));
    let _ = run.folder.write("result.json", &json::document(&result));
}

/// Writes the folder, prints the answer (where a `format` is given) and says how the program ends. Whatever went wrong, what
/// was measured is written first.
pub(crate) fn finish(
    mut run: Run,
    went: Result<(), Failure>,
    format: Option<Format>,
    voice: Voice,
) -> Result<Exit, Failure> {
    let signal = run.signal.get();
    run.source.close();
    let trouble = run.rows.finish();
    let why = match (&went, &trouble, signal) {
        (Err(failure), ..) => Some(failure.message.clone()),
        (_, Some(trouble), _) => Some(trouble.clone()),
        (_, _, Some(number)) => Some(format!("stopped by signal {number}")),
        _ => run.outages.incomplete_because(),
    };
    let result = so_far(&run, why);
    let exit = match signal {
        Some(number) => Exit::Signal(number),
        None if trouble.is_some() => Exit::Untrusted,
        None => verdict(&result),
    };
    let written = write_files(&result, &run.folder);
    let exit = written.exit(exit);
    if let Some(format) = format {
        show(&result, &run.folder, &written, exit, format, voice)?;
    }
    if let Some(trouble) = &trouble {
        error_line(&format!(
            "error: {trouble}\nhint: the run was stopped; what was measured so far is kept"
        ));
    }
    went?;
    written.told()?;
    Ok(exit)
}

/// What the points say: yes if some load meets the SLO, no if none does, not to be trusted if the run
/// did not come to its end, nothing could be measured, a point that would decide is not valid, or a
/// finding takes trust away.
pub(crate) fn verdict(result: &RunResult) -> Exit {
    if !result.complete {
        return Exit::Untrusted;
    }
    let usable = result.points.iter().filter(|p| p.valid).count();
    // Invalid points have a rule of their own: they matter where they would decide.
    let doubted = |f: &Finding| f.severe && f.name != "invalid-points";
    if usable == 0 || decided_by_invalid(result) || result.findings.iter().any(doubted) {
        return Exit::Untrusted;
    }
    let found = &result.operating_point;
    let objective = result.objective();
    let kept = |p: &PointRow| p.slo_attainment.is_some_and(|a| a >= objective);
    let yes = found.by_clauses.is_some()
        || found.by_objective.is_some()
        || result.points.iter().filter(|p| p.valid).any(kept);
    if yes { Exit::Yes } else { Exit::No }
}

/// Whether an answer would be another one if every point were used.
fn decided_by_invalid(result: &RunResult) -> bool {
    if result.points.iter().all(|p| p.valid) {
        return false;
    }
    // One that was measured again and is valid then has been replaced.
    let again = |index: usize, point: &PointRow| {
        let later = result.points.iter().skip(index + 1);
        later.filter(|p| p.valid).any(|p| same_point(p, point))
    };
    let points = result.points.iter().enumerate();
    let all: Vec<PointRow> = points
        .filter(|(index, point)| point.valid || !again(*index, point))
        .map(|(_, point)| PointRow {
            valid: true,
            ..point.clone()
        })
        .collect();
    let question = goodput_sweep::Question {
        objective: result.objective(),
        e2e_at_tokens: 2,
    };
    let without = &result.operating_point;
    let mut with = answers(&all, question);
    if let Some(search) = &without.search {
        with = with.found_by(search, &all);
    }
    let number = |p: &Option<PointRow>| p.as_ref().map(|p| p.point);
    let best = |o: &goodput_sweep::OperatingPoint| o.by_goodput.as_ref().map(|b| b.row.point);
    let sell = |o: &goodput_sweep::OperatingPoint| o.by_objective.as_ref().map(|b| b.row.point);
    number(&with.by_clauses) != number(&without.by_clauses)
        || best(&with) != best(without)
        || sell(&with) != sell(without)
}

/// An instant of the wall clock, RFC 3339 in UTC.
pub(crate) fn started(epoch_unix_ns: u64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(epoch_unix_ns))
        .map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        .unwrap_or_default()
}

/// What each figure means, in the words of the books.
const DEFINITIONS: &[(&str, &str)] = &[
    (
        "ttft",
        "from the scheduled instant (open loop) or the send (closed loop) to the first token event of any channel; headers, role chunks and comments are no tokens",
    ),
    (
        "ttft_answer",
        "the same to the first token that is not reasoning",
    ),
    (
        "tpot",
        "(last - first token event) / (output tokens - 1); undefined under two tokens or token events",
    ),
    (
        "tpot_median",
        "the median gap between tokens of one request; it hides preemptions, see stall",
    ),
    (
        "stall",
        "the longest gap between two token events of one request",
    ),
    (
        "e2e",
        "from the scheduled instant or the send to the last token event",
    ),
    (
        "throughput_tok_s",
        "tokens received inside the window / its length, requests in flight included",
    ),
    (
        "goodput_tok_s",
        "of these, the tokens of requests that met the SLO, judged after the drain",
    ),
    (
        "goodput_req_s",
        "requests of the window that met the SLO / its length",
    ),
    (
        "slo_attainment",
        "met / (met + missed); failures are misses, what the SLO excuses by name is left out",
    ),
    (
        "interval",
        "95 %, from bins of time, widened where slow requests come together",
    ),
    (
        "percentile",
        "linear interpolation between order statistics, over requests that ended well; *_with_failures ranks failures above all others",
    ),
    (
        "window",
        "requests whose origin lies in it are measured; warm-up, the first request of every user and the settling time are left out",
    ),
    (
        "sell",
        "highest tested open-loop rate at which the lower end of the attainment's interval keeps the objective",
    ),
    (
        "cap",
        "last concurrency such that it and every smaller one hold every clause at its percentile",
    ),
    ("run_at", "ceil(2n/3) to floor(5n/6) of the cap n"),
    (
        "scale_out_at_req_s",
        "70 % of the rate to sell: where to add a replica",
    ),
    (
        "scale_out_at_tok_s",
        "70 % of the goodput at the cap: where to add a replica as long as no rate to sell is proven",
    ),
];

/// What each figure means, by name.
pub(crate) fn definitions() -> BTreeMap<String, String> {
    DEFINITIONS
        .iter()
        .map(|(name, what)| ((*name).to_owned(), (*what).to_owned()))
        .collect()
}
