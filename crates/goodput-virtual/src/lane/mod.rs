//! Requests of one or several classes through one simulated replica, told in brief: of each request its
//! first and its last token.
//!
//! Nothing is kept of a request but what the books need, the engine is fast-forwarded, and it is asked
//! only when somebody arrives. What is done with those that end is up to a [`Clerk`]; when arrivals
//! stop, and which part of a run they belong to, is up to whoever drives the [`Lane`].

mod open;

use std::{collections::BTreeMap, sync::Arc};

use goodput_record::{
    Answer, Arrival, BlockRun, Blocks, End, Outcome, Phase, RequestSummary, SeriesId, StepRun,
    Timestamp, TokenCount, TokenEnds, Vantage,
};
use goodput_sim::{EngineEvents, EngineRequest, Refusal, Server};
use goodput_stats::mix;
use goodput_workload::{PlainRequest, PlainRequests, WorkloadSpec};

use open::{Open, OpenRequests};

/// A class of requests in an open loop.
#[derive(Clone, Debug)]
pub struct LaneClass<'a> {
    /// What is asked.
    pub workload: &'a Arc<WorkloadSpec>,
    /// Requests per second.
    pub rate_req_s: f64,
    /// The seed of its arrivals and lengths.
    pub seed: u64,
    /// Whose prompts come first: 0 before 1.
    pub priority: u8,
}

/// An answer with what else is known of its request.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// The request's class, by its place among those given to [`Lane::new`].
    pub class: usize,
    /// Its number.
    pub index: u64,
    /// The part of the run to which it belongs.
    pub phase: Phase,
    /// The steps in which it got its tokens; none unless [`Clerk::STEPS`].
    pub steps: &'a [StepRun],
}

/// Does something with the requests of a lane.
pub trait Clerk {
    /// Whether it wants to know the steps in which tokens came.
    const STEPS: bool = false;

    /// A request of a class has come.
    fn arrived(&mut self, class: usize, origin: Timestamp);

    /// A request has ended with a whole answer.
    fn answered(&mut self, told: Told<'_>, answer: &Answer);

    /// A request has ended in another way: refused, or cancelled.
    fn failed(&mut self, told: Told<'_>, summary: &RequestSummary);

    /// When it next wants to know how many steps have ended before an instant.
    fn next_count(&self) -> Timestamp {
        Timestamp::FAR_FUTURE
    }

    /// So many steps have ended before that instant.
    fn count(&mut self, steps_ended: u64) {
        let _ = steps_ended;
    }
}

/// One replica under an open load of one or several classes.
#[derive(Debug)]
pub struct Lane<'a, C> {
    engine: &'a mut Server,
    classes: Vec<(PlainRequests, u8)>,
    /// When the next request is due, and of which class.
    next: (u64, usize),
    start_ns: u64,
    /// From a request's due time to the engine's first sight of it.
    ingest_ns: u64,
    /// Tokens of a block of a prompt that its own request may find again; 0: none.
    block_tokens: u32,
    desk: Desk<C>,
}

impl<'a, C: Clerk> Lane<'a, C> {
    /// A lane whose requests are due from `start` on, seen by the engine `ingest_ns` later and numbered
    /// from `first` on. The engine has no open request.
    ///
    /// `None` where requests share prefixes, follow each other or are rows of a trace, or where the
    /// engine cannot be fast-forwarded.
    pub fn new(
        engine: &'a mut Server,
        classes: &[LaneClass<'_>],
        (start, ingest_ns): (Timestamp, u64),
        first: u64,
        clerk: C,
    ) -> Option<Self> {
        let classes = classes.iter().map(|class| {
            let requests = PlainRequests::new(class.workload, class.rate_req_s, class.seed)?;
            Some((requests, class.priority))
        });
        let classes = classes.collect::<Option<Vec<_>>>()?;
        if !engine.set_fast_forward(true) {
            return None;
        }
        let mut lane = Self {
            engine,
            classes,
            next: (u64::MAX, 0),
            start_ns: start.nanos(),
            ingest_ns,
            block_tokens: 0,
            desk: Desk {
                clerk,
                open: OpenRequests::new(first),
                steps: Vec::new(),
                lost: BTreeMap::new(),
                in_flight: 0,
                in_flight_peak: 0,
            },
        };
        lane.look_ahead();
        Some(lane)
    }

    /// The same lane, in which a request that is preempted may find the blocks of its own prompt in the
    /// prefix cache when it returns, as it would with whole prompts. `tokens`: of a block; 0: never.
    ///
    /// Without this, it computes its prompt again: in an engine with a prefix cache, what preempts is then
    /// a little slower than it is with whole prompts.
    #[must_use]
    pub const fn with_own_blocks(mut self, tokens: u32) -> Self {
        self.block_tokens = tokens;
        self
    }

    /// The blocks of a request's prompt, which it shares with nobody.
    #[inline]
    fn own_blocks(&self, index: u64, input_tokens: u32) -> Blocks {
        let mut own = Blocks::new();
        own.push(BlockRun {
            id: mix(index),
            blocks: input_tokens.checked_div(self.block_tokens).unwrap_or(0),
        });
        own
    }

    /// Finds who is due next; of one instant the class that was given first.
    #[inline]
    fn look_ahead(&mut self) {
        self.next = (u64::MAX, 0);
        for (class, (requests, _)) in self.classes.iter().enumerate() {
            if let Some(request) = requests.peek() {
                let due = self.start_ns.saturating_add(request.due.nanos());
                self.next = self.next.min((due, class));
            }
        }
    }

    /// When the next request is due; far in the future where none will be.
    #[must_use]
    pub const fn due(&self) -> Timestamp {
        Timestamp::from_nanos(self.next.0)
    }

    /// The class of the next request.
    #[must_use]
    pub const fn due_class(&self) -> usize {
        self.next.1
    }

    /// The replica.
    pub const fn engine(&mut self) -> &mut Server {
        self.engine
    }

    /// The clerk.
    pub const fn clerk(&mut self) -> &mut C {
        &mut self.desk.clerk
    }

    /// Requests in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.desk.in_flight
    }

    /// Most requests in flight at once.
    #[must_use]
    pub const fn in_flight_peak(&self) -> u32 {
        self.desk.in_flight_peak
    }

    /// The number of the next request.
    #[must_use]
    pub const fn next_index(&self) -> u64 {
        self.desk.open.next()
    }

    /// Tells the clerk of all that ends up to an instant, that included.
    #[inline]
    pub fn advance(&mut self, to: Timestamp) {
        while C::STEPS && self.desk.clerk.next_count() <= to {
            let next = self.desk.clerk.next_count().nanos();
            let before = Timestamp::from_nanos(next.saturating_sub(1));
            self.engine.advance(before, &mut self.desk);
            let ended = self.engine.steps_ended().unwrap_or(0);
            self.desk.clerk.count(ended);
        }
        self.engine.advance(to, &mut self.desk);
    }

    /// The same up to the next request, but not into a step that begins when it is due: it takes part in
    /// that.
    #[inline]
    pub fn advance_to_due(&mut self) {
        let before = Timestamp::from_nanos(self.next.0.saturating_sub(1));
        self.advance(before);
    }

    fn take(&mut self) -> Option<(PlainRequest, u8)> {
        let (requests, priority) = self.classes.get_mut(self.next.1)?;
        let taken = requests.take().map(|request| (request, *priority));
        self.look_ahead();
        taken
    }

    /// Lets the next request pass by.
    pub fn skip(&mut self) {
        self.take();
    }

    /// Hands the next request to the engine. One that is refused has ended when this returns.
    ///
    /// # Errors
    /// If the engine refuses it.
    #[inline]
    pub fn arrive(&mut self, phase: Phase) -> Result<(), Refusal> {
        let (due, class) = self.next;
        let Some((request, priority)) = self.take() else {
            return Ok(());
        };
        let lengths = (request.input_tokens, request.output_tokens);
        let index = self.desk.open.next();
        self.desk
            .arrive(class, Timestamp::from_nanos(due), lengths, phase);
        let asked = EngineRequest {
            priority,
            blocks: self.own_blocks(index, lengths.0),
            ..EngineRequest::new(index, lengths.0, lengths.1)
        };
        let seen = Timestamp::from_nanos(due.saturating_add(self.ingest_ns));
        let went = self.engine.submit(seen, asked);
        if went.is_err() {
            self.desk.fail(seen, index, Outcome::Rejected, None);
        }
        went
    }

    /// Cancels all that is open.
    pub fn cancel_all(&mut self, at: Timestamp) {
        for index in self.desk.open.all() {
            let untold = self.engine.untold(index);
            if C::STEPS {
                self.desk.steps.clear();
                self.desk.steps.extend(self.engine.answering_in(index));
            }
            self.engine.cancel(at, index);
            self.desk.fail(at, index, Outcome::Cancelled, untold);
        }
    }

    /// Has the engine tell of every token again, and gives the clerk back.
    pub fn finish(self) -> C {
        self.engine.set_fast_forward(false);
        self.desk.clerk
    }
}

/// The open requests, and who hears of their ends.
#[derive(Debug)]
struct Desk<C> {
    clerk: C,
    open: OpenRequests,
    /// The last steps in which the request got its tokens that is told of now.
    steps: Vec<StepRun>,
    /// The steps before those, of requests that were preempted since.
    lost: BTreeMap<u64, Vec<StepRun>>,
    in_flight: u32,
    in_flight_peak: u32,
}

impl<C: Clerk> Desk<C> {
    /// The steps in which a request got its tokens.
    fn steps_of(&mut self, index: u64) -> Vec<StepRun> {
        let last = std::mem::take(&mut self.steps);
        match self.lost.remove(&index) {
            None => last,
            Some(mut lost) => {
                lost.extend(&last);
                lost
            }
        }
    }

    #[inline]
    fn arrive(&mut self, class: usize, origin: Timestamp, lengths: (u32, u32), phase: Phase) {
        self.clerk.arrived(class, origin);
        let class = u16::try_from(class).unwrap_or(u16::MAX);
        let index = self.open.next();
        self.open
            .push(Open::new(index, origin, lengths, class, phase));
        self.in_flight += 1;
        self.in_flight_peak = self.in_flight_peak.max(self.in_flight);
    }

    /// Ends a request that has no whole answer. `untold`: tokens it got that were not told, and when the
    /// last of them came.
    fn fail(
        &mut self,
        at: Timestamp,
        index: u64,
        outcome: Outcome,
        untold: Option<(u32, Timestamp)>,
    ) {
        let Some(open) = self.open.take(index) else {
            return;
        };
        self.in_flight -= 1;
        let first = (open.told > 0).then_some(open.first);
        let tokens = TokenEnds {
            first: first.or_else(|| untold.map(|(_, last)| last)),
            last: untold.map(|(_, last)| last).or(first),
            count: open.told + untold.map_or(0, |(tokens, _)| tokens),
            longest_gap: None,
        };
        let end = End {
            output_tokens: Some(TokenCount::Usage(tokens.count)),
            input_tokens: Some(open.input_tokens),
            ..End::of(outcome)
        };
        let summary = RequestSummary::of_ends(arrival(index, &open), &tokens, at, end);
        let steps = self.steps_of(index);
        let told = told(index, &open, &steps);
        self.clerk.failed(told, &summary);
        self.steps = steps;
        self.steps.clear();
    }
}

#[inline]
fn told<'a>(index: u64, open: &Open, steps: &'a [StepRun]) -> Told<'a> {
    Told {
        class: usize::from(open.class),
        index,
        phase: open.phase,
        steps,
    }
}

fn arrival(index: u64, open: &Open) -> Arrival {
    plain_arrival(index, open.origin, (open.input_tokens, open.output_tokens))
}

/// A request of its own, nothing of whose prompt is cached; `lengths`: of prompt and answer, as planned.
pub(crate) fn plain_arrival(index: u64, origin: Timestamp, lengths: (u32, u32)) -> Arrival {
    Arrival {
        id: index,
        origin,
        series: SeriesId::default(),
        vantage: Vantage::Engine,
        session: u32::try_from(index).unwrap_or(u32::MAX),
        step: 0,
        steps: 1,
        planned_input_tokens: lengths.0,
        planned_cached_tokens: 0,
        planned_output_tokens: lengths.1,
    }
}

impl<C: Clerk> EngineEvents for Desk<C> {
    #[inline]
    fn tokens(&mut self, at: Timestamp, index: u64, count: u32) {
        if let Some(open) = self.open.get(index) {
            open.first = open.first.min(at);
            open.told += count;
        }
    }

    #[inline]
    fn answered_in(&mut self, _index: u64, steps: StepRun) {
        if C::STEPS {
            self.steps.push(steps);
        }
    }

    fn preempted(&mut self, _at: Timestamp, index: u64) {
        if C::STEPS && !self.steps.is_empty() {
            let lost = self.lost.entry(index).or_default();
            lost.append(&mut self.steps);
        }
    }

    #[inline]
    fn finished(&mut self, at: Timestamp, index: u64, untold: u32, longest_gap_ns: Option<u64>) {
        let Some(open) = self.open.take(index) else {
            return;
        };
        self.in_flight -= 1;
        let answer = Answer {
            origin: open.origin,
            first: open.first.min(at),
            last: at,
            input_tokens: open.input_tokens,
            tokens: open.told + untold,
            longest_gap_ns,
        };
        if C::STEPS {
            let steps = self.steps_of(index);
            self.clerk.answered(told(index, &open, &steps), &answer);
            self.steps = steps;
            self.steps.clear();
        } else {
            self.clerk.answered(told(index, &open, &[]), &answer);
        }
    }

    fn ended(&mut self, at: Timestamp, index: u64, outcome: Outcome) {
        self.fail(at, index, outcome, None);
    }
}
