//! Simulated results against one another and against measured ones: what-ifs and predictions.
//!
//! Both are read off a [`Comparison`], which has the figures with the intervals of their changes.

use goodput_ledger::Mode;
use serde::{Deserialize, Serialize};

use crate::compare::{Compared, ComparedPoint, Comparison, Side, compare};

/// The answers of a what-if, as a comparison names them.
const ANSWERS: [&str; 3] = ["sell_req_s", "cap_in_flight", "peak_goodput_tok_s"];

/// The figures of a load that a what-if and a prediction state.
const FIGURES: [&str; 6] = [
    "ttft_p50_ms",
    "ttft_p99_ms",
    "tpot_p50_ms",
    "tpot_p99_ms",
    "goodput_tok_s",
    "slo_attainment",
];

/// One figure of two results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contrast {
    /// Both values, their change and its interval.
    #[serde(flatten)]
    pub compared: Compared,
    /// Whether the two are surely not equal: the 95 % interval of the change leaves nought out. Null
    /// where there is no interval.
    pub distinguishable: Option<bool>,
}

impl Contrast {
    fn of(compared: &Compared) -> Self {
        let interval = compared.difference_interval.or(compared.change_interval);
        Self {
            distinguishable: interval.map(|i| i.low > 0.0 || i.high < 0.0),
            compared: compared.clone(),
        }
    }
}

fn contrasts(figures: &[Compared], names: &[&str]) -> Vec<Contrast> {
    let named = |name: &&str| figures.iter().find(|f| f.figure == **name);
    names.iter().filter_map(named).map(Contrast::of).collect()
}

/// A simulated base and variants of it, all under the same arrivals and lengths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// The base's folder.
    pub base: String,
    /// The load at which latencies are compared, the base's operating point: `4.6 req/s`. Null where
    /// the base has none.
    pub at: Option<String>,
    /// Why an answer of the base is missing.
    pub missing: Vec<String>,
    /// The variants, in the order in which they were asked for.
    pub variants: Vec<Variant>,
}

/// One variant against the base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// Its folder.
    pub folder: String,
    /// What is different: `max_num_seqs=64`.
    pub changes: Vec<String>,
    /// The answers of both: rate to sell, cap, peak.
    pub answers: Vec<Contrast>,
    /// The figures of both at the base's operating point. Empty where there is none.
    pub at_base: Vec<Contrast>,
    /// Requests that both served there and that are compared one by one. Null where there are none.
    pub pairs: Option<u64>,
    /// Why an answer of the variant is missing.
    pub missing: Vec<String>,
}

impl Variant {
    /// A variant against its base; `at`: the mode and the load at which both were simulated under
    /// one schedule.
    #[must_use]
    pub fn of(
        (folder, changes): (String, Vec<String>),
        base: &Side<'_>,
        variant: &Side<'_>,
        at: Option<(Mode, f64)>,
    ) -> Self {
        let comparison = compare(base, variant);
        let point = at.and_then(|(mode, load)| {
            let is_it = |p: &&ComparedPoint| p.mode == mode && (p.at - load).abs() <= 1e-9 * load;
            comparison.points.iter().find(is_it)
        });
        Self {
            folder,
            changes,
            answers: contrasts(&comparison.answers, &ANSWERS),
            at_base: point.map_or_else(Vec::new, |p| contrasts(&p.figures, &FIGURES)),
            pairs: point.and_then(|p| p.pairs),
            missing: variant.result.operating_point.missing.clone(),
        }
    }
}

/// A simulated curve against the measured one that it predicts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The loads that both have.
    pub loads: Vec<PredictedLoad>,
    /// For each figure the median of the absolute errors over the loads.
    pub median_error: Vec<(String, f64)>,
    /// The answers, measured and predicted.
    pub answers: Vec<Contrast>,
    /// Loads that only one of the two has, or whose measured point is not valid.
    pub left_out: usize,
}

/// One load, measured and predicted. The base of every figure is the measured one, its change the
/// error of the prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictedLoad {
    /// `16 in flight` or `5 req/s`.
    pub load: String,
    /// The figures.
    pub figures: Vec<Contrast>,
}

impl Prediction {
    /// Reads the errors off a comparison whose base is the measured result.
    #[must_use]
    pub fn of(comparison: &Comparison, loads_of_both: usize) -> Self {
        let loads: Vec<PredictedLoad> = comparison
            .points
            .iter()
            .filter(|p| p.unusable.is_empty())
            .map(|p| PredictedLoad {
                load: p.load.clone(),
                figures: contrasts(&p.figures, &FIGURES),
            })
            .collect();
        let errors = FIGURES.iter().filter_map(|name| {
            let figures = loads.iter().flat_map(|load| &load.figures);
            let mut errors: Vec<f64> = figures
                .filter(|f| f.compared.figure == **name)
                .filter_map(error)
                .map(f64::abs)
                .collect();
            errors.sort_by(f64::total_cmp);
            Some(((*name).to_owned(), goodput_stats::quantile(&errors, 0.5)?))
        });
        Self {
            median_error: errors.collect(),
            answers: contrasts(&comparison.answers, &ANSWERS),
            left_out: loads_of_both.saturating_sub(loads.len()),
            loads,
        }
    }
}

/// The error of a prediction: of a share the difference in shares, else relative to what was
/// measured. `None` where one of the two has no value.
#[must_use]
pub fn error(figure: &Contrast) -> Option<f64> {
    let compared = &figure.compared;
    if compared.figure == "slo_attainment" {
        return Some(compared.other? - compared.base?);
    }
    compared.change
}

impl Comparison {
    /// How many loads either side of a comparison of these results has.
    #[must_use]
    pub fn loads_of_either(&self, base: &Side<'_>, other: &Side<'_>) -> usize {
        let loads = |side: &Side<'_>| crate::boots::one_a_load(side.result.points.iter()).len();
        (loads(base) + loads(other)).saturating_sub(self.points.len())
    }
}
