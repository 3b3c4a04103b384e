//! The vocabulary of goodput: one record per request, whatever its source.
//!
//! A record is what happened to one request as seen by one watcher: a load generator, a gateway or
//! a simulated engine. It is opened at the arrival ([`OpenRequest`]), written once when the request
//! ends ([`RequestRecord`]) and never edited. Every figure the project prints is computed from
//! records, and every latency is computed here and nowhere else.
//!
//! This crate never reads a clock, a file or the network. Time arrives as [`Timestamp`].

mod blocks;
mod ends;
mod gaps;
mod open;
mod outcome;
mod request;
mod row;
mod sample;
mod series;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(test)]
mod tests;
mod time;
mod told;
mod trajectory;

pub use blocks::{BlockRun, Blocks};
pub use ends::{Answer, StepRun, TokenEnds};
pub use gaps::{GapBuffer, Gaps};
pub use open::{OpenRequest, Sink};
pub use outcome::{FinishReason, Outcome, TimeoutPhase, TokenCount, UsageReport, Vantage};
pub use request::{Arrival, End, RequestRecord, RequestSummary};
pub use row::{Phase, RequestRow, RowContext, VerdictWord};
pub use sample::EngineSample;
pub use series::{Series, SeriesId, SeriesTable};
pub use time::{Epoch, Timestamp, UnixMinute, millis, nanos, nanos_of, span_of};
pub use told::ToldInstants;
pub use trajectory::TrajectoryRecord;
