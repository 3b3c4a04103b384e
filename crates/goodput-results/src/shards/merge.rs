//! The run that the shards were together.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use goodput_ledger::{PointBooks, PointRow};
use goodput_slo::Slo;
use goodput_sweep::{PointChart, RequestBar, RunResult, mark, watched_together};

use super::{
    belong::{Share, together},
    facts::gathered,
};
use crate::{
    error::{Result, ResultsError},
    lines::after_last_whole,
};

/// Requests of a point that the timeline shows.
const BARS: usize = 120;

/// The shards of a run, put together.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The document of the first shard: what the run was, whatever was measured.
    pub base: RunResult,
    /// Every load point.
    pub points: Vec<PointRow>,
    /// Their charts.
    pub charts: Vec<PointChart>,
    /// The longest shard, in seconds.
    pub duration_s: f64,
    /// Why the run is not complete. `None`: every shard ran to its end.
    pub incomplete_because: Option<String>,
    folders: Vec<PathBuf>,
}

/// Merges the folders of all shards of one run, in whatever order they are named.
///
/// # Errors
/// If they are not all shards of one run, each once, or if a file of them is broken.
pub fn merge(folders: &[PathBuf]) -> Result<Merged> {
    let mut shares = together(folders)?;
    let slos = slos(&shares[0])?;
    let numbers: BTreeSet<u32> = shares
        .iter()
        .flat_map(|s| s.points.keys().copied())
        .collect();
    let (mut points, mut charts) = (Vec::new(), Vec::new());
    for number in numbers {
        let (row, chart) = point(&mut shares, number, &slos)?;
        points.push(row);
        charts.push(chart);
    }
    let mut why = Vec::new();
    for share in &shares {
        let said = share.result.incomplete_because.as_deref();
        why.extend(said.map(|said| format!("{}: {said}", share.called())));
        if is_torn(&share.path.join("requests.jsonl"))? {
            why.push(format!(
                "{}: the last line of its requests.jsonl is cut off and left out",
                share.called()
            ));
        }
    }
    Ok(Merged {
        duration_s: shares
            .iter()
            .map(|s| s.result.duration_s)
            .fold(0.0, f64::max),
        incomplete_because: (!why.is_empty()).then(|| why.join("; ")),
        folders: shares.iter().map(|s| s.path.clone()).collect(),
        base: shares.swap_remove(0).result,
        points,
        charts,
    })
}

fn slos(share: &Share) -> Result<Vec<Slo>> {
    let mut slos = Vec::new();
    for source in &share.note.slos {
        slos.extend(source.read().map_err(|because| broken(share, &because))?);
    }
    Ok(slos)
}

fn broken(share: &Share, because: &impl ToString) -> ResultsError {
    ResultsError::import(
        &share.path,
        because.to_string(),
        "measure that shard again, together with the others",
    )
}

/// One load point of the whole.
fn point(shares: &mut [Share], number: u32, slos: &[Slo]) -> Result<(PointRow, PointChart)> {
    let mut facts = gathered(shares, number)
        .ok_or_else(|| broken(&shares[0], &format!("there is no point {number}")))?;
    let mut whole: Option<PointBooks> = None;
    let (mut bars, mut watched) = (Vec::new(), Vec::new());
    let mut streamed = true;
    for share in shares {
        streamed = share.note.streamed;
        let charts = share.result.charts.iter();
        bars.extend(
            charts
                .filter(|c| c.point == number)
                .flat_map(|c| c.requests.iter().cloned()),
        );
        let Some(point) = share.points.remove(&number) else {
            watched.push(None);
            continue;
        };
        watched.push(point.server);
        let books = PointBooks::restore(point.books, slos).map_err(|e| broken(share, &e))?;
        match &mut whole {
            None => whole = Some(books),
            Some(whole) => whole.merge(&books),
        }
    }
    let books = whole.unwrap_or_else(|| PointBooks::new(slos, Duration::from_millis(100)));
    if books.measured() == 0 {
        facts.invalid.push("no request was measured".to_owned());
    }
    let mut row = books.row(&facts);
    if !streamed {
        // Whole answers were asked for: that they came is no finding.
        row.not_streamed = 0;
    }
    row.server = watched_together(&watched);
    mark(&mut row);
    let charted = books.charted(&facts.window);
    let [ttft_ms, tpot_ms, e2e_ms, stall_ms] = charted.quantiles;
    let requests = RequestBar::since_the_first(bars, BARS);
    let chart = PointChart {
        point: number,
        ttft_ms,
        tpot_ms,
        e2e_ms,
        stall_ms,
        requests,
        timeline: charted.timeline,
    };
    Ok((row, chart))
}

impl Merged {
    /// Writes the requests of all shards, and the server's counters as the first shard that read
    /// them has them, into `folder`. Lines that were cut off are left out.
    pub fn write_rows(&self, folder: &crate::Folder) -> Result<()> {
        let rows = self.folders.iter().map(|f| f.join("requests.jsonl"));
        join(rows, &folder.file("requests.jsonl"))?;
        let metrics = self.folders.iter().map(|f| f.join("server_metrics.jsonl"));
        if let Some(metrics) = metrics.into_iter().find(|file| file.exists()) {
            join(
                std::iter::once(metrics),
                &folder.file("server_metrics.jsonl"),
            )?;
        }
        Ok(())
    }
}

/// Whether the last line of a file has no end.
fn is_torn(path: &Path) -> Result<bool> {
    let io = |e| ResultsError::io("cannot read", path, e);
    let mut file = File::open(path).map_err(io)?;
    let whole = after_last_whole(&mut file).map_err(io)?;
    Ok(whole < file.seek(SeekFrom::End(0)).map_err(io)?)
}

/// Writes the whole lines of `files`, one file after the other.
fn join(files: impl Iterator<Item = PathBuf>, target: &Path) -> Result<()> {
    let cannot_write = |e| ResultsError::io("cannot write", target, e);
    let mut all = BufWriter::new(File::create(target).map_err(cannot_write)?);
    for path in files {
        let io = |e| ResultsError::io("cannot read", &path, e);
        let mut file = File::open(&path).map_err(io)?;
        let whole = after_last_whole(&mut file).map_err(io)?;
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        io::copy(&mut io::Read::take(file, whole), &mut all).map_err(cannot_write)?;
    }
    all.flush().map_err(cannot_write)
}
