//! Which load to run at: from the points of a sweep to the operating point, and the document that
//! holds both.
//!
//! Entry types: [`answers`] turns load points into an [`OperatingPoint`]; [`RunResult`] is
//! `result.json`; [`auto`] says which load a sweep tries next, and for how long.
//!
//! Pure: which load comes next is decided from values alone.

mod answers;
pub mod auto;
mod bars;
mod compare;
mod document;
mod findings;
mod grid;
#[cfg(test)]
mod tests;

pub use answers::{Question, SCALE_OUT_SHARE, answers, run_at};
pub use compare::{Compared, ComparedPoint, Comparison, Mismatch, compare, mismatches};
pub use document::{
    ByGoodput, ByObjective, ClauseFacts, Finding, HoldsFor, OperatingPoint, PointChart, RequestBar,
    RunResult, SCHEMA_VERSION, Search, ServerFacts, SloFacts, WorkloadFacts,
};
pub use findings::findings;
pub use grid::geometric;
