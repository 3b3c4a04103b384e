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
    /// How much the point counts. The square of its users where a table is continued upwards: the
    /// nearest loads then decide, and a stair or a knee far below does not tilt the line.
    pub weight: f64,
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
            weight: 1.0,
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

    /// Sequences decoding in a step, as a token sees them: itself, and the others. Little's law
    /// has `rate x time from first to last token` of them at a random instant; Poisson arrivals find
    /// as many others, one of `N` users finds `(N - 1) / N` of them (Sevcik and Mitrani, 1981).
    #[must_use]
    pub fn decodes(&self) -> Option<f64> {
        let mean = self.rate()? * self.tpot_s * (self.output - 1.0);
        Some(1.0 + self.users.map_or(mean, |users| mean * (1.0 - 1.0 / users)))
    }

    /// The mean step as a sample: while one token comes, `rate x TPOT` prompts are computed. With it,
    /// where the point is one request at a time, the step of its prefill.
    #[must_use]
    pub fn samples(&self) -> Vec<StepSample> {
        let (Some(rate), Some(decodes)) = (self.rate(), self.decodes()) else {
            return Vec::new();
        };
        // Nobody's own prefill is between the own tokens.
        let others = self.users.map_or(1.0, |users| 1.0 - 1.0 / users);
        let alone = others <= 0.0;
        let prompts = others * rate * self.tpot_s;
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
            weight: self.weight,
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
