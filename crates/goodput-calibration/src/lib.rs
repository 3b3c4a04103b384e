//! From the records of a measurement to the coefficients of an engine, with intervals.
//!
//! A decode step's time is a sum of terms with non-negative coefficients
//! ([`goodput_perf_model::StepTime`]). Where the instants of tokens were kept, [`steps_of`] reads
//! single steps and their batches off them; where only first and last tokens are known,
//! [`requests_of`] has a sample for each request, and of a table of load points [`PointFacts`] has
//! one for each row. All are the same kind of [`StepSample`], and [`calibrate`] fits them.
//!
//! What the samples do not settle is said ([`Identified`]), and so are the loads on which the
//! coefficients rest ([`Ranges`]).

mod bootstrap;
mod calibration;
mod document;
mod error;
mod fit;
mod form;
mod identify;
mod kv;
mod linear;
mod nnls;
mod observed;
mod points;
mod predict;
mod profile;
mod range;
mod refine;
mod replay;
mod requests;
mod sample;
mod streams;
#[cfg(test)]
mod tests;

pub use bootstrap::{COVERAGE, Resamples};
pub use calibration::{Ask, Calibration, calibrate};
pub use document::{CalibrationDocument, CoefficientRow, PointQuality, RefinedRow};
pub use error::CalibrationError;
pub use fit::{Fit, Prior};
pub use form::{Form, Routing, Term};
pub use identify::{Advice, Estimated, ILL_CONDITIONED, Identified, Known, identify};
pub use kv::{KvSeen, kv_seen, plateau};
pub use linear::Square;
pub use nnls::Normal;
pub use observed::Observed;
pub use points::PointFacts;
pub use predict::{Load, Means, Replica};
pub use profile::{form_of, priors_of};
pub use range::{Asked, Ranges, outside};
pub use refine::{Refined, refine};
pub use replay::Replayed;
pub use requests::requests_of;
pub use sample::StepSample;
pub use streams::{Steps, steps_of};
