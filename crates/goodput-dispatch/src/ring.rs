//! Replicas that can be sent to: the next one, the n-th one, the least busy one.

use crate::{fleet::Load, request::ReplicaId, tournament::Tournament};

/// A set of replicas with their loads. A change costs as many comparisons as the set has doublings,
/// a look at most one word for 64 replicas.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    words: Vec<u64>,
    loads: Tournament<Load>,
    len: u32,
    /// Where the next round begins.
    cursor: u16,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            words: Vec::new(),
            loads: Tournament::new(),
            len: 0,
            cursor: 0,
        }
    }
}

impl Ring {
    /// How many can be sent to.
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// Whether this one can.
    pub(crate) fn has(&self, id: ReplicaId) -> bool {
        let word = self.words.get(id.index() / 64);
        word.is_some_and(|word| word >> (id.index() % 64) & 1 == 1)
    }

    /// Sets whether a replica can be sent to, and its load.
    pub(crate) fn set(&mut self, id: ReplicaId, load: Option<Load>) {
        let (word, bit) = (id.index() / 64, 1 << (id.index() % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let had = self.words[word] & bit != 0;
        match (had, load.is_some()) {
            (false, true) => {
                self.words[word] |= bit;
                self.len += 1;
            }
            (true, false) => {
                self.words[word] &= !bit;
                self.len -= 1;
            }
            (false, false) => return,
            (true, true) => {}
        }
        self.loads.set(id.index(), load);
    }

    /// The least busy one; another one than `avoid`, if there is one.
    pub(crate) fn least(&mut self, avoid: Option<ReplicaId>) -> Option<ReplicaId> {
        let first = self.first()?;
        if avoid != Some(first) || self.len < 2 {
            return Some(first);
        }
        let load = self.loads.key(first.index());
        self.loads.set(first.index(), None);
        let second = self.first();
        self.loads.set(first.index(), load);
        second
    }

    fn first(&self) -> Option<ReplicaId> {
        let (place, _) = self.loads.first()?;
        u16::try_from(place).ok().map(ReplicaId)
    }

    /// The next one in turn.
    pub(crate) fn next(&mut self) -> Option<ReplicaId> {
        let found = self.from(self.cursor).or_else(|| self.from(0))?;
        self.cursor = found.0.wrapping_add(1);
        Some(found)
    }

    /// The first one at or after a place.
    fn from(&self, place: u16) -> Option<ReplicaId> {
        let start = usize::from(place) / 64;
        let mut mask = u64::MAX << (place % 64);
        for (word, bits) in self.words.iter().enumerate().skip(start) {
            let bits = bits & mask;
            if bits != 0 {
                return replica(word, bits.trailing_zeros());
            }
            mask = u64::MAX;
        }
        None
    }

    /// The `n`-th one, from 0.
    pub(crate) fn nth(&self, n: u32) -> Option<ReplicaId> {
        let mut left = n;
        for (word, &bits) in self.words.iter().enumerate() {
            if left < bits.count_ones() {
                let mut bits = bits;
                for _ in 0..left {
                    bits &= bits - 1;
                }
                return replica(word, bits.trailing_zeros());
            }
            left -= bits.count_ones();
        }
        None
    }
}

fn replica(word: usize, bit: u32) -> Option<ReplicaId> {
    let place = word * 64 + bit as usize;
    u16::try_from(place).ok().map(ReplicaId)
}
