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
    /// Without context, by the number of sequences in a step that only decodes.
    decode_only: Vec<Option<Span>>,
}

impl Cost {
    pub(super) fn new(step_time: StepTime) -> Self {
        Self {
            context: Span::of_seconds(step_time.context_s).0,
            window: step_time
                .window
                .map_or(0, |window| Span::of_seconds(window.context_s).0),
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
    pub(super) fn of(&mut self, batch: &Batch) -> Span {
        let fixed = if batch.prefill_tokens == 0 {
            self.decode(batch.decodes)
        } else {
            Span::of_seconds(self.step_time.fixed_seconds(batch))
        };
        let context = self.context * batch.context_tokens + self.window * batch.window_tokens;
        Span(fixed.0 + context)
    }

    fn decode(&mut self, sequences: u32) -> Span {
        let place = sequences as usize;
        if self.decode_only.len() <= place {
            self.decode_only.resize(place + 1, None);
        }
        let step_time = &self.step_time;
        *self.decode_only[place].get_or_insert_with(|| {
            let batch = Batch {
                decodes: sequences,
                ..Batch::default()
            };
            Span::of_seconds(step_time.fixed_seconds(&batch))
        })
    }
}
