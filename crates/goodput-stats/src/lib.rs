//! Statistics of goodput: quantiles, mergeable histograms, intervals, samplers and keyed
//! randomness.
//!
//! Pure functions of their arguments: no clock, no file, no unseeded randomness. What is undefined
//! is `None`, never zero. Transcendental functions come from `libm`, so that a figure is the same
//! on every machine.
//!
//! ```
//! use goodput_stats::{Distribution, min_samples_for};
//!
//! let ttft: Distribution = (58..=128).collect();
//! assert_eq!(ttft.quantile(0.5), Some(93.0));
//! assert!(ttft.count() < min_samples_for(0.99), "too few for a p99");
//! ```

mod buckets;
mod difference;
mod distribution;
mod interval;
mod level;
mod looks;
mod normal;
mod quantile;
mod random;
pub mod sampler;
mod series;
mod shift;
mod whole;
mod ziggurat;

pub use difference::{
    Bounded, change_interval, confidence_stretch, difference_interval, min_samples_for_interval,
    paired_correlation, quantile_interval,
};
pub use distribution::{Adjusted, Bar, Distribution, EXACT_SAMPLES};
pub use interval::{
    COMPANY, CONFIDENCE, Estimate, Interval, Watched, attainment_interval, independent_values,
    mean_estimate, mean_interval, mean_rate_interval, quantile_levels, ratio_estimate,
    ratio_interval, series_mean, steady_mean, wilson,
};
pub use level::{LevelShift, level_shift};
pub use looks::{looks_confidence, looks_interval};
pub use normal::{normal_cdf, normal_quantile, student_cdf, student_quantile};
pub use quantile::{Sample, min_samples_for, quantile};
pub use random::{Draws, Stream, StreamDraws, mix};
pub use series::{
    autocorrelation, correlation_time, cv, index_of_dispersion, pearson, truncate_mser5,
};
pub use shift::quantile_shifts;
pub use whole::{whole_u32, whole_u64};
