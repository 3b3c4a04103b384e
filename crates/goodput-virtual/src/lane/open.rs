//! The requests that are open in a lane, by the engine's numbers.

use goodput_record::{Phase, Timestamp};

/// The number of no request.
const NOBODY: u64 = u64::MAX;

/// What is known of an open request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// Its number; [`NOBODY`] once it has ended.
    index: u64,
    pub(super) origin: Timestamp,
    /// Its first token; far in the future before that.
    pub(super) first: Timestamp,
    /// Tokens told so far.
    pub(super) told: u32,
    pub(super) input_tokens: u32,
    pub(super) output_tokens: u32,
    pub(super) class: u16,
    pub(super) phase: Phase,
}

impl Open {
    const NONE: Self = Self::new(NOBODY, Timestamp::ZERO, (0, 0), 0, Phase::Measured);

    /// A request of which no token has come; `lengths`: of prompt and answer.
    pub(super) const fn new(
        index: u64,
        origin: Timestamp,
        (input_tokens, output_tokens): (u32, u32),
        class: u16,
        phase: Phase,
    ) -> Self {
        Self {
            index,
            origin,
            first: Timestamp::FAR_FUTURE,
            told: 0,
            input_tokens,
            output_tokens,
            class,
            phase,
        }
    }
}

/// The open requests. Their numbers count up, so that each has its place in a ring: its number modulo a
/// power of two above the span from the oldest to the newest.
#[derive(Clone, Debug)]
pub(super) struct OpenRequests {
    ring: Vec<Open>,
    mask: u64,
    /// The oldest one's number.
    first: u64,
    /// The next one's number.
    next: u64,
}

impl OpenRequests {
    /// None; the first one will have this number.
    pub(super) fn new(first: u64) -> Self {
        Self {
            ring: vec![Open::NONE; 64],
            mask: 63,
            first,
            next: first,
        }
    }

    #[inline]
    fn place(&self, index: u64) -> usize {
        usize::try_from(index & self.mask).unwrap_or(usize::MAX)
    }

    /// The number of the next one.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Takes in the next one.
    #[inline]
    pub(super) fn push(&mut self, open: Open) {
        debug_assert_eq!(open.index, self.next, "numbers count up");
        if self.next - self.first > self.mask {
            self.grow();
        }
        let place = self.place(open.index);
        self.ring[place] = open;
        self.next += 1;
    }

    /// Doubles the ring.
    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.ring);
        self.ring = vec![Open::NONE; 2 * old.len()];
        self.mask = 2 * self.mask + 1;
        for open in old.into_iter().filter(|open| open.index != NOBODY) {
            let place = self.place(open.index);
            self.ring[place] = open;
        }
    }

    /// An open request.
    #[inline]
    pub(super) fn get(&mut self, index: u64) -> Option<&mut Open> {
        let place = self.place(index);
        self.ring.get_mut(place).filter(|open| open.index == index)
    }

    /// Lets one go.
    #[inline]
    pub(super) fn take(&mut self, index: u64) -> Option<Open> {
        let taken = self.get(index)?;
        let open = *taken;
        taken.index = NOBODY;
        while self.first < self.next && self.ring[self.place(self.first)].index != self.first {
            self.first += 1;
        }
        Some(open)
    }

    /// The numbers of all that are open.
    pub(super) fn all(&self) -> Vec<u64> {
        let numbers = self.first..self.next;
        numbers
            .filter(|&index| self.ring[self.place(index)].index == index)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Whoever stays for long keeps its place, however many come and go meanwhile.
        #[test]
        fn a_ring_of_requests_is_a_map(
            first in 0_u64..1_000,
            ends in prop::collection::vec(any::<prop::sample::Index>(), 1..600),
            kept in 0_usize..300,
        ) {
            let (mut ring, mut map) = (OpenRequests::new(first), BTreeMap::new());
            for end in ends {
                let index = ring.next();
                let origin = Timestamp::from_nanos(index * 3);
                ring.push(Open::new(index, origin, (7, 9), 0, Phase::Measured));
                map.insert(index, origin);
                while map.len() > kept {
                    let numbers: Vec<u64> = map.keys().copied().collect();
                    let gone = *end.get(&numbers);
                    prop_assert_eq!(ring.take(gone).map(|open| open.origin), map.remove(&gone));
                    prop_assert!(ring.take(gone).is_none());
                }
                prop_assert_eq!(ring.all(), map.keys().copied().collect::<Vec<_>>());
            }
            for (index, origin) in map {
                prop_assert_eq!(ring.get(index).map(|open| open.origin), Some(origin));
            }
        }
    }
}
