//! The server's own counters during a run: to disk, beside ours, and the share of cache hits over a
//! window.

use std::{
    cell::RefCell,
    ops::Range,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use goodput_ledger::WatchRow;
use goodput_loadgen::{self as loadgen, Client, Scraper, scrape};
use goodput_record::{EngineSample, Timestamp};
use goodput_results::{Folder, JsonLines};
use goodput_sweep::{Look, watch};
use serde::Serialize;

use super::observer::{LiveCounts, lock};
use crate::exit::Failure;

/// How often the server is asked.
const EVERY: Duration = Duration::from_secs(1);

/// One value of one counter or gauge: a line of `server_metrics.jsonl`.
#[derive(Debug, Serialize)]
pub(crate) struct MetricRow<'a> {
    pub(crate) t_ns: u64,
    pub(crate) replica: u16,
    pub(crate) name: &'a str,
    pub(crate) value: f64,
}

/// What is kept of the looks at a server.
#[derive(Debug)]
struct Kept {
    lines: JsonLines,
    looks: Vec<Look>,
    /// What we count of the point that runs.
    ours: Arc<Mutex<LiveCounts>>,
    /// The first look at that point.
    since: usize,
}

impl Kept {
    fn add(&mut self, look: &loadgen::Scrape) {
        let ours = *lock(&self.ours);
        let in_flight = ours.arrived.saturating_sub(ours.ended);
        self.looks.push(Look {
            sample: look.sample,
            in_flight: u32::try_from(in_flight).unwrap_or(u32::MAX),
            ended: ours.ended,
        });
        for (name, value) in look.rows() {
            let row = MetricRow {
                t_ns: look.at.nanos(),
                replica: 0,
                name: &name,
                value,
            };
            // A full disk shows at the records, which decide; these rows only explain.
            let _ = self.lines.write(&row);
        }
        let _ = self.lines.flush();
    }
}

/// The samples of a run, and the task that takes them.
#[derive(Debug)]
pub(crate) struct Scrape {
    client: Rc<Client>,
    kept: Rc<RefCell<Kept>>,
    _task: Scraper,
}

impl Scrape {
    /// Starts to read the server's counters into `server_metrics.jsonl`.
    pub(crate) fn start(client: &Rc<Client>, folder: &Folder) -> Result<Self, Failure> {
        let kept = Rc::new(RefCell::new(Kept {
            lines: JsonLines::create(&folder.file("server_metrics.jsonl"))?,
            looks: Vec::new(),
            ours: Arc::default(),
            since: 0,
        }));
        let seen = Rc::clone(&kept);
        let task = scrape(client, EVERY, 0, move |look| seen.borrow_mut().add(&look));
        Ok(Self {
            client: Rc::clone(client),
            kept,
            _task: task,
        })
    }

    /// From here on the looks are at the point that is counted in `ours`.
    pub(crate) fn follow(&self, ours: &Arc<Mutex<LiveCounts>>) {
        let mut kept = self.kept.borrow_mut();
        kept.ours = Arc::clone(ours);
        kept.since = kept.looks.len();
    }

    /// What the looks at the point say; `alone`: whether all of its load is this process's.
    pub(crate) fn watched(&self, window: &Range<Timestamp>, alone: bool) -> Option<WatchRow> {
        let kept = self.kept.borrow();
        watch(&kept.looks[kept.since..], window, alone)
    }

    /// Looks now, so that a point shorter than [`EVERY`] has a look on either side.
    pub(crate) async fn look(&self) {
        let path = format!("{}/metrics", self.client.target().endpoint.root());
        let Ok(reply) = self.client.get(&path).await else {
            return;
        };
        let at = self.client.clock().now();
        if reply.head.status == 200
            && let Ok(text) = String::from_utf8(reply.body)
        {
            let sample = goodput_protocol::engine_sample(&text, at, 0);
            self.kept
                .borrow_mut()
                .add(&loadgen::Scrape { at, sample, text });
        }
    }

    /// Of the tokens looked up in the prefix cache during `window`, the share that was found.
    pub(crate) fn cached_share(&self, window: &Range<Timestamp>) -> Option<f64> {
        let looks = &self.kept.borrow().looks;
        let samples: Vec<EngineSample> = looks.iter().map(|look| look.sample).collect();
        cached_share(&samples, window)
    }
}

/// Of the tokens looked up in the prefix cache during `window`, the share that was found: from the
/// last sample before it to the first one after it.
pub(crate) fn cached_share(samples: &[EngineSample], window: &Range<Timestamp>) -> Option<f64> {
    let before = samples.iter().rfind(|s| s.at <= window.start)?;
    let after = samples
        .iter()
        .find(|s| s.at >= window.end)
        .or_else(|| samples.last())?;
    let queries = after.prefix_queries?.checked_sub(before.prefix_queries?)?;
    let hits = after.prefix_hits?.checked_sub(before.prefix_hits?)?;
    (queries > 0).then(|| hits as f64 / queries as f64)
}
