//! The engine: continuous batching over KV blocks, by the rules of vLLM v1.

mod blocks;
mod sequence;
mod step;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};

use goodput_record::{EngineSample, Outcome, Timestamp};
use thiserror::Error;

use blocks::BlockPool;
use goodput_perf_model::{Profile, StepTime};
pub use sequence::EngineRequest;
use sequence::Sequence;
use step::release;

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

    /// Puts a request at the end of the queue; it takes part in steps that begin at `now` or later.
    ///
    /// `now` may lie behind events not yet told, but not before an earlier call's: then it counts
    /// as that call's.
    pub fn submit(&mut self, now: Timestamp, request: EngineRequest) -> Result<(), Refusal> {
        self.reach(now);
        if let Err(refusal) = self.check(&request) {
            self.counters.refused += 1;
            return Err(refusal);
        }
        self.open.insert(request.index);
        self.counters.submitted += 1;
        self.waiting.push_back(Sequence::new(request, self.now));
        if self.state == State::Idle {
            self.state = State::Starting(self.now);
        }
        Ok(())
    }

    /// Changes how long steps take, from the next one on: a clock that drops, a neighbour on the
    /// same machine.
    pub const fn set_step_time(&mut self, step_time: StepTime) {
        self.step_time = step_time;
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
    /// open. No event tells of it, nor of tokens not yet told: advance to `now` first. A step under
    /// way keeps its length.
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
            started_unix_s: None,
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
}
