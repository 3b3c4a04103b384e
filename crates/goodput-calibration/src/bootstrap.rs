//! How sure the coefficients are: fits to resampled periods of the measurement.

use goodput_stats::{Draws, Interval, Stream, quantile, sampler};

use crate::{fit::{Fit, add_priors}, nnls::Normal, sample::StepSample};

/// Periods each load point is cut into. Steps of one period are alike (the same requests are in
/// flight), so it is periods that are drawn, not steps.
const PERIODS: usize = 25;
/// What the draws are for.
const STREAM: Stream = Stream(0x6361_6c69_6272_6174);
/// Coverage of the intervals.
pub const COVERAGE: f64 = 0.9;

/// Coefficients as other measurements of the same engine might have given them.
#[derive(Clone, Debug, PartialEq)]
pub struct Resamples {
    /// One set of coefficients for each resample, in the form's order.
    pub thetas: Vec<Vec<f64>>,
    /// Periods that were drawn from.
    pub periods: usize,
}

impl Resamples {
    /// Draws `count` times as many periods from each load point as it has, with replacement, and
    /// fits anew (the block bootstrap: Kuensch, Annals of Statistics 17, 1989), under the robust
    /// weights of `fit`. Byte-identical for the same seed.
    #[must_use]
    pub fn draw(samples: &[StepSample], fit: &Fit, count: usize, seed: u64) -> Self {
        let points = periods(samples, fit);
        let periods = points.iter().map(Vec::len).sum();
        let thetas = (0..count)
            .map(|i| {
                let mut draws = Draws::new(seed, STREAM, i as u64);
                let mut normal = Normal::empty(fit.theta.len());
                for blocks in &points {
                    for _ in 0..blocks.len() {
                        normal.add_scaled(&blocks[place(&mut draws, blocks.len())], 1.0);
                    }
                }
                let mut priors = fit.priors.clone();
                for prior in &mut priors {
                    prior.value =
                        (prior.value + prior.spread * sampler::normal(&mut draws)).max(0.0);
                }
                add_priors(&mut normal, &fit.form, &priors, fit.sigma);
                normal.solve()
            })
            .collect();
        Self { thetas, periods }
    }

    /// The interval of one coefficient, by its place in the form.
    #[must_use]
    pub fn interval(&self, place: usize) -> Option<Interval> {
        self.of(|theta| theta.get(place).copied())
    }

    /// The interval of anything that follows from the coefficients: the middle 90 % of `figure` over
    /// the resamples. `None` where it does not exist for more than one in twenty of them.
    #[must_use]
    pub fn of(&self, figure: impl Fn(&[f64]) -> Option<f64>) -> Option<Interval> {
        let mut values: Vec<f64> = self.thetas.iter().filter_map(|t| figure(t)).collect();
        if values.is_empty() || values.len() * 20 < self.thetas.len() * 19 {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let tail = (1.0 - COVERAGE) / 2.0;
        Some(Interval {
            low: quantile(&values, tail)?,
            high: quantile(&values, 1.0 - tail)?,
        })
    }
}

/// The normal equations of each period, by load point.
fn periods(samples: &[StepSample], fit: &Fit) -> Vec<Vec<Normal>> {
    let mut points: Vec<u32> = samples.iter().map(|s| s.point).collect();
    points.sort_unstable();
    points.dedup();
    points
        .into_iter()
        .map(|point| {
            let own: Vec<(&StepSample, &f64)> = samples
                .iter()
                .zip(&fit.weights)
                .filter(|(s, _)| s.point == point)
                .collect();
            let long = own.len().div_ceil(PERIODS).max(1);
            own.chunks(long)
                .map(|chunk| fit.normal(chunk.iter().copied()))
                .collect()
        })
        .collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a draw below one times a length is a place in it"
)]
fn place(draws: &mut Draws, length: usize) -> usize {
    ((draws.unit() * length as f64) as usize).min(length - 1)
}
