//! The engine: continuous batching over KV blocks, by the rules of vLLM v1.

mod blocks;
mod sequence;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};

use goodput_record::{EngineSample, Outcome, Timestamp, nanos};
use thiserror::Error;

use crate::{
    perf_model::{Batch, StepTime},
    profile::Profile,
};
use blocks::BlockPool;
pub use sequence::EngineRequest;
use sequence::Sequence;

/// What an engine does, told in order of time; at one instant, in order of admission.
pub trait EngineEvents {
    /// The request joins the running batch, and `cached_tokens` of its prompt need no computation.
    /// Told once more when it returns after a preemption; what a server reports is the first.
    fn admitted(&mut self, at: Timestamp, index: u64, cached_tokens: u32) {
        let _ = (at, index, cached_tokens);
    }
    /// It answers `count` more tokens.
    fn tokens(&mut self, at: Timestamp, index: u64, count: u32);
    /// It loses its place and its KV blocks to older requests, and waits at the front.
    fn preempted(&mut self, at: Timestamp, index: u64) {
        let _ = (at, index);
    }
    /// It has answered its last token. Not told of a request that was cancelled.
    fn ended(&mut self, at: Timestamp, index: u64, outcome: Outcome);
}

/// Why a request is not taken. It would never end here, however long it waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The request has no prompt, or is to answer nothing.
    #[error("a request needs at least one input and one output token")]
    Empty,
    /// Prompt and answer are longer than the context the engine serves.
    #[error("needs a context of {needs} tokens, has {has}")]
    TooLong {
        /// Input and output tokens.
        needs: u64,
        /// The limit on their sum.
        has: u32,
    },
    /// Even alone it would not fit into the KV cache.
    #[error("needs {needs} KV blocks, has {has}")]
    TooLarge {
        /// Blocks it holds just before its last token.
        needs: u32,
        /// Blocks there are.
        has: u32,
    },
    /// Its prompt must be computed in one step, but no step may be that large.
    #[error(
        "needs a step of {needs} tokens, has {has}: raise max_batched_tokens or turn chunked prefill on"
    )]
    TooWide {
        /// The longest prefill it may need, after a preemption.
        needs: u32,
        /// Tokens a step may have.
        has: u32,
    },
    /// A request of this number is open.
    #[error("request {0} is open already")]
    Duplicate(u64),
}

/// What an engine has counted since it was made. Tokens and requests, never negative.
///
/// `submitted = finished + cancelled + running + waiting` at every moment; `refused` is apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests taken.
    pub submitted: u64,
    /// Requests refused.
    pub refused: u64,
    /// Requests that answered their last token.
    pub finished: u64,
    /// Requests cancelled while open.
    pub cancelled: u64,
    /// Times a request lost its place.
    pub preemptions: u64,
    /// Prompt tokens looked up in the prefix cache, at first admissions.
    pub prefix_queries: u64,
    /// Of these, tokens found.
    pub prefix_hits: u64,
    /// Prompt tokens computed, those computed again after a preemption included.
    pub prefill_tokens: u64,
    /// Tokens answered.
    pub output_tokens: u64,
    /// Steps begun.
    pub steps: u64,
    /// Nanoseconds spent in steps, the one under way included as a whole.
    pub busy_ns: u64,
}

/// What the engine is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing to do.
    Idle,
    /// A step begins then.
    Starting(Timestamp),
    /// A step is under way and ends then.
    Stepping(Timestamp),
}

/// One simulated replica. Passive: it does nothing but in [`Engine::advance`].
///
/// Rules, as in vLLM v1: running sequences come first, in order of admission, each with the tokens
/// it misses, until the step's token budget is spent; if one needs a block and none is free, the
/// last admitted is evicted, loses what it computed and goes to the front of the queue, and nobody
/// is admitted in that step. Else the queue is admitted in order, up to the limits on sequences,
/// tokens and blocks. The last token of a prompt is always computed.
///
/// A step that has begun is never changed: what is submitted or cancelled meanwhile counts from the
/// next one on. An idle engine starts at the instant of the first submission.
#[derive(Clone, Debug)]
pub struct Engine {
    step_time: StepTime,
    max_num_seqs: usize,
    max_batched_tokens: u32,
    chunked_prefill: bool,
    prefix_cache: bool,
    block_tokens: u32,
    context_limit: u32,
    pool: BlockPool,
    /// In order of admission.
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
    open: BTreeSet<u64>,
    state: State,
    now: Timestamp,
    counters: Counters,
}

impl Engine {
    /// An idle engine with an empty cache.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        Self {
            step_time: profile.step_time,
            max_num_seqs: profile.max_num_seqs.get() as usize,
            max_batched_tokens: profile.max_batched_tokens.get(),
            chunked_prefill: profile.chunked_prefill,
            prefix_cache: profile.prefix_cache,
            block_tokens: profile.block_tokens.get(),
            context_limit: profile.context_limit,
            pool: BlockPool::new(profile.kv_blocks),
            running: Vec::new(),
            waiting: VecDeque::new(),
            open: BTreeSet::new(),
            state: State::Idle,
            now: Timestamp::ZERO,
            counters: Counters::default(),
        }
    }

    /// Puts a request at the end of the queue.
    ///
    /// `now` is not before the last call's, and not after [`Engine::next_event`]: advance first.
    pub fn submit(&mut self, now: Timestamp, request: EngineRequest) -> Result<(), Refusal> {
        self.reach(now);
        if let Err(refusal) = self.check(&request) {
            self.counters.refused += 1;
            return Err(refusal);
        }
        self.open.insert(request.index);
        self.counters.submitted += 1;
        self.waiting.push_back(Sequence::new(request));
        if self.state == State::Idle {
            self.state = State::Starting(self.now);
        }
        Ok(())
    }

    fn check(&self, request: &EngineRequest) -> Result<(), Refusal> {
        if request.input_tokens == 0 || request.output_tokens == 0 {
            return Err(Refusal::Empty);
        }
        if self.open.contains(&request.index) {
            return Err(Refusal::Duplicate(request.index));
        }
        let whole = u64::from(request.input_tokens) + u64::from(request.output_tokens);
        if whole > u64::from(self.context_limit) {
            return Err(Refusal::TooLong {
                needs: whole,
                has: self.context_limit,
            });
        }
        // The last token is answered, but its keys and values are never stored.
        let stored = request.input_tokens + (request.output_tokens - 1);
        let needs = stored.div_ceil(self.block_tokens);
        if needs > self.pool.total() {
            return Err(Refusal::TooLarge {
                needs,
                has: self.pool.total(),
            });
        }
        if !self.chunked_prefill && stored > self.max_batched_tokens {
            return Err(Refusal::TooWide {
                needs: stored,
                has: self.max_batched_tokens,
            });
        }
        Ok(())
    }

    /// Gives a request up, waiting or running; its blocks are free at once. Returns whether it was
    /// open. No event tells of it. A step under way keeps its length.
    ///
    /// `now` as for [`Engine::submit`].
    pub fn cancel(&mut self, now: Timestamp, index: u64) -> bool {
        self.reach(now);
        if !self.open.remove(&index) {
            return false;
        }
        self.counters.cancelled += 1;
        let is_it = |s: &Sequence| s.request.index == index;
        if let Some(at) = self.running.iter().position(is_it) {
            let sequence = self.running.remove(at);
            release(&mut self.pool, &sequence);
        } else if let Some(at) = self.waiting.iter().position(is_it) {
            self.waiting.remove(at);
        }
        true
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
    ///
    /// In how many calls a span is covered makes no difference.
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

    /// What the engine's own metrics say now. The caller numbers the replica.
    #[must_use]
    pub fn sample(&self) -> EngineSample {
        let count = |n: usize| Some(u32::try_from(n).unwrap_or(u32::MAX));
        let total = f64::from(self.pool.total().max(1));
        EngineSample {
            at: self.now,
            replica: 0,
            running: count(self.running.len()),
            waiting: count(self.waiting.len()),
            kv_used: Some(f64::from(self.pool.held()) / total),
            preemptions: Some(self.counters.preemptions),
            prefix_queries: Some(self.counters.prefix_queries),
            prefix_hits: Some(self.counters.prefix_hits),
            requests_ended: Some(self.counters.finished + self.counters.cancelled),
        }
    }

    /// All that was counted so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Requests in the running batch.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Requests in the queue.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// KV blocks that requests hold; the others are free, whether or not they keep content.
    #[must_use]
    pub const fn blocks_held(&self) -> u32 {
        self.pool.held()
    }

    fn reach(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    fn start_step(&mut self, at: Timestamp, out: &mut impl EngineEvents) {
        self.reach(at);
        let mut batch = Batch::default();
        let preempted = self.schedule_running(at, &mut batch, out);
        if !preempted {
            self.admit(at, &mut batch, out);
        }
        if batch.tokens() == 0 {
            debug_assert!(self.open.is_empty(), "invariant: whoever waits can run");
            self.state = State::Idle;
            return;
        }
        let span = self.step_time.of(&batch);
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
            schedule(sequence, tokens, batch);
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
        while self.running.len() < self.max_num_seqs {
            let budget = self.max_batched_tokens - batch.tokens();
            let Some(first) = self.waiting.front() else {
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
            schedule(&mut sequence, tokens, batch);
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

    fn finish_step(&mut self, at: Timestamp, out: &mut impl EngineEvents) {
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
fn schedule(sequence: &mut Sequence, tokens: u32, batch: &mut Batch) {
    if sequence.decodes() {
        batch.decode(sequence.length());
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

fn release(pool: &mut BlockPool, sequence: &Sequence) {
    pool.release(sequence.known_hashes(), sequence.held - sequence.known);
}
