//! The run that the shards were together.

use std::{
    collections::BTreeSet,
    fs::File,
    io,
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
use crate::error::{Result, ResultsError};

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
    let why = shares.iter().find_map(|share| {
        let why = share.result.incomplete_because.as_deref()?;
        Some(format!("{}: {why}", share.called()))
    });
    Ok(Merged {
        duration_s: shares
            .iter()
            .map(|s| s.result.duration_s)
            .fold(0.0, f64::max),
        incomplete_because: why,
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
    let facts = gathered(shares, number)
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
    /// them has them, into `folder`.
    pub fn write_rows(&self, folder: &crate::Folder) -> Result<()> {
        let target = folder.file("requests.jsonl");
        let mut all = File::create(&target).map_err(|e| cannot_write(&target, e))?;
        for shard in &self.folders {
            copy(&shard.join("requests.jsonl"), &mut all, &target)?;
        }
        let metrics = self.folders.iter().map(|f| f.join("server_metrics.jsonl"));
        if let Some(metrics) = metrics.into_iter().find(|file| file.exists()) {
            let target = folder.file("server_metrics.jsonl");
            let mut one = File::create(&target).map_err(|e| cannot_write(&target, e))?;
            copy(&metrics, &mut one, &target)?;
        }
        Ok(())
    }
}

fn cannot_write(path: &Path, error: io::Error) -> ResultsError {
    ResultsError::io("cannot write", path, error)
}

fn copy(from: &Path, to: &mut File, target: &Path) -> Result<()> {
    let mut source = File::open(from).map_err(|e| ResultsError::io("cannot read", from, e))?;
    io::copy(&mut source, to).map_err(|e| cannot_write(target, e))?;
    Ok(())
}
