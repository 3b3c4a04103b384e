//! (being built)
mod answering;
mod client;
mod clock;
mod connection;
mod conversation;
mod course;
mod descriptors;
mod dial;
mod error;
mod exchange;
mod fetch;
mod http2;
mod inbox;
mod plan;
mod prompt;
mod reach;
mod refusal;
mod report;
mod run;
mod runtime;
mod scrape;
mod server;
mod slip;
mod stop;
mod tally;
mod target;
#[cfg(test)]
mod tests;
mod timer;
mod watch;

pub use client::{Client, Traffic};
pub use clock::Clock;
pub use course::WindowRule;
pub use descriptors::{RESERVE, make_room, sockets_possible};
pub use error::{LoadError, TargetError};
pub use fetch::{FetchError, Reply};
pub use plan::{PointPlan, Settle, Window};
pub use prompt::{
    CalibrationError, CalibrationPrompt, Corpus, CorpusError, CountedBy, Fit, PromptWriter,
    WrittenMessage, calibration_prompts,
};
pub use reach::{Reach, reach};
pub use report::{Invalid, PointReport};
pub use run::{Compose, Observer, run_point};
pub use runtime::runtime;
pub use scrape::{Scrape, Scraper, scrape};
pub use server::{ProbeError, ServerFacts, probe_server};
pub use slip::Ended;
pub use stop::{Stop, Wish};
pub use target::{Api, BearerKey, Endpoint, HttpVersion, Limits, Target};
pub use timer::Timer;
