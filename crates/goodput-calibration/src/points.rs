//! Samples from a table of load points: what other tools publish.

use crate::sample::StepSample;

/// Mean figures of one load point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointFacts {
    /// Its number, or any other name.
    pub point: u32,
    /// Users of a closed loop; `None`: an open loop.
    pub users: Option<f64>,
    /// Requests that ended a second. `None`: a closed loop's follows from its times.
    pub requests_s: Option<f64>,
    /// Mean prompt tokens that had to be computed.
    pub input: f64,
    /// Mean of `p (p + 1) / 2` over these.
    pub pairs: f64,
    /// Mean output tokens.
    pub output: f64,
    /// Context that an average decode step reads for one sequence: `E[l (p + l/2)] / E[l]`.
    pub context: f64,
    /// Mean time per output token, the first one left out, in seconds.
    pub tpot_s: f64,
    /// Mean time to first token in seconds, where told.
    pub ttft_s: Option<f64>,
}

impl PointFacts {
    /// Lengths that are all the same.
    #[must_use]
    pub fn fixed_lengths(input: f64, output: f64, tpot_s: f64) -> Self {
        Self {
            point: 0,
            users: None,
            requests_s: None,
            input,
            pairs: input * (input + 1.0) / 2.0,
            output,
            context: input + output / 2.0,
            tpot_s,
            ttft_s: None,
        }
    }

    /// Requests a second: as told, else of a closed loop by Little's law, users over the time of a
    /// request.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        self.requests_s.or_else(|| {
            let e2e = self.ttft_s? + self.tpot_s * (self.output - 1.0);
            self.users.map(|users| users / e2e)
        })
    }

    /// Sequences decoding in the mean step, by Little's law: rate times the time from first to last
    /// token. Less than the users of a closed loop, some of whom wait for their first token.
    #[must_use]
    pub fn decodes(&self) -> Option<f64> {
        Some(self.rate()? * self.tpot_s * (self.output - 1.0))
    }

    /// The mean step as a sample: while one token comes, `rate x TPOT` prompts are computed. With it,
    /// where the point is one request at a time, the step of its prefill.
    #[must_use]
    pub fn samples(&self) -> Vec<StepSample> {
        let (Some(rate), Some(decodes)) = (self.rate(), self.decodes()) else {
            return Vec::new();
        };
        // The one user of a closed loop has nobody's prefill between the tokens.
        let alone = self.users.is_some_and(|users| users <= 1.0);
        let (decodes, prompts) = if alone {
            (1.0, 0.0)
        } else {
            (decodes, rate * self.tpot_s)
        };
        let step = StepSample {
            seconds: self.tpot_s,
            steps: 1.0,
            decodes,
            context: decodes * self.context,
            prefill: prompts * self.input,
            pairs: prompts * self.pairs,
            prefill_steps: prompts.min(1.0),
            from_send: false,
            point: self.point,
        };
        let prefill = self.ttft_s.filter(|_| alone).map(|seconds| StepSample {
            seconds,
            decodes: 0.0,
            context: 0.0,
            prefill: self.input,
            pairs: self.pairs,
            prefill_steps: 1.0,
            from_send: true,
            ..step
        });
        [Some(step), prefill].into_iter().flatten().collect()
    }
}
