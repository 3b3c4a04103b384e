//! Performance formulas: how long a step takes, what fits, where a replica saturates.
//!
//! Seconds are `f64` in here only; they leave as [`std::time::Duration`].

mod catalogue;
mod closed_form;
mod kv;
mod step;
#[cfg(test)]
mod tests;

pub use catalogue::{Accelerator, Catalogue, ModelConfig};
pub use closed_form::Demand;
pub use kv::{KvMemory, KvShape};
pub use step::{Batch, Experts, StepTime};
