//! One step: who gets a slot, what the batch is, what it does.

use std::time::Duration;

use goodput_perf_model::Batch;
use goodput_record::{Blocks, Outcome, Timestamp, nanos, span_of};

use super::{Active, SIMILARITY, Slot, SlotEngine, State};
use crate::engine::{EngineEvents, EngineRequest};

impl Slot {
    /// Tokens that wait for computation: one while it answers, more of a prompt.
    fn missing(&self) -> u32 {
        let active = self.active.as_ref();
        active.map_or(0, |a| a.request.input_tokens + a.emitted - self.kept)
    }

    fn answers(&self) -> bool {
        self.active.as_ref().is_some_and(|a| a.emitted > 0)
    }

    /// Gives its cells up.
    fn clear(&mut self) {
        self.kept = 0;
        self.blocks = Blocks::new();
    }
}

impl SlotEngine {
    pub(super) fn start_step(&mut self, at: Timestamp, out: &mut impl EngineEvents) {
        self.reach(at);
        self.fill_slots(at, out);
        let batch = self.schedule();
        if !self.make_room(batch.tokens()) {
            self.fail_all(at, out);
            // Whoever was deferred has a slot now.
            self.state = if self.deferred.is_empty() {
                State::Idle
            } else {
                State::Starting(at)
            };
            return;
        }
        if batch.tokens() == 0 {
            self.state = match self.deferred.front() {
                Some((_, submitted)) => State::Starting(*submitted),
                None => State::Idle,
            };
            return;
        }
        let span = span_of(self.step_time.seconds(&batch));
        // Time always moves, whatever the coefficients.
        let span = span.max(Duration::from_nanos(1));
        self.counters.steps += 1;
        self.counters.busy_ns += nanos(span);
        self.counters.prefill_tokens += u64::from(batch.prefill_tokens);
        self.state = State::Stepping(at.after(span));
    }

    /// Gives free slots to those who wait, in their order.
    fn fill_slots(&mut self, at: Timestamp, out: &mut impl EngineEvents) {
        while self.deferred.front().is_some_and(|(_, since)| *since <= at) {
            let Some((request, _)) = self.deferred.front() else {
                break;
            };
            let Some((place, found)) = self.choose(request) else {
                break;
            };
            let Some((request, _)) = self.deferred.pop_front() else {
                break;
            };
            if self.prefix_cache {
                self.counters.prefix_queries += u64::from(request.input_tokens);
                self.counters.prefix_hits += u64::from(found);
            }
            out.admitted(at, request.index, found);
            self.uses += 1;
            let slot = &mut self.slots[place];
            slot.used = self.uses;
            slot.kept = found;
            slot.blocks.clone_from(&request.blocks);
            let room = self.slot_context - request.input_tokens;
            slot.active = Some(Active {
                answers: request.output_tokens.min(room),
                emitted: 0,
                scheduled: 0,
                request,
            });
        }
    }

    /// The free slot that a request gets, and how many tokens of its prompt that keeps.
    fn choose(&self, request: &EngineRequest) -> Option<(usize, u32)> {
        let free = || {
            let slots = self.slots.iter().enumerate();
            slots.filter(|(_, slot)| slot.active.is_none())
        };
        let (oldest, _) = free().min_by_key(|(_, slot)| slot.used)?;
        let mut best = (oldest, self.common(oldest, request));
        if !self.prefix_cache {
            return Some((oldest, 0));
        }
        let enough = SIMILARITY * f64::from(request.input_tokens);
        let mut longest = enough;
        for (place, _) in free() {
            let common = self.common(place, request);
            if f64::from(common) > longest {
                longest = f64::from(common);
                best = (place, common);
            }
        }
        Some(best)
    }

    /// Leading tokens of a prompt that a slot's cells hold; never the last one.
    fn common(&self, place: usize, request: &EngineRequest) -> u32 {
        if !self.prefix_cache {
            return 0;
        }
        let slot = &self.slots[place];
        let blocks = slot.blocks.shared_with(&request.blocks);
        let tokens = blocks.saturating_mul(self.block_tokens);
        tokens.min(slot.kept).min(request.input_tokens - 1)
    }

    /// Puts the next batch together.
    fn schedule(&mut self) -> Batch {
        let window = self.step_time.window_tokens();
        let mut batch = Batch::default();
        for slot in self.slots.iter_mut().filter(|s| s.answers()) {
            batch.decode(slot.kept + 1, window);
            if let Some(active) = &mut slot.active {
                active.scheduled = 1;
            }
        }
        for slot in self.slots.iter_mut().filter(|s| !s.answers()) {
            let room = self.batch_tokens.saturating_sub(batch.tokens());
            let tokens = slot.missing().min(room);
            if let Some(active) = &mut slot.active {
                active.scheduled = tokens;
            }
            if tokens > 0 {
                batch.prefill(slot.kept, tokens);
            }
        }
        batch
    }

    /// Sees to it that so many more cells are free; `false`: they cannot be.
    fn make_room(&mut self, tokens: u32) -> bool {
        let Some(all) = self.cells else {
            return true;
        };
        while self.cells().0 + u64::from(tokens) > all {
            let idle = self.slots.iter_mut();
            let idle = idle.filter(|s| s.active.is_none() && s.kept > 0);
            match idle.min_by_key(|s| s.used) {
                Some(slot) => slot.clear(),
                None => return false,
            }
        }
        true
    }

    /// The cells have run out: every request in a slot fails.
    fn fail_all(&mut self, at: Timestamp, out: &mut impl EngineEvents) {
        for slot in &mut self.slots {
            if let Some(active) = slot.active.take() {
                self.counters.killed += 1;
                out.ended(at, active.request.index, Outcome::ErrorEvent);
            }
            slot.clear();
        }
    }

    /// Books what the step that ends at `at` has done.
    pub(super) fn finish_step(&mut self, at: Timestamp, out: &mut impl EngineEvents) {
        self.reach(at);
        let counters = &mut self.counters;
        for slot in &mut self.slots {
            let Some(active) = &mut slot.active else {
                continue;
            };
            let done = std::mem::take(&mut active.scheduled);
            slot.kept += done;
            let whole = slot.kept == active.request.input_tokens + active.emitted;
            if done == 0 || !whole {
                continue;
            }
            active.emitted += 1;
            counters.output_tokens += 1;
            let index = active.request.index;
            out.tokens(at, index, 1);
            if active.emitted == active.answers {
                counters.finished += 1;
                slot.active = None;
                out.ended(at, index, Outcome::Ok);
            }
        }
        let open = self.running() > 0 || !self.deferred.is_empty();
        self.state = if open {
            State::Starting(at)
        } else {
            State::Idle
        };
    }
}
