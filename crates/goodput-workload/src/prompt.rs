//! A prompt as a plan: segments of text known by key and length, no text.

use std::sync::Arc;

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

    /// Hashes of its whole blocks of `block_tokens` tokens, each chained to the one before: equal
    /// hashes mean that everything up to the end of the block is equal. A last block that is not
    /// full has none. Empty for blocks of no tokens.
    #[must_use]
    pub fn blocks(&self, block_tokens: u32) -> Vec<u64> {
        if block_tokens == 0 {
            return Vec::new();
        }
        let mut hashes = Vec::with_capacity((self.tokens() / block_tokens) as usize);
        let (mut chain, mut room) = (0, block_tokens);
        for segment in self.0.iter() {
            let mut offset = 0;
            while offset < segment.tokens {
                let taken = room.min(segment.tokens - offset);
                chain = link(chain, segment, offset, taken);
                offset += taken;
                room -= taken;
                if room == 0 {
                    hashes.push(chain);
                    room = block_tokens;
                }
            }
        }
        hashes
    }
}

/// The chain's hash after `taken` tokens of `segment` from `offset` on.
fn link(chain: u64, segment: &Segment, offset: u32, taken: u32) -> u64 {
    let place = u64::from(offset) << 32 | u64::from(taken);
    mix(mix(chain ^ identity(segment)).wrapping_add(mix(place)))
}

/// What tells a segment from every other: key, length and speaker.
pub(crate) fn identity(segment: &Segment) -> u64 {
    let form = u64::from(segment.tokens) << 2 | segment.role as u64;
    mix(segment.key.wrapping_add(mix(form)))
}
