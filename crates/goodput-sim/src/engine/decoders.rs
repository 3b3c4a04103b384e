//! The sequences that decode, all together: what a step needs is known without a look at each.

use std::{cmp::Reverse, collections::BinaryHeap};

/// What is due at the end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// A block of the answer is full, and its hash known.
    Block,
    /// The last token is answered.
    End,
}

/// Something that happens to one sequence at the end of step `step`. Of what happens at the end of
/// one step, blocks come before ends, and each in order of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Date {
    pub(super) step: u64,
    pub(super) due: Due,
    /// Of its admission; a date of an earlier admission is void.
    pub(super) order: u64,
    pub(super) slot: u32,
}

/// All sequences of which each step computes one token.
///
/// Each step adds one token to every one of them, so whatever depends on a length is kept less the
/// number of steps so far: a sequence is looked at when it joins and when it leaves, and not between.
#[derive(Clone, Debug)]
pub(super) struct Decoders {
    count: u32,
    /// Steps so far.
    steps: u64,
    /// Sum of stored tokens less `steps`, over the sequences. May be negative.
    base: i64,
    block_tokens: u64,
    /// Sequences by (stored tokens - steps) modulo the block's size: those of one class fill their
    /// blocks at the same step.
    classes: Vec<u32>,
    dates: BinaryHeap<Reverse<Date>>,
}

impl Decoders {
    pub(super) fn new(block_tokens: u32) -> Self {
        Self {
            count: 0,
            steps: 0,
            base: 0,
            block_tokens: u64::from(block_tokens),
            classes: vec![0; block_tokens as usize],
            dates: BinaryHeap::new(),
        }
    }

    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    pub(super) const fn steps(&self) -> u64 {
        self.steps
    }

    /// Tokens of context that the next step reads: what is stored and the new token, of each.
    pub(super) fn context(&self) -> u64 {
        let count = u64::from(self.count);
        (count * self.steps + count).wrapping_add_signed(self.base)
    }

    /// Takes in a sequence with so many stored tokens.
    pub(super) fn join(&mut self, stored: u32) {
        self.count += 1;
        self.base += i64::from(stored) - signed(self.steps);
        let class = self.class(stored);
        self.classes[class] += 1;
    }

    /// Lets one go that has so many stored tokens by now.
    pub(super) fn leave(&mut self, stored: u32) {
        self.count -= 1;
        self.base -= i64::from(stored) - signed(self.steps);
        let class = self.class(stored);
        self.classes[class] -= 1;
    }

    /// Notes what will be due.
    pub(super) fn note(&mut self, date: Date) {
        self.dates.push(Reverse(date));
    }

    /// Steps until something is due, if `is_valid` says that it still will be.
    pub(super) fn until_due(&mut self, is_valid: impl Fn(&Date) -> bool) -> Option<u64> {
        while let Some(Reverse(first)) = self.dates.peek() {
            if is_valid(first) {
                return Some(first.step - self.steps);
            }
            self.dates.pop();
        }
        None
    }

    /// Takes the next of what is due by now, void or not.
    pub(super) fn take_due(&mut self) -> Option<Date> {
        let due = self.dates.peek().is_some_and(|d| d.0.step <= self.steps);
        due.then(|| self.dates.pop())?.map(|date| date.0)
    }

    /// Lets `steps` steps pass.
    pub(super) const fn pass(&mut self, steps: u64) {
        self.steps += steps;
    }

    /// Blocks that the next `steps` steps need.
    pub(super) fn blocks_for(&self, steps: u64) -> u64 {
        let whole = steps / self.block_tokens * u64::from(self.count);
        let rest = (0..steps % self.block_tokens).map(|step| u64::from(self.filling(step)));
        whole + rest.sum::<u64>()
    }

    /// How many steps `blocks` blocks last.
    pub(super) fn steps_within(&self, blocks: u64) -> u64 {
        let Some(rounds) = blocks.checked_div(u64::from(self.count)) else {
            return u64::MAX;
        };
        let mut left = blocks % u64::from(self.count);
        let mut steps = 0;
        while let Some(rest) = left.checked_sub(u64::from(self.filling(steps))) {
            left = rest;
            steps += 1;
        }
        rounds
            .saturating_mul(self.block_tokens)
            .saturating_add(steps)
    }

    /// Sequences whose blocks are all full when `later` more steps have passed.
    fn filling(&self, later: u64) -> u32 {
        let phase = (self.steps + later) % self.block_tokens;
        self.classes[index((self.block_tokens - phase) % self.block_tokens)]
    }

    fn class(&self, stored: u32) -> usize {
        let phase = self.steps % self.block_tokens;
        index((u64::from(stored) + self.block_tokens - phase) % self.block_tokens)
    }
}

fn index(class: u64) -> usize {
    usize::try_from(class).unwrap_or(0)
}

fn signed(steps: u64) -> i64 {
    i64::try_from(steps).unwrap_or(i64::MAX)
}
