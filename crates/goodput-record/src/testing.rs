//! Records for tests: what happened to a request, told in one call. Behind the feature `testing`,
//! which only dev-dependencies ask for.

use std::{cell::RefCell, rc::Rc};

use crate::{
    open::{OpenRequest, Sink},
    outcome::Vantage,
    request::{Arrival, End, RequestRecord},
    series::SeriesId,
    time::Timestamp,
};

/// Keeps what ended.
#[derive(Default)]
struct Kept(RefCell<Vec<RequestRecord>>);

impl Sink for Kept {
    fn arrived(&self, _: &Arrival) {}
    fn ended(&self, record: RequestRecord) {
        self.0.borrow_mut().push(record);
    }
}

/// A client's request in a session of its own, due at `origin`; of 100 tokens in and out as planned.
#[must_use]
pub fn arrival(origin: Timestamp) -> Arrival {
    Arrival {
        id: 0,
        origin,
        series: SeriesId::default(),
        vantage: Vantage::Client,
        session: 0,
        step: 0,
        steps: 1,
        planned_input_tokens: 100,
        planned_cached_tokens: 0,
        planned_output_tokens: 100,
    }
}

/// The record of a request that was sent when it was due, had a token event at each of `tokens_at` and
/// ended like this.
#[must_use]
pub fn record(
    arrival: Arrival,
    tokens_at: impl IntoIterator<Item = Timestamp>,
    ended: Timestamp,
    end: End,
) -> RequestRecord {
    let kept = Rc::new(Kept::default());
    let mut open = OpenRequest::arrive(Rc::clone(&kept), arrival);
    open.sent(arrival.origin);
    for at in tokens_at {
        open.token_event(at, 0, true);
    }
    open.end(ended, end);
    kept.0.take().remove(0)
}
