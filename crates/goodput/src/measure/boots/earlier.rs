//! The boots that a folder holds.

use std::{fs, path::Path};

use goodput_ledger::PointRow;
use goodput_results::{Folder, read_result};
use goodput_sweep::{BootSummary, RunResult, same_point};

use super::super::remarks::INTERRUPTED;
use crate::{exit::Failure, talk::Voice};

/// What the server calls the instant of its start, in seconds since 1970.
pub(super) const STARTED: &str = "process_start_time_seconds";

/// One boot that was measured.
pub(super) struct Boot {
    pub(super) number: u32,
    pub(super) result: RunResult,
    /// When the server says that it was started.
    pub(super) server_started: Option<f64>,
}

impl Boot {
    pub(super) fn summary(&self) -> BootSummary {
        BootSummary {
            boot: self.number,
            run: self.result.run.clone(),
            started: self.result.started.clone(),
            server_started_unix_s: self.server_started,
            points: self.result.points.clone(),
        }
    }
}

/// Where a boot's own result is written.
pub(super) fn place(folder: &Folder, number: u32) -> Folder {
    match number {
        1 => folder.clone(),
        number => Folder::open(&folder.file("boots").join(number.to_string())),
    }
}

/// Where the first boot's document is kept once the folder's own speaks for all.
fn first_kept(folder: &Folder) -> Folder {
    Folder::open(&folder.file("boots").join("1"))
}

/// Keeps the first boot's document before the folder's own is written anew.
pub(super) fn keep_first(folder: &Folder) -> Result<(), Failure> {
    let kept = first_kept(folder);
    if kept.file("result.json").exists() {
        return Ok(());
    }
    let failed = |e: std::io::Error| {
        let path = kept.path().display();
        Failure::untrusted(format!("cannot keep the first boot in {path}: {e}"))
    };
    fs::create_dir_all(kept.path()).map_err(failed)?;
    let text = fs::read_to_string(folder.file("result.json")).map_err(failed)?;
    kept.write("result.json", &text)?;
    Ok(())
}

/// The boots of a folder, at least one. Of the further ones, those that measured every load of the
/// first: what was broken off is measured anew.
pub(super) fn read(folder: &Folder) -> Result<Vec<Boot>, Failure> {
    let kept = first_kept(folder);
    let first = if kept.file("result.json").exists() {
        read_result(kept.path())?
    } else {
        read_result(folder.path())?
    };
    if first.points.is_empty() {
        let path = folder.path().display();
        return Err(
            Failure::usage(format!("{path} has no load point that was measured"))
                .hint("measure anew, without --resume"),
        );
    }
    let mut boots = vec![Boot {
        number: 1,
        result: first,
        server_started: server_started(folder),
    }];
    for number in further(folder.path()) {
        let place = place(folder, number);
        // One that was killed before its first point left no document.
        if place.file("result.json").exists() {
            let boot = read_one(&place, number)?;
            if is_whole(&boot.result.points, &boots[0].result.points) {
                boots.push(boot);
            }
        }
    }
    Ok(boots)
}

/// Whether every load of the first boot is among these points, measured to its end.
fn is_whole(points: &[PointRow], first: &[PointRow]) -> bool {
    let is_cut = |p: &PointRow| p.warnings.iter().any(|w| w == INTERRUPTED);
    let wanted = first.iter().filter(|p| p.other_arrivals.is_none());
    let mut found = wanted.map(|load| points.iter().any(|p| same_point(p, load) && !is_cut(p)));
    found.all(|found| found)
}

/// Puts what a boot that was broken off left out of the way of the one that is measured anew.
pub(super) fn set_aside(place: &Folder, number: u32, voice: Voice) -> Result<(), Failure> {
    if !place.path().exists() {
        return Ok(());
    }
    let aside = (1..=u32::MAX)
        .map(|n| {
            place
                .path()
                .with_file_name(format!("{number}-broken-off-{n}"))
        })
        .find(|path| !path.exists())
        .unwrap_or_default();
    fs::rename(place.path(), &aside).map_err(|e| {
        let path = place.path().display();
        Failure::untrusted(format!("cannot move {path} to {}: {e}", aside.display()))
    })?;
    voice.say(&format!(
        "note: an earlier boot {number} did not come to its end: it is measured anew, and what it left is kept in {}",
        aside.display()
    ));
    Ok(())
}

/// The numbers of the folders of further boots, rising.
fn further(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder.join("boots")).into_iter().flatten();
    let mut numbers: Vec<u32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 1)
        .collect();
    numbers.sort_unstable();
    numbers
}

/// One boot from its own folder.
pub(super) fn read_one(place: &Folder, number: u32) -> Result<Boot, Failure> {
    Ok(Boot {
        number,
        result: read_result(place.path())?,
        server_started: server_started(place),
    })
}

/// When the server says that it was started, by the counters that were kept.
fn server_started(place: &Folder) -> Option<f64> {
    let text = fs::read_to_string(place.file("server_metrics.jsonl")).ok()?;
    let line = text.lines().find(|line| line.contains(STARTED))?;
    let row: serde_json::Value = serde_json::from_str(line).ok()?;
    row.get("value")?.as_f64()
}
