//! `goodput report MEASURED --overlay SIMULATED`: a simulated curve over the measured one, with the
//! error of the prediction at every load.

use std::path::{Path, PathBuf};

use goodput_report::{csv, html, json, terminal};
use goodput_results::{Folder, write_whole};
use goodput_sweep::{Prediction, RunResult, Side, compare, mismatches};

use super::{killed, one_slo};
use crate::{
    compare::side,
    exit::{Exit, Failure},
    flags::{Format, ReportFlags},
    print,
    talk::Voice,
};

/// The page, in the simulated folder: the measured one stays as it was.
const PAGE: &str = "overlay.html";

/// Lays the simulated result over the measured one.
pub(super) fn predicted(
    simulated: &Path,
    flags: &ReportFlags,
    voice: Voice,
) -> Result<Exit, Failure> {
    let [measured] = flags.paths.as_slice() else {
        return Err(Failure::usage(
            "--overlay lays one simulated result over one measured",
        ));
    };
    let named = |what: &str, path: &Path| {
        let result = killed::result_of(path)?;
        Ok::<_, Failure>((format!("{what}: {}", path.display()), result))
    };
    let runs = vec![named("measured", measured)?, named("simulated", simulated)?];
    check(&runs[0].1, &runs[1].1, flags, voice)?;
    one_slo(&runs)?;
    let (base, other): (Side<'_>, Side<'_>) =
        (side(&runs[0].1, measured)?, side(&runs[1].1, simulated)?);
    let comparison = compare(&base, &other);
    let of_either = comparison.loads_of_either(&base, &other);
    let prediction = Prediction::of(&comparison, of_either);
    let page = Folder::open(simulated).file(PAGE);
    let page = flags.html.as_deref().unwrap_or(&page);
    let written = write_whole(page, |out| html::prediction(&prediction, &runs).write(out));
    match flags.format {
        Format::Human => {
            let told = terminal::prediction(&prediction, voice.style_out());
            let page = written.as_ref().map(|()| format!("\n{}", page.display()));
            print(&(told + &page.unwrap_or_default()))?;
        }
        Format::Json => print(&json::document(&prediction))?,
        Format::Csv => print(&csv::prediction(&prediction))?,
    }
    // What cannot be written keeps nothing from being read.
    written.map_err(|error| {
        Failure::untrusted(error.to_string()).hint("--html FILE names another place for the page")
    })?;
    // With no load in common nothing can be said of the prediction.
    Ok(if prediction.loads.is_empty() {
        Exit::Untrusted
    } else {
        Exit::Yes
    })
}

/// Refuses what cannot be compared, and says what may explain an error.
fn check(
    measured: &RunResult,
    simulated: &RunResult,
    flags: &ReportFlags,
    voice: Voice,
) -> Result<(), Failure> {
    let named = |path: Option<&Path>| path.map_or_else(String::new, |p| p.display().to_string());
    if measured.holds_for.server.simulated.is_some() {
        let name = named(flags.paths.first().map(PathBuf::as_path));
        return Err(Failure::usage(format!("{name} was simulated itself"))
            .hint("the measured folder comes first: goodput report MEASURED --overlay SIMULATED; compare puts any two side by side"));
    }
    if simulated.holds_for.server.simulated.is_none() {
        let name = named(flags.overlay.as_deref());
        return Err(Failure::usage(format!("{name} was not simulated"))
            .hint("goodput compare puts two measured results side by side"));
    }
    for differ in mismatches(measured, simulated) {
        voice.say(&format!(
            "warning: the two differ in {}: {} | {}; errors may come from that",
            differ.what, differ.base, differ.other
        ));
    }
    Ok(())
}
