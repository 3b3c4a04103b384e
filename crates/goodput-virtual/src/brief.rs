//! A load point of an open loop told in brief: of each request its first and its last token.
//!
//! Nothing is kept of a request but what the books need, the engine is fast-forwarded, and it is asked
//! only when somebody arrives. The course, the requests and every figure that needs no more are those
//! of [`crate::run_point`].

#[cfg(test)]
mod tests;

use std::{collections::VecDeque, time::Duration};

use goodput_ledger::PointBooks;
use goodput_record::{
    Arrival, End, FinishReason, Outcome, Phase, RequestSummary, SeriesId, Timestamp, TokenCount,
    TokenEnds, Vantage,
};
use goodput_sim::{EngineEvents, EngineRequest, Refusal};
use goodput_sweep::auto::Look;
use goodput_workload::{Course, Load, PlainRequest, PlainRequests, point_seed};

use crate::{
    point::{
        LOOK_EVERY, Measured, PointPlan, REFUSED_IN_A_ROW, Setting, all_refused, refused_in_a_row,
    },
    replica::Replica,
};

/// Runs the point, if it can be told in brief: an open loop whose requests share nothing, judged by
/// clauses that need no single gap.
pub(crate) fn run(
    replica: &mut Replica,
    setting: &Setting<'_>,
    plan: &PointPlan,
    mut look: impl FnMut(&PointBooks, Timestamp, Timestamp) -> Look,
) -> Option<Measured> {
    let Load::Open { per_second } = plan.load else {
        return None;
    };
    if setting.needs_gaps() || plan.warm_up || replica.engine.next_event().is_some() {
        return None;
    }
    let seed = point_seed(setting.seed, plan.place);
    let requests = PlainRequests::new(setting.workload, per_second, seed)?;
    if !replica.engine.set_fast_forward(true) {
        return None;
    }
    let mut run = Run {
        desk: Desk::new(
            PointBooks::brief(setting.slos, setting.bin),
            replica.requests,
        ),
        course: Course::new(&plan.course, None, replica.now),
        start: replica.now,
        first: replica.requests,
        requests,
        replica,
        plan,
        arrivals_due: 0,
        taken: 0,
        refused_in_a_row: 0,
        refusal: None,
        gave_up: None,
    };
    let mut look_at = Timestamp::FAR_FUTURE;
    while !run.course.over() {
        match run.course.window_start().filter(|_| run.course.measuring()) {
            None => look_at = Timestamp::FAR_FUTURE,
            Some(opened) if look_at == Timestamp::FAR_FUTURE => {
                look_at = opened.after(plan.look_from);
            }
            Some(opened) if look_at <= run.replica.now => {
                let now = run.replica.now;
                run.desk.books.settle();
                match look(&run.desk.books, opened, now) {
                    Look::Wait => {}
                    Look::GoOn => run.desk.books.looked(),
                    Look::Close(_) => run.course.close_early(now),
                }
                look_at = now.after(LOOK_EVERY);
            }
            Some(_) => {}
        }
        run.step(look_at);
    }
    let measured = run.finish();
    replica.engine.set_fast_forward(false);
    Some(measured)
}

/// A load point under way.
struct Run<'a> {
    replica: &'a mut Replica,
    plan: &'a PointPlan,
    requests: PlainRequests,
    course: Course,
    desk: Desk,
    start: Timestamp,
    /// The number of its first request.
    first: u64,
    arrivals_due: u64,
    taken: u64,
    refused_in_a_row: u32,
    refusal: Option<Refusal>,
    gave_up: Option<String>,
}

impl Run<'_> {
    fn absolute(&self, due: Timestamp) -> Timestamp {
        self.start.after(Duration::from_nanos(due.nanos()))
    }

    /// Goes on to the next arrival, or to what comes before it; once nobody arrives, to the next end.
    fn step(&mut self, look_at: Timestamp) {
        let change = self.replica.next_change();
        let others = [Some(self.course.next_change()), Some(look_at), change];
        let sending = self.course.sending();
        let due = self.requests.peek().filter(|_| sending).map(|r| r.due);
        let due = due.map(|due| self.absolute(due));
        // While it drains, every end may be the last one that counts.
        let draining = self.course.window_start().is_some() && !self.course.measuring();
        let event = if draining || due.is_none() {
            self.replica.engine.next_event()
        } else {
            None
        };
        let next = [due, event].into_iter().chain(others).flatten().min();
        let Some(next) = next.filter(|&at| at != Timestamp::FAR_FUTURE) else {
            self.course.exhausted(self.replica.now);
            return self.course.give_up(self.replica.now);
        };
        let now = next.max(self.replica.now);
        self.replica.now = now;
        if change.is_some_and(|at| at <= now) {
            self.replica.set_pace();
        }
        if due == Some(next) {
            // Up to here, but not into a step that begins here: who is due now takes part in it.
            let before = Timestamp::from_nanos(now.nanos().saturating_sub(1));
            self.replica.engine.advance(before, &mut self.desk);
            self.settle_ends();
            if let Some(request) = self.requests.take() {
                self.arrive(now, &request);
            }
        } else {
            self.replica.engine.advance(now, &mut self.desk);
            self.settle_ends();
        }
        self.course.tick(now);
        if self.desk.in_flight > self.plan.most_in_flight && self.gave_up.is_none() {
            let in_flight = self.desk.in_flight;
            self.give_up(now, format!("{in_flight} requests in flight: saturated"));
        }
    }

    fn give_up(&mut self, now: Timestamp, why: String) {
        self.gave_up = Some(why);
        self.course.give_up(now);
    }

    fn settle_ends(&mut self) {
        for (phase, at) in self.desk.ended.drain(..) {
            self.course.end(phase, at);
        }
    }

    fn arrive(&mut self, now: Timestamp, request: &PlainRequest) {
        let Some(phase) = self.course.arrive(now, false) else {
            return;
        };
        self.arrivals_due += u64::from(phase == Phase::Measured);
        let index = self.replica.requests;
        self.replica.requests += 1;
        self.desk.arrive(index, now, request, phase);
        let (input, output) = (request.input_tokens, request.output_tokens);
        let request = EngineRequest::new(index, input, output);
        let seen = now.after(self.replica.ingest);
        match self.replica.engine.submit(seen, request) {
            Ok(()) => {
                self.taken += 1;
                self.refused_in_a_row = 0;
            }
            Err(refusal) => {
                self.refusal = Some(refusal);
                self.desk.close(seen, index, Outcome::Rejected);
                self.settle_ends();
                self.refused_in_a_row += 1;
                if self.refused_in_a_row >= REFUSED_IN_A_ROW && self.gave_up.is_none() {
                    self.give_up(now, refused_in_a_row(refusal));
                }
            }
        }
    }

    /// Cancels what is still open and closes the books.
    fn finish(mut self) -> Measured {
        let now = self.replica.now;
        for index in self.desk.all() {
            if let Some((tokens, at)) = self.replica.engine.untold(index) {
                self.desk.tokens(at, index, tokens);
            }
            self.replica.engine.cancel(now, index);
            self.desk.close(now, index, Outcome::Cancelled);
        }
        if let (0, Some(refusal)) = (self.taken, self.refusal) {
            self.gave_up = Some(all_refused(self.replica.requests - self.first, refusal));
        }
        self.desk.books.settle();
        let (window, _) = self.course.window();
        let mut invalid: Vec<String> = self.gave_up.iter().cloned().collect();
        if self.desk.books.measured() == 0 {
            invalid.push("no request was measured".to_owned());
        }
        Measured {
            window,
            span: self.start..now,
            in_flight_peak: self.desk.in_flight_peak,
            in_flight_at_end: self.course.in_flight_at_end(),
            arrivals_due: self.arrivals_due,
            taken: self.taken,
            ran_dry: self.course.ran_dry(),
            interrupted: false,
            gave_up: self.gave_up,
            books: self.desk.books,
            invalid,
        }
    }
}

/// What is known of an open request.
#[derive(Clone, Copy, Debug)]
struct Open {
    origin: Timestamp,
    input_tokens: u32,
    output_tokens: u32,
    phase: Phase,
    tokens: TokenEnds,
}

/// The open requests, by the engine's numbers, and the books.
struct Desk {
    books: PointBooks,
    /// Those that have ended among them are `None`.
    open: VecDeque<Option<Open>>,
    first: u64,
    ended: Vec<(Phase, Timestamp)>,
    in_flight: u32,
    in_flight_peak: u32,
}

impl Desk {
    fn new(books: PointBooks, first: u64) -> Self {
        Self {
            books,
            open: VecDeque::new(),
            first,
            ended: Vec::new(),
            in_flight: 0,
            in_flight_peak: 0,
        }
    }

    fn arrive(&mut self, index: u64, origin: Timestamp, request: &PlainRequest, phase: Phase) {
        debug_assert_eq!(index, self.first + self.open.len() as u64);
        let open = Open {
            origin,
            input_tokens: request.input_tokens,
            output_tokens: request.output_tokens,
            phase,
            tokens: TokenEnds::default(),
        };
        self.books.arrived(&arrival(index, &open));
        self.open.push_back(Some(open));
        self.in_flight += 1;
        self.in_flight_peak = self.in_flight_peak.max(self.in_flight);
    }

    fn slot(&mut self, index: u64) -> Option<&mut Option<Open>> {
        let place = index.checked_sub(self.first)?;
        self.open.get_mut(usize::try_from(place).ok()?)
    }

    fn close(&mut self, at: Timestamp, index: u64, outcome: Outcome) {
        let Some(open) = self.slot(index).and_then(Option::take) else {
            return;
        };
        while matches!(self.open.front(), Some(None)) {
            self.open.pop_front();
            self.first += 1;
        }
        self.in_flight -= 1;
        let end = End {
            finish_reason: (outcome == Outcome::Ok).then_some(FinishReason::Length),
            output_tokens: Some(TokenCount::Usage(open.tokens.count)),
            input_tokens: Some(open.input_tokens),
            ..End::of(outcome)
        };
        let summary = RequestSummary::of_ends(arrival(index, &open), &open.tokens, at, end);
        self.books.post_brief(&summary, open.phase);
        self.ended.push((open.phase, at));
    }

    fn all(&self) -> Vec<u64> {
        let numbered = (self.first..).zip(&self.open);
        numbered
            .filter_map(|(index, open)| open.as_ref().map(|_| index))
            .collect()
    }
}

fn arrival(index: u64, open: &Open) -> Arrival {
    Arrival {
        id: index,
        origin: open.origin,
        series: SeriesId::default(),
        vantage: Vantage::Engine,
        session: u32::try_from(index).unwrap_or(u32::MAX),
        step: 0,
        steps: 1,
        planned_input_tokens: open.input_tokens,
        planned_cached_tokens: 0,
        planned_output_tokens: open.output_tokens,
    }
}

impl EngineEvents for Desk {
    fn tokens(&mut self, at: Timestamp, index: u64, count: u32) {
        if let Some(Some(open)) = self.slot(index) {
            open.tokens.first = open.tokens.first.or(Some(at));
            open.tokens.last = Some(at);
            open.tokens.count += count;
        }
    }

    fn longest_gap(&mut self, index: u64, gap: Duration) {
        if let Some(Some(open)) = self.slot(index) {
            open.tokens.longest_gap = Some(gap);
        }
    }

    fn ended(&mut self, at: Timestamp, index: u64, outcome: Outcome) {
        self.close(at, index, outcome);
    }
}
