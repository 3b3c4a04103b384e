//! A request while it is open: made at the arrival, consumed by its one end.

use std::{rc::Rc, time::Duration};

use crate::{
    gaps::{GapBuffer, Gaps},
    outcome::Outcome,
    request::{Arrival, End, RequestRecord, RequestSummary, Track},
    time::Timestamp,
};

/// Where arrivals and ended requests are posted.
///
/// For every `arrived` there is exactly one `ended`, whatever returns early, panics or is dropped.
pub trait Sink {
    /// A request was due.
    fn arrived(&self, arrival: &Arrival);
    /// A request has ended. Its gaps are whole here; what is not wanted is dropped or recycled.
    fn ended(&self, record: RequestRecord);
    /// An empty buffer for the gaps of the next request; a sink may hand out used ones.
    fn gap_buffer(&self) -> GapBuffer {
        GapBuffer::default()
    }
}

/// A request that has arrived and not ended. Dropping it files [`Outcome::Failed`].
#[derive(Debug)]
#[must_use = "a request that is dropped is filed as failed"]
pub struct OpenRequest<S: Sink> {
    sink: Rc<S>,
    arrival: Arrival,
    track: Track,
    over: bool,
    begins_when_sent: bool,
}

impl<S: Sink> OpenRequest<S> {
    /// Posts the arrival and opens the request.
    pub fn arrive(sink: Rc<S>, arrival: Arrival) -> Self {
        sink.arrived(&arrival);
        let track = Track {
            gaps: sink.gap_buffer(),
            ..Track::default()
        };
        Self {
            sink,
            arrival,
            track,
            over: false,
            begins_when_sent: false,
        }
    }

    /// Makes room for `events` token events, so that they cost no allocation. More may come.
    pub fn expect_events(&mut self, events: usize) {
        self.track.gaps.reserve(events);
    }

    /// For a request that nothing was scheduled for, of a user who asks again when the last answer
    /// is there: its latencies run from the send, not from the instant at which the client came
    /// round to it.
    pub const fn begins_when_sent(&mut self) {
        self.begins_when_sent = true;
    }

    /// The arrival.
    pub const fn arrival(&self) -> &Arrival {
        &self.arrival
    }

    /// Its first byte was handed to the kernel at `at`; once more for every attempt.
    pub fn sent(&mut self, at: Timestamp) {
        if self.begins_when_sent && self.track.sent.is_none() {
            self.track.due = Some(self.arrival.origin);
            self.arrival.origin = at.max(self.arrival.origin);
        }
        self.track.sent.get_or_insert(at);
        self.track.attempts = self.track.attempts.saturating_add(1);
    }

    /// A connection had to be made for it, which took `setup`.
    pub fn connected(&mut self, setup: Duration) {
        self.track.connect = Some(setup);
    }

    /// A gateway handed it to a replica at `at`.
    pub fn dispatched(&mut self, at: Timestamp) {
        self.track.dispatched = Some(at);
    }

    /// The first byte of the response was read at `at`.
    pub fn first_byte(&mut self, at: Timestamp) {
        self.track.first_byte.get_or_insert(at);
    }

    /// One token event was read at `at`. `tokens`: how many it carries, where a running `usage`
    /// says so, else 0. `answer`: whether any of it is not reasoning.
    pub fn token_event(&mut self, at: Timestamp, tokens: u32, answer: bool) {
        self.track.token_event(at, tokens, answer);
    }

    /// Token events so far.
    pub const fn events(&self) -> u32 {
        self.track.events
    }

    /// Ends the request.
    pub fn end(mut self, at: Timestamp, end: End) {
        self.close(at, end);
    }

    fn close(&mut self, at: Timestamp, end: End) {
        self.over = true;
        let summary = RequestSummary::close(self.arrival, &self.track, at, end);
        let gaps = Gaps::Kept(std::mem::take(&mut self.track.gaps));
        self.sink.ended(RequestRecord { summary, gaps });
    }
}

impl<S: Sink> Drop for OpenRequest<S> {
    fn drop(&mut self) {
        if !self.over {
            let at = self.track.latest(self.arrival.origin);
            self.close(at, End::of(Outcome::Failed));
        }
    }
}
