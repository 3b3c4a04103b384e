//! A prefix cache of limited size that forgets what was used longest ago.

use std::collections::{BTreeMap, HashMap};

/// Names of blocks, least recently used first. Only membership and order of use are asked.
pub(super) struct Lru {
    capacity: usize,
    clock: u64,
    used: HashMap<u64, u64>,
    by_use: BTreeMap<u64, u64>,
}

impl Lru {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            clock: 0,
            used: HashMap::new(),
            by_use: BTreeMap::new(),
        }
    }

    /// Leading blocks of a prompt that are held; all of them are held afterwards, as far as there
    /// is room. Blocks nearer to the end of a prompt are forgotten first, as engines do.
    pub(super) fn request(&mut self, blocks: &[u64]) -> usize {
        let held = blocks
            .iter()
            .take_while(|block| self.used.contains_key(block))
            .count();
        for &block in blocks.iter().rev() {
            self.clock += 1;
            if let Some(before) = self.used.insert(block, self.clock) {
                self.by_use.remove(&before);
            }
            self.by_use.insert(self.clock, block);
        }
        while self.used.len() > self.capacity
            && let Some((_, block)) = self.by_use.pop_first()
        {
            self.used.remove(&block);
        }
        held
    }
}
