//! `goodput report`: a result folder rendered again.

use goodput_results::{Folder, read_result, write_whole};

use crate::{
    exit::{Exit, Failure},
    flags::ReportFlags,
    measure::{show, verdict},
    talk::Voice,
};

/// Renders the page anew and prints the result.
pub(crate) fn report(flags: &ReportFlags, voice: Voice) -> Result<Exit, Failure> {
    let result = read_result(&flags.folder)?;
    let folder = Folder::open(&flags.folder);
    let page = goodput_report::html::report(&result);
    match &flags.html {
        None => folder.write_by("report.html", |out| page.write(out))?,
        Some(path) => write_whole(path, |out| page.write(out))?,
    }
    let exit = verdict(&result);
    show(&result, &folder, exit, flags.format, voice)?;
    Ok(exit)
}
