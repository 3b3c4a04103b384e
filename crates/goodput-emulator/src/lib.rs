//! An emulated inference server: a socket, a clock and faults around the simulated engine.
//!
//! It speaks the API of `OpenAI` as vLLM does, answers with varied words at the instants that the engine
//! of [`goodput_sim`] gives, and shows vLLM's metric names, so that every tool that works on a real
//! replica can be tried on a laptop. It adds no performance model of its own.
//!
//! One thread does everything, with its own small HTTP/1.1 server: the token events of a step are
//! written in one pass straight to the sockets, woken by an absolute timer. How late they were is
//! measured on every write and told at `/emulator/lateness` and in the [`EmulatorReport`].
//!
//! Entry: [`serve`] with an [`EmulatorConfig`]; [`Stop`] ends it from another thread.

mod api;
mod body;
mod clock;
mod config;
mod connection;
mod exchange;
mod faults;
mod floor;
mod http;
mod lateness;
mod limits;
mod metrics;
mod replicas;
mod report;
mod routes;
mod second_hand;
mod server;
mod stop;
mod tokenizer;
mod wire;
mod words;

pub use config::{EmulatorConfig, NaturalLength};
pub use faults::{
    Convoy, FAULTS, FaultError, Faults, Restart, RoleChunk, SlowStart, Slowdown, Stall,
};
pub use lateness::{Lateness, LatenessFigures};
pub use report::{Counts, EmulatorReport};
pub use server::{EmulatorError, serve};
pub use stop::Stop;
