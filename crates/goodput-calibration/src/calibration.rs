//! From samples to coefficients with all that is known of them.

use crate::{
    bootstrap::Resamples,
    error::CalibrationError,
    fit::{Fit, Prior},
    form::{Form, Term},
    identify::{Identified, identify},
    range::Ranges,
    sample::StepSample,
};

/// How to calibrate.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// The terms of the step time. A knee is looked for unless it has one.
    pub form: Form,
    /// Whether to look for the number of tokens at which arithmetic outgrows the weight reads.
    pub find_knee: bool,
    /// What was known before.
    pub priors: Vec<Prior>,
    /// Resamples for the intervals: at least 200 for the tails of a 90 % interval.
    pub resamples: usize,
    /// Seed of these.
    pub seed: u64,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            form: Form::default(),
            find_knee: true,
            priors: Vec::new(),
            resamples: 400,
            seed: 1,
        }
    }
}

/// Coefficients with all that is known of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The coefficients and how well they fit.
    pub fit: Fit,
    /// The same as other measurements might have given them: for intervals of what follows from them.
    pub resamples: Resamples,
    /// Which are settled, and what would settle the others.
    pub identified: Identified,
    /// The loads they rest on.
    pub ranges: Ranges,
}

/// Fits, looks for a knee, draws intervals and judges what they are worth.
///
/// # Errors
/// If there is no sample, or all are of one load.
pub fn calibrate(samples: &[StepSample], ask: &Ask) -> Result<Calibration, CalibrationError> {
    let ranges = Ranges::of(samples).ok_or(CalibrationError::NoSteps)?;
    if ranges.is_one_load() {
        return Err(CalibrationError::OneLoad {
            samples: samples.len(),
            batch: f64::midpoint(ranges.batch.0, ranges.batch.1),
            context: f64::midpoint(ranges.context.0, ranges.context.1),
        });
    }
    let mut fit = Fit::of(samples, ask.form, &ask.priors)?;
    if ask.find_knee && ask.form.knee_tokens.is_none() && ask.form.routing.is_none() {
        fit = with_knee(samples, ask, fit)?;
    }
    let resamples = Resamples::draw(samples, &fit, ask.resamples, ask.seed);
    let identified = identify(samples, &fit, &resamples);
    Ok(Calibration {
        fit,
        resamples,
        identified,
        ranges,
    })
}

/// A knee must take this share off the spread of the residuals to be believed: it is one more
/// coefficient, and tile stairs look like a knee at first sight.
const KNEE_GAIN: f64 = 0.1;

fn with_knee(samples: &[StepSample], ask: &Ask, plain: Fit) -> Result<Fit, CalibrationError> {
    let widest = samples.iter().map(StepSample::batch).fold(0.0, f64::max);
    let mut best = plain;
    let mut to_beat = best.sigma * (1.0 - KNEE_GAIN);
    // Enough samples must lie on both sides for a knee to be more than a second slope.
    for knee in [
        24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0,
    ] {
        let beyond = samples.iter().filter(|s| s.batch() > knee).count();
        if knee > widest * 0.8 || beyond * 10 < samples.len() {
            continue;
        }
        let form = Form {
            knee_tokens: Some(knee),
            ..ask.form
        };
        let fit = Fit::of(samples, form, &ask.priors)?;
        let found = fit.get(Term::Compute).is_some_and(|c| c > 0.0);
        if found && fit.sigma < to_beat && fit.pauses <= best.pauses + samples.len() / 100 {
            to_beat = fit.sigma;
            best = fit;
        }
    }
    Ok(best)
}
