//! The server's own counters during a run: to disk, and the share of cache hits over a window.

use std::{cell::RefCell, ops::Range, rc::Rc, time::Duration};

use goodput_loadgen::{self as loadgen, Client, Scraper, scrape};
use goodput_record::{EngineSample, Timestamp};
use goodput_results::{Folder, JsonLines};
use serde::Serialize;

use crate::exit::Failure;

/// How often the server is asked.
const EVERY: Duration = Duration::from_secs(1);

/// One value of one counter or gauge.
#[derive(Debug, Serialize)]
struct MetricRow<'a> {
    t_ns: u64,
    replica: u16,
    name: &'a str,
    value: f64,
}

/// What is kept of the looks at a server.
#[derive(Debug)]
struct Kept {
    lines: JsonLines,
    samples: Vec<EngineSample>,
}

impl Kept {
    fn add(&mut self, look: &loadgen::Scrape) {
        self.samples.push(look.sample);
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
            samples: Vec::new(),
        }));
        let seen = Rc::clone(&kept);
        let task = scrape(client, EVERY, 0, move |look| seen.borrow_mut().add(&look));
        Ok(Self {
            client: Rc::clone(client),
            kept,
            _task: task,
        })
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
        let samples = &self.kept.borrow().samples;
        // From the last look before the window to the first one after it.
        let before = samples.iter().rfind(|s| s.at <= window.start)?;
        let after = samples
            .iter()
            .find(|s| s.at >= window.end)
            .or_else(|| samples.last())?;
        let queries = after.prefix_queries?.checked_sub(before.prefix_queries?)?;
        let hits = after.prefix_hits?.checked_sub(before.prefix_hits?)?;
        (queries > 0).then(|| hits as f64 / queries as f64)
    }
}
