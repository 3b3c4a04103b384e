//! The engine: continuous batching over KV blocks, by the rules of vLLM v1.

mod batch;
mod blocks;
mod cost;
mod decoders;
mod drafts;
mod fine;
mod places;
mod queue;
mod sequence;
mod stalls;
mod step;
#[cfg(test)]
mod tests;
mod wheel;

use std::{collections::BTreeMap, time::Duration};

use goodput_perf_model::{Profile, Speculation, StepTime};
use goodput_record::{EngineSample, Outcome, StepRun, Timestamp};
use thiserror::Error;

use blocks::BlockPool;
use cost::Cost;
use decoders::Decoders;
use fine::{Fine, Span, Stretch};
use places::NOBODY;
use queue::Queue;
pub use sequence::EngineRequest;
use sequence::Sequence;
use stalls::Stalls;

/// What an engine does, told in order of time. Of one instant first the tokens of those that decode, in
/// order of admission, then the ends among them, then what became of the prompts.
pub trait EngineEvents {
    /// The request joins the running batch, and `cached_tokens` of its prompt need no computation.
    /// Told once more when it returns after a preemption; what a server reports is the first.
    fn admitted(&mut self, at: Timestamp, index: u64, cached_tokens: u32) {
        let _ = (at, index, cached_tokens);
    }
    /// It has answered `count` more tokens, the last of them at `at`: one, unless the engine is
    /// [fast-forwarded](Engine::fast_forward).
    fn tokens(&mut self, at: Timestamp, index: u64, count: u32);
    /// It loses its place and its KV blocks to older requests, and waits at the front.
    fn preempted(&mut self, at: Timestamp, index: u64) {
        let _ = (at, index);
    }
    /// The longest gap between two of its tokens, told just before its end by an engine that is
    /// [fast-forwarded](Engine::fast_forward); not told of an answer of one token.
    fn longest_gap(&mut self, index: u64, gap: Duration) {
        let _ = (index, gap);
    }
    /// It has got one token at the end of each of these steps, and gets none in the next one: told just
    /// before it ends or is preempted, not by an engine with drafts. See [`Engine::steps_ended`].
    fn answered_in(&mut self, index: u64, steps: StepRun) {
        let _ = (index, steps);
    }
    /// It has answered its last token, the last of `untold` that were not told; its longest gap in ns
    /// is known to an engine that is fast-forwarded. By default told as [`Self::tokens`],
    /// [`Self::longest_gap`] and [`Self::ended`].
    fn finished(&mut self, at: Timestamp, index: u64, untold: u32, longest_gap_ns: Option<u64>) {
        if untold > 0 {
            self.tokens(at, index, untold);
        }
        if let Some(gap) = longest_gap_ns {
            self.longest_gap(index, Duration::from_nanos(gap));
        }
        self.ended(at, index, Outcome::Ok);
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
/// `submitted = finished + cancelled + killed + running + waiting` at every moment; `refused` is apart.
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
    /// Requests that the engine gave up itself, for want of KV cells; never more than 0 in
    /// [`Engine`], which preempts instead.
    pub killed: u64,
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
    Starting(Fine),
    /// Steps are under way.
    Stepping(Stretch),
}

/// One simulated replica. Passive: it does nothing but in [`Engine::advance`].
///
/// Rules, as in vLLM v1: running sequences come first, in order of admission, each with the tokens
/// it misses, until the step's token budget is spent; if one needs a block and none is free, the
/// last admitted is evicted, loses what it computed and goes to the front of the queue, and nobody
/// is admitted in that step. Else the queue is admitted in order, up to the limits on sequences,
/// tokens and blocks. The last token of a prompt is always computed. A step never has more
/// sequences than tokens.
///
/// A step that has begun is never changed: what is submitted or cancelled meanwhile counts from the
/// next one on. An idle engine starts at the instant of the first submission.
///
/// Its time runs in whole numbers of 2^-20 ns, and a step's time is a straight line over the tokens
/// of context, so many steps that only decode are one formula. [`Engine::fast_forward`] makes use of
/// it; the instants are the same.
#[derive(Clone, Debug)]
pub struct Engine {
    cost: Cost,
    max_num_seqs: usize,
    max_batched_tokens: u32,
    chunked_prefill: bool,
    prefix_cache: bool,
    block_tokens: u32,
    context_limit: u32,
    template_tokens: u32,
    every_token: bool,
    /// Tokens of a step that each sequence that decodes takes.
    tokens_per_decode: u32,
    window_tokens: u32,
    speculation: Option<Speculation>,
    pool: BlockPool,
    /// All open requests, and free places between them.
    slots: Vec<Sequence>,
    /// The numbers of the requests in `slots`; [`NOBODY`] where a place is free.
    indices: Vec<u64>,
    free_slots: Vec<u32>,
    /// Where each open request is, once many are open and one was cancelled.
    directory: Option<BTreeMap<u64, u32>>,
    /// The highest number ever submitted.
    highest: Option<u64>,
    waiting: Queue,
    decoders: Decoders,
    /// Those that run and do not decode, in order of priority and admission.
    prefills: Vec<u32>,
    /// Room for those that end with a step.
    ending: Vec<u32>,
    /// (admission, slot) in order of admission. Some have left: see [`Engine::is_running`].
    running: Vec<(u64, u32)>,
    admissions: u64,
    stalls: Stalls,
    state: State,
    now: Timestamp,
    /// Steps that begin here or before have begun.
    told: Option<Timestamp>,
    counters: Counters,
    /// Time in steps, in 2^-20 ns.
    busy: u128,
}

impl Engine {
    /// An idle engine with an empty cache, that tells of every token.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        let max_batched_tokens = profile.max_batched_tokens.get();
        let tokens_per_decode = profile.step_time.tokens_per_decode();
        let most = max_batched_tokens / tokens_per_decode;
        let max_num_seqs = profile.max_num_seqs.get().min(most.max(1));
        let mut decoders = Decoders::new(profile.block_tokens.get());
        decoders.set_window(profile.step_time.window_tokens());
        Self {
            cost: Cost::new(profile.step_time),
            max_num_seqs: max_num_seqs as usize,
            max_batched_tokens,
            chunked_prefill: profile.chunked_prefill,
            prefix_cache: profile.prefix_cache,
            block_tokens: profile.block_tokens.get(),
            context_limit: profile.context_limit,
            template_tokens: profile.template_tokens,
            every_token: true,
            tokens_per_decode,
            window_tokens: profile.step_time.window_tokens(),
            speculation: profile.step_time.speculation,
            pool: BlockPool::new(profile.kv_blocks),
            slots: Vec::new(),
            indices: Vec::new(),
            free_slots: Vec::new(),
            directory: None,
            highest: None,
            waiting: Queue::default(),
            decoders,
            prefills: Vec::new(),
            ending: Vec::new(),
            running: Vec::new(),
            admissions: 0,
            stalls: Stalls::default(),
            state: State::Idle,
            now: Timestamp::ZERO,
            told: None,
            counters: Counters::default(),
            busy: 0,
        }
    }

    /// The same engine, which tells of a request's first token when it comes, and of all others
    /// together at its end. What happens, and when, is the same; it takes a small part of the time.
    /// [`Engine::next_event`] is then the next instant at which something is told or decided, and
    /// [`Engine::untold`] says what a request has answered in between.
    #[must_use]
    pub fn fast_forward(mut self) -> Self {
        self.set_fast_forward(true);
        self
    }

    /// Changes from telling of every token to [`Engine::fast_forward`], or back.
    ///
    /// # Panics
    /// In a debug build, if a request is open.
    pub fn set_fast_forward(&mut self, fast: bool) {
        debug_assert!(
            self.running() + self.waiting() == 0,
            "an engine changes between requests"
        );
        self.every_token = !fast;
    }

    /// Puts a request at the end of the queue; it takes part in steps that begin at `now` or later.
    ///
    /// `now` may lie behind events not yet told, but not before an earlier call's: then it counts
    /// as that call's.
    pub fn submit(&mut self, now: Timestamp, mut request: EngineRequest) -> Result<(), Refusal> {
        self.reach(now);
        request.put_into(self.template_tokens);
        if let Err(refusal) = self.check(&request) {
            self.counters.refused += 1;
            return Err(refusal);
        }
        self.highest = self.highest.max(Some(request.index));
        self.counters.submitted += 1;
        let (index, priority) = (request.index, request.priority);
        let slot = self.place(index, Sequence::new(request, self.now));
        let first = self.waiting.push_back(priority, slot);
        if self.state == State::Idle {
            self.state = State::Starting(Fine::of(self.now));
        } else if first && self.running() < self.max_num_seqs {
            self.open_for(self.now);
        }
        Ok(())
    }

    /// Ends the stretch under way at the first boundary at which somebody who comes at `now` may be
    /// admitted: one that has not passed.
    fn open_for(&mut self, now: Timestamp) {
        let State::Stepping(stretch) = &mut self.state else {
            return;
        };
        let told = self.told;
        let open = |at: Timestamp| at >= now && told.is_none_or(|told| at > told);
        if stretch.steps() > 1 && open(stretch.end()) {
            let steps = stretch.first_boundary_where(now, open);
            stretch.cut(steps.min(stretch.steps()));
        }
    }

    /// Changes how long steps take, from the next one on: a clock that drops, a neighbour on the
    /// same machine. The model stays the one it is: window and drafts are those of the profile.
    pub fn set_step_time(&mut self, step_time: StepTime) {
        self.end_stretch();
        self.cost = Cost::new(step_time);
    }

    fn check(&self, request: &EngineRequest) -> Result<(), Refusal> {
        if request.input_tokens == 0 || request.output_tokens == 0 {
            return Err(Refusal::Empty);
        }
        // Numbers mostly count up; only one that does not can be there already.
        let new = self.highest.is_none_or(|highest| request.index > highest);
        if request.index == NOBODY || !new && self.find(request.index).is_some() {
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
        self.open_directory();
        let Some(slot) = self.find(index) else {
            return false;
        };
        self.counters.cancelled += 1;
        let sequence = &self.slots[slot as usize];
        if sequence.order == 0 {
            self.waiting.remove(sequence.request.priority, slot);
            // Whoever stood behind it may need less than it did.
            self.open_for(self.now);
        } else {
            self.end_stretch();
            self.drop_running(slot, u32::from(matches!(self.state, State::Stepping(_))));
        }
        self.vacate(slot);
        true
    }

    /// Tokens that an open request has answered by now and nobody was told of, and when the last of
    /// them came; `None` if there are none.
    #[must_use]
    pub fn untold(&self, index: u64) -> Option<(u32, Timestamp)> {
        let sequence = &self.slots[self.find(index)? as usize];
        let (decoded, last) = match (sequence.joined, self.state) {
            (None, _) => (0, sequence.interrupted?),
            (Some(joined), State::Stepping(stretch)) => {
                let passed = self.begun(&stretch) - 1;
                (
                    self.decoders.steps() + passed - joined,
                    stretch.boundary(passed),
                )
            }
            (Some(joined), State::Starting(at)) => (self.decoders.steps() - joined, at),
            (Some(_), State::Idle) => return None,
        };
        if self.speculation.is_some() {
            let untold = sequence.emitted + sequence.decoded(self.decoders.steps()) - sequence.told;
            return (untold > 0).then(|| (untold, last.timestamp()));
        }
        let untold = sequence.emitted + u32::try_from(decoded).ok()? - sequence.told;
        (untold > 0).then(|| (untold, last.timestamp()))
    }

    /// When something happens next, if nothing is put in before. `None`: the engine is idle.
    #[must_use]
    pub const fn next_event(&self) -> Option<Timestamp> {
        match self.state {
            State::Idle => None,
            State::Starting(at) => Some(at.timestamp()),
            State::Stepping(stretch) => Some(stretch.end()),
        }
    }

    /// Moves time on to `to` and tells `out` of all that happens up to then, `to` included.
    ///
    /// In how many calls a span is covered makes no difference.
    pub fn advance(&mut self, to: Timestamp, out: &mut impl EngineEvents) {
        loop {
            match &self.state {
                State::Starting(at) if at.timestamp() <= to => {
                    let at = *at;
                    self.start_step(at, out);
                }
                State::Stepping(stretch) if stretch.end() <= to => {
                    let stretch = *stretch;
                    if let Some(at) = self.finish_steps(&stretch, out) {
                        self.start_step(at, out);
                    }
                }
                _ => break,
            }
        }
        if to != Timestamp::FAR_FUTURE {
            self.reach(to);
            self.told = self.told.max(Some(to));
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
            running: count(self.running()),
            waiting: count(self.waiting()),
            kv_used: Some(f64::from(self.blocks_held()) / total),
            preemptions: Some(self.counters.preemptions),
            prefix_queries: Some(self.counters.prefix_queries),
            prefix_hits: Some(self.counters.prefix_hits),
            requests_ended: Some(self.counters.finished + self.counters.cancelled),
            started_unix_s: None,
        }
    }

    /// All that was counted so far. Of a stretch of steps that is fast-forwarded, the first is counted
    /// when it begins and the others when it is over.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        Counters {
            busy_ns: Span::nanos_of(self.busy),
            ..self.counters
        }
    }

    /// Requests in the running batch.
    #[must_use]
    pub fn running(&self) -> usize {
        self.decoders.count() as usize + self.prefills.len()
    }

    /// Requests in the queue.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// KV blocks that requests hold; the others are free, whether or not they keep content.
    #[must_use]
    pub fn blocks_held(&self) -> u32 {
        let taken = match self.state {
            State::Stepping(stretch) if stretch.steps() > 1 => {
                self.blocks_after_first(self.begun(&stretch))
            }
            _ => 0,
        };
        self.pool.held() + taken
    }

    #[inline]
    fn reach(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }
}
