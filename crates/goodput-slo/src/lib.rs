//! Service level objectives: the file, the presets, and pass or fail for each request.
//!
//! An [`Slo`] is a list of [`Clause`]s (`ttft <= 500ms`), the share of requests that must keep them
//! all over a window ([`Objective`]), and the workload it is meant for. It comes from a TOML file
//! ([`SloFile`]), from a preset ([`Slo::preset`]) or from a flag ([`Slo::from_argument`]).
//! [`Slo::judge`] is the only place where a request passes or fails; it compares integer
//! nanoseconds, and bounds are inclusive.
//!
//! This crate computes no latency (the record does) and no percentile; it counts nothing.
//!
//! ```
//! let slo = goodput_slo::Slo::from_argument("ttft=500ms,tpot=50ms").unwrap();
//! assert_eq!(
//!     slo.sentence(),
//!     "99% of requests over 28d have ttft <= 500ms and tpot <= 50ms"
//! );
//! ```

mod answers;
mod bound;
mod checks;
mod clause;
mod excuse;
mod file;
mod inline;
mod judge;
mod metric;
mod objective;
mod presets;
mod slo;
mod summary;
#[cfg(test)]
mod tests;
mod workload;

pub use answers::AnswerJudge;
pub use bound::{Bound, Variable};
pub use clause::Clause;
pub use excuse::Excuse;
pub use file::SloFile;
pub use judge::{ClauseVerdict, Misses, Verdict};
pub use metric::Metric;
pub use objective::Objective;
pub use presets::{Preset, presets, presets_table};
pub use slo::Slo;
pub use summary::{ClauseSummary, SloSummary};
pub use workload::{LengthPercentiles, WorkloadStatement};
