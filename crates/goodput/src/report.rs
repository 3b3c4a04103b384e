//! `goodput report`: a result folder rendered again.

use std::fs;

use crate::{
    exit::{Exit, Failure},
    flags::ReportFlags,
    measure::{show, verdict},
    results::{Folder, read_result},
    talk::Voice,
};

/// Renders the page anew and prints the result.
pub(crate) fn report(flags: &ReportFlags, voice: Voice) -> Result<Exit, Failure> {
    let result = read_result(&flags.folder)?;
    let folder = Folder::open(&flags.folder);
    let page = goodput_report::html::report(&result);
    match &flags.html {
        None => folder.write_page(&page)?,
        Some(path) => fs::File::create(path)
            .and_then(|mut file| page.write(&mut file))
            .map_err(|e| Failure::untrusted(format!("cannot write {}: {e}", path.display())))?,
    }
    let exit = verdict(&result);
    show(&result, &folder, exit, flags.format, voice)?;
    Ok(exit)
}
