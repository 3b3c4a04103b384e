//! `goodput report --merge`: the shards of one run as the run that they were.

use goodput_results::{Folder, Merged};
use goodput_sweep::{Question, RunResult, answers, findings, seen};

use super::E2E_AT;
use crate::{
    exit::{Exit, Failure},
    flags::ReportFlags,
    measure::{deliver, verdict},
    talk::Voice,
};

/// Merges the folders into a new one.
pub(super) fn merge(flags: &ReportFlags, voice: Voice) -> Result<Exit, Failure> {
    let Some(out) = &flags.out else {
        return Err(Failure::usage("--merge needs --out").hint("name the folder to write"));
    };
    Folder::is_free(out)?;
    let merged = goodput_results::merge(&flags.paths)?;
    let folder = Folder::create(out)?;
    merged.write_rows(&folder)?;
    let result = document(merged, flags.paths.len());
    deliver(&result, &folder, verdict(&result), flags.format, voice)
}

fn document(merged: Merged, shards: usize) -> RunResult {
    let mut result = merged.base;
    let stated = result.operating_point.by_objective.as_ref();
    let question = Question {
        objective: result.objective(),
        e2e_at_tokens: stated.map_or(E2E_AT, |found| found.e2e_at_tokens),
    };
    result.operating_point = answers(&merged.points, question);
    result.findings = findings(&merged.points, &result.operating_point, &result.holds_for);
    "merged".clone_into(&mut result.kind);
    result.holds_for.server.seen = seen(&merged.points);
    result.points = merged.points;
    result.charts = merged.charts;
    result.duration_s = merged.duration_s;
    result.complete = merged.incomplete_because.is_none();
    result.incomplete_because = merged.incomplete_because;
    result
        .settings
        .insert("shards".to_owned(), shards.to_string());
    result
}
