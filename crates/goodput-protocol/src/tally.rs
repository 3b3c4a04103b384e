//! Token counts by the server's `usage`, whichever way it reports them.
//!
//! A report on a chunk without choices is a total over all choices (chat of OpenAI, vLLM, SGLang);
//! one on a chunk with a choice is that choice's (llama.cpp's completions, vLLM's running reports).
//! The last report counts, never a sum of several for the same choice.

use crate::chunk::{Chunk, Usage};

/// More choices than this are not told apart.
pub(crate) const MAX_CHOICES: usize = 1024;

/// The state of choice `index`, made if it is new.
pub(crate) fn slot<T: Copy + Default>(states: &mut Vec<T>, index: u32) -> &mut T {
    let index = usize::try_from(index)
        .unwrap_or(MAX_CHOICES)
        .min(MAX_CHOICES - 1);
    if index >= states.len() {
        states.resize(index + 1, T::default());
    }
    &mut states[index]
}

/// The reports of one choice.
#[derive(Clone, Copy, Debug, Default)]
struct Running {
    usage: Usage,
    /// The running count at the last token event.
    told: u32,
    /// A token event came without a report, so that the next report covers several.
    untold: bool,
}

/// The reports of one answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    choices: Vec<Running>,
    total: Option<Usage>,
}

impl Tally {
    /// Forgets everything but its memory.
    pub(crate) fn reset(&mut self) {
        self.choices.clear();
        self.total = None;
    }

    /// Books a chunk; `token`: whether it is a token event. The tokens that event carries, where
    /// running reports tell; otherwise 0.
    pub(crate) fn add(&mut self, chunk: &Chunk<'_>, token: bool) -> u32 {
        match &chunk.choice {
            Some(choice) if chunk.more_choices.is_empty() => {
                self.add_single(choice.index, chunk.usage, token)
            }
            _ => {
                if let Some(usage) = chunk.usage {
                    self.total = Some(usage.over(self.total.unwrap_or_default()));
                }
                for choice in chunk.choices() {
                    slot(&mut self.choices, choice.index).untold |= token;
                }
                0
            }
        }
    }

    fn add_single(&mut self, index: u32, usage: Option<Usage>, token: bool) -> u32 {
        let running = slot(&mut self.choices, index);
        let Some(usage) = usage else {
            running.untold |= token;
            return 0;
        };
        self.total = None;
        running.usage = usage.over(running.usage);
        let count = usage.output.unwrap_or_default();
        if !token {
            return 0;
        }
        let told = std::mem::replace(&mut running.told, count);
        if running.untold {
            return 0;
        }
        count.saturating_sub(told)
    }

    /// The counts over all choices, of which `choices` came, for a request of `prompts` prompts.
    ///
    /// Outputs are summed. The choices of one prompt share their input; inputs of several prompts
    /// are summed.
    pub(crate) fn sum(&self, choices: usize, prompts: u16) -> Usage {
        let told =
            |of: fn(&Usage) -> Option<u32>| self.choices.iter().filter_map(move |c| of(&c.usage));
        let sum = |of| told(of).reduce(u32::saturating_add);
        let per_prompt = choices / usize::from(prompts.max(1));
        let per_prompt = u32::try_from(per_prompt.max(1)).unwrap_or(u32::MAX);
        let input = |of| match prompts {
            0 | 1 => told(of).max(),
            _ => sum(of).map(|sum| sum / per_prompt),
        };
        let sums = Usage {
            output: sum(|usage| usage.output),
            reasoning: sum(|usage| usage.reasoning),
            input: input(|usage| usage.input),
            cached: input(|usage| usage.cached),
            odd: self.choices.iter().any(|c| c.usage.odd),
        };
        self.total.map_or(sums, |total| total.over(sums))
    }
}
