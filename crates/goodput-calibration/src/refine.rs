//! Refinement with the simulator in the loop: coefficients under which the same requests, sent to a
//! simulated engine, wait and stream as they did.
//!
//! A mean step hides what single steps do to each other: who waits for whom, and which prompts fall
//! between whose tokens. The simulator has all of it, at the price of a run for each try.

use goodput_perf_model::Profile;

use crate::{
    calibration::Calibration,
    form::{Form, Term},
    replay::Replayed,
};

/// Beyond this difference of logarithms a quantile pulls with constant force.
const HUBER: f64 = 0.1;
/// Factors by which a coefficient may be moved, as a logarithm to either side.
const REACH: f64 = 0.4;

/// What a refinement came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Refined {
    /// The coefficients, in the form's order.
    pub theta: Vec<f64>,
    /// Mean Huber loss of the logarithms of quantiles, before.
    pub before: f64,
    /// The same after; never larger.
    pub after: f64,
    /// Simulated runs of all points that it took.
    pub tries: usize,
}

/// Moves the coefficients of `calibration` so that simulated TTFT, TPOT and E2E have the measured
/// quantiles: golden section along each coefficient, then the simplex of Nelder and Mead (1965), at
/// most `tries` simulations of all points. A coefficient of 0 stays 0. `None` where there is no
/// point, or `base` has no room for one of the requests.
///
/// Deterministic: no draw is made.
#[must_use]
pub fn refine(
    calibration: &Calibration,
    base: &Profile,
    points: &[Replayed],
    tries: usize,
) -> Option<Refined> {
    let fit = &calibration.fit;
    let mut trial = Trial {
        form: fit.form,
        start: &fit.theta,
        base,
        points,
        left: tries.max(1),
    };
    let moved: Vec<usize> = (0..fit.theta.len())
        .filter(|&i| fit.theta[i] > 0.0)
        .collect();
    let mut at = vec![0.0; fit.theta.len()];
    let before = trial.loss(&at)?;
    if points.is_empty() {
        return None;
    }
    let mut best = before;
    for &i in &moved {
        best = golden(&mut trial, &mut at, i, best);
    }
    best = simplex(&mut trial, &mut at, &moved, best);
    Some(Refined {
        theta: trial.theta(&at),
        before,
        after: best,
        tries: tries - trial.left,
    })
}

impl Calibration {
    /// The calibration with refined coefficients. Each resample moves by the same factor: the
    /// refinement corrects what the mean hides, not the noise.
    #[must_use]
    pub fn refined(mut self, refined: &Refined) -> Self {
        let factor = |i: usize| {
            let was = self.fit.theta[i];
            if was > 0.0 {
                refined.theta[i] / was
            } else {
                1.0
            }
        };
        let factors: Vec<f64> = (0..self.fit.theta.len()).map(factor).collect();
        for theta in &mut self.resamples.thetas {
            theta.iter_mut().zip(&factors).for_each(|(t, f)| *t *= f);
        }
        for (i, estimated) in self.identified.coefficients.iter_mut().enumerate() {
            estimated.value = refined.theta[i];
            if let Some(interval) = &mut estimated.interval {
                interval.low *= factors[i];
                interval.high *= factors[i];
            }
        }
        self.fit.theta.clone_from(&refined.theta);
        self
    }
}

/// Simulations of one start, counted.
struct Trial<'a> {
    form: Form,
    start: &'a [f64],
    base: &'a Profile,
    points: &'a [Replayed],
    left: usize,
}

impl Trial<'_> {
    /// The coefficients at these logarithms of factors.
    fn theta(&self, at: &[f64]) -> Vec<f64> {
        let moved = self.start.iter().zip(at);
        moved
            .map(|(t, by)| t * libm::exp(by.clamp(-REACH, REACH)))
            .collect()
    }

    /// Mean loss over points, figures and levels. `None` when all tries are spent.
    fn loss(&mut self, at: &[f64]) -> Option<f64> {
        self.left = self.left.checked_sub(1)?;
        let theta = self.theta(at);
        let mut profile = self.base.clone();
        // What was measured is counted with its template.
        profile.template_tokens = 0;
        profile.step_time = self.form.step_time(&theta, self.base.weight_floor_s());
        let ingest = self
            .form
            .coefficients()
            .iter()
            .position(|c| *c == Term::Ingest);
        profile.ingest_s = ingest.map_or(0.0, |i| theta[i]);
        let (mut sum, mut count) = (0.0, 0.0);
        for point in self.points {
            let simulated = point.simulate(&profile)?;
            for (got, want) in simulated
                .iter()
                .flatten()
                .zip(point.measured.iter().flatten())
            {
                let off = libm::log(got.max(1e-9) / want.max(1e-9)).abs();
                sum += if off <= HUBER {
                    off * off / 2.0
                } else {
                    HUBER * (off - HUBER / 2.0)
                };
                count += 1.0;
            }
        }
        Some(sum / f64::max(count, 1.0))
    }
}

/// Golden section along one coefficient (Kiefer, 1953); keeps the best place it saw.
fn golden(trial: &mut Trial<'_>, at: &mut [f64], place: usize, best: f64) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_894_9;
    let (mut low, mut high) = (-REACH / 2.0, REACH / 2.0);
    let (mut kept, mut best) = (at[place], best);
    let mut look = |x: f64, at: &mut [f64]| {
        at[place] = x;
        let loss = trial.loss(at);
        if let Some(loss) = loss.filter(|l| *l < best) {
            (kept, best) = (x, loss);
        }
        loss
    };
    let (mut a, mut b) = (high - RATIO * (high - low), low + RATIO * (high - low));
    let (mut at_a, mut at_b) = (look(a, at), look(b, at));
    for _ in 0..5 {
        let (Some(loss_a), Some(loss_b)) = (at_a, at_b) else {
            break;
        };
        if loss_a < loss_b {
            (high, b, at_b) = (b, a, at_a);
            a = high - RATIO * (high - low);
            at_a = look(a, at);
        } else {
            (low, a, at_a) = (a, b, at_b);
            b = low + RATIO * (high - low);
            at_b = look(b, at);
        }
    }
    at[place] = kept;
    best
}

/// The simplex of Nelder and Mead over the coefficients that are not 0, until the tries are spent or it
/// has shrunk to a thousandth.
fn simplex(trial: &mut Trial<'_>, at: &mut [f64], moved: &[usize], best: f64) -> f64 {
    let mut corners: Vec<(f64, Vec<f64>)> = vec![(best, at.to_vec())];
    for &i in moved {
        let mut corner = at.to_vec();
        corner[i] += 0.03;
        let Some(loss) = trial.loss(&corner) else {
            break;
        };
        corners.push((loss, corner));
    }
    while corners.len() == moved.len() + 1 && moved.len() > 1 {
        corners.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (lowest, highest) = (corners[0].0, corners[moved.len()].0);
        if highest - lowest <= 1e-3 * lowest.max(1e-12) || reflect(trial, &mut corners).is_none() {
            break;
        }
    }
    corners.sort_by(|a, b| a.0.total_cmp(&b.0));
    at.copy_from_slice(&corners[0].1);
    corners[0].0
}

/// One step of the simplex: reflect the worst corner; then expand, contract or shrink.
fn reflect(trial: &mut Trial<'_>, corners: &mut [(f64, Vec<f64>)]) -> Option<()> {
    let last = corners.len() - 1;
    let middle: Vec<f64> = (0..corners[0].1.len())
        .map(|i| corners[..last].iter().map(|c| c.1[i]).sum::<f64>() / last as f64)
        .collect();
    let beyond = |by: f64, worst: &[f64]| -> Vec<f64> {
        middle
            .iter()
            .zip(worst)
            .map(|(m, w)| m + by * (m - w))
            .collect()
    };
    let mirrored = beyond(1.0, &corners[last].1);
    let loss = trial.loss(&mirrored)?;
    if loss < corners[0].0 {
        let further = beyond(2.0, &corners[last].1);
        let far = trial.loss(&further).unwrap_or(f64::INFINITY);
        corners[last] = if far < loss {
            (far, further)
        } else {
            (loss, mirrored)
        };
    } else if loss < corners[last - 1].0 {
        corners[last] = (loss, mirrored);
    } else {
        let nearer = beyond(-0.5, &corners[last].1);
        let near = trial.loss(&nearer)?;
        if near < corners[last].0 {
            corners[last] = (near, nearer);
        } else {
            let best = corners[0].1.clone();
            for (loss, corner) in corners.iter_mut().skip(1) {
                for (c, b) in corner.iter_mut().zip(&best) {
                    *c = f64::midpoint(*c, *b);
                }
                *loss = trial.loss(corner)?;
            }
        }
    }
    Some(())
}
