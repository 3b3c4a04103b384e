//! The sequences that decode, all together: what a step needs is known without a look at each.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::wheel::Wheel;

/// What is due at the end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// The context outgrows the window.
    Window = 0,
    /// A block of the answer is full, and its hash known.
    Block = 1,
}

/// Something that happens to one sequence at the end of a step. Of what happens at the end of one
/// step, windows come first, then blocks, then the ends of answers, which have a [`Wheel`] of their own,
/// and each in order of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Date {
    /// The step, what is due, and the number of the admission, from the highest bits to the lowest: one
    /// number, since it is compared often.
    key: u128,
    pub(super) slot: u32,
}

#[expect(clippy::cast_possible_truncation, reason = "parts of one number")]
impl Date {
    pub(super) const fn new(step: u64, due: Due, order: u64, slot: u32) -> Self {
        Self {
            key: (step as u128) << 66 | (due as u128) << 64 | order as u128,
            slot,
        }
    }

    pub(super) const fn step(&self) -> u64 {
        (self.key >> 66) as u64
    }

    /// Of its admission; a date of an earlier admission is void.
    pub(super) const fn order(&self) -> u64 {
        self.key as u64
    }

    pub(super) const fn due(&self) -> Due {
        match (self.key >> 64) & 3 {
            0 => Due::Window,
            _ => Due::Block,
        }
    }
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
    /// `steps` modulo the block's size.
    phase: u32,
    /// Sum of stored tokens less `steps`, over the sequences. May be negative.
    base: i64,
    block_tokens: u32,
    /// Sequences by (steps - stored tokens) modulo the block's size: those of one class fill their
    /// blocks at the same step.
    classes: Vec<u32>,
    /// Tokens that layers with a window look back on; [`u32::MAX`] where there are none.
    window: u32,
    /// Of the sequences whose context is still within the window: how many, and the sum of their
    /// stored tokens less `steps`.
    near: u32,
    near_base: i64,
    dates: BinaryHeap<Reverse<Date>>,
    ends: Wheel,
}

impl Decoders {
    pub(super) fn new(block_tokens: u32) -> Self {
        Self {
            count: 0,
            steps: 0,
            phase: 0,
            base: 0,
            block_tokens,
            classes: vec![0; block_tokens as usize],
            window: u32::MAX,
            near: 0,
            near_base: 0,
            dates: BinaryHeap::new(),
            ends: Wheel::new(),
        }
    }

    /// Sets the window, before anybody joins.
    pub(super) const fn set_window(&mut self, tokens: u32) {
        self.window = tokens;
    }

    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    pub(super) const fn steps(&self) -> u64 {
        self.steps
    }

    /// Tokens of context that the next step reads: what is stored and the new token, of each.
    pub(super) fn context(&self) -> u64 {
        (u64::from(self.count) * (self.steps + 1)).wrapping_add_signed(self.base)
    }

    /// The same in layers with a window; 0 where there are none.
    pub(super) fn window_context(&self) -> u64 {
        if self.window == u32::MAX {
            return 0;
        }
        let near = (u64::from(self.near) * (self.steps + 1)).wrapping_add_signed(self.near_base);
        near + u64::from(self.count - self.near) * u64::from(self.window)
    }

    /// How many of them read more with every step, in layers with a window.
    pub(super) const fn near(&self) -> u32 {
        self.near
    }

    /// Whether the context of a sequence with so many stored tokens grows within the window.
    const fn is_near(&self, stored: u32) -> bool {
        self.window < u32::MAX && stored + 1 < self.window
    }

    /// Takes in a sequence with so many stored tokens; returns after how many steps it outgrows the
    /// window, if it does.
    #[inline]
    pub(super) fn join(&mut self, stored: u32) -> Option<u64> {
        self.count += 1;
        let base = i64::from(stored) - signed(self.steps);
        self.base += base;
        let class = self.class(stored);
        self.classes[class] += 1;
        if !self.is_near(stored) {
            return None;
        }
        self.near += 1;
        self.near_base += base;
        Some(u64::from(self.window - stored - 1))
    }

    /// Lets one go that has so many stored tokens by now.
    #[inline]
    pub(super) fn leave(&mut self, stored: u32) {
        self.count -= 1;
        let base = i64::from(stored) - signed(self.steps);
        self.base -= base;
        let class = self.class(stored);
        self.classes[class] -= 1;
        if self.is_near(stored) {
            self.near -= 1;
            self.near_base -= base;
        }
    }

    /// One whose context has just outgrown the window.
    pub(super) fn outgrow(&mut self) {
        self.near -= 1;
        self.near_base -= i64::from(self.window) - 1 - signed(self.steps);
    }

    /// Notes what will be due.
    pub(super) fn note(&mut self, date: Date) {
        self.dates.push(Reverse(date));
    }

    /// Notes that the sequence has answered in `left` steps.
    #[inline]
    pub(super) fn note_end(&mut self, slot: u32, left: u32) {
        let end = self.steps + u64::from(left);
        self.ends.note(self.steps, slot, end);
    }

    /// Forgets that of one that leaves before.
    pub(super) fn forget_end(&mut self, slot: u32) {
        self.ends.forget(self.steps, slot);
    }

    /// Takes those that have answered by now, in any order.
    pub(super) fn take_ends(&mut self, taken: &mut Vec<u32>) {
        self.ends.take(self.steps, taken);
    }

    /// Steps until something is due, if `is_valid` says of a date that it still will be.
    #[inline]
    pub(super) fn until_due(&mut self, is_valid: impl Fn(&Date) -> bool) -> Option<u64> {
        let end = self.ends.until_next(self.steps);
        while let Some(Reverse(first)) = self.dates.peek() {
            if is_valid(first) {
                let date = first.step() - self.steps;
                return Some(end.map_or(date, |end| end.min(date)));
            }
            self.dates.pop();
        }
        end
    }

    /// Takes the next of what is due by now, void or not.
    #[inline]
    pub(super) fn take_due(&mut self) -> Option<Date> {
        let due = self.dates.peek()?.0.step() <= self.steps;
        due.then(|| self.dates.pop())?.map(|date| date.0)
    }

    /// The same, of outgrown windows alone.
    pub(super) fn take_due_window(&mut self) -> Option<Date> {
        let first = self.dates.peek()?;
        let due = first.0.step() <= self.steps && first.0.due() == Due::Window;
        due.then(|| self.dates.pop())?.map(|date| date.0)
    }

    /// Lets `steps` steps pass.
    #[inline]
    pub(super) fn pass(&mut self, steps: u64) {
        self.steps += steps;
        self.ends.turn(self.steps);
        let passed = if steps < u64::from(self.block_tokens) {
            low(steps)
        } else {
            low(steps % u64::from(self.block_tokens))
        };
        self.phase = self.later(passed);
    }

    /// The phase `steps` steps from now, fewer than a block has tokens.
    const fn later(&self, steps: u32) -> u32 {
        let phase = self.phase + steps;
        if phase < self.block_tokens {
            phase
        } else {
            phase - self.block_tokens
        }
    }

    /// Blocks that the next step needs.
    #[inline]
    pub(super) fn blocks_for_next(&self) -> u32 {
        self.classes[self.phase as usize]
    }

    /// Blocks that the next `steps` steps need.
    pub(super) fn blocks_for(&self, steps: u64) -> u64 {
        let block = u64::from(self.block_tokens);
        let (rounds, rest) = if steps < block {
            (0, steps)
        } else {
            (steps / block, steps % block)
        };
        let rest = (0..low(rest)).map(|step| self.classes[self.later(step) as usize]);
        rounds * u64::from(self.count) + u64::from(rest.sum::<u32>())
    }

    /// How many steps `blocks` blocks last.
    pub(super) fn steps_within(&self, blocks: u64) -> u64 {
        let Some(rounds) = blocks.checked_div(u64::from(self.count)) else {
            return u64::MAX;
        };
        let mut left = low(blocks % u64::from(self.count));
        let mut steps = 0;
        while let Some(rest) = left.checked_sub(self.classes[self.later(steps) as usize]) {
            left = rest;
            steps += 1;
        }
        let whole = rounds.saturating_mul(u64::from(self.block_tokens));
        whole.saturating_add(u64::from(steps))
    }

    #[inline]
    fn class(&self, stored: u32) -> usize {
        let stored = stored % self.block_tokens;
        let class = if self.phase >= stored {
            self.phase - stored
        } else {
            self.phase + self.block_tokens - stored
        };
        class as usize
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a remainder of a number of 32 bits, or below one"
)]
const fn low(value: u64) -> u32 {
    value as u32
}

fn signed(steps: u64) -> i64 {
    i64::try_from(steps).unwrap_or(i64::MAX)
}
