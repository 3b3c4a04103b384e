//! A run in virtual time: arrivals go into an engine, records come out.
//!
//! What is simulated is filed as [`goodput_record::RequestRecord`]s, seen from the engine, so the
//! same books judge it that judge a measurement.

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use goodput_record::{
    Arrival, End, EngineSample, FinishReason, OpenRequest, Outcome, Sink, Timestamp, TokenCount,
    Vantage,
};

use crate::engine::{Engine, EngineEvents, EngineRequest};

/// A request with its place in the books.
#[derive(Clone, Debug)]
pub struct Due {
    /// Who asks, and since when. The number is the engine request's; the vantage is the engine's,
    /// whatever is said here.
    pub arrival: Arrival,
    /// What the engine is asked.
    pub request: EngineRequest,
}

/// Where requests come from: an open loop, a closed loop, sessions.
pub trait Source {
    /// When the next request is due. `None`: none is until another one ends, or ever.
    fn next_due(&self) -> Option<Timestamp>;
    /// Hands out a request that is due at or before `now`.
    fn take(&mut self, now: Timestamp) -> Option<Due>;
    /// A request of this session is over, and how: its next step, or the user's next request, may
    /// be due.
    fn ended(&mut self, session: u32, at: Timestamp, outcome: Outcome);
}

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// No request due at or after this instant is taken.
    pub stop_arrivals: Timestamp,
    /// What is still open here is cancelled.
    pub cut: Timestamp,
    /// How often the engine's own metrics are read; `None`: never.
    pub sample_every: Option<Duration>,
}

impl Plan {
    /// Takes what is due before `stop_arrivals`, then waits for all that is open.
    #[must_use]
    pub const fn until(stop_arrivals: Timestamp) -> Self {
        Self {
            stop_arrivals,
            cut: Timestamp::FAR_FUTURE,
            sample_every: None,
        }
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Requests that were due and taken.
    pub arrived: u64,
    /// Of these, refused by the engine.
    pub refused: u64,
    /// Of these, open at the cut and cancelled.
    pub cut: u64,
    /// When the last of them ended.
    pub ended: Timestamp,
}

/// How long a user whose request was refused waits before the next one. A refusal takes no time in
/// the engine: without a pause a closed loop would ask for ever at one instant.
const AFTER_REFUSAL: Duration = Duration::from_millis(1);

/// Runs `source` against `engine` until nothing is due before `plan.stop_arrivals` and nothing is
/// open. Every arrival is filed at `sink` exactly once; `sampled` gets the engine's metrics.
pub fn run<S: Sink>(
    engine: &mut Engine,
    source: &mut impl Source,
    sink: &Rc<S>,
    plan: &Plan,
    mut sampled: impl FnMut(EngineSample),
) -> RunReport {
    let mut desk = Desk {
        sink: Rc::clone(sink),
        open: BTreeMap::new(),
        over: Vec::new(),
        report: RunReport::default(),
    };
    let mut sample_at = plan.sample_every.map(|_| Timestamp::ZERO);
    loop {
        let due = source.next_due().filter(|&due| due < plan.stop_arrivals);
        let event = engine.next_event();
        let Some(next) = [due, event].into_iter().flatten().min() else {
            break;
        };
        if next >= plan.cut {
            break;
        }
        if let (Some(at), Some(every)) = (sample_at, plan.sample_every)
            && at <= next
        {
            engine.advance(at, &mut desk);
            sampled(engine.sample());
            sample_at = Some(at.after(every.max(Duration::from_nanos(1))));
        } else if due == Some(next) {
            // Whoever is due at the instant of a step's start takes part in it.
            while let Some(due) = take_due(source, next, plan) {
                desk.arrive(engine, next, due);
            }
        } else {
            engine.advance(next, &mut desk);
        }
        for (session, at, outcome) in desk.over.drain(..) {
            source.ended(session, at, outcome);
        }
    }
    desk.cut(engine, plan.cut);
    desk.report
}

fn take_due(source: &mut impl Source, now: Timestamp, plan: &Plan) -> Option<Due> {
    let due = source.next_due()?;
    (due <= now && due < plan.stop_arrivals).then(|| source.take(now))?
}

/// The open requests of a run.
struct Desk<S: Sink> {
    sink: Rc<S>,
    open: BTreeMap<u64, Open<S>>,
    /// Sessions whose request is over, not yet told to the source.
    over: Vec<(u32, Timestamp, Outcome)>,
    report: RunReport,
}

struct Open<S: Sink> {
    request: OpenRequest<S>,
    input_tokens: u32,
    output_tokens: u32,
    cached_tokens: Option<u32>,
}

impl<S: Sink> Desk<S> {
    fn arrive(&mut self, engine: &mut Engine, now: Timestamp, due: Due) {
        self.report.arrived += 1;
        let arrival = Arrival {
            vantage: Vantage::Engine,
            ..due.arrival
        };
        let mut request = OpenRequest::arrive(Rc::clone(&self.sink), arrival);
        request.sent(now);
        let (index, input_tokens) = (due.request.index, due.request.input_tokens);
        if engine.submit(now, due.request).is_err() {
            self.report.refused += 1;
            request.end(now, End::of(Outcome::Rejected));
            let again = now.after(AFTER_REFUSAL);
            self.over.push((arrival.session, again, Outcome::Rejected));
            self.report.ended = self.report.ended.max(now);
            return;
        }
        let open = Open {
            request,
            input_tokens,
            output_tokens: 0,
            cached_tokens: None,
        };
        self.open.insert(index, open);
    }

    fn close(&mut self, at: Timestamp, index: u64, outcome: Outcome) {
        let Some(open) = self.open.remove(&index) else {
            return;
        };
        let end = End {
            finish_reason: (outcome == Outcome::Ok).then_some(FinishReason::Length),
            output_tokens: Some(TokenCount::Usage(open.output_tokens)),
            input_tokens: Some(open.input_tokens),
            cached_tokens: open.cached_tokens,
            ..End::of(outcome)
        };
        let session = open.request.arrival().session;
        self.over.push((session, at, outcome));
        open.request.end(at, end);
        self.report.ended = self.report.ended.max(at);
    }

    /// Cancels all that is open.
    fn cut(&mut self, engine: &mut Engine, at: Timestamp) {
        let left: Vec<u64> = self.open.keys().copied().collect();
        for index in left {
            engine.cancel(at, index);
            self.report.cut += 1;
            self.close(at, index, Outcome::Cancelled);
        }
    }
}

impl<S: Sink> EngineEvents for Desk<S> {
    fn admitted(&mut self, _at: Timestamp, index: u64, cached_tokens: u32) {
        if let Some(open) = self.open.get_mut(&index) {
            open.cached_tokens.get_or_insert(cached_tokens);
        }
    }

    fn tokens(&mut self, at: Timestamp, index: u64, count: u32) {
        if let Some(open) = self.open.get_mut(&index) {
            open.output_tokens += count;
            open.request.token_event(at, count, true);
        }
    }

    fn ended(&mut self, at: Timestamp, index: u64, outcome: Outcome) {
        self.close(at, index, outcome);
    }
}
