//! KV blocks: free ones, held ones, and those that can be found again by their content.

mod few;
#[cfg(test)]
mod one_by_one;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
};

use goodput_record::Blocks;

use few::Few;

/// Names of runs are mixed well already. The table is looked into and never walked through, so its
/// order shows nowhere.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        // A table takes its place from the low bits and its tag from the high ones; hashes that
        // count up would have the same tag.
        self.0 = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Sequences that hold the same number of a run's blocks, from the first on.
#[derive(Clone, Copy, Debug)]
struct Holders {
    blocks: u32,
    count: u32,
}

/// Blocks of a run that were given back together: those before `upto` and behind what is given back
/// later or still held.
#[derive(Clone, Copy, Debug)]
struct Idle {
    upto: u32,
    /// Of its entry in the queue. An entry with another stamp is stale.
    stamp: u64,
}

/// A run of which blocks are known.
///
/// Blocks are found and filled from the first on and given back from the last on, so what is known of
/// a run is a leading part of it, what is held is a leading part of that, and of the rest the last
/// block has been free for the longest.
#[derive(Clone, Debug)]
struct Run {
    id: u64,
    known: u32,
    /// By their blocks, the most last.
    holders: Few<Holders>,
    /// What is known and free, the last blocks first.
    idle: Few<Idle>,
}

impl Run {
    fn held(&self) -> u32 {
        self.holders.last().map_or(0, |most| most.blocks)
    }

    /// One more sequence holds `blocks` of what is known; returns how many of them were free.
    fn hold(&mut self, blocks: u32) -> u32 {
        let free = blocks.saturating_sub(self.held());
        if let Some(holders) = self.holders.find_mut(|h| h.blocks == blocks) {
            holders.count += 1;
        } else {
            let before = |h: &Holders| h.blocks < blocks;
            self.holders.insert(before, Holders { blocks, count: 1 });
        }
        if free > 0 {
            while self.idle.last().is_some_and(|idle| idle.upto <= blocks) {
                self.idle.pop();
            }
        }
        free
    }

    /// One sequence less holds `blocks`; returns how many of them nobody holds any more.
    fn leave(&mut self, blocks: u32) -> u32 {
        let found = self.holders.find_mut(|h| h.blocks == blocks);
        debug_assert!(found.is_some(), "invariant: who gives back has held");
        if let Some(holders) = found {
            holders.count -= 1;
            if holders.count == 0 {
                self.holders.remove(|h| h.count == 0);
            }
        }
        blocks.saturating_sub(self.held())
    }
}

/// Free blocks in the order in which they are taken.
#[derive(Clone, Copy, Debug)]
enum Free {
    /// So many blocks that cannot be found again.
    Blank(u32),
    /// Blocks of a run, the last first.
    Known { slot: u32, stamp: u64 },
}

/// The blocks of one engine, freed least recently used first, as in vLLM v1.
///
/// Invariant: blocks held + `free` = `total`. Where two sequences compute the same content at the
/// same time, the second block is given back and the first is shared.
#[derive(Clone, Debug)]
pub(super) struct BlockPool {
    total: u32,
    free: u32,
    queue: VecDeque<Free>,
    /// By name, where a run is.
    places: HashMap<u64, u32, BuildHasherDefault<AsItIs>>,
    runs: Vec<Run>,
    vacant: Vec<u32>,
    stamps: u64,
    /// Entries of the queue from which stale ones are looked for.
    many: usize,
}

/// The queue is left alone up to so many entries.
const FEW_ENTRIES: usize = 64;

impl BlockPool {
    pub(super) fn new(total: u32) -> Self {
        Self {
            total,
            free: total,
            queue: VecDeque::from([Free::Blank(total)]),
            places: HashMap::default(),
            runs: Vec::new(),
            vacant: Vec::new(),
            stamps: 0,
            many: FEW_ENTRIES,
        }
    }

    pub(super) const fn total(&self) -> u32 {
        self.total
    }

    pub(super) const fn free(&self) -> u32 {
        self.free
    }

    pub(super) const fn held(&self) -> u32 {
        self.total - self.free
    }

    /// Takes `count` blocks for new content, or none.
    #[inline]
    pub(super) fn take(&mut self, count: u32) -> bool {
        if count > self.free {
            return false;
        }
        self.free -= count;
        match self.queue.front_mut() {
            Some(Free::Blank(blank)) if *blank > count => *blank -= count,
            _ => self.take_oldest(count),
        }
        true
    }

    fn take_oldest(&mut self, count: u32) {
        let mut missing = count;
        while missing > 0 {
            match self.queue.front_mut() {
                Some(Free::Blank(blank)) => {
                    let taken = missing.min(*blank);
                    *blank -= taken;
                    missing -= taken;
                    if *blank == 0 {
                        self.queue.pop_front();
                    }
                }
                Some(&mut Free::Known { slot, stamp }) => {
                    let (taken, is_over) = self.take_known(slot, stamp, missing);
                    missing -= taken;
                    if is_over {
                        self.queue.pop_front();
                    }
                }
                None => unreachable!("invariant: `free` counts the current entries of the queue"),
            }
        }
    }

    /// Takes up to `most` of the free blocks of a run that bear a stamp, the last first; returns how
    /// many, and whether none is left of them.
    fn take_known(&mut self, slot: u32, stamp: u64, most: u32) -> (u32, bool) {
        let run = &mut self.runs[slot as usize];
        let held = run.held();
        let before = run.idle.second().map_or(held, |next| next.upto);
        let Some(idle) = run.idle.first_mut().filter(|idle| idle.stamp == stamp) else {
            return (0, true);
        };
        let taken = most.min(idle.upto - before);
        idle.upto -= taken;
        run.known -= taken;
        let is_over = idle.upto == before;
        if is_over {
            run.idle.remove_first();
        }
        if run.known == 0 {
            self.places.remove(&run.id);
            self.vacant.push(slot);
        }
        (taken, is_over)
    }

    /// How many of a prompt's first `most` blocks are there, from the first on, and how many of these
    /// are free.
    pub(super) fn find(&self, blocks: &Blocks, most: u32) -> (u32, u32) {
        let (mut found, mut idle) = (0, 0);
        for (id, _, upto) in blocks.between(0, most) {
            let Some(&slot) = self.places.get(&id) else {
                break;
            };
            let run = &self.runs[slot as usize];
            let known = run.known.min(upto);
            found += known;
            idle += known.saturating_sub(run.held());
            if known < upto {
                break;
            }
        }
        (found, idle)
    }

    /// Holds a prompt's first `count` blocks, which were found.
    pub(super) fn hold(&mut self, blocks: &Blocks, count: u32) {
        for (id, _, upto) in blocks.between(0, count) {
            if let Some(&slot) = self.places.get(&id) {
                self.free -= self.runs[slot as usize].hold(upto);
            }
        }
    }

    /// Makes held blocks of a prompt, just filled, known by their content: from number `from`, up to
    /// which they are known already, up to number `to`.
    pub(super) fn publish(&mut self, blocks: &Blocks, from: u32, to: u32) {
        for (id, first, upto) in blocks.between(from, to) {
            let slot = self.place(id);
            let run = &mut self.runs[slot as usize];
            // Others have computed the same: theirs are shared, and the own ones given back.
            let twice = run.known.min(upto).saturating_sub(first);
            run.known = run.known.max(upto);
            let held = run.held();
            let idle = (first + twice).saturating_sub(first.max(held));
            run.hold(upto);
            if first > 0 {
                run.leave(first);
            }
            self.free -= idle;
            self.give_back(twice);
        }
    }

    /// Where the run of a name is; a new one, if there is none.
    fn place(&mut self, id: u64) -> u32 {
        let new = || {
            let next = u32::try_from(self.runs.len()).unwrap_or(u32::MAX);
            let run = Run {
                id,
                known: 0,
                holders: Few::default(),
                idle: Few::default(),
            };
            if let Some(slot) = self.vacant.pop() {
                self.runs[slot as usize] = run;
                slot
            } else {
                self.runs.push(run);
                next
            }
        };
        *self.places.entry(id).or_insert_with(new)
    }

    /// Gives back `blank` blocks and a prompt's first `count` blocks, the last first: the end of a
    /// prompt is less likely to be asked again than its beginning.
    pub(super) fn release(&mut self, blocks: &Blocks, count: u32, blank: u32) {
        self.give_back(blank);
        for (id, upto) in blocks.backwards(count) {
            let Some(&slot) = self.places.get(&id) else {
                continue;
            };
            let run = &mut self.runs[slot as usize];
            let free = run.leave(upto);
            if free > 0 {
                self.free += free;
                self.stamps += 1;
                let stamp = self.stamps;
                run.idle.push(Idle { upto, stamp });
                self.queue.push_back(Free::Known { slot, stamp });
            }
        }
        if self.queue.len() > self.many {
            self.drop_stale();
        }
    }

    /// Gives back blocks that cannot be found again.
    fn give_back(&mut self, blank: u32) {
        self.free += blank;
        match self.queue.back_mut() {
            _ if blank == 0 => {}
            Some(Free::Blank(last)) => *last += blank,
            _ => self.queue.push_back(Free::Blank(blank)),
        }
    }

    /// Forgets entries of blocks that were found again, and joins blank ones, so that the queue stays
    /// short.
    fn drop_stale(&mut self) {
        let mut queue = std::mem::take(&mut self.queue);
        for entry in queue.drain(..) {
            match entry {
                Free::Blank(blank) => match self.queue.back_mut() {
                    Some(Free::Blank(last)) => *last += blank,
                    _ => self.queue.push_back(entry),
                },
                Free::Known { slot, stamp } => {
                    let idle = &self.runs[slot as usize].idle;
                    if idle.any(|idle| idle.stamp == stamp) {
                        self.queue.push_back(entry);
                    }
                }
            }
        }
        self.many = 2 * self.queue.len() + FEW_ENTRIES;
    }
}
