//! A passive simulation of one inference engine.
//!
//! [`Engine`] is a replica without a clock and without a socket: requests are put in with
//! [`Engine::submit`], time is moved with [`Engine::advance`], and what happens on the way is told
//! to an [`EngineEvents`]. It batches continuously, keeps KV blocks, preempts and reuses prefixes
//! by the rules of vLLM v1. A [`goodput_perf_model::Profile`] says how long its steps take and how
//! much fits. [`drive`] runs an engine in virtual time and files the same records a measurement does.
//!
//! This crate never reads a clock, a file or the network, and draws no random number: the same
//! calls give the same events, to the nanosecond, on any machine.
//!
//! ```
//! use goodput_perf_model::Profile;
//! use goodput_record::{Outcome, Timestamp};
//! use goodput_sim::{Engine, EngineEvents, EngineRequest};
//!
//! #[derive(Default)]
//! struct Last(Timestamp);
//! impl EngineEvents for Last {
//!     fn tokens(&mut self, at: Timestamp, _index: u64, _count: u32) {
//!         self.0 = at;
//!     }
//!     fn ended(&mut self, _at: Timestamp, _index: u64, _outcome: Outcome) {}
//! }
//!
//! let profile = Profile::builtin("laptop").unwrap();
//! let mut engine = Engine::new(&profile);
//! engine.submit(Timestamp::ZERO, EngineRequest::new(0, 1_000, 100)).unwrap();
//! let mut last = Last::default();
//! engine.advance(Timestamp::FAR_FUTURE, &mut last);
//! assert!(last.0.seconds() > 0.3 && last.0.seconds() < 0.6);
//! ```

pub mod drive;
mod engine;
mod server;
mod slots;

pub use engine::{Counters, Engine, EngineEvents, EngineRequest, Refusal};
pub use server::Server;
pub use slots::SlotEngine;
