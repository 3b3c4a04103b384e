//! The boots that a folder holds.

use std::{fs, path::Path};

use goodput_results::{Folder, read_result};
use goodput_sweep::{BootSummary, RunResult};

use crate::exit::Failure;

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

/// The boots of a folder that have points, at least one, and the number of the next one.
pub(super) fn read(folder: &Folder) -> Result<(Vec<Boot>, u32), Failure> {
    let kept = first_kept(folder);
    let first = if kept.file("result.json").exists() {
        read_result(kept.path())?
    } else {
        read_result(folder.path())?
    };
    let mut boots = vec![Boot {
        number: 1,
        result: first,
        server_started: server_started(folder),
    }];
    let mut last = 1;
    for number in further(folder.path()) {
        last = last.max(number);
        let place = place(folder, number);
        // One that was killed before its first point left no document, and no figure.
        if place.file("result.json").exists() {
            boots.push(read_one(&place, number)?);
        }
    }
    boots.retain(|boot| !boot.result.points.is_empty());
    if boots.is_empty() {
        let path = folder.path().display();
        return Err(
            Failure::usage(format!("{path} has no load point that was measured"))
                .hint("measure anew, without --resume"),
        );
    }
    Ok((boots, last + 1))
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
