//! The open requests of a point, and the books they are filed in.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    time::Duration,
};

use goodput_ledger::PointBooks;
use goodput_record::{
    Arrival, End, FinishReason, GapBuffer, Gaps, OpenRequest, Outcome, Phase, RequestRecord, Sink,
    Timestamp, TokenCount, nanos,
};
use goodput_sim::EngineEvents;

use crate::witness::Witness;

/// Files records in books, and tells the witness of them.
pub(crate) struct Filing<'w, W> {
    pub(crate) books: RefCell<PointBooks>,
    pub(crate) witness: &'w W,
    /// Whether every request only warms the replica up.
    warm_up: bool,
    /// The part of the point to which the request belongs that ends next.
    phase: Cell<Phase>,
    buffers: RefCell<Vec<GapBuffer>>,
}

impl<'w, W> Filing<'w, W> {
    pub(crate) fn new(books: PointBooks, witness: &'w W, warm_up: bool) -> Self {
        Self {
            books: RefCell::new(books),
            witness,
            warm_up,
            phase: Cell::new(Phase::Measured),
            buffers: RefCell::default(),
        }
    }
}

impl<W: Witness> Sink for Filing<'_, W> {
    fn arrived(&self, arrival: &Arrival) {
        self.books.borrow_mut().arrived(arrival);
    }

    fn ended(&self, record: RequestRecord) {
        let phase = if self.warm_up {
            Phase::Warmup
        } else {
            self.phase.get()
        };
        let mut books = self.books.borrow_mut();
        let verdicts = books.post(&record.summary, &record.gaps, phase);
        drop(books);
        self.witness.ended(&record, phase, &verdicts);
        if let Gaps::Kept(mut buffer) = record.gaps {
            buffer.clear();
            self.buffers.borrow_mut().push(buffer);
        }
    }

    fn gap_buffer(&self) -> GapBuffer {
        self.buffers.borrow_mut().pop().unwrap_or_default()
    }
}

/// A request at the engine.
struct Open<'w, W: Witness> {
    request: OpenRequest<Filing<'w, W>>,
    phase: Phase,
    output_tokens: u32,
    cached_tokens: Option<u32>,
    /// Tokens not yet told to the record, and when the last of them came.
    untold: (u32, Timestamp),
}

/// An end that course and workload have not heard of yet.
pub(crate) struct Ended {
    pub(crate) session: u32,
    pub(crate) phase: Phase,
    pub(crate) at: Timestamp,
    pub(crate) outcome: Outcome,
}

/// The open requests, by the engine's numbers, which count up.
pub(crate) struct Desk<'w, W: Witness> {
    filing: Rc<Filing<'w, W>>,
    open: VecDeque<Option<Open<'w, W>>>,
    first: u64,
    /// Tokens within one such span of time are told as one event; zero: every token by itself.
    grain_ns: u64,
    pub(crate) ended: Vec<Ended>,
    pub(crate) in_flight: u32,
    pub(crate) in_flight_peak: u32,
    /// Requests ended, however they ended.
    pub(crate) closed: u64,
    /// Requests that the engine took.
    pub(crate) taken: u64,
    /// Requests refused since the last that was taken.
    pub(crate) refused_in_a_row: u32,
}

impl<'w, W: Witness> Desk<'w, W> {
    /// A desk at which the engine's next request has the number `first`.
    pub(crate) fn new(filing: Rc<Filing<'w, W>>, first: u64, grain: Duration) -> Self {
        Self {
            filing,
            open: VecDeque::new(),
            first,
            grain_ns: nanos(grain),
            ended: Vec::new(),
            in_flight: 0,
            in_flight_peak: 0,
            closed: 0,
            taken: 0,
            refused_in_a_row: 0,
        }
    }

    /// Opens the engine's next request.
    pub(crate) fn arrive(&mut self, arrival: Arrival, phase: Phase) {
        let mut request = OpenRequest::arrive(Rc::clone(&self.filing), arrival);
        request.sent(arrival.origin);
        self.open.push_back(Some(Open {
            request,
            phase,
            output_tokens: 0,
            cached_tokens: None,
            untold: (0, arrival.origin),
        }));
        self.in_flight += 1;
        self.in_flight_peak = self.in_flight_peak.max(self.in_flight);
    }

    fn get(&mut self, index: u64) -> Option<&mut Open<'w, W>> {
        let place = usize::try_from(index.checked_sub(self.first)?).ok()?;
        self.open.get_mut(place)?.as_mut()
    }

    /// Ends a request, unless it has ended.
    pub(crate) fn close(&mut self, at: Timestamp, index: u64, outcome: Outcome) {
        let place = index.checked_sub(self.first);
        let place = place.and_then(|place| usize::try_from(place).ok());
        let Some(mut open) = place.and_then(|place| self.open.get_mut(place)?.take()) else {
            return;
        };
        while matches!(self.open.front(), Some(None)) {
            self.open.pop_front();
            self.first += 1;
        }
        self.in_flight -= 1;
        self.closed += 1;
        open.tell();
        let arrival = *open.request.arrival();
        self.filing.phase.set(open.phase);
        open.request.end(
            at,
            End {
                finish_reason: (outcome == Outcome::Ok).then_some(FinishReason::Length),
                output_tokens: Some(TokenCount::Usage(open.output_tokens)),
                input_tokens: Some(arrival.planned_input_tokens),
                cached_tokens: open.cached_tokens,
                ..End::of(outcome)
            },
        );
        self.ended.push(Ended {
            session: arrival.session,
            phase: open.phase,
            at,
            outcome,
        });
    }

    /// The numbers of all that is open.
    pub(crate) fn all(&self) -> Vec<u64> {
        let numbered = (self.first..).zip(&self.open);
        numbered
            .filter_map(|(index, open)| open.as_ref().map(|_| index))
            .collect()
    }
}

impl<W: Witness> Open<'_, W> {
    /// Tells the record of the tokens it has not heard of.
    fn tell(&mut self) {
        let (tokens, at) = std::mem::take(&mut self.untold);
        if tokens > 0 {
            self.request.token_event(at, tokens, true);
        }
    }
}

impl<W: Witness> EngineEvents for Desk<'_, W> {
    fn admitted(&mut self, _at: Timestamp, index: u64, cached_tokens: u32) {
        if let Some(open) = self.get(index) {
            open.cached_tokens.get_or_insert(cached_tokens);
        }
    }

    fn tokens(&mut self, at: Timestamp, index: u64, count: u32) {
        let grain = self.grain_ns;
        let Some(open) = self.get(index) else {
            return;
        };
        let first = open.output_tokens == 0;
        open.output_tokens += count;
        if first || grain == 0 {
            open.request.token_event(at, count, true);
            return;
        }
        if open.untold.1.nanos() / grain != at.nanos() / grain {
            open.tell();
        }
        open.untold = (open.untold.0 + count, at);
    }

    fn ended(&mut self, at: Timestamp, index: u64, outcome: Outcome) {
        self.close(at, index, outcome);
    }
}
