//! The emulator over real sockets on loopback, read back with the project's own reader.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod changes;
mod errors;
mod faults;
mod lifetime;
mod metrics;
mod setup;
