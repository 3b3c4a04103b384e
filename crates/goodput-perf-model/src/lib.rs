//! What an engine can do, in formulas: how long a step takes, what fits into its memory, where it
//! saturates.
//!
//! [`StepTime`] is the time of one step of continuous batching, [`KvShape`] and [`KvMemory`] say how
//! much context fits, [`Demand`] turns a workload into the load at which a replica saturates. A
//! [`Profile`] holds these numbers for one model on one kind of accelerator; a [`Catalogue`] has the
//! facts from which one can be computed.
//!
//! Seconds are `f64` in here only; they leave as [`std::time::Duration`].

mod batch;
mod catalogue;
mod closed_form;
mod coefficient;
mod derive;
pub mod essay;
mod kv;
mod mean_field;
mod profile;
pub mod queueing;
mod step;
#[cfg(test)]
mod tests;

pub use batch::Batch;
pub use catalogue::{Accelerator, Catalogue, ModelConfig};
pub use closed_form::Demand;
pub use coefficient::{Coefficient, CoefficientInterval, Extent, FittedOn};
pub use derive::{Assumptions, DeriveError, Derived, Precision};
pub use kv::{KvMemory, KvShape};
pub use mean_field::{Capacity, Limit, MeanField};
pub use profile::{Profile, Scheduler};
pub use step::{Experts, Speculation, StepTime, Window};
