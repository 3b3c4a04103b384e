//! The ends of answers, by the step that gives the last token.

use std::collections::BTreeSet;

/// Steps ahead that have a place in the wheel: a power of two, beyond most answers.
const SPAN: u64 = (WORD * WORDS) as u64;
const WORD: usize = 64;
const WORDS: usize = 32;
const NOBODY: u32 = u32::MAX;
const NEVER: u64 = u64::MAX;

/// What is noted of a sequence. Those that end with the same step are chained.
#[derive(Clone, Copy, Debug)]
struct End {
    /// [`NEVER`]: nothing is noted.
    step: u64,
    before: u32,
    behind: u32,
}

impl End {
    const NONE: Self = Self {
        step: NEVER,
        before: NOBODY,
        behind: NOBODY,
    };
}

/// At most one end of each sequence, found by the sequence or by the step.
///
/// Those within [`SPAN`] steps stand in a ring of chains, one for each step, and a bit for each chain
/// says whether somebody is in it; those beyond wait in a set until they come within. So to note, to
/// forget and to find the next one each look at a few words, however many there are (Varghese and
/// Lauck, "Hashed and hierarchical timing wheels", 1987).
#[derive(Clone, Debug)]
pub(super) struct Wheel {
    /// The first of each chain, by step modulo [`SPAN`].
    chains: Vec<u32>,
    words: [u64; WORDS],
    /// A bit for each of `words` that is not zero.
    summary: u32,
    /// By slot.
    ends: Vec<End>,
    far: BTreeSet<(u64, u32)>,
    /// The first step in `far`; [`NEVER`] if there is none.
    far_from: u64,
}

const fn place_of(step: u64) -> usize {
    (step % SPAN) as usize
}

impl Wheel {
    pub(super) fn new() -> Self {
        Self {
            chains: vec![NOBODY; WORD * WORDS],
            words: [0; WORDS],
            summary: 0,
            ends: Vec::new(),
            far: BTreeSet::new(),
            far_from: NEVER,
        }
    }

    /// Notes that the sequence ends with `step`, no earlier than `now`. Nothing may be noted of it yet.
    pub(super) fn note(&mut self, now: u64, slot: u32, step: u64) {
        if self.ends.len() <= slot as usize {
            self.ends.resize(slot as usize + 1, End::NONE);
        }
        if step - now < SPAN {
            self.chain(slot, step);
        } else {
            self.ends[slot as usize].step = step;
            self.far.insert((step, slot));
            self.far_from = self.far_from.min(step);
        }
    }

    fn chain(&mut self, slot: u32, step: u64) {
        let place = place_of(step);
        let behind = std::mem::replace(&mut self.chains[place], slot);
        self.ends[slot as usize] = End {
            step,
            before: NOBODY,
            behind,
        };
        if let Some(behind) = self.ends.get_mut(behind as usize) {
            behind.before = slot;
        } else {
            self.words[place / WORD] |= 1 << (place % WORD);
            self.summary |= 1 << (place / WORD);
        }
    }

    /// Nobody is left in a chain.
    #[inline]
    fn clear(&mut self, place: usize) {
        self.chains[place] = NOBODY;
        let word = place / WORD;
        self.words[word] &= !(1 << (place % WORD));
        if self.words[word] == 0 {
            self.summary &= !(1 << word);
        }
    }

    /// Forgets what is noted of a sequence, if anything is.
    pub(super) fn forget(&mut self, now: u64, slot: u32) {
        let Some(end) = self.ends.get_mut(slot as usize) else {
            return;
        };
        let end = std::mem::replace(end, End::NONE);
        if end.step == NEVER {
            return;
        }
        if end.step - now >= SPAN {
            self.far.remove(&(end.step, slot));
            self.far_from = self.far.first().map_or(NEVER, |first| first.0);
            return;
        }
        if let Some(behind) = self.ends.get_mut(end.behind as usize) {
            behind.before = end.before;
        }
        if let Some(before) = self.ends.get_mut(end.before as usize) {
            before.behind = end.behind;
        } else if end.behind == NOBODY {
            self.clear(place_of(end.step));
        } else {
            self.chains[place_of(end.step)] = end.behind;
        }
    }

    /// Steps from `now` to the next end.
    #[inline]
    pub(super) fn until_next(&self, now: u64) -> Option<u64> {
        let start = place_of(now);
        let (word, bit) = (start / WORD, start % WORD);
        let rest = self.words[word] >> bit;
        if rest != 0 {
            return Some(u64::from(rest.trailing_zeros()));
        }
        // The words behind this one, once around; last what lies before the bit in this one.
        #[expect(clippy::cast_possible_truncation, reason = "below the number of words")]
        let around = self.summary.rotate_right(word as u32 + 1);
        if around == 0 {
            return (self.far_from != NEVER).then(|| self.far_from - now);
        }
        let word = (word + 1 + around.trailing_zeros() as usize) % WORDS;
        let place = word * WORD + self.words[word].trailing_zeros() as usize;
        Some((place as u64).wrapping_sub(start as u64) % SPAN)
    }

    /// Has come to step `now`; nothing was due before.
    #[inline]
    pub(super) fn turn(&mut self, now: u64) {
        if self.far_from != NEVER {
            self.come_near(now);
        }
    }

    fn come_near(&mut self, now: u64) {
        while self.far_from < now.saturating_add(SPAN) {
            if let Some((step, slot)) = self.far.pop_first() {
                self.chain(slot, step);
            }
            self.far_from = self.far.first().map_or(NEVER, |first| first.0);
        }
    }

    /// Takes those that end with step `now`, in any order.
    pub(super) fn take(&mut self, now: u64, taken: &mut Vec<u32>) {
        let place = place_of(now);
        let mut slot = self.chains[place];
        if slot == NOBODY {
            return;
        }
        self.clear(place);
        while let Some(end) = self.ends.get_mut(slot as usize) {
            taken.push(slot);
            slot = std::mem::replace(end, End::NONE).behind;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Act {
        /// The end of this slot is so many steps ahead; forgotten first.
        Note(u32, u64),
        Forget(u32),
        /// On by so many steps, or to the next end.
        Pass(u64),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let ahead = prop_oneof![0..70_u64, 0..2_100_u64, 2_040..2_060_u64, 0..50_000_u64];
        let act = prop_oneof![
            4 => (0..40_u32, ahead).prop_map(|(slot, ahead)| Act::Note(slot, ahead)),
            1 => (0..45_u32).prop_map(Act::Forget),
            3 => prop_oneof![1..80_u64, 1..6_000_u64].prop_map(Act::Pass),
        ];
        prop::collection::vec(act, 1..200)
    }

    proptest! {
        /// Against a plain set of (step, slot).
        #[test]
        fn a_wheel_is_a_sorted_list(acts in acts(), start in 0..10_000_u64) {
            let mut wheel = Wheel::new();
            let mut plain = BTreeSet::new();
            let (mut now, mut taken) = (start, Vec::new());
            for act in acts {
                match act {
                    Act::Note(slot, ahead) => {
                        wheel.forget(now, slot);
                        plain.retain(|end: &(u64, u32)| end.1 != slot);
                        wheel.note(now, slot, now + ahead);
                        plain.insert((now + ahead, slot));
                    }
                    Act::Forget(slot) => {
                        wheel.forget(now, slot);
                        plain.retain(|end| end.1 != slot);
                    }
                    Act::Pass(steps) => {
                        now += wheel.until_next(now).unwrap_or(steps).min(steps);
                        wheel.turn(now);
                    }
                }
                if matches!(act, Act::Pass(_)) {
                    wheel.take(now, &mut taken);
                    taken.sort_unstable();
                    let due: Vec<u32> = plain.iter().filter(|e| e.0 == now).map(|e| e.1).collect();
                    prop_assert_eq!(&taken, &due);
                    plain.retain(|end| end.0 != now);
                    taken.clear();
                }
                let next = plain.first().map(|end| end.0 - now);
                prop_assert_eq!(wheel.until_next(now), next);
            }
        }
    }
}
