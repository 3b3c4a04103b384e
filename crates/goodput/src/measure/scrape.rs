//! The server's own counters during a run: to disk, and the share of cache hits over a window.

use std::{cell::RefCell, ops::Range, rc::Rc, time::Duration};

use goodput_loadgen::{Client, Scraper, scrape};
use goodput_record::{EngineSample, Timestamp};
use serde::Serialize;

use crate::{
    exit::Failure,
    results::{Folder, JsonLines},
};

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

/// The samples of a run, and the task that takes them.
#[derive(Debug, Default)]
pub(crate) struct Scrape {
    samples: Rc<RefCell<Vec<EngineSample>>>,
    _task: Option<Scraper>,
}

impl Scrape {
    /// Starts to read the server's counters into `server_metrics.jsonl`.
    pub(crate) fn start(client: &Rc<Client>, folder: &Folder) -> Result<Self, Failure> {
        let mut lines = JsonLines::create(&folder.file("server_metrics.jsonl"))?;
        let samples = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&samples);
        let task = scrape(client, EVERY, 0, move |look| {
            seen.borrow_mut().push(look.sample);
            for (name, value) in look.rows() {
                let row = MetricRow {
                    t_ns: look.at.nanos(),
                    replica: 0,
                    name: &name,
                    value,
                };
                // A full disk shows at the records, which decide; these rows only explain.
                let _ = lines.write(&row);
            }
            let _ = lines.flush();
        });
        Ok(Self {
            samples,
            _task: Some(task),
        })
    }

    /// Of the tokens looked up in the prefix cache during `window`, the share that was found.
    pub(crate) fn cached_share(&self, window: &Range<Timestamp>) -> Option<f64> {
        let samples = self.samples.borrow();
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
