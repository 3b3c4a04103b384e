//! Several classes through one simulated replica, told in brief: of each request its first and its
//! last token.
//!
//! The same requests and figures as in [`crate::run_mix`]'s long form, ten times as fast: nothing is
//! kept of a request but what the books need, and the engine is asked only when somebody arrives.
//! The brief lane of `goodput_virtual::run_point` does the same for one class; classes that share
//! a replica, and their priorities, it does not know.

use std::{collections::VecDeque, ops::Range, time::Duration};

use goodput_perf_model::Profile;
use goodput_record::{
    Arrival, End, FinishReason, Outcome, RequestSummary, SeriesId, Timestamp, TokenCount,
    TokenEnds, Vantage, span_of,
};
use goodput_sim::{EngineEvents, EngineRequest, Server};
use goodput_workload::{PlainRequest, PlainRequests, point_seed};

use crate::{
    books::{ClassBooks, needs_every_token},
    mix::ClassLoad,
    replica::LoadFigures,
};

/// Runs them, if they can be told in brief: requests that share nothing, judged by clauses that need no
/// single gap. `stop`: no request due from here on is taken; `cut`: what is open here is cancelled.
pub(crate) fn run(
    profile: &Profile,
    classes: &[ClassLoad<'_>],
    window: &Range<Timestamp>,
    (stop, cut): (Timestamp, Timestamp),
    seed: u64,
) -> Option<Vec<LoadFigures>> {
    if classes.iter().any(|class| needs_every_token(class.slo)) {
        return None;
    }
    let requests = classes.iter().zip(0..).map(|(class, number)| {
        PlainRequests::new(class.workload, class.rate_req_s, point_seed(seed, number))
    });
    let mut requests = requests.collect::<Option<Vec<_>>>()?;
    let mut engine = Server::new(profile);
    if !engine.set_fast_forward(true) {
        return None;
    }
    let books = classes.iter().map(|class| ClassBooks::new(class, window));
    let mut desk = Desk {
        books: books.collect(),
        open: VecDeque::new(),
        first: 0,
        next: 0,
        lost: false,
    };
    let ingest = span_of(profile.ingest_s);
    while let Some((due, class)) = next(&requests)
        && due < stop
        && !desk.lost
    {
        // Up to here, but not into a step that begins here: who is due now takes part in it.
        engine.advance(
            Timestamp::from_nanos(due.nanos().saturating_sub(1)),
            &mut desk,
        );
        let request = requests[class].take()?;
        let index = desk.arrive(class, &request);
        let asked = EngineRequest {
            priority: classes[class].priority,
            ..EngineRequest::new(index, request.input_tokens, request.output_tokens)
        };
        let seen = due.after(ingest);
        if engine.submit(seen, asked).is_err() {
            desk.close(seen, index, Outcome::Rejected);
        }
    }
    let end = if desk.lost { stop } else { cut };
    if !desk.lost {
        engine.advance(cut, &mut desk);
    }
    desk.cancel_all(&mut engine, end);
    let lost = desk.lost;
    let each = desk.books.iter_mut().zip(classes);
    Some(
        each.map(|(books, class)| books.figures(class.rate_req_s, lost))
            .collect(),
    )
}

/// Who is due next: when, and of which class.
fn next(requests: &[PlainRequests]) -> Option<(Timestamp, usize)> {
    let due = requests.iter().zip(0..);
    due.filter_map(|(requests, class)| Some((requests.peek()?.due, class)))
        .min()
}

/// What is known of an open request.
#[derive(Clone, Copy, Debug)]
struct Open {
    class: usize,
    asked: PlainRequest,
    tokens: TokenEnds,
}

/// The open requests, by the engine's numbers, and the books.
struct Desk {
    books: Vec<ClassBooks>,
    /// Those that have ended among them are `None`.
    open: VecDeque<Option<Open>>,
    /// The number of the first of them.
    first: u64,
    /// The number of the next request.
    next: u64,
    /// Whether a class has missed more than it could make good.
    lost: bool,
}

impl Desk {
    fn arrive(&mut self, class: usize, asked: &PlainRequest) -> u64 {
        self.books[class].arrived(asked.due);
        self.open.push_back(Some(Open {
            class,
            asked: *asked,
            tokens: TokenEnds::default(),
        }));
        self.next += 1;
        self.next - 1
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
        let end = End {
            finish_reason: (outcome == Outcome::Ok).then_some(FinishReason::Length),
            output_tokens: Some(TokenCount::Usage(open.tokens.count)),
            input_tokens: Some(open.asked.input_tokens),
            ..End::of(outcome)
        };
        let summary = RequestSummary::of_ends(arrival(index, &open), &open.tokens, at, end);
        let books = &mut self.books[open.class];
        books.post_brief(&summary);
        self.lost |= books.is_lost();
    }

    /// Cancels what is still open.
    fn cancel_all(&mut self, engine: &mut Server, at: Timestamp) {
        for index in self.first..self.next {
            if let Some((tokens, when)) = engine.untold(index) {
                self.tokens(when, index, tokens);
            }
            engine.cancel(at, index);
            self.close(at, index, Outcome::Cancelled);
        }
    }
}

fn arrival(index: u64, open: &Open) -> Arrival {
    Arrival {
        id: index,
        origin: open.asked.due,
        series: SeriesId::default(),
        vantage: Vantage::Engine,
        session: u32::try_from(open.asked.index).unwrap_or(u32::MAX),
        step: 0,
        steps: 1,
        planned_input_tokens: open.asked.input_tokens,
        planned_cached_tokens: 0,
        planned_output_tokens: open.asked.output_tokens,
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
