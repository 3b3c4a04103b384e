//! One request inside the engine.

use goodput_record::{Blocks, Timestamp};

use super::fine::{Fine, Span};

/// A request as the engine sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineRequest {
    /// Its number; no two open requests share one.
    pub index: u64,
    /// Prompt tokens, at least 1.
    pub input_tokens: u32,
    /// Tokens it will answer with, at least 1.
    pub output_tokens: u32,
    /// Whose prompt is computed first: 0 before 1, and so on. It is admitted before those of a
    /// higher number that wait, and computed before those whose prompts are half done. What decodes
    /// goes on.
    pub priority: u8,
    /// The prompt's whole blocks, each named by its content and all before it; equal names mean equal
    /// text. Empty: nothing of it can be reused. It may run on over the answer's blocks, where the
    /// caller knows how a later prompt will name them.
    pub blocks: Blocks,
}

impl EngineRequest {
    /// A request of the first priority, nothing of which can be reused.
    #[must_use]
    pub const fn new(index: u64, input_tokens: u32, output_tokens: u32) -> Self {
        Self {
            index,
            input_tokens,
            output_tokens,
            priority: 0,
            blocks: Blocks::new(),
        }
    }

    /// Puts the template's tokens around the prompt; a request without a prompt has none to be put in.
    pub(crate) const fn put_into(&mut self, template_tokens: u32) {
        if self.input_tokens > 0 {
            self.input_tokens = self.input_tokens.saturating_add(template_tokens);
        }
    }
}

/// A request with what the engine knows of it.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub(super) request: EngineRequest,
    /// No step that begins before takes it in.
    pub(super) submitted: Timestamp,
    /// The number of its admission, counting up; 0 while it waits.
    pub(super) order: u64,
    /// Tokens whose keys and values are in the cache; of one that decodes, when it joined.
    pub(super) computed: u32,
    /// Output tokens so far; of one that decodes, when it joined.
    pub(super) emitted: u32,
    /// Steps of the engine when it joined those that decode; `None`: its prompt is computed, or it
    /// waits.
    pub(super) joined: Option<u64>,
    /// Steps of the engine at its first token since it was admitted.
    pub(super) first_step: u64,
    /// Output tokens that the caller was told of.
    pub(super) told: u32,
    /// Prompt tokens of the step under way.
    pub(super) scheduled: u32,
    /// Blocks held; of one that decodes, when it joined.
    pub(super) held: u32,
    /// Of these, how many from the first on are known by their hash.
    pub(super) known: u32,
    /// Whether it has been admitted before.
    pub(super) returned: bool,
    /// Its last token, while it computes again what it lost.
    pub(super) interrupted: Option<Fine>,
    /// The longest gap between two of its tokens, up to the last time it joined.
    pub(super) longest_gap: Option<Span>,
}

impl Sequence {
    pub(super) const fn new(request: EngineRequest, submitted: Timestamp) -> Self {
        Self {
            request,
            submitted,
            order: 0,
            computed: 0,
            emitted: 0,
            joined: None,
            first_step: 0,
            told: 0,
            scheduled: 0,
            held: 0,
            known: 0,
            returned: false,
            interrupted: None,
            longest_gap: None,
        }
    }

    /// Tokens of prompt and answer that exist.
    pub(super) const fn length(&self) -> u32 {
        self.request.input_tokens + self.emitted
    }

    /// Tokens that wait for computation: one while decoding, more in prefill.
    pub(super) const fn missing(&self) -> u32 {
        self.length() - self.computed
    }

    /// Tokens decoded since it joined, when the engine has done so many steps.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "no more steps than its output tokens"
    )]
    pub(super) const fn decoded(&self, steps: u64) -> u32 {
        match self.joined {
            Some(joined) => (steps - joined) as u32,
            None => 0,
        }
    }

    /// Brings what changes with every step of a decode up to date, when the engine has done so many.
    pub(super) const fn settle(&mut self, steps: u64) {
        let decoded = self.decoded(steps);
        self.computed += decoded;
        self.emitted += decoded;
        if self.joined.is_some() {
            self.joined = Some(steps);
        }
    }
}
