//! The open requests of a pool.

use std::{collections::VecDeque, rc::Rc, time::Duration};

use goodput_dispatch::{ReplicaId, Ticket};
use goodput_record::{
    Arrival, End, FinishReason, Gaps, OpenRequest, Outcome, Phase, RequestSummary, TimeoutPhase,
    Timestamp, TokenCount, TokenEnds, nanos,
};
use goodput_sim::{EngineEvents, EngineRequest};

use crate::pool::filing::Filing;

/// An open request.
pub(super) struct PoolOpen {
    pub(super) stream: usize,
    pub(super) ticket: Option<Ticket>,
    /// The replica that works on it, by its place.
    pub(super) at: Option<usize>,
    /// What the engine is to be asked; taken when it is.
    pub(super) request: Option<EngineRequest>,
    pub(super) output_tokens: u32,
    pub(super) emitted: u32,
    pub(super) arrival: Arrival,
    phase: Phase,
    cached_tokens: Option<u32>,
    tokens: Tokens,
}

/// What is kept of a request's tokens.
enum Tokens {
    Ends(TokenEnds),
    Watched(Box<Watched>),
}

/// A request whose tokens are told to a record.
struct Watched {
    record: OpenRequest<Filing>,
    /// Tokens not yet told to the record, and when the last of them came.
    untold: (u32, Timestamp),
    /// When the last token came.
    last: Timestamp,
}

impl Watched {
    fn new(filing: Rc<Filing>, arrival: Arrival) -> Self {
        let mut record = OpenRequest::arrive(filing, arrival);
        record.sent(arrival.origin);
        Self {
            record,
            untold: (0, arrival.origin),
            last: arrival.origin,
        }
    }

    fn tokens(&mut self, at: Timestamp, count: u32, is_first: bool, grain: u64) {
        let since = std::mem::replace(&mut self.last, at);
        if is_first || grain == 0 {
            self.record.token_event(at, count, true);
        } else {
            self.spread(since, at, count, grain);
        }
    }

    /// Books `count` tokens, the last of them at `at`, evenly over the time since the one before.
    fn spread(&mut self, since: Timestamp, at: Timestamp, count: u32, grain: u64) {
        let span = nanos(at.since(since).unwrap_or_default());
        let time = |token: u32| {
            let share = u128::from(span) * u128::from(token) / u128::from(count.max(1));
            since.after(Duration::from_nanos(u64::try_from(share).unwrap_or(span)))
        };
        let mut done = 0;
        while done < count {
            let next = time(done + 1);
            if self.untold.1.nanos() / grain != next.nanos() / grain {
                self.tell();
            }
            // All that come before the bin's end.
            let room = (next.nanos() / grain + 1).saturating_mul(grain) - since.nanos();
            let upto = (u128::from(room) * u128::from(count) - 1) / u128::from(span.max(1));
            let upto = u32::try_from(upto).unwrap_or(u32::MAX);
            let upto = upto.clamp(done + 1, count);
            self.untold = (self.untold.0 + upto - done, time(upto));
            done = upto;
        }
    }

    /// Tells the record of the tokens it has not heard of.
    fn tell(&mut self) {
        let (tokens, at) = std::mem::take(&mut self.untold);
        if tokens > 0 {
            self.record.token_event(at, tokens, true);
        }
    }
}

/// What an engine did that others have to hear of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Heard {
    FirstToken {
        index: u64,
        at: Timestamp,
    },
    EngineDone {
        index: u64,
        at: Timestamp,
        outcome: Outcome,
    },
    ProbeDone {
        at: Timestamp,
    },
}

/// An end that course and workload have not heard of.
pub(super) struct Ended {
    pub(super) stream: usize,
    pub(super) session: u32,
    pub(super) phase: Phase,
    pub(super) at: Timestamp,
    pub(super) outcome: Outcome,
    /// How long the same user waits before the next request, if this one came to nothing.
    pub(super) again_after: Duration,
}

/// A user whose request was refused waits at least this long before the next one: a refusal takes no
/// time, and without a pause a closed loop would ask for ever at one instant.
const AFTER_REFUSAL: Duration = Duration::from_millis(1);

/// Requests of the pool itself, to warm replicas up, are numbered from here.
pub(super) const PROBES: u64 = 1 << 63;

/// Open requests by their number, which counts up.
pub(super) struct PoolDesk {
    open: VecDeque<Option<PoolOpen>>,
    first: u64,
    /// For each stream: its books, and the span of time within which tokens are told as one event;
    /// `None`: the first and the last are all that is kept.
    filings: Vec<(Rc<Filing>, Option<u64>)>,
    pub(super) heard: Vec<Heard>,
    pub(super) ended: Vec<Ended>,
    pub(super) in_flight: u32,
    pub(super) in_flight_peak: u32,
}

impl PoolDesk {
    pub(super) fn new(filings: Vec<(Rc<Filing>, Option<Duration>)>) -> Self {
        let filings = filings.into_iter().map(|(f, grain)| (f, grain.map(nanos)));
        Self {
            open: VecDeque::new(),
            first: 0,
            filings: filings.collect(),
            heard: Vec::new(),
            ended: Vec::new(),
            in_flight: 0,
            in_flight_peak: 0,
        }
    }

    /// Opens the next request; its number is that of the arrival.
    pub(super) fn arrive(
        &mut self,
        stream: usize,
        arrival: Arrival,
        phase: Phase,
        request: EngineRequest,
    ) {
        let (filing, grain) = &self.filings[stream];
        let tokens = if grain.is_some() {
            Tokens::Watched(Box::new(Watched::new(Rc::clone(filing), arrival)))
        } else {
            filing.books.borrow_mut().arrived_at(arrival.origin);
            Tokens::Ends(TokenEnds::default())
        };
        self.open.push_back(Some(PoolOpen {
            stream,
            ticket: None,
            at: None,
            output_tokens: request.output_tokens,
            request: Some(request),
            emitted: 0,
            arrival,
            phase,
            cached_tokens: None,
            tokens,
        }));
        self.in_flight += 1;
        self.in_flight_peak = self.in_flight_peak.max(self.in_flight);
    }

    fn place(&self, index: u64) -> Option<usize> {
        usize::try_from(index.checked_sub(self.first)?).ok()
    }

    pub(super) fn get(&self, index: u64) -> Option<&PoolOpen> {
        self.open.get(self.place(index)?)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u64) -> Option<&mut PoolOpen> {
        let place = self.place(index)?;
        self.open.get_mut(place)?.as_mut()
    }

    /// A gateway sends it to a replica.
    pub(super) fn dispatched(&mut self, index: u64, now: Timestamp, replica: usize) {
        if let Some(open) = self.get_mut(index) {
            open.at = Some(replica);
            if let Tokens::Watched(watched) = &mut open.tokens {
                watched.record.dispatched(now);
            }
        }
    }

    /// Ends a request, unless it has ended; what it was.
    pub(super) fn close(
        &mut self,
        at: Timestamp,
        index: u64,
        outcome: Outcome,
        timeout_phase: Option<TimeoutPhase>,
    ) -> Option<(u32, u32)> {
        let place = self.place(index)?;
        let open = self.open.get_mut(place)?.take()?;
        while matches!(self.open.front(), Some(None)) {
            self.open.pop_front();
            self.first += 1;
        }
        self.in_flight -= 1;
        let arrival = open.arrival;
        let end = End {
            timeout_phase,
            finish_reason: (outcome == Outcome::Ok).then_some(FinishReason::Length),
            output_tokens: Some(TokenCount::Usage(open.emitted)),
            input_tokens: Some(arrival.planned_input_tokens),
            cached_tokens: open.cached_tokens,
            ..End::of(outcome)
        };
        let filing = &self.filings[open.stream].0;
        match open.tokens {
            Tokens::Ends(tokens) => {
                let summary = RequestSummary::of_ends(arrival, &tokens, at, end);
                let mut books = filing.books.borrow_mut();
                books.post(&summary, &Gaps::NotKept, open.phase);
            }
            Tokens::Watched(mut watched) => {
                watched.tell();
                filing.phase.set(open.phase);
                watched.record.end(at, end);
            }
        }
        self.ended.push(Ended {
            stream: open.stream,
            session: arrival.session,
            phase: open.phase,
            at,
            outcome,
            again_after: AFTER_REFUSAL,
        });
        Some((arrival.planned_input_tokens, open.emitted))
    }

    /// Ends a request that the dispatcher refused; its user does as told and comes back later.
    pub(super) fn shed(&mut self, at: Timestamp, index: u64, retry_after: Duration) {
        let closed = self.close(at, index, Outcome::Shed, None);
        if closed.is_some()
            && let Some(ended) = self.ended.last_mut()
        {
            ended.again_after = retry_after.max(AFTER_REFUSAL);
        }
    }

    /// The numbers of all that is open.
    pub(super) fn all(&self) -> Vec<u64> {
        let numbered = (self.first..).zip(&self.open);
        numbered
            .filter_map(|(index, open)| open.as_ref().map(|_| index))
            .collect()
    }
}

impl EngineEvents for PoolDesk {
    fn admitted(&mut self, _at: Timestamp, index: u64, cached_tokens: u32) {
        if let Some(open) = self.get_mut(index) {
            open.cached_tokens.get_or_insert(cached_tokens);
        }
    }

    fn tokens(&mut self, at: Timestamp, index: u64, count: u32) {
        let place = self.place(index);
        let open = place.and_then(|place| self.open.get_mut(place)?.as_mut());
        let Some(open) = open else {
            return;
        };
        let first = open.emitted == 0;
        open.emitted += count;
        if first {
            self.heard.push(Heard::FirstToken { index, at });
        }
        match &mut open.tokens {
            Tokens::Ends(tokens) => {
                if let Some(last) = tokens.last.filter(|_| count == 1) {
                    // From one replica to another, say: no engine knows of that gap.
                    tokens.longest_gap = tokens.longest_gap.max(at.since(last));
                }
                tokens.first = tokens.first.or(Some(at));
                tokens.last = Some(at);
                tokens.count += count;
            }
            Tokens::Watched(watched) => {
                let grain = self.filings[open.stream].1.unwrap_or(0);
                watched.tokens(at, count, first, grain);
            }
        }
    }

    fn longest_gap(&mut self, index: u64, gap: Duration) {
        if let Some(open) = self.get_mut(index)
            && let Tokens::Ends(tokens) = &mut open.tokens
        {
            tokens.longest_gap = tokens.longest_gap.max(Some(gap));
        }
    }

    fn ended(&mut self, at: Timestamp, index: u64, outcome: Outcome) {
        self.heard.push(if index >= PROBES {
            Heard::ProbeDone { at }
        } else {
            Heard::EngineDone { index, at, outcome }
        });
    }
}

/// Where a request's engine is, by the dispatcher's number.
pub(super) const fn place_of(replica: ReplicaId) -> usize {
    replica.index()
}
