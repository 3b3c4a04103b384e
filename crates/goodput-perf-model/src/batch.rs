//! What one step works on.

/// What one step works on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Sequences that decode.
    pub decodes: u32,
    /// Tokens of context these read, summed over them, the new token included.
    pub context_tokens: u64,
    /// The same in layers with a sliding window: each sequence adds no more than the window.
    pub window_tokens: u64,
    /// Prompt tokens computed.
    pub prefill_tokens: u32,
    /// Pairs of (prompt token computed, token it attends to), its own included: a chunk of `u`
    /// tokens after `h` has `u h + u (u + 1) / 2`.
    pub prefill_pairs: u64,
}

impl Batch {
    /// Adds one decoding sequence of `context` tokens. `window` is
    /// [`StepTime::window_tokens`](super::StepTime::window_tokens).
    pub fn decode(&mut self, context: u32, window: u32) {
        self.decodes += 1;
        self.context_tokens += u64::from(context);
        self.window_tokens += u64::from(context.min(window));
    }

    /// Adds a chunk of `tokens` prompt tokens behind `before` tokens already in the cache.
    pub fn prefill(&mut self, before: u32, tokens: u32) {
        let (before, chunk) = (u64::from(before), u64::from(tokens));
        self.prefill_tokens += tokens;
        self.prefill_pairs += chunk * before + chunk * (chunk + 1) / 2;
    }

    /// Tokens of this step, one for each decoding sequence: what the step's budget is spent on
    /// where nothing is drafted.
    #[must_use]
    pub const fn tokens(&self) -> u32 {
        self.decodes + self.prefill_tokens
    }
}
