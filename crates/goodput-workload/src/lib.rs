//! Workloads: what is asked of a server, and when.
//!
//! A checked [`WorkloadSpec`] says lengths, arrivals, shared prefixes and sessions. A [`Workload`]
//! is a passive source of [`PlannedRequest`]s for one load point: it is asked what is due and is
//! told when a request has ended. It never sends, sleeps or looks at a clock. The same
//! specification, load and seed give the same requests, in any order of ends; the only thing that
//! depends on what happened is the due time of a request that waits for an earlier one.
//!
//! Prompts are planned as [`Segment`]s: keys and token counts, no text.
//!
//! ```
//! use std::{num::NonZeroU32, sync::Arc};
//! use goodput_record::Timestamp;
//! use goodput_workload::{Load, Shard, Workload, WorkloadSpec};
//!
//! let spec = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
//! let users = NonZeroU32::new(4).unwrap();
//! let mut workload = Workload::new(&spec, Load::Closed(users), 7, Shard::WHOLE);
//! let request = workload.take(Timestamp::ZERO).unwrap();
//! assert_eq!(request.prompt.tokens(), request.input_tokens);
//! workload.ended(request.session, Timestamp::from_millis(900));
//! ```

mod arrivals;
mod cache;
mod course;
mod facts;
mod file;
mod knobs;
mod lengths;
mod plain;
mod plan;
mod presets;
mod prompt;
mod script;
mod shared;
mod spec;
#[cfg(test)]
mod tests;
mod trace;
mod workload;

pub use arrivals::{Arrivals, RatePoint, Schedule};
pub use cache::SeenPrefixes;
pub use course::{Course, CoursePlan, Settle, Window, WindowRule};
pub use facts::{Percentiles, WorkloadFacts};
pub use lengths::Lengths;
pub use plain::{PlainRequest, PlainRequests};
pub use plan::{Load, PlannedRequest, Reply, Shard, point_seed};
pub use presets::{Preset, presets};
pub use prompt::{Prompt, Role, Segment};
pub use shared::{SharedRequest, SharedRequests};
pub use spec::{
    Groups, History, OutputPolicy, RowSession, RowStep, Rows, Sessions, TextSource, ThinkTime,
    WorkloadSpec,
};
pub use trace::{
    BurstFacts, CacheFacts, KeyOfNames, ReadOptions, ReuseFacts, SkippedRow, Trace, TraceError,
    TraceFacts, TraceFormat, TraceRequest, approximate_tokens,
};
pub use workload::Workload;
