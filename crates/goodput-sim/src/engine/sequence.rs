//! One request inside the engine.

use goodput_record::Timestamp;

/// A request as the engine sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineRequest {
    /// Its number; no two open requests share one.
    pub index: u64,
    /// Prompt tokens, at least 1.
    pub input_tokens: u32,
    /// Tokens it will answer with, at least 1.
    pub output_tokens: u32,
    /// Hashes of the prompt's whole blocks, each over its content and all before it; equal hashes
    /// mean equal text. Empty: nothing of it can be reused. It may run on over the answer's blocks,
    /// where the caller knows how a later prompt will hash them.
    pub blocks: Vec<u64>,
}

impl EngineRequest {
    /// A request nothing of which can be reused.
    #[must_use]
    pub const fn new(index: u64, input_tokens: u32, output_tokens: u32) -> Self {
        Self {
            index,
            input_tokens,
            output_tokens,
            blocks: Vec::new(),
        }
    }
}

/// A request with what the engine knows of it.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub(super) request: EngineRequest,
    /// No step that begins before takes it in.
    pub(super) submitted: Timestamp,
    /// Tokens whose keys and values are in the cache.
    pub(super) computed: u32,
    /// Output tokens so far.
    pub(super) emitted: u32,
    /// Tokens of the step under way.
    pub(super) scheduled: u32,
    /// Blocks held.
    pub(super) held: u32,
    /// Of these, how many from the first on are known by their hash.
    pub(super) known: u32,
    /// Whether it has been admitted before.
    pub(super) returned: bool,
}

impl Sequence {
    pub(super) const fn new(request: EngineRequest, submitted: Timestamp) -> Self {
        Self {
            request,
            submitted,
            computed: 0,
            emitted: 0,
            scheduled: 0,
            held: 0,
            known: 0,
            returned: false,
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

    /// Whether the step at hand is a decode: one token behind one that this engine emitted.
    pub(super) const fn decodes(&self) -> bool {
        self.emitted > 0 && self.missing() == 1
    }

    /// The hashes of the blocks known so far.
    pub(super) fn known_hashes(&self) -> &[u64] {
        let known = self.known as usize;
        self.request.blocks.get(..known).unwrap_or_default()
    }
}
