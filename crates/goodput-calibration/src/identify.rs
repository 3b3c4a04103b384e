//! Which coefficients the samples settle, and which load points would settle the others.

use goodput_stats::Interval;
use serde::Serialize;

use crate::{
    bootstrap::Resamples, fit::Fit, form::Term, linear::Square, nnls::column_lengths,
    sample::StepSample,
};

/// Half an interval over its middle, up to which a coefficient counts as settled.
const SETTLED: f64 = 0.35;
/// A coefficient whose upper end makes no step longer by more than this share is of no account.
const NEGLIGIBLE: f64 = 0.03;
/// Variance inflation from which on a coefficient depends wholly on the others: what is left of it is
/// rounding.
const WHOLLY: f64 = 1e6;
/// Condition number of the scaled normal equations from which on columns count as dependent.
pub const ILL_CONDITIONED: f64 = 1e4;

/// How far a coefficient is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// Its interval is narrow.
    Settled,
    /// Its interval is wide, but even its upper end makes no step in the samples noticeably longer.
    Negligible,
    /// Its interval is wide: another measurement may give another value.
    Unsettled,
    /// No sample depends on it.
    NoData,
}

/// One coefficient with what is known of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimated {
    /// Which.
    pub coefficient: Term,
    /// Its value in seconds.
    pub value: f64,
    /// Its 90 % interval; `None` where no sample depends on it, where it depends wholly on the
    /// others (then any value is as good, if another coefficient changes with it), and where there
    /// are no more samples than coefficients.
    pub interval: Option<Interval>,
    /// Variance inflation: by how much the variance is larger than if no other coefficient had to be
    /// told apart from it (Marquardt, 1970). `None` where it depends wholly on the others.
    pub inflation: Option<f64>,
    /// The one it is hardest to tell apart from.
    pub mistaken_for: Option<Term>,
    /// The largest share of a step's time that it makes up in the samples.
    pub share: f64,
    /// How far it is known.
    pub known: Known,
}

/// A load that would settle what is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Advice {
    /// One request at a time, for the fixed cost and the prefill.
    Alone,
    /// One request at a time with two prompt lengths, for prefill and its quadratic part.
    TwoPromptLengths,
    /// A larger batch.
    LargerBatch,
    /// The same batch with another context.
    OtherContext,
}

impl Advice {
    /// The load, and what it is for.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Alone => {
                "--concurrency 1: one request at a time shows a step's fixed cost and the way in"
            }
            Self::TwoPromptLengths => {
                "--concurrency 1 with two prompt lengths, one of them 8 times the other: prefill and its quadratic part"
            }
            Self::LargerBatch => {
                "a concurrency at least 4 times the smallest one: what one more sequence costs"
            }
            Self::OtherContext => {
                "the same concurrency with prompts at least 4 times as long: what a sequence costs beside its context"
            }
        }
    }
}

/// What the samples tell of the coefficients.
#[derive(Clone, Debug, PartialEq)]
pub struct Identified {
    /// Each coefficient, in the form's order.
    pub coefficients: Vec<Estimated>,
    /// Condition number of the scaled normal equations: how much of the noise can be blown up.
    /// `None` where a column is empty.
    pub condition: Option<f64>,
    /// Loads that would settle what is open, the most telling first.
    pub advice: Vec<Advice>,
}

/// Judges a fit.
#[must_use]
pub fn identify(samples: &[StepSample], fit: &Fit, resamples: &Resamples) -> Identified {
    let columns = fit.form.coefficients();
    let gram = fit.whole(samples).gram;
    let filled: Vec<usize> = (0..columns.len())
        .filter(|&i| gram.at(i, i) > 0.0)
        .collect();
    let scaled = gram.scaled(&column_lengths(&gram)).of_only(&filled);
    let values = scaled.eigenvalues();
    let (low, high) = (values.first().copied(), values.last().copied());
    let condition = low.zip(high).map(|(low, high)| high / low.max(1e-15));
    let inverse = ridged(&scaled).inverse();
    let shares = shares(samples, fit);
    // As many unknowns as samples are met exactly, whatever they are: nothing is left to say how far
    // they are known.
    let spare = fit.used + fit.priors.len() > filled.len();
    let coefficients: Vec<Estimated> = (0..columns.len())
        .map(|i| {
            let place = filled.iter().position(|&f| f == i);
            let told = place.zip(inverse.as_ref());
            let inflation = told.map(|(p, inverse)| inverse.at(p, p));
            let wholly = inflation.is_none_or(|v| v >= WHOLLY);
            let interval = place
                .filter(|_| !wholly && spare)
                .and_then(|_| resamples.interval(i));
            let (share, most) = shares[i];
            Estimated {
                coefficient: columns[i],
                value: fit.theta[i],
                interval,
                inflation: inflation.filter(|_| !wholly),
                mistaken_for: told
                    .and_then(|(p, inverse)| nearest(inverse, p))
                    .map(|other| columns[filled[other]]),
                share,
                known: match place {
                    None => Known::NoData,
                    Some(_) => known(fit.theta[i], interval, most),
                },
            }
        })
        .collect();
    Identified {
        condition: condition.filter(|_| filled.len() == columns.len()),
        advice: advice(samples, &coefficients),
        coefficients,
    }
}

fn known(value: f64, interval: Option<Interval>, most: f64) -> Known {
    let Some(interval) = interval else {
        return Known::Unsettled;
    };
    let half = (interval.high - interval.low) / 2.0;
    if half <= SETTLED * value {
        Known::Settled
    } else if interval.high * most <= NEGLIGIBLE {
        Known::Negligible
    } else {
        Known::Unsettled
    }
}

/// For each coefficient its largest share of a sample's time, and the largest of what it is
/// multiplied with, by the sample's time.
fn shares(samples: &[StepSample], fit: &Fit) -> Vec<(f64, f64)> {
    let mut shares = vec![(0.0_f64, 0.0_f64); fit.theta.len()];
    for (sample, weight) in samples.iter().zip(&fit.weights) {
        if *weight <= 0.0 {
            continue;
        }
        let seconds = fit.seconds(sample).max(sample.seconds * 0.1);
        for ((share, most), (x, theta)) in shares
            .iter_mut()
            .zip(fit.form.row(sample).iter().zip(&fit.theta))
        {
            *most = most.max(x / seconds);
            *share = share.max(x * theta / seconds);
        }
    }
    shares
}

/// The same with a ridge that only matters where columns depend on each other to within rounding.
fn ridged(scaled: &Square) -> Square {
    let mut ridged = scaled.clone();
    for i in 0..ridged.size() {
        ridged.add(i, i, 0.1 / WHOLLY);
    }
    ridged
}

/// The column with the largest partial correlation to `place`, if it is large.
fn nearest(inverse: &Square, place: usize) -> Option<usize> {
    (0..inverse.size())
        .filter(|&other| other != place)
        .map(|other| {
            let both = inverse.at(place, place) * inverse.at(other, other);
            (other, inverse.at(place, other).abs() / libm::sqrt(both))
        })
        .filter(|(_, correlation)| *correlation > 0.9)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(other, _)| other)
}

fn advice(samples: &[StepSample], coefficients: &[Estimated]) -> Vec<Advice> {
    let open = |wanted: Term| {
        coefficients
            .iter()
            .any(|e| e.coefficient == wanted && matches!(e.known, Known::Unsettled | Known::NoData))
    };
    let decoding = || samples.iter().filter(|s| s.decodes > 0.0);
    let batches = range(decoding().map(StepSample::batch));
    let contexts = range(decoding().filter_map(StepSample::mean_context));
    let prompts = range(samples.iter().filter(|s| s.from_send).map(|s| s.prefill));
    let wide = |range: Option<(f64, f64)>, times: f64| {
        range.is_some_and(|(low, high)| high >= times * low)
    };
    let mut advice = Vec::new();
    let prefill = open(Term::Prefill) || open(Term::Pair);
    if (prefill || open(Term::Ingest)) && !wide(prompts, 4.0) {
        advice.push(Advice::TwoPromptLengths);
    } else if open(Term::Step) && batches.is_some_and(|(low, _)| low > 1.5) {
        advice.push(Advice::Alone);
    }
    let per_sequence = open(Term::Sequence) || open(Term::Compute);
    if (per_sequence || open(Term::Context) || open(Term::Experts)) && !wide(batches, 4.0) {
        advice.push(Advice::LargerBatch);
    }
    if (open(Term::Sequence) || open(Term::Context)) && !wide(contexts, 4.0) {
        advice.push(Advice::OtherContext);
    }
    advice
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, v| {
        let (low, high) = range.unwrap_or((v, v));
        Some((low.min(v), high.max(v)))
    })
}
