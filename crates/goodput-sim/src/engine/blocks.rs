//! KV blocks: free ones, held ones, and those that can be found again by their content.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    hash::{BuildHasherDefault, Hasher},
};

/// Hashes of blocks are mixed well already. The table is looked into and never walked through, so
/// its order shows nowhere.
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
pub(super) struct BlockPool {
    total: u32,
    free: u32,
    queue: VecDeque<Free>,
    known: HashMap<u64, Known, BuildHasherDefault<AsItIs>>,
    stamps: u64,
}

impl BlockPool {
    pub(super) fn new(total: u32) -> Self {
        Self {
            total,
            free: total,
            queue: VecDeque::from([Free::Blank(total)]),
            known: HashMap::default(),
            stamps: 0,
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
    pub(super) fn take(&mut self, count: u32) -> bool {
        if count > self.free {
            return false;
        }
        if let Some(Free::Blank(blank)) = self.queue.front_mut()
            && *blank > count
        {
            *blank -= count;
            self.free -= count;
            return true;
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
    pub(super) fn find(&self, hashes: &[u64]) -> (u32, u32) {
        let (mut found, mut idle) = (0, 0);
        for known in hashes.iter().map_while(|h| self.known.get(h)) {
            found += 1;
            idle += u32::from(known.holders == 0);
        }
        (found, idle)
    }

    /// Holds blocks that were found.
    pub(super) fn hold(&mut self, hashes: &[u64]) {
        for hash in hashes {
            if let Some(known) = self.known.get_mut(hash) {
                self.free -= u32::from(known.holders == 0);
                known.holders += 1;
            }
        }
    }

    /// Makes a held block, just filled, known by its content.
    pub(super) fn publish(&mut self, hash: u64) {
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
    pub(super) fn release(&mut self, hashes: &[u64], blank: u32) {
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
        if self.queue.len() > 2 * self.total as usize + 64 {
            self.drop_stale();
        }
    }

    /// Forgets entries of blocks that were found again, so that the queue stays short.
    fn drop_stale(&mut self) {
        let known = &self.known;
        self.queue.retain(|entry| match entry {
            Free::Blank(_) => true,
            Free::Known { hash, stamp } => known
                .get(hash)
                .is_some_and(|k| k.holders == 0 && k.stamp == *stamp),
        });
    }

    /// Counts everything anew and compares: the invariant, for tests.
    #[cfg(test)]
    pub(super) fn is_sound(&self) -> bool {
        let queued: u32 = self
            .queue
            .iter()
            .map(|entry| match *entry {
                Free::Blank(blank) => blank,
                Free::Known { hash, stamp } => u32::from(self.is_current(hash, stamp)),
            })
            .sum();
        queued == self.free && self.free <= self.total
    }
}
