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
mod boots;
mod compare;
mod contrast;
mod document;
mod findings;
mod grid;
#[cfg(test)]
mod tests;
mod watch;

pub use answers::{Question, SCALE_OUT_SHARE, answers, run_at};
pub use boots::{
    BootSummary, BootValue, as_one_of, merge_points, merge_result, over_boots, same_load,
    same_point, spread,
};
pub use compare::{
    At, BootCounts, Bound, Case, Compared, ComparedPoint, Comparison, Evidence, Gate, GateVerdict,
    Mismatch, Rule, Sense, Side, Undecided, Unit, Word, compare, differences, is_shown,
    known_figures, mismatches, more_is_better,
};
pub use contrast::{Contrast, PredictedLoad, Prediction, Variant, WhatIf, error};
pub use document::{
    ByGoodput, ByObjective, ClauseFacts, Finding, HardwareFacts, HoldsFor, OperatingPoint,
    PointChart, RequestBar, RunResult, SCHEMA_VERSION, Search, ServerFacts, SimulatedFacts,
    SloFacts, UnderWay, WorkloadFacts,
};
pub use findings::{WORKLOAD_ENDED, findings};
pub use grid::geometric;
pub use watch::{Look, mark, seen, watch, watched_together};
