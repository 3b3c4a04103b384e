//! How long the engine's steps take.

use goodput_perf_model::{Batch, StepTime};

use super::fine::Span;

/// Step times in whole numbers. For given sequences and prompt tokens a step's time is a straight
/// line over the tokens of context, exactly: that is what lets many steps be one formula.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    step_time: StepTime,
    context: u64,
    window: u64,
    /// What a prompt token takes, and the bytes of one between devices; seconds.
    prefill_s: f64,
    /// By the number of sequences in a step that decode.
    decode_only: Vec<Option<Decode>>,
}

/// A step that only decodes, without its context.
#[derive(Clone, Copy, Debug)]
struct Decode {
    seconds: f64,
    span: Span,
}

impl Cost {
    pub(super) fn new(step_time: StepTime) -> Self {
        Self {
            context: Span::of_seconds(step_time.context_s).0,
            window: step_time
                .window
                .map_or(0, |window| Span::of_seconds(window.context_s).0),
            prefill_s: step_time.prefill_s + step_time.communication_token_s,
            step_time,
            decode_only: Vec::new(),
        }
    }

    /// What a step takes longer than the last one when `sequences` have a token more, `near` of them
    /// within the window.
    pub(super) fn growth(&self, sequences: u32, near: u32) -> u64 {
        self.context * u64::from(sequences) + self.window * u64::from(near)
    }

    /// Any step.
    #[inline]
    pub(super) fn of(&mut self, batch: &Batch) -> Span {
        let fixed = if batch.prefill_tokens == 0 {
            self.decode(batch.decodes).span
        } else if self.step_time.experts.is_some() {
            // How many experts wake depends on all tokens together.
            Span::of_seconds(self.step_time.fixed_seconds(batch))
        } else {
            // The arithmetic of a prompt is added to that of decoding.
            let decode = self.decode(batch.decodes).seconds;
            let pairs = self.step_time.pair_s * batch.prefill_pairs as f64;
            let prompt = self.prefill_s * f64::from(batch.prefill_tokens) + pairs;
            Span::of_seconds(decode + prompt)
        };
        let context = self.context * batch.context_tokens + self.window * batch.window_tokens;
        Span(fixed.0 + context)
    }

    #[inline]
    fn decode(&mut self, sequences: u32) -> Decode {
        match self.decode_only.get(sequences as usize) {
            Some(Some(known)) => *known,
            _ => self.tabulate(sequences),
        }
    }

    #[cold]
    fn tabulate(&mut self, sequences: u32) -> Decode {
        let place = sequences as usize;
        if self.decode_only.len() <= place {
            self.decode_only.resize(place + 1, None);
        }
        let seconds = self.step_time.fixed_seconds(&Batch {
            decodes: sequences,
            ..Batch::default()
        });
        let span = Span::of_seconds(seconds);
        *self.decode_only[place].insert(Decode { seconds, span })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_perf_model::Profile;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_step_takes_what_the_model_says(
            sequences in prop::collection::vec(1..30_000_u32, 0..300),
            prompts in prop::collection::vec((0..20_000_u32, 1..8_000_u32), 0..4),
            drafts: bool,
            devices: bool,
        ) {
            let mut step_time = Profile::builtin("qwen3-8b-h100").unwrap().step_time;
            step_time.tile_tokens = 64;
            if drafts {
                let draft = goodput_perf_model::Speculation {
                    draft_tokens: 3,
                    acceptance: 0.5,
                    draft_s: 1e-4,
                };
                step_time.speculation = Some(draft);
            }
            if devices {
                step_time.communication_s = 1e-4;
                step_time.communication_token_s = 3e-7;
            }
            let mut batch = Batch::default();
            for context in sequences {
                batch.decode(context, step_time.window_tokens());
            }
            for (computed, tokens) in prompts {
                batch.prefill(computed, tokens);
            }
            let found = Cost::new(step_time).of(&batch);
            let expected = Span::of_seconds(step_time.seconds(&batch));
            // A coefficient of context is a whole number of 2^-20 ns.
            let rounding = batch.context_tokens + batch.window_tokens + 4;
            prop_assert!(found.0.abs_diff(expected.0) <= rounding, "{:?} {:?}", found, expected);
        }
    }
}
