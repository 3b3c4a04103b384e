//! The gaps between a request's token events.

use std::time::Duration;

use crate::time::{Timestamp, nanos};

/// Marks a gap that does not fit one word; its two halves follow.
const WIDE: u32 = u32::MAX;

/// A growing list of gaps, one word (4 bytes) each unless a gap is longer than 4.29 s.
///
/// Clearing keeps the memory, so one buffer serves many requests and a token costs no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GapBuffer {
    words: Vec<u32>,
    tokens: Vec<u32>,
    events: usize,
}

impl GapBuffer {
    /// Adds the gap before an event that carries `tokens` tokens (0: not known yet).
    pub fn push(&mut self, gap: Duration, tokens: u32) {
        let nanos = nanos(gap);
        match u32::try_from(nanos) {
            Ok(word) if word != WIDE => self.words.push(word),
            _ => {
                let high = u32::try_from(nanos >> 32).unwrap_or(u32::MAX);
                let low = u32::try_from(nanos & u64::from(u32::MAX)).unwrap_or(u32::MAX);
                self.words.extend([WIDE, high, low]);
            }
        }
        if tokens != 0 || !self.tokens.is_empty() {
            self.tokens.resize(self.events, 0);
            self.tokens.push(tokens);
        }
        self.events += 1;
    }

    /// Makes room for `gaps` more, so that they cost no allocation.
    pub fn reserve(&mut self, gaps: usize) {
        self.words.reserve(gaps);
    }

    /// Forgets all gaps and keeps the memory.
    pub fn clear(&mut self) {
        self.words.clear();
        self.tokens.clear();
        self.events = 0;
    }

    /// How many gaps there are: token events minus one.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.events
    }

    /// Whether there is no gap.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.events == 0
    }

    /// The gaps in order.
    pub fn iter(&self) -> impl Iterator<Item = Duration> {
        let mut words = self.words.iter().copied();
        std::iter::from_fn(move || {
            let word = words.next()?;
            if word != WIDE {
                return Some(Duration::from_nanos(u64::from(word)));
            }
            let (high, low) = (u64::from(words.next()?), u64::from(words.next()?));
            Some(Duration::from_nanos(high << 32 | low))
        })
    }

    /// Tokens of the event at the end of each gap, where a running `usage` told them; 0 unknown.
    /// Empty if none was ever told.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The instants of all token events, the first at `first`.
    pub fn instants(&self, first: Timestamp) -> impl Iterator<Item = Timestamp> {
        let rest = self.iter().scan(first, |at, gap| {
            *at = at.after(gap);
            Some(*at)
        });
        std::iter::once(first).chain(rest)
    }
}

/// What is kept of a request's gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Gaps {
    /// Nothing: the summary has all that is asked.
    #[default]
    NotKept,
    /// Every gap, as measured.
    Kept(GapBuffer),
}

impl Gaps {
    /// The gaps, or `None` if they were not kept.
    #[must_use]
    pub const fn kept(&self) -> Option<&GapBuffer> {
        match self {
            Self::NotKept => None,
            Self::Kept(buffer) => Some(buffer),
        }
    }
}
