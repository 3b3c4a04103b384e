//! What a regression is made of: the time of engine steps whose batch is known.

/// One engine step, or several in a row, with what they worked on.
///
/// Sums over several steps are as good as single ones, because a step's time is a sum of terms.
/// Counts may be fractions: a mean over a load point has 3.7 sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepSample {
    /// How long the steps took together, in seconds.
    pub seconds: f64,
    /// Steps.
    pub steps: f64,
    /// Decoding sequences, summed over the steps.
    pub decodes: f64,
    /// Tokens of context these read, summed over sequences and steps.
    pub context: f64,
    /// Prompt tokens computed in all of the steps.
    pub prefill: f64,
    /// Attention pairs of these: a chunk of `u` after `h` has `u h + u (u + 1) / 2`.
    pub pairs: f64,
    /// Steps over which the prompt tokens are spread: what is computed in one step counts there.
    pub prefill_steps: f64,
    /// Whether it was timed from a request's send: it then holds the way in as well.
    pub from_send: bool,
    /// The load point it is from.
    pub point: u32,
    /// How much it counts: 1 for a step that was watched, more for a mean over many.
    pub weight: f64,
}

impl StepSample {
    /// Decoding sequences of the mean step.
    #[must_use]
    pub fn batch(&self) -> f64 {
        self.decodes / self.steps
    }

    /// Context of the mean sequence; `None` where nothing decodes.
    #[must_use]
    pub fn mean_context(&self) -> Option<f64> {
        (self.decodes > 0.0).then(|| self.context / self.decodes)
    }

    /// Sums `f(tokens through the model)` over the steps.
    pub(crate) fn over_steps(&self, f: impl Fn(f64) -> f64) -> f64 {
        let batch = self.batch();
        let wide = self.prefill_steps.clamp(0.0, self.steps);
        if self.prefill <= 0.0 || wide <= 0.0 {
            return self.steps * f(batch);
        }
        (self.steps - wide) * f(batch) + wide * f(batch + self.prefill / wide)
    }
}
