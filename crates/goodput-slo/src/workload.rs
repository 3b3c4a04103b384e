//! What an SLO says of the workload it is meant for.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The workload beside an SLO. An SLO without a workload is a slogan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadStatement {
    /// The name of a workload preset, or of a workload file without its ending.
    pub preset: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// Its precision: "fp8", "bf16".
    pub precision: Option<String>,
    /// Percentiles of the input length, in tokens.
    pub input_tokens: Option<LengthPercentiles>,
    /// Percentiles of the output length, in tokens.
    pub output_tokens: Option<LengthPercentiles>,
    /// The share of input tokens expected from the prefix cache, from 0 to 1.
    pub cached_share: Option<f64>,
}

/// Lengths further apart than this are not the same workload.
const LENGTH_TOLERANCE: f64 = 0.2;
/// Neither are cached shares further apart than this.
const CACHE_TOLERANCE: f64 = 0.05;

impl WorkloadStatement {
    /// Where the workload of a run differs from this statement, a sentence each. What one of the
    /// two does not say is no difference.
    ///
    /// Lengths may be 20 % apart, cached shares 5 points.
    #[must_use]
    pub fn differences(&self, run: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let names = [
            ("model", &self.model, &run.model),
            ("precision", &self.precision, &run.precision),
        ];
        for (what, said, ran) in names {
            if let (Some(said), Some(ran)) = (said, ran)
                && !said.eq_ignore_ascii_case(ran)
            {
                found.push(format!("the SLO is for {what} {said}, the run has {ran}"));
            }
        }
        let lengths = [
            ("input", self.input_tokens, run.input_tokens),
            ("output", self.output_tokens, run.output_tokens),
        ];
        for (what, said, ran) in lengths {
            if let (Some(said), Some(ran)) = (said, ran)
                && !said.is_near(&ran)
            {
                found.push(format!(
                    "the SLO is for {what} lengths {said} (p50/p90/p99), the run has {ran}"
                ));
            }
        }
        if let (Some(said), Some(ran)) = (self.cached_share, run.cached_share)
            && (said - ran).abs() > CACHE_TOLERANCE
        {
            found.push(format!(
                "the SLO is for {}% of the input cached, the run plans {}%",
                percent(said),
                percent(ran)
            ));
        }
        found
    }
}

/// A share in percent, to the second decimal.
fn percent(share: f64) -> f64 {
    (share * 1e4).round() / 100.0
}

/// Percentiles of a length in tokens, across requests. They do not fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LengthPercentiles {
    /// The median.
    pub p50: u32,
    /// The 90th percentile.
    pub p90: Option<u32>,
    /// The 99th percentile.
    pub p99: Option<u32>,
}

impl LengthPercentiles {
    /// All three percentiles.
    #[must_use]
    pub const fn of(p50: u32, p90: u32, p99: u32) -> Self {
        Self {
            p50,
            p90: Some(p90),
            p99: Some(p99),
        }
    }

    fn is_near(&self, other: &Self) -> bool {
        let near =
            |a: u32, b: u32| f64::from(a.abs_diff(b)) <= LENGTH_TOLERANCE * f64::from(a.max(b));
        let both = |a: Option<u32>, b: Option<u32>| a.zip(b).is_none_or(|(a, b)| near(a, b));
        near(self.p50, other.p50) && both(self.p90, other.p90) && both(self.p99, other.p99)
    }

    /// Whether no percentile is below a lower one.
    #[must_use]
    pub fn rises(&self) -> bool {
        let known = [Some(self.p50), self.p90, self.p99];
        known.into_iter().flatten().is_sorted()
    }
}

impl fmt::Display for LengthPercentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |length: Option<u32>| length.map_or("-".to_owned(), |n| n.to_string());
        write!(f, "{}/{}/{}", self.p50, text(self.p90), text(self.p99))
    }
}

impl fmt::Display for WorkloadStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.preset.clone());
        match (&self.model, &self.precision) {
            (Some(model), Some(precision)) => parts.push(format!("{model} in {precision}")),
            (model, precision) => parts.extend(model.clone().or_else(|| precision.clone())),
        }
        if let Some(lengths) = self.input_tokens {
            parts.push(format!("in {lengths}"));
        }
        if let Some(lengths) = self.output_tokens {
            parts.push(format!("out {lengths} tokens (p50/p90/p99)"));
        }
        if let Some(share) = self.cached_share {
            parts.push(format!("{}% of the input cached", percent(share)));
        }
        f.write_str(&parts.join(", "))
    }
}
