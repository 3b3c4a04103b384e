//! The program as users run it: the real binary, real sockets on loopback, real files.
//!
//! Nothing here depends on how fast the machine is: a point that a loaded machine made invalid
//! still has its files and its messages.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod bench;
mod boots;
mod calibrate;
mod client;
mod faces;
mod failures;
mod gate;
mod imports;
mod interrupts;
mod lint;
mod long_runs;
mod messages;
mod outages;
mod plans;
mod program;
mod queueing;
mod results;
mod secrets;
mod server;
mod shards;
mod simulate;
mod slo_flags;
mod small_writes;
mod starved;
mod terminal;
mod timings;
mod watched;
mod workloads;
