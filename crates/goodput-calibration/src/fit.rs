//! Robust regression of step times: least squares that forgives, under non-negative coefficients.

use goodput_stats::quantile;

use crate::{
    error::CalibrationError,
    form::{Form, Term},
    nnls::Normal,
    sample::StepSample,
};

/// A residual above so many sigmas is no step: a preemption, a pause.
const PAUSE_SIGMAS: f64 = 6.0;
/// Huber's constant: 95 % of the efficiency of least squares where errors are normal (Huber, Robust
/// Statistics, 1981).
const HUBER: f64 = 1.345;
/// Spread below which residuals are rounding, not noise, for the sake of finding pauses.
const LEAST_SIGMA: f64 = 1e-3;
/// Rounds of reweighting. Each is a solve of a handful of equations.
const ROUNDS: usize = 40;

/// What was known of a coefficient before: it weighs as much as the data allow it to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// Which.
    pub coefficient: Term,
    /// Its value in seconds.
    pub value: f64,
    /// One standard deviation of it, in seconds; above 0.
    pub spread: f64,
}

/// Coefficients fitted to samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The form they belong to.
    pub form: Form,
    /// The coefficients in seconds, in the form's order, none negative.
    pub theta: Vec<f64>,
    /// What was known before.
    pub priors: Vec<Prior>,
    /// Robust spread of the relative residuals: 1.4826 times their median absolute deviation.
    pub sigma: f64,
    /// Median of the absolute relative residuals.
    pub median_error: f64,
    /// Samples the coefficients rest on.
    pub used: usize,
    /// Samples longer than the fit by more than six sigmas: preemptions and pauses, left out.
    pub pauses: usize,
    /// The samples' weights, in their order; 0 for those left out.
    pub(crate) weights: Vec<f64>,
}

impl Fit {
    /// Fits.
    ///
    /// Residuals are relative: a step of 100 ms may be off by ten times as much as one of 10 ms.
    ///
    /// # Errors
    /// If there are fewer samples than coefficients that could be told.
    pub fn of(
        samples: &[StepSample],
        form: Form,
        priors: &[Prior],
    ) -> Result<Self, CalibrationError> {
        if samples.is_empty() {
            return Err(CalibrationError::NoSteps);
        }
        let rows: Vec<Vec<f64>> = samples.iter().map(|s| form.row(s)).collect();
        let mut descent = Descent {
            samples,
            rows: &rows,
            form: &form,
            priors,
            kept: vec![true; samples.len()],
            weights: vec![0.0; samples.len()],
            theta: Vec::new(),
            sigma: LEAST_SIGMA,
        };
        descent.run();
        // One look for pauses, then the fit without them: a second one would eat into the noise.
        let limit = PAUSE_SIGMAS * descent.sigma.max(LEAST_SIGMA);
        let pauses = descent.leave_out(limit);
        if pauses > 0 {
            descent.run();
        }
        let residuals: Vec<f64> = descent.residuals().collect();
        let Descent {
            weights,
            theta,
            sigma,
            ..
        } = descent;
        Ok(Self {
            form,
            theta,
            priors: priors.to_vec(),
            sigma,
            median_error: median(residuals.iter().map(|r| r.abs())),
            used: samples.len() - pauses,
            pauses,
            weights,
        })
    }

    /// A coefficient; `None` where the form has none of this kind.
    #[must_use]
    pub fn get(&self, coefficient: Term) -> Option<f64> {
        let place = self.form.coefficients();
        let place = place.iter().position(|c| *c == coefficient)?;
        self.theta.get(place).copied()
    }

    /// The time this fit gives a sample, in seconds.
    #[must_use]
    pub fn seconds(&self, sample: &StepSample) -> f64 {
        dot(&self.form.row(sample), &self.theta)
    }

    /// The weight a sample has where Huber's function forgives nothing, for a sample that counts once.
    pub(crate) fn full_weight(&self, sample: &StepSample) -> f64 {
        let scale = self.seconds(sample).max(sample.seconds * 0.1);
        1.0 / (scale * scale)
    }

    /// The normal equations of some of the samples, under the weights of this fit.
    pub(crate) fn normal<'a>(
        &self,
        samples: impl Iterator<Item = (&'a StepSample, &'a f64)>,
    ) -> Normal {
        let mut normal = Normal::empty(self.theta.len());
        for (sample, weight) in samples.filter(|(_, weight)| **weight > 0.0) {
            normal.add(&self.form.row(sample), sample.seconds, *weight);
        }
        normal
    }

    /// The whole problem at its solution, priors included.
    pub(crate) fn whole(&self, samples: &[StepSample]) -> Normal {
        let mut normal = self.normal(samples.iter().zip(&self.weights));
        add_priors(&mut normal, &self.form, &self.priors, self.sigma);
        normal
    }
}

/// Reweighted least squares under way.
struct Descent<'a> {
    samples: &'a [StepSample],
    rows: &'a [Vec<f64>],
    form: &'a Form,
    priors: &'a [Prior],
    kept: Vec<bool>,
    weights: Vec<f64>,
    theta: Vec<f64>,
    sigma: f64,
}

impl Descent<'_> {
    /// Huber's M-estimate by iteratively reweighted least squares (Holland and Welsch, 1977).
    fn run(&mut self) {
        for (i, sample) in self.samples.iter().enumerate() {
            self.weights[i] = if self.kept[i] {
                sample.weight / (sample.seconds * sample.seconds)
            } else {
                0.0
            };
        }
        for _ in 0..ROUNDS {
            let solved = self.solve();
            let before = std::mem::replace(&mut self.theta, solved);
            self.reweight();
            let still = before.len() == self.theta.len()
                && before.iter().zip(&self.theta).all(|(b, a)| near(*b, *a));
            if still {
                break;
            }
        }
    }

    fn solve(&self) -> Vec<f64> {
        let mut normal = Normal::empty(self.form.coefficients().len());
        for ((row, sample), weight) in self.rows.iter().zip(self.samples).zip(&self.weights) {
            if *weight > 0.0 {
                normal.add(row, sample.seconds, *weight);
            }
        }
        add_priors(&mut normal, self.form, self.priors, self.sigma);
        normal.solve()
    }

    /// Relative residuals of the samples kept: above 0 where a step took longer than the fit says.
    fn residuals(&self) -> impl Iterator<Item = f64> {
        let all = self.rows.iter().zip(self.samples).zip(&self.kept);
        all.filter(|(_, kept)| **kept)
            .map(|((row, sample), _)| relative(sample.seconds, dot(row, &self.theta)))
    }

    /// New weights, and the spread they go by. The weight is by the fitted time, not by the
    /// measured one: else what is long by chance would count for less.
    fn reweight(&mut self) {
        self.sigma = 1.4826 * median_deviation(self.residuals());
        let limit = HUBER * self.sigma.max(1e-9);
        for i in 0..self.samples.len() {
            if !self.kept[i] {
                continue;
            }
            let fitted = dot(&self.rows[i], &self.theta);
            let residual = relative(self.samples[i].seconds, fitted).abs();
            let scale = fitted.max(self.samples[i].seconds * 0.1);
            let forgiven = limit / residual.max(limit);
            self.weights[i] = self.samples[i].weight * forgiven / (scale * scale);
        }
    }

    /// Leaves out what is longer than the fit by more than `limit`; returns how many that are.
    fn leave_out(&mut self, limit: f64) -> usize {
        let mut pauses = 0;
        for i in 0..self.samples.len() {
            let fitted = dot(&self.rows[i], &self.theta);
            if relative(self.samples[i].seconds, fitted) > limit {
                self.kept[i] = false;
                pauses += 1;
            }
        }
        // A fit that leaves out more than it keeps has not found the steps.
        if pauses * 2 > self.samples.len() {
            self.kept.fill(true);
            return 0;
        }
        pauses
    }
}

/// A prior is a sample whose error is the prior's, in units of the samples' own.
pub(crate) fn add_priors(normal: &mut Normal, form: &Form, priors: &[Prior], sigma: f64) {
    let columns = form.coefficients();
    for prior in priors {
        let Some(place) = columns.iter().position(|c| *c == prior.coefficient) else {
            continue;
        };
        let mut row = vec![0.0; columns.len()];
        row[place] = 1.0;
        normal.add(&row, prior.value, prior_weight(prior, sigma));
    }
}

pub(crate) fn prior_weight(prior: &Prior, sigma: f64) -> f64 {
    let weight = sigma.max(LEAST_SIGMA) / prior.spread;
    weight * weight
}

fn relative(measured: f64, fitted: f64) -> f64 {
    (measured - fitted) / fitted.max(measured * 0.1)
}

pub(crate) fn dot(row: &[f64], theta: &[f64]) -> f64 {
    row.iter().zip(theta).map(|(x, t)| x * t).sum()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-10 * a.abs().max(b.abs())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5).unwrap_or(0.0)
}

fn median_deviation(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    let middle = median(values.iter().copied());
    median(values.into_iter().map(|v| (v - middle).abs()))
}
