//! The loads a profile was fitted on, and warnings where it is asked for others.

use crate::sample::StepSample;

/// The smallest and largest of each figure in the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedOn {
    /// Decoding sequences in a step.
    pub batch: (f64, f64),
    /// Tokens of context of the mean sequence in a step.
    pub context: (f64, f64),
    /// Tokens of context read in a step, over all sequences.
    pub context_sum: (f64, f64),
    /// Prompt tokens computed in a sample that computed any; `None`: none did.
    pub prefill: Option<(f64, f64)>,
    /// Load points.
    pub points: usize,
    /// Samples.
    pub samples: usize,
}

impl FittedOn {
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
            context_sum: range(decoding.iter().map(|s| s.context / s.steps))?,
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

    /// A warning where a load lies outside by more than a fifth; `None` inside.
    #[must_use]
    pub fn outside(&self, batch: f64, context: f64, prompt: f64) -> Option<String> {
        let mut said = Vec::new();
        let mut look = |what: &str, value: f64, (low, high): (f64, f64)| {
            if value > 1.2 * high || value < low / 1.2 {
                said.push(format!("{what} of {value:.0} (fitted on {low:.0} to {high:.0})"));
            }
        };
        look("a batch", batch, self.batch);
        look("a context", context, self.context);
        match self.prefill {
            Some((_, high)) => look("a prompt", prompt, (0.0, high)),
            None if prompt > 0.0 => said.push("prompts, of which it saw none".to_owned()),
            None => {}
        }
        (!said.is_empty()).then(|| format!("the profile is asked for {}", said.join(", ")))
    }
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, v| {
        let (low, high) = range.unwrap_or((v, v));
        Some((low.min(v), high.max(v)))
    })
}
