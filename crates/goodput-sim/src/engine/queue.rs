//! Who waits: by priority, and first come first served within one.

use std::collections::VecDeque;

/// The waiting sequences' slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    /// By priority, the first served first.
    lines: Vec<VecDeque<u32>>,
    count: usize,
}

impl Queue {
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// Whether anybody ever came with a priority behind the first.
    pub(super) const fn has_lines(&self) -> bool {
        self.lines.len() > 1
    }

    /// Joins at the end; returns whether nobody of the same or a better priority waits before it.
    #[inline]
    pub(super) fn push_back(&mut self, priority: u8, slot: u32) -> bool {
        let mut upto = self.lines.iter().take(usize::from(priority) + 1);
        let first = self.count == 0 || upto.all(VecDeque::is_empty);
        self.line(priority).push_back(slot);
        first
    }

    pub(super) fn push_front(&mut self, priority: u8, slot: u32) {
        self.line(priority).push_front(slot);
    }

    #[inline]
    fn line(&mut self, priority: u8) -> &mut VecDeque<u32> {
        let place = usize::from(priority);
        if self.lines.len() <= place {
            self.lines.resize(place + 1, VecDeque::new());
        }
        self.count += 1;
        &mut self.lines[place]
    }

    /// The first of each priority, the best first.
    pub(super) fn heads(&self) -> impl Iterator<Item = u32> {
        self.lines.iter().filter_map(|line| line.front().copied())
    }

    /// Takes the first of a priority.
    #[inline]
    pub(super) fn pop(&mut self, priority: u8) -> Option<u32> {
        let slot = self.lines.get_mut(usize::from(priority))?.pop_front()?;
        self.count -= 1;
        Some(slot)
    }

    /// Takes a slot out of the line of a priority.
    pub(super) fn remove(&mut self, priority: u8, slot: u32) -> bool {
        let Some(line) = self.lines.get_mut(usize::from(priority)) else {
            return false;
        };
        let Some(at) = line.iter().position(|&s| s == slot) else {
            return false;
        };
        line.remove(at);
        self.count -= 1;
        true
    }
}
