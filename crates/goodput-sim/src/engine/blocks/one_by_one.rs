//! The same pool block by block, in the plainest form: what the pool of runs is held against.

use std::collections::{BTreeMap, VecDeque, btree_map::Entry};

/// A block that can be found by the hash of its content and of all before it.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Sequences that hold it. At zero it is free, but keeps its content until it is taken.
    holders: u32,
    /// Of its entry in the queue, while free. An entry with another stamp is stale.
    stamp: u64,
}

/// Free blocks in the order in which they are taken.
#[derive(Clone, Copy, Debug)]
enum Free {
    /// So many blocks that cannot be found again.
    Blank(u32),
    /// A block with content.
    Known { hash: u64, stamp: u64 },
}

/// The blocks of one engine, freed least recently used first, as in vLLM v1.
///
/// Invariant: blocks held + `free` = `total`. Where two sequences compute the same content at the
/// same time, the second block is given back and the first is shared.
#[derive(Clone, Debug)]
pub(crate) struct OneByOne {
    free: u32,
    queue: VecDeque<Free>,
    known: BTreeMap<u64, Known>,
    stamps: u64,
}

impl OneByOne {
    pub(crate) fn new(total: u32) -> Self {
        Self {
            free: total,
            queue: VecDeque::from([Free::Blank(total)]),
            known: BTreeMap::new(),
            stamps: 0,
        }
    }

    pub(crate) const fn free(&self) -> u32 {
        self.free
    }

    /// Takes `count` blocks for new content, or none.
    pub(crate) fn take(&mut self, count: u32) -> bool {
        if count > self.free {
            return false;
        }
        self.free -= count;
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
                Some(&mut Free::Known { hash, stamp }) => {
                    self.queue.pop_front();
                    if self.is_current(hash, stamp) {
                        self.known.remove(&hash);
                        missing -= 1;
                    }
                }
                None => unreachable!("invariant: `free` counts the current entries of the queue"),
            }
        }
        true
    }

    fn is_current(&self, hash: u64, stamp: u64) -> bool {
        let known = self.known.get(&hash);
        known.is_some_and(|k| k.holders == 0 && k.stamp == stamp)
    }

    /// How many of `hashes` are there, from the first on, and how many of these are free.
    pub(crate) fn find(&self, hashes: &[u64]) -> (u32, u32) {
        let (mut found, mut idle) = (0, 0);
        for known in hashes.iter().map_while(|h| self.known.get(h)) {
            found += 1;
            idle += u32::from(known.holders == 0);
        }
        (found, idle)
    }

    /// Holds blocks that were found.
    pub(crate) fn hold(&mut self, hashes: &[u64]) {
        for hash in hashes {
            if let Some(known) = self.known.get_mut(hash) {
                self.free -= u32::from(known.holders == 0);
                known.holders += 1;
            }
        }
    }

    /// Makes a held block, just filled, known by its content.
    pub(crate) fn publish(&mut self, hash: u64) {
        if let Entry::Vacant(unknown) = self.known.entry(hash) {
            unknown.insert(Known {
                holders: 1,
                stamp: 0,
            });
        } else {
            self.hold(&[hash]);
            self.release(&[], 1);
        }
    }

    /// Gives back `blank` blocks and the blocks of `hashes`, the last first: the end of a prompt is
    /// less likely to be asked again than its beginning.
    pub(crate) fn release(&mut self, hashes: &[u64], blank: u32) {
        self.free += blank;
        match self.queue.back_mut() {
            _ if blank == 0 => {}
            Some(Free::Blank(last)) => *last += blank,
            _ => self.queue.push_back(Free::Blank(blank)),
        }
        for &hash in hashes.iter().rev() {
            let Some(known) = self.known.get_mut(&hash) else {
                continue;
            };
            known.holders -= 1;
            if known.holders == 0 {
                self.free += 1;
                self.stamps += 1;
                known.stamp = self.stamps;
                let stamp = self.stamps;
                self.queue.push_back(Free::Known { hash, stamp });
            }
        }
    }

    /// The blocks that can be found.
    pub(crate) fn known(&self) -> impl Iterator<Item = u64> {
        self.known.keys().copied()
    }
}
