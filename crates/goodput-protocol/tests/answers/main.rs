//! Whole answers as servers send them: fault cases, recorded streams, every chunking.

mod arbitrary;
mod captures;
mod harness;
mod sse_cases;
