//! A prompt as a plan: segments of text known by key and length, no text.

use std::sync::Arc;

use goodput_record::{BlockRun, Blocks};
use goodput_stats::mix;

/// Who speaks in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The operator's instructions.
    System,
    /// The user, or a tool that answers.
    User,
    /// An earlier answer of the served model.
    Assistant,
}

/// A piece of a prompt. Same key and same tokens: same text, wherever it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment {
    /// Which text it is.
    pub key: u64,
    /// Its length in tokens, at least 1.
    pub tokens: u32,
    /// Who speaks.
    pub role: Role,
}

/// A whole prompt, the history of its session included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt(Arc<[Segment]>);

impl Prompt {
    /// A prompt of these segments.
    #[must_use]
    pub fn new(segments: impl Into<Arc<[Segment]>>) -> Self {
        Self(segments.into())
    }

    /// The segments in reading order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// Its length in tokens, as planned: without a chat template or special tokens.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        let sum = self.0.iter().map(|segment| u64::from(segment.tokens));
        u32::try_from(sum.sum::<u64>()).unwrap_or(u32::MAX)
    }

    /// Its whole blocks of `block_tokens` tokens, a run for each segment in which blocks end: blocks of
    /// one name have everything up to their end in common. A last block that is not full is left out.
    /// None for blocks of no tokens.
    #[must_use]
    pub fn blocks(&self, block_tokens: u32) -> Blocks {
        let mut blocks = Blocks::new();
        let (mut chain, mut tokens) = (0, 0_u64);
        for segment in self.0.iter() {
            chain = extend(chain, segment);
            let behind = tokens + u64::from(segment.tokens);
            blocks.push(BlockRun {
                id: chain,
                blocks: blocks_between(tokens, behind, block_tokens),
            });
            tokens = behind;
        }
        blocks
    }
}

/// How many blocks end behind token `from` of a prompt and no later than token `to`.
pub(crate) fn blocks_between(from: u64, to: u64, block_tokens: u32) -> u32 {
    let whole = |tokens: u64| tokens.checked_div(u64::from(block_tokens)).unwrap_or(0);
    u32::try_from(whole(to) - whole(from)).unwrap_or(u32::MAX)
}

/// The name of all up to the end of a segment, from the name of all before it.
pub(crate) fn extend(chain: u64, segment: &Segment) -> u64 {
    mix(mix(chain).wrapping_add(identity(segment)))
}

/// What tells a segment from every other: key, length and speaker.
fn identity(segment: &Segment) -> u64 {
    let form = u64::from(segment.tokens) << 2 | segment.role as u64;
    mix(segment.key.wrapping_add(mix(form)))
}
