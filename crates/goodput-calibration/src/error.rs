//! Why nothing can be fitted.

use thiserror::Error;

/// Why records give no profile.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// No request shows how long a step takes.
    #[error("no request tells how long a step takes: none that ended well has two tokens")]
    NoSteps,
    /// All samples come from one load.
    #[error(
        "all {samples} samples are of one load: a batch of {batch:.1} and a context of {context:.0} tokens"
    )]
    OneLoad {
        /// Samples.
        samples: usize,
        /// Decoding sequences of the mean step.
        batch: f64,
        /// Context of the mean sequence.
        context: f64,
    },
}

impl CalibrationError {
    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NoSteps => {
                "measure with streamed answers of several tokens, best with --keep-gaps"
            }
            Self::OneLoad { .. } => {
                "add a folder of another load: goodput bench --concurrency 1 --keep-gaps, and one of a larger concurrency"
            }
        }
    }
}
