//! An engine with slots: batching by the rules of llama.cpp's server.

mod step;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use goodput_perf_model::{Profile, Scheduler, StepTime};
use goodput_record::{Blocks, EngineSample, Timestamp};

use crate::engine::{Counters, EngineEvents, EngineRequest, Refusal};

/// A slot is taken for its prefix from this share of the prompt on; below it, the one that was used
/// the longest ago is taken (`--slot-prompt-similarity`, 0.10 by default).
const SIMILARITY: f64 = 0.1;

/// A request in a slot.
#[derive(Clone, Debug)]
struct Active {
    request: EngineRequest,
    /// Tokens that it will answer: fewer than asked for where the slot's context ends before.
    answers: u32,
    emitted: u32,
    /// Tokens of the step under way.
    scheduled: u32,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    active: Option<Active>,
    /// Tokens whose keys and values are in its cells: of its request, or of the last one.
    kept: u32,
    /// The whole blocks of what it was asked last.
    blocks: Blocks,
    /// When it was taken last, counting up.
    used: u64,
}

/// What the engine is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Starting(Timestamp),
    Stepping(Timestamp),
}

/// One simulated replica with slots, passive like [`crate::Engine`] and with the same events.
///
/// Rules, as read from a llama.cpp server of the end of 2025 and from its streams (b11549): a request
/// takes a free slot, the one whose cells hold the longest beginning of its prompt, if that is more
/// than a tenth of it, else the one used the longest ago; without a free slot it is deferred, first
/// come, first served. A step is one batch: a token of every slot that answers, then prompt tokens of
/// the others, slot by slot, up to `max_batched_tokens` in all. The last token of a prompt is
/// always computed. There is no preemption. An answer ends where the slot's context does, as if it
/// had been asked for no more.
///
/// Where all slots share the KV cells and these run out, the cells of idle slots are given up, the one
/// used the longest ago first; when there are none left, *every* request in a slot fails with an
/// error event and loses its cells.
///
/// Prefixes are found by whole blocks of the caller's hashes: up to a block less than the server
/// finds, which compares tokens. Speculative decoding is left out.
#[derive(Clone, Debug)]
pub struct SlotEngine {
    step_time: StepTime,
    batch_tokens: u32,
    prefix_cache: bool,
    block_tokens: u32,
    /// All KV cells, where slots share them.
    cells: Option<u64>,
    all_cells: u64,
    /// Put around every prompt.
    template_tokens: u32,
    /// Tokens of prompt and answer that a slot holds.
    slot_context: u32,
    slots: Vec<Slot>,
    deferred: VecDeque<(EngineRequest, Timestamp)>,
    uses: u64,
    state: State,
    now: Timestamp,
    counters: Counters,
}

impl SlotEngine {
    /// An idle engine with empty slots: `max_num_seqs` of them, over `kv_blocks` blocks of cells. A
    /// profile whose scheduler is not one of slots is taken as one with cells for each slot.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        let count = profile.max_num_seqs.get();
        let cells = profile.kv_tokens();
        let unified = profile.scheduler == Scheduler::Slots { unified_kv: true };
        let share = if unified {
            cells
        } else {
            cells / u64::from(count)
        };
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        Self {
            step_time: profile.step_time,
            batch_tokens: profile.max_batched_tokens.get(),
            prefix_cache: profile.prefix_cache,
            block_tokens: profile.block_tokens.get(),
            cells: unified.then_some(cells),
            all_cells: cells,
            template_tokens: profile.template_tokens,
            slot_context: profile.context_limit.min(share),
            slots: vec![Slot::default(); count as usize],
            deferred: VecDeque::new(),
            uses: 0,
            state: State::Idle,
            now: Timestamp::ZERO,
            counters: Counters::default(),
        }
    }

    /// Tokens of prompt and answer that one slot holds.
    #[must_use]
    pub const fn slot_context(&self) -> u32 {
        self.slot_context
    }

    /// Hands a request in, as [`crate::Engine::submit`] does. A prompt that fills the slot's context
    /// is refused; a longer answer is not.
    pub fn submit(&mut self, now: Timestamp, mut request: EngineRequest) -> Result<(), Refusal> {
        self.reach(now);
        request.put_into(self.template_tokens);
        if let Err(refusal) = self.check(&request) {
            self.counters.refused += 1;
            return Err(refusal);
        }
        self.counters.submitted += 1;
        self.deferred.push_back((request, self.now));
        if self.state == State::Idle {
            self.state = State::Starting(self.now);
        }
        Ok(())
    }

    fn check(&self, request: &EngineRequest) -> Result<(), Refusal> {
        if request.input_tokens == 0 || request.output_tokens == 0 {
            return Err(Refusal::Empty);
        }
        if request.input_tokens >= self.slot_context {
            return Err(Refusal::TooLong {
                needs: u64::from(request.input_tokens) + 1,
                has: self.slot_context,
            });
        }
        let index = request.index;
        let waits = self.deferred.iter().any(|(r, _)| r.index == index);
        if waits || self.slot_of(index).is_some() {
            return Err(Refusal::Duplicate(index));
        }
        Ok(())
    }

    fn slot_of(&self, index: u64) -> Option<usize> {
        let has = |slot: &Slot| {
            slot.active
                .as_ref()
                .is_some_and(|a| a.request.index == index)
        };
        self.slots.iter().position(has)
    }

    /// Gives a request up, deferred or in a slot, which is free at once and keeps its cells. Returns
    /// whether it was open. No event tells of it.
    pub fn cancel(&mut self, now: Timestamp, index: u64) -> bool {
        self.reach(now);
        if let Some(place) = self.deferred.iter().position(|(r, _)| r.index == index) {
            self.deferred.remove(place);
        } else if let Some(slot) = self.slot_of(index) {
            self.slots[slot].active = None;
        } else {
            return false;
        }
        self.counters.cancelled += 1;
        true
    }

    /// Changes how long steps take, from the next one on.
    pub const fn set_step_time(&mut self, step_time: StepTime) {
        self.step_time = step_time;
    }

    /// When something happens next, if nothing is put in before. `None`: the engine is idle.
    #[must_use]
    pub const fn next_event(&self) -> Option<Timestamp> {
        match self.state {
            State::Idle => None,
            State::Starting(at) | State::Stepping(at) => Some(at),
        }
    }

    /// Moves time on to `to` and tells `out` of all that happens up to then, `to` included.
    pub fn advance(&mut self, to: Timestamp, out: &mut impl EngineEvents) {
        loop {
            match self.state {
                State::Starting(at) if at <= to => self.start_step(at, out),
                State::Stepping(at) if at <= to => self.finish_step(at, out),
                _ => break,
            }
        }
        if to != Timestamp::FAR_FUTURE {
            self.reach(to);
        }
    }

    /// What its metrics say now: a llama.cpp server tells neither of the cells in use nor of
    /// preemptions, so those are not known.
    #[must_use]
    pub fn sample(&self) -> EngineSample {
        let count = |n: usize| Some(u32::try_from(n).unwrap_or(u32::MAX));
        let c = &self.counters;
        EngineSample {
            at: self.now,
            replica: 0,
            running: count(self.running()),
            waiting: count(self.waiting()),
            kv_used: None,
            preemptions: None,
            prefix_queries: Some(c.prefix_queries),
            prefix_hits: Some(c.prefix_hits),
            requests_ended: Some(c.finished + c.cancelled + c.killed),
            started_unix_s: None,
        }
    }

    /// All that was counted so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Requests in slots.
    #[must_use]
    pub fn running(&self) -> usize {
        self.slots.iter().filter(|s| s.active.is_some()).count()
    }

    /// Requests deferred.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.deferred.len()
    }

    /// KV cells in use, those of idle slots included, and all there are.
    #[must_use]
    pub fn cells(&self) -> (u64, u64) {
        let used = self.slots.iter().map(|s| u64::from(s.kept)).sum();
        (used, self.all_cells)
    }

    fn reach(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }
}
