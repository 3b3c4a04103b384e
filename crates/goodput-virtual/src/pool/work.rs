//! What a request's work comes to, for the dispatcher.

use goodput_perf_model::{Batch, Profile};
use goodput_stats::whole_u64;

/// Time of a replica that a request takes, in nanoseconds: linear in its tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkRule {
    /// For one prompt token that is not cached.
    pub input_ns: f64,
    /// For one token of the answer.
    pub output_ns: f64,
}

impl WorkRule {
    /// By a profile: a prompt token of a chunk of 512, and a token of a batch half full with
    /// contexts of 1,024 tokens, each with its part of the step.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        const CHUNK: u32 = 512;
        const CONTEXT: u32 = 1_024;
        let half = (profile.max_num_seqs.get() / 2).max(1);
        let mut batch = Batch::default();
        for _ in 0..half {
            batch.decode(CONTEXT, profile.step_time.window_tokens());
        }
        let alone = profile.step_time.seconds(&batch);
        batch.prefill(0, CHUNK);
        let together = profile.step_time.seconds(&batch);
        Self {
            input_ns: (together - alone) * 1e9 / f64::from(CHUNK),
            output_ns: alone * 1e9 / f64::from(half),
        }
    }

    /// Work up to the first token, and after it. At least 1 each, so that requests count.
    pub(crate) fn of_request(&self, input_tokens: u32, output_tokens: u32) -> (u64, u64) {
        let prefill = f64::from(input_tokens) * self.input_ns;
        let decode = f64::from(output_tokens) * self.output_ns;
        (whole_u64(prefill).max(1), whole_u64(decode).max(1))
    }
}
