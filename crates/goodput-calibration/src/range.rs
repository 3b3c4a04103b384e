//! The loads a profile was fitted on, and warnings where it is asked for others.

use goodput_perf_model::{Extent, FittedOn};
use serde::Serialize;

use crate::sample::StepSample;

/// The smallest and largest of each figure in the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ranges {
    /// Decoding sequences in a step.
    pub batch: (f64, f64),
    /// Tokens of context of the mean sequence in a step.
    pub context: (f64, f64),
    /// Prompt tokens computed in a sample that computed any; `None`: none did.
    pub prefill: Option<(f64, f64)>,
    /// Load points.
    pub points: usize,
    /// Samples.
    pub samples: usize,
}

impl Ranges {
    /// The range of these samples; `None` where nothing decodes.
    #[must_use]
    pub fn of(samples: &[StepSample]) -> Option<Self> {
        let decoding: Vec<&StepSample> = samples.iter().filter(|s| s.decodes > 0.0).collect();
        let mut points: Vec<u32> = samples.iter().map(|s| s.point).collect();
        points.sort_unstable();
        points.dedup();
        let prefills = samples.iter().filter(|s| s.prefill >= 1.0);
        Some(Self {
            batch: range(decoding.iter().map(|s| s.batch()))?,
            context: range(decoding.iter().filter_map(|s| s.mean_context()))?,
            prefill: range(prefills.map(|s| s.prefill)),
            points: points.len(),
            samples: samples.len(),
        })
    }

    /// Whether batches differ by less than half: nothing tells what one more sequence costs.
    #[must_use]
    pub fn is_one_load(&self) -> bool {
        self.batch.1 < 1.5 * self.batch.0
    }

    /// The same as a profile keeps it. `prompts` are the shortest and longest prompt, `rates` the
    /// lowest and highest requests a second, where they are known.
    #[must_use]
    pub fn fitted_on(&self, prompts: Option<Extent>, rates: Option<Extent>) -> FittedOn {
        let extent = |(min, max): (f64, f64)| Extent { min, max };
        FittedOn {
            decodes: Some(extent(self.batch)),
            context_tokens: Some(extent(self.context)),
            prompt_tokens: prompts.or(self.prefill.map(extent)),
            rate_req_s: rates,
        }
    }
}

/// What a load asks of a replica, for [`outside`]. What is not known is not compared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Asked {
    /// Most sequences that decode at once.
    pub decodes: Option<f64>,
    /// Context of the mean sequence, in tokens.
    pub context_tokens: Option<f64>,
    /// The longest prompt, in tokens.
    pub prompt_tokens: Option<f64>,
    /// Requests a second.
    pub rate_req_s: Option<f64>,
}

/// A load may lie outside of what was seen by this share before it is said.
const SLACK: f64 = 1.2;

/// A warning where a profile is asked for a load on which it was not fitted: by more than a fifth
/// above, or a fifth below, what was seen. `None` inside, and for a profile that was never fitted.
#[must_use]
pub fn outside(fitted_on: Option<&FittedOn>, asked: &Asked) -> Option<String> {
    let fitted = fitted_on?;
    let mut said = Vec::new();
    let mut look = |what: &str, value: Option<f64>, seen: Option<Extent>, below: bool| {
        let (Some(value), Some(seen)) = (value, seen) else {
            return;
        };
        if value > SLACK * seen.max || (below && value < seen.min / SLACK) {
            said.push(format!(
                "{what} {value:.0} (fitted on {:.0} to {:.0})",
                seen.min, seen.max
            ));
        }
    };
    look("decoding sequences", asked.decodes, fitted.decodes, false);
    look(
        "context tokens",
        asked.context_tokens,
        fitted.context_tokens,
        true,
    );
    look(
        "prompt tokens",
        asked.prompt_tokens,
        fitted.prompt_tokens,
        false,
    );
    look(
        "requests a second",
        asked.rate_req_s,
        fitted.rate_req_s,
        false,
    );
    (!said.is_empty()).then(|| {
        format!(
            "outside of what the profile was fitted on: {}",
            said.join(", ")
        )
    })
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, v| {
        let (low, high) = range.unwrap_or((v, v));
        Some((low.min(v), high.max(v)))
    })
}
