//! Statistics of goodput: quantiles, mergeable histograms, intervals, samplers and keyed
//! randomness.
//!
//! Pure functions of their arguments: no clock, no file, no unseeded randomness. What is undefined
//! is `None`, never zero.

mod random;
pub mod sampler;

pub use random::{Draws, Stream, mix};
