//! One step: who takes part, what it does to them.

use std::time::Duration;

use goodput_record::{Outcome, Timestamp, nanos, span_of};

use super::{Engine, EngineEvents, State, blocks::BlockPool, sequence::Sequence};
use goodput_perf_model::Batch;

impl Engine {
    /// Schedules the next step, which begins at `at`; goes idle if there is nothing to do.
    pub(super) fn start_step(&mut self, at: Timestamp, out: &mut impl EngineEvents) {
        self.reach(at);
        let mut batch = Batch::default();
        let preempted = self.schedule_running(at, &mut batch, out);
        if !preempted {
            self.admit(at, &mut batch, out);
        }
        if batch.tokens() == 0 {
            debug_assert!(self.running.is_empty(), "invariant: whoever runs can go on");
            self.state = match self.waiting.front() {
                Some(first) => State::Starting(first.submitted),
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

    /// Gives every running sequence its tokens of this step; returns whether one was evicted.
    fn schedule_running(
        &mut self,
        at: Timestamp,
        batch: &mut Batch,
        out: &mut impl EngineEvents,
    ) -> bool {
        let window = self.step_time.window_tokens();
        let mut preempted = false;
        let mut position = 0;
        while position < self.running.len() {
            let budget = self.max_batched_tokens - batch.tokens();
            let sequence = &self.running[position];
            let tokens = sequence.missing().min(budget);
            if tokens == 0 {
                break;
            }
            let needs = self.new_blocks(sequence, tokens);
            while position < self.running.len() && !self.pool.take(needs) {
                self.preempt_last(at, out);
                preempted = true;
            }
            let Some(sequence) = self.running.get_mut(position) else {
                break;
            };
            sequence.held += needs;
            schedule(sequence, tokens, window, batch);
            position += 1;
        }
        preempted
    }

    /// Blocks `sequence` lacks for `tokens` more.
    fn new_blocks(&self, sequence: &Sequence, tokens: u32) -> u32 {
        let stored = sequence.computed + tokens;
        if stored <= sequence.held * self.block_tokens {
            return 0;
        }
        stored.div_ceil(self.block_tokens) - sequence.held
    }

    fn preempt_last(&mut self, at: Timestamp, out: &mut impl EngineEvents) {
        let Some(mut victim) = self.running.pop() else {
            return;
        };
        release(&mut self.pool, &victim);
        (victim.computed, victim.held, victim.known) = (0, 0, 0);
        self.counters.preemptions += 1;
        out.preempted(at, victim.request.index);
        self.waiting.push_front(victim);
    }

    /// Admits from the front of the queue while sequences, tokens and blocks last.
    fn admit(&mut self, at: Timestamp, batch: &mut Batch, out: &mut impl EngineEvents) {
        let window = self.step_time.window_tokens();
        while self.running.len() < self.max_num_seqs {
            let budget = self.max_batched_tokens - batch.tokens();
            let Some(first) = self.waiting.front().filter(|s| s.submitted <= at) else {
                break;
            };
            let (found, idle) = self.find_prefix(first);
            let cached = found * self.block_tokens;
            let missing = first.length() - cached;
            if budget == 0 || (!self.chunked_prefill && missing > budget) {
                break;
            }
            let tokens = missing.min(budget);
            let needs = (cached + tokens).div_ceil(self.block_tokens) - found;
            if needs + idle > self.pool.free() {
                break;
            }
            let Some(mut sequence) = self.waiting.pop_front() else {
                break;
            };
            (sequence.computed, sequence.known) = (cached, found);
            sequence.held = found + needs;
            self.pool.hold(sequence.known_hashes());
            self.pool.take(needs);
            if !sequence.returned && self.prefix_cache {
                self.counters.prefix_queries += u64::from(sequence.request.input_tokens);
                self.counters.prefix_hits += u64::from(cached);
            }
            sequence.returned = true;
            out.admitted(at, sequence.request.index, cached);
            schedule(&mut sequence, tokens, window, batch);
            self.running.push(sequence);
        }
    }

    /// Leading blocks of `sequence` in the cache, and how many of these are free. The block of the
    /// last token never counts, so that there is something to compute.
    fn find_prefix(&self, sequence: &Sequence) -> (u32, u32) {
        if !self.prefix_cache {
            return (0, 0);
        }
        let most = ((sequence.length() - 1) / self.block_tokens) as usize;
        let hashes = &sequence.request.blocks;
        self.pool.find(&hashes[..most.min(hashes.len())])
    }

    /// Books what the step that ends at `at` has done.
    pub(super) fn finish_step(&mut self, at: Timestamp, out: &mut impl EngineEvents) {
        self.reach(at);
        let Self {
            running,
            pool,
            counters,
            open,
            ..
        } = self;
        running.retain_mut(|sequence| {
            if sequence.scheduled == 0 {
                return true;
            }
            sequence.computed += sequence.scheduled;
            sequence.scheduled = 0;
            if self.prefix_cache {
                publish_filled(pool, sequence, self.block_tokens);
            }
            if sequence.missing() > 0 {
                return true;
            }
            let index = sequence.request.index;
            sequence.emitted += 1;
            counters.output_tokens += 1;
            out.tokens(at, index, 1);
            if sequence.emitted < sequence.request.output_tokens {
                return true;
            }
            release(pool, sequence);
            counters.finished += 1;
            open.remove(&index);
            out.ended(at, index, Outcome::Ok);
            false
        });
        self.state = if self.open.is_empty() {
            State::Idle
        } else {
            State::Starting(at)
        };
    }
}

/// Books `tokens` of `sequence` into the step.
fn schedule(sequence: &mut Sequence, tokens: u32, window: u32, batch: &mut Batch) {
    if sequence.decodes() {
        batch.decode(sequence.length(), window);
    } else {
        batch.prefill(sequence.computed, tokens);
    }
    sequence.scheduled = tokens;
}

/// Makes every block that is now full known, where its hash is.
fn publish_filled(pool: &mut BlockPool, sequence: &mut Sequence, block_tokens: u32) {
    while let Some(&hash) = sequence.request.blocks.get(sequence.known as usize) {
        if sequence.computed < (sequence.known + 1) * block_tokens {
            break;
        }
        pool.publish(hash);
        sequence.known += 1;
    }
}

/// Gives the blocks of a sequence back.
pub(super) fn release(pool: &mut BlockPool, sequence: &Sequence) {
    pool.release(sequence.known_hashes(), sequence.held - sequence.known);
}
