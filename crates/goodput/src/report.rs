//! `goodput report`: a result folder rendered again, another tool's result read in, shards merged.

mod import;
mod merge;

use goodput_results::{Folder, read_result, write_whole};

use crate::{
    exit::{Exit, Failure},
    flags::ReportFlags,
    measure::{show, verdict},
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
    let [path] = flags.paths.as_slice() else {
        return Err(
            Failure::usage("report renders one folder at a time").hint(
                "`goodput compare BASE OTHER` puts two side by side; shards of one run are put together with --merge",
            ),
        );
    };
    render(path, flags, voice)
}

/// Renders the page anew and prints the result.
fn render(path: &std::path::Path, flags: &ReportFlags, voice: Voice) -> Result<Exit, Failure> {
    let result = read_result(path)?;
    let folder = Folder::open(path);
    let page = goodput_report::html::report(&result);
    match &flags.html {
        None => folder.write_by("report.html", |out| page.write(out))?,
        Some(path) => write_whole(path, |out| page.write(out))?,
    }
    let exit = verdict(&result);
    show(&result, &folder, exit, flags.format, voice)?;
    Ok(exit)
}
