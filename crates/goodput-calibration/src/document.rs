//! What a calibration found, as plain values for people and programs.

use serde::Serialize;

use crate::{
    calibration::Calibration,
    identify::{Estimated, Known},
    kv::KvSeen,
    range::Ranges,
    sample::StepSample,
};

/// Everything a calibration found. Times are seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalibrationDocument {
    /// The records it rests on.
    pub folders: Vec<String>,
    /// What a sample is: `steps` (single steps, from kept gaps), `requests` (the mean step of each
    /// request) or `points` (the mean step of each load point).
    pub samples_are: String,
    /// Samples the coefficients rest on.
    pub samples: usize,
    /// Samples longer than the fit by more than six sigmas: preemptions and pauses, left out.
    pub pauses: usize,
    /// Steps left out because it was not clear who took part in them.
    pub unclear: usize,
    /// Steps left out because prompts waited in them.
    pub waiting: usize,
    /// Median of the absolute relative residuals.
    pub median_error: f64,
    /// Condition number of the normal equations; null where a coefficient has no data at all.
    pub condition: Option<f64>,
    /// Tokens in a step from which on arithmetic outgrows the weight reads; null: no knee was seen.
    pub knee_tokens: Option<f64>,
    /// The coefficients.
    pub coefficients: Vec<CoefficientRow>,
    /// How well each load point is met.
    pub points: Vec<PointQuality>,
    /// The loads it rests on.
    pub ranges: Ranges,
    /// Loads that would settle what is open.
    pub advice: Vec<String>,
    /// The size of the KV cache as seen; null: nothing told it.
    pub kv: Option<KvSeen>,
    /// Tokens that the server's template adds to a prompt: the median of those it counted beyond the
    /// planned ones; null: it counted none.
    pub template_tokens: Option<u32>,
    /// Refinement with the simulator in the loop; null: not asked for.
    pub refined: Option<RefinedRow>,
    /// What a reader should know.
    pub warnings: Vec<String>,
}

/// A refinement in figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RefinedRow {
    /// Load points that were replayed.
    pub points: usize,
    /// Simulations of all of them.
    pub tries: usize,
    /// Mean Huber loss of the logarithms of TTFT, TPOT and E2E quantiles, before.
    pub before: f64,
    /// The same after.
    pub after: f64,
}

/// One coefficient.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoefficientRow {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub words: &'static str,
    /// Its value.
    pub seconds: f64,
    /// Its 90 % interval; null where no sample depends on it.
    pub interval: Option<(f64, f64)>,
    /// Variance inflation by the other coefficients.
    pub inflation: Option<f64>,
    /// The coefficient it is hardest to tell apart from.
    pub mistaken_for: Option<&'static str>,
    /// The largest share of a step's time that it makes up.
    pub share: f64,
    /// How far it is known.
    pub known: Known,
}

/// How well one load point is met.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PointQuality {
    /// Its number.
    pub point: u32,
    /// Its samples.
    pub samples: usize,
    /// Decoding sequences of its mean step.
    pub batch: f64,
    /// Measured time of its mean step.
    pub seconds: f64,
    /// Fitted over measured time, less 1, over all its samples: what a mean TPOT would be off by.
    pub bias: f64,
}

impl CoefficientRow {
    /// The row of an estimate.
    #[must_use]
    pub fn of(estimated: &Estimated) -> Self {
        Self {
            name: estimated.coefficient.name(),
            words: estimated.coefficient.words(),
            seconds: estimated.value,
            interval: estimated.interval.map(|i| (i.low, i.high)),
            inflation: estimated.inflation,
            mistaken_for: estimated.mistaken_for.map(crate::form::Term::name),
            share: estimated.share,
            known: estimated.known,
        }
    }
}

impl Calibration {
    /// How well each load point is met. Pauses are in it: a token that is read late makes the next gap
    /// short, so that leaving out the long ones alone would move the mean.
    #[must_use]
    pub fn quality(&self, samples: &[StepSample]) -> Vec<PointQuality> {
        let mut numbers: Vec<u32> = samples.iter().map(|s| s.point).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let of = |point| {
            let own: Vec<&StepSample> = samples
                .iter()
                .filter(|s| s.point == point && s.decodes > 0.0)
                .collect();
            let sum = |f: &dyn Fn(&StepSample) -> f64| own.iter().map(|s| f(s)).sum::<f64>();
            let (seconds, steps) = (sum(&|s| s.seconds), sum(&|s| s.steps));
            (!own.is_empty()).then(|| PointQuality {
                point,
                samples: own.len(),
                batch: sum(&|s| s.decodes) / steps,
                seconds: seconds / steps,
                bias: sum(&|s| self.fit.seconds(s)) / seconds - 1.0,
            })
        };
        numbers.into_iter().filter_map(of).collect()
    }
}
