//! The result folder: `result.json`, `points.csv`, `requests.jsonl`, `server_metrics.jsonl` and
//! `report.html`; made, written while a run goes on, and read.
//!
//! Entry types: [`Folder`] is one result on disk, [`RowWriter`] writes a run's requests as they
//! end, [`read_result`] reads a result back.

mod error;
mod folder;
mod import;
mod lines;
mod requests;
mod rows;
mod shards;

pub use error::{Result, ResultsError};
pub use folder::{Folder, read_result, write_whole};
pub use import::{Import, ImportAsk, ReadIn, ToldLoad, Tool, import};
pub use lines::JsonLines;
pub use requests::each_request;
pub use rows::{MOST_WAITING, RowForm, RowJob, RowWriter};
pub use shards::{
    BOOKS_FILE, EPOCH_LEAD_NS, Merged, SHARD_FILE, ShardNote, ShardPoint, SloSource, digest, merge,
};
