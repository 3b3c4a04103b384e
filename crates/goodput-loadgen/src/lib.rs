//! The load generator: a client for one thread, the drivers of one load point, prompts as text.
//!
//! A [`Client`] speaks to one [`Target`]. [`run_point`] drives a workload against it, closed loop
//! or open, and hands every request to an [`Observer`] as a record; what a record has no room for
//! is in the [`PointReport`]: send lag, the load thread's own lag and CPU, the peak in flight, and
//! whether the figures are to be trusted at all. [`probe_server`] finds out who answers before
//! anything is asked, [`scrape`] reads the server's counters meanwhile.
//!
//! What holds here:
//! - Every arrival ends in one record, whatever returns early, panics or is cancelled. What cannot
//!   be sent is a record too.
//! - In an open loop the schedule stands: no arrival is left out, none is moved, and latencies run
//!   from the scheduled instant. There is no limit on what is in flight.
//! - No hidden limit ends an answer, no hidden pool holds a request back, no retry is hidden.
//! - An instant is taken at the read, before anything is parsed ([`runtime`] is one thread). A
//!   token costs no allocation, no lock and no generic JSON value.
//!
//! Percentiles, verdicts and goodput are computed elsewhere; nothing is printed here.

mod answering;
mod client;
mod clock;
mod connection;
mod conversation;
mod descriptors;
mod dial;
mod doubt;
mod ends;
mod error;
mod exchange;
mod fetch;
mod http2;
mod inbox;
mod invalid;
mod lag;
mod machine;
mod observer;
mod path;
mod plan;
mod prompt;
mod reach;
mod ready;
mod refusal;
mod report;
mod run;
mod runtime;
mod scrape;
mod server;
mod slip;
mod socket;
mod stop;
mod tally;
mod target;
#[cfg(test)]
mod tests;
mod timer;
mod watch;

pub use client::{Client, Traffic};
pub use clock::Clock;
pub use descriptors::{RESERVE, make_room, sockets_possible};
pub use doubt::{MOVED_SHARE, Moved};
pub use error::{LoadError, TargetError};
pub use fetch::{FetchError, Reply};
pub use goodput_workload::{Settle, Window, WindowRule};
pub use invalid::Invalid;
pub use machine::Machine;
pub use observer::{Compose, Observer};
pub use path::{PathProbe, PathSeen};
pub use plan::PointPlan;
pub use prompt::{
    CalibrationError, CalibrationPrompt, Corpus, CorpusError, CountedBy, Fit, PromptWriter,
    WrittenMessage, calibration_prompts,
};
pub use reach::{Reach, reach};
pub use report::{PointReport, ServerTimings};
pub use run::run_point;
pub use runtime::runtime;
pub use scrape::{Scrape, Scraper, scrape};
pub use server::{ProbeError, ServerFacts, probe_server};
pub use slip::Ended;
pub use stop::{Stop, Wish};
pub use target::{Api, BearerKey, Endpoint, HttpVersion, Limits, Target, TextCounter};
pub use timer::Timer;
