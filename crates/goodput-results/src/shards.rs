//! Shards: the folders of several processes that carried one schedule together, and their merging.
//!
//! Each process writes a result folder of its own, with [`SHARD_FILE`] (whose share it is) and
//! [`BOOKS_FILE`] (its books, point by point). [`merge`] adds the books up: whole numbers, so the
//! merged figures are those that one process would have had, to the last digit.

mod belong;
mod clocks;
mod facts;
mod merge;
#[cfg(test)]
mod tests;

use goodput_ledger::{PointFacts, SavedBooks, WatchRow};
use goodput_slo::{Slo, SloFile};
use serde::{Deserialize, Serialize};

pub use facts::EPOCH_LEAD_NS;
pub use merge::{Merged, merge};

/// The file that says which share a folder is.
pub const SHARD_FILE: &str = "shard.json";
/// The file with a share's books, one point a line.
pub const BOOKS_FILE: &str = "books.jsonl";

/// Which share of which run a folder is. Shares that belong together differ in `index` alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardNote {
    /// Which share, from 0.
    pub index: u16,
    /// Of how many.
    pub of: u16,
    /// When the first point begins, in nanoseconds since 1970-01-01 UTC.
    pub start_at_unix_ns: u64,
    /// From the beginning of one point to that of the next, in nanoseconds.
    pub slot_ns: u64,
    /// From the beginning of a point to its window.
    pub settle_ns: u64,
    /// The length of every window.
    pub window_ns: u64,
    /// The seed of schedule, lengths and prompts.
    pub seed: u64,
    /// The workload in full, as a digest: the same name may stand for two files.
    pub workload_digest: u64,
    /// Whether answers were asked for as streams.
    pub streamed: bool,
    /// The SLOs as they were named, with the text of those that were files.
    pub slos: Vec<SloSource>,
}

/// An SLO as it was named on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SloSource {
    /// A preset, clauses, or the name of a file.
    pub argument: String,
    /// The text of the file.
    pub text: Option<String>,
}

impl SloSource {
    /// The SLOs it stands for.
    fn read(&self) -> Result<Vec<Slo>, String> {
        match &self.text {
            Some(text) => SloFile::parse(&self.argument, text).map_err(|e| e.to_string()),
            None => Slo::from_argument(&self.argument)
                .map(|slo| vec![slo])
                .map_err(|e| e.to_string()),
        }
    }
}

/// One load point of a share: a line of [`BOOKS_FILE`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShardPoint {
    /// How long after its planned beginning the share began it, in nanoseconds.
    pub begun_late_ns: u64,
    /// Arrivals of the share that were due inside the window.
    pub due: u64,
    /// Of these, arrivals that were sent.
    pub sent: u64,
    /// What the share's process says of itself.
    pub facts: PointFacts,
    /// What the share saw of the server.
    #[serde(default)]
    pub server: Option<WatchRow>,
    /// Its books.
    pub books: SavedBooks,
}

/// Folds bytes into a number, to tell two texts apart (FNV-1a, 64 bit).
#[must_use]
pub fn digest(bytes: &[u8]) -> u64 {
    crate::import::digest(0, bytes)
}
