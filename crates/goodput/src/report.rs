//! `goodput report`: a result folder rendered again, another tool's result read in, shards merged.

mod import;
pub(crate) mod killed;
mod merge;
mod predicted;

use std::path::{Path, PathBuf};

use goodput_report::html;
use goodput_results::{Folder, read_result, write_whole};
use goodput_sweep::RunResult;

use crate::{
    exit::{Exit, Failure},
    flags::ReportFlags,
    measure::{PAGE, Written, show, verdict},
    talk::Voice,
};

/// The output length at which end-to-end times are stated, unless a run said otherwise.
const E2E_AT: u32 = 250;

/// Does what the flags ask.
pub(crate) fn report(flags: &ReportFlags, voice: Voice) -> Result<Exit, Failure> {
    if flags.foreign.import {
        return import::import(flags, voice);
    }
    if flags.merge {
        return merge::merge(flags, voice);
    }
    if let Some(simulated) = &flags.overlay {
        return predicted::predicted(simulated, flags, voice);
    }
    match flags.paths.as_slice() {
        [path] => render(path, flags, voice),
        several => overlay(several, flags, voice),
    }
}

/// Draws several results on one page.
fn overlay(paths: &[PathBuf], flags: &ReportFlags, voice: Voice) -> Result<Exit, Failure> {
    let Some(target) = &flags.html else {
        return Err(
            Failure::usage("several results are drawn on a page of their own").hint(
                "name it with --html FILE; `goodput compare` puts two side by side, --merge puts shards together",
            ),
        );
    };
    let mut runs = Vec::new();
    for path in paths {
        runs.push((path.display().to_string(), read_result(path)?));
    }
    one_slo(&runs)?;
    write_whole(target, |out| html::overlay(&runs).write(out))?;
    voice.say(&format!("{}: {} results", target.display(), runs.len()));
    Ok(Exit::Yes)
}

/// Refuses results that are judged by different SLOs: their goodputs are of different things.
fn one_slo(runs: &[(String, RunResult)]) -> Result<(), Failure> {
    let slo = |run: &RunResult| run.holds_for.slos.first().map(|slo| slo.sentence.clone());
    let first = slo(&runs[0].1);
    if let Some((name, other)) = runs.iter().find(|(_, run)| slo(run) != first) {
        return Err(Failure::usage(format!(
            "{} and {name} are judged by different SLOs: {} | {}",
            runs[0].0,
            first.unwrap_or_default(),
            slo(other).unwrap_or_default()
        ))
        .hint("judge one of them anew: goodput report --import DIR/requests.jsonl --slo ..."));
    }
    Ok(())
}

/// Renders the page anew and prints the result. What cannot be written keeps nothing from being read.
fn render(path: &Path, flags: &ReportFlags, voice: Voice) -> Result<Exit, Failure> {
    let folder = Folder::open(path);
    let result = killed::result_of(path)?;
    let page = html::report(&result);
    let mut written = Written::default();
    match &flags.html {
        None => written.add(PAGE, folder.write_by(PAGE, |out| page.write(out))),
        Some(path) => write_whole(path, |out| page.write(out))?,
    }
    let exit = written.exit(verdict(&result));
    show(&result, &folder, &written, exit, flags.format, voice)?;
    if result.points.is_empty() && !result.complete {
        voice.say(&killed::what_is_left(&folder, &result)?);
    }
    written.told()?;
    Ok(exit)
}
