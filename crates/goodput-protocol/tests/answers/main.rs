//! Whole answers as servers send them: fault cases, recorded streams, every chunking.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arbitrary;
mod captures;
mod harness;
mod outcomes;
mod sse_cases;
mod usage;
