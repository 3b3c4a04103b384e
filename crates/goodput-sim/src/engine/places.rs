//! Where the open requests are.

use super::{Engine, sequence::Sequence};

/// The number of no request.
pub(super) const NOBODY: u64 = u64::MAX;
/// Open requests are found one by one up to so many.
const MANY: usize = 512;

impl Engine {
    /// Finds a place for a sequence.
    pub(super) fn place(&mut self, index: u64, sequence: Sequence) -> u32 {
        if let Some(slot) = self.free_slots.pop() {
            self.indices[slot as usize] = index;
            self.slots[slot as usize] = sequence;
            self.enter(index, slot);
            return slot;
        }
        self.indices.push(index);
        self.slots.push(sequence);
        let slot = u32::try_from(self.slots.len() - 1);
        let slot = slot.expect("invariant: fewer than 2^32 open requests");
        self.enter(index, slot);
        slot
    }

    fn enter(&mut self, index: u64, slot: u32) {
        if let Some(directory) = &mut self.directory {
            directory.insert(index, slot);
        }
    }

    /// Where an open request is.
    pub(super) fn find(&self, index: u64) -> Option<u32> {
        if let Some(directory) = &self.directory {
            return directory.get(&index).copied();
        }
        let place = self.indices.iter().position(|&i| i == index);
        place.and_then(|place| u32::try_from(place).ok())
    }

    /// Keeps a directory of the open requests from here on, where there are so many that to look
    /// through them takes longer.
    pub(super) fn open_directory(&mut self) {
        if self.directory.is_none() && self.slots.len() > MANY {
            let open = self.indices.iter().zip(0..);
            let open = open.filter(|(index, _)| **index != NOBODY);
            self.directory = Some(open.map(|(&index, slot)| (index, slot)).collect());
        }
    }

    /// Frees the place of a request that has ended.
    #[inline]
    pub(super) fn vacate(&mut self, slot: u32) {
        if let Some(directory) = &mut self.directory {
            directory.remove(&self.indices[slot as usize]);
        }
        self.indices[slot as usize] = NOBODY;
        self.slots[slot as usize].order = 0;
        self.free_slots.push(slot);
    }
}
