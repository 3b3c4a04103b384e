//! The result folder: `result.json`, `points.csv`, `requests.jsonl`, `server_metrics.jsonl` and
//! `report.html`.

mod folder;
mod rows;

pub(crate) use folder::{Folder, read_result};
pub(crate) use rows::{JsonLines, RowJob, RowWriter};
