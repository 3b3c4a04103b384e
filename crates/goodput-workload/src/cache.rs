//! Which prefixes have been asked for already: a prefix cache that never forgets.

use std::collections::HashSet;

use crate::prompt::{Segment, extend};

/// The prefixes seen so far, segment by segment.
///
/// Only membership is asked, so the order of the set reaches no output.
#[derive(Clone, Debug, Default)]
pub struct SeenPrefixes {
    chains: HashSet<u64>,
}

impl SeenPrefixes {
    /// Tokens of the longest prefix of these segments that was [added](Self::add) before, in whole
    /// blocks. At least one token is always left to compute, as engines need it.
    #[must_use]
    pub fn reusable(&self, segments: &[Segment], block_tokens: u32) -> u32 {
        let (mut chain, mut shared, mut whole) = (0, 0_u32, true);
        let mut total = 0_u32;
        for segment in segments {
            chain = extend(chain, segment);
            whole = whole && self.chains.contains(&chain);
            if whole {
                shared = shared.saturating_add(segment.tokens);
            }
            total = total.saturating_add(segment.tokens);
        }
        let limit = shared.min(total.saturating_sub(1));
        limit - limit.checked_rem(block_tokens).unwrap_or(limit)
    }

    /// Remembers the first `count` segments and every shorter prefix of them.
    pub fn add(&mut self, segments: &[Segment], count: usize) {
        let mut chain = 0;
        for segment in segments.iter().take(count) {
            chain = extend(chain, segment);
            self.chains.insert(chain);
        }
    }

    /// Forgets every prefix of more than `shared` of these segments: no request will start with one
    /// again. Without that the memory of a long run would grow with its sessions.
    pub fn forget(&mut self, segments: &[Segment], shared: usize) {
        let mut chain = 0;
        for (index, segment) in segments.iter().enumerate() {
            chain = extend(chain, segment);
            if index >= shared {
                self.chains.remove(&chain);
            }
        }
    }

    /// How many prefixes are remembered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.chains.len()
    }
}
