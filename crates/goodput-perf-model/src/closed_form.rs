//! Where an open loop saturates, in one formula.

use std::time::Duration;

use goodput_record::span_of;

use super::StepTime;

/// The work of the mean request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Prompt tokens to compute, those found in the prefix cache left out.
    pub prefill_tokens: f64,
    /// Attention pairs of these; for prompts without hits the mean of `p (p + 1) / 2`.
    pub prefill_pairs: f64,
    /// Output tokens.
    pub output_tokens: f64,
    /// Tokens of context an average decode step reads for one sequence: `E[l (p + l/2)] / E[l]`.
    /// It is biased to long answers, since these take part in more steps.
    pub context_tokens: f64,
}

impl Demand {
    /// The mean over `(input, output)` token counts, none of it cached; `None` for no request.
    #[must_use]
    pub fn of(requests: &[(u32, u32)]) -> Option<Self> {
        let count = requests.len() as f64;
        let mean = |f: &dyn Fn(f64, f64) -> f64| {
            let sum: f64 = requests.iter().map(|r| f(r.0.into(), r.1.into())).sum();
            sum / count
        };
        let output_tokens = mean(&|_, l| l);
        (output_tokens > 0.0).then(|| Self {
            prefill_tokens: mean(&|p, _| p),
            prefill_pairs: mean(&|p, _| p * (p + 1.0) / 2.0),
            output_tokens,
            context_tokens: mean(&|p, l| l * (p + l / 2.0)) / output_tokens,
        })
    }
}

impl StepTime {
    /// The rate in requests per second at which steps would grow without end:
    /// `1 / (c_p E[p] + d E[pairs] + E[l] (b + k c))`.
    ///
    /// By Little's law on the decode slots; it holds while no other limit (slots, KV) binds and
    /// the step is bound by memory, that is for coefficients without `compute_s` and experts.
    /// `None` if nothing grows with load.
    #[must_use]
    pub fn saturation_rate(&self, demand: &Demand) -> Option<f64> {
        let decode = self.sequence_s + self.context_s * demand.context_tokens;
        let work = self.prefill_s * demand.prefill_tokens
            + self.pair_s * demand.prefill_pairs
            + decode * demand.output_tokens;
        (work > 0.0).then(|| 1.0 / work)
    }

    /// Mean time per output token at `rate` requests per second: `a / (1 - rate / saturation)`.
    /// `None` at or above saturation.
    #[must_use]
    pub fn tpot_at(&self, demand: &Demand, rate: f64) -> Option<Duration> {
        let used = rate / self.saturation_rate(demand)?;
        let idle = self.overhead_s + self.weights_s;
        (used < 1.0).then(|| span_of(idle / (1.0 - used)))
    }

    /// The highest rate at which the mean time per output token stays within `bound`; a mean: fewer
    /// than all requests are within it there. `None` if one sequence alone is slower.
    #[must_use]
    pub fn rate_within(&self, demand: &Demand, bound: Duration) -> Option<f64> {
        let share = 1.0 - (self.overhead_s + self.weights_s) / bound.as_secs_f64();
        (share > 0.0)
            .then(|| self.saturation_rate(demand))?
            .map(|limit| limit * share)
    }
}
