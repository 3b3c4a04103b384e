//! A fit as a profile.

use goodput_perf_model::{Coefficient, CoefficientInterval, FittedOn, Profile};

use crate::{
    calibration::Calibration,
    fit::Prior,
    form::{Form, Routing, Term},
};

/// A prior of a profile's coefficient: this share of its value is one standard deviation.
const PRIOR_SHARE: f64 = 0.5;
/// Normal quantile of the upper end of a 90 % interval.
const NORMAL_95: f64 = 1.645;

/// The form of a base profile's step time: its experts and tiles.
#[must_use]
pub fn form_of(base: &Profile) -> Form {
    Form {
        knee_tokens: None,
        tile_tokens: base.step_time.tile_tokens,
        routing: base.step_time.experts.map(|e| Routing {
            count: e.count,
            per_token: e.per_token,
        }),
    }
}

/// A base profile's coefficients as what was known before: a standard deviation is half the value,
/// or that of the interval it has.
#[must_use]
pub fn priors_of(base: &Profile) -> Vec<Prior> {
    let form = form_of(base);
    let told = |term: Term| {
        let wanted = coefficient(term)?;
        let interval = base.intervals.iter().find(|i| i.coefficient == wanted)?;
        Some((interval.high_s - interval.low_s) / (2.0 * NORMAL_95))
    };
    form.coefficients()
        .into_iter()
        .zip(form.theta(&base.step_time, base.ingest_s))
        .filter(|(_, value)| *value > 0.0)
        .map(|(term, value)| Prior {
            coefficient: term,
            value,
            spread: told(term).unwrap_or(PRIOR_SHARE * value).max(1e-3 * value),
        })
        .collect()
}

/// The coefficient of a profile that a term is, where it is one of them.
const fn coefficient(term: Term) -> Option<Coefficient> {
    match term {
        Term::Compute => Some(Coefficient::Compute),
        Term::Experts => Some(Coefficient::Experts),
        Term::Sequence => Some(Coefficient::Sequence),
        Term::Context => Some(Coefficient::Context),
        Term::Prefill => Some(Coefficient::Prefill),
        Term::Pair => Some(Coefficient::Pair),
        Term::Step | Term::Ingest => None,
    }
}

impl Calibration {
    /// The base with the fitted coefficients, their intervals and what they were fitted on. All that
    /// is no coefficient (limits, memory, names) stays the base's.
    ///
    /// Weight reads and fixed cost are one coefficient of the fit. Its interval stands beside the
    /// overhead, and the weight reads are taken as exact.
    #[must_use]
    pub fn profile(&self, base: &Profile, fitted_on: FittedOn, source: String) -> Profile {
        let fit = &self.fit;
        let mut step_time = fit.form.step_time(&fit.theta, base.weight_floor_s());
        step_time.tile_tokens = base.step_time.tile_tokens;
        let places = fit.form.coefficients();
        let mut intervals = Vec::new();
        for (place, term) in places.into_iter().enumerate() {
            let known = self.identified.coefficients.get(place);
            let Some(interval) = known.and_then(|e| e.interval) else {
                continue;
            };
            let (wanted, less) = match (term, coefficient(term)) {
                (_, Some(coefficient)) => (coefficient, 0.0),
                (Term::Step, None) => (
                    Coefficient::Overhead,
                    fit.theta[place] - step_time.overhead_s,
                ),
                _ => continue,
            };
            intervals.push(CoefficientInterval {
                coefficient: wanted,
                low_s: (interval.low - less).max(0.0),
                high_s: (interval.high - less).max(0.0),
            });
        }
        intervals.sort_by_key(|i| i.coefficient);
        Profile {
            source,
            step_time,
            ingest_s: fit.get(Term::Ingest).unwrap_or(0.0),
            intervals,
            fitted_on: Some(fitted_on),
            derived: None,
            ..base.clone()
        }
    }
}
