//! A session of several requests, judged as one.

use std::time::Duration;

use crate::{outcome::Outcome, request::RequestSummary, series::SeriesId, time::Timestamp};

/// What happened to one session: the fold of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrajectoryRecord {
    /// The session.
    pub session: u32,
    /// Whom its first step belongs to.
    pub series: SeriesId,
    /// Steps that were planned.
    pub steps_planned: u16,
    /// Steps that ended well.
    pub steps_ok: u16,
    /// Steps that ended in any way.
    pub steps_ended: u16,
    /// Origin of the first step.
    pub origin: Timestamp,
    /// End of the last step seen.
    pub ended: Timestamp,
    /// Output tokens of all steps.
    pub output_tokens: u64,
}

impl TrajectoryRecord {
    /// The session of which `first` is the first step known to have ended.
    #[must_use]
    pub fn begin(first: &RequestSummary) -> Self {
        let arrival = first.arrival();
        let mut record = Self {
            session: arrival.session,
            series: arrival.series,
            steps_planned: arrival.steps,
            steps_ok: 0,
            steps_ended: 0,
            origin: arrival.origin,
            ended: arrival.origin,
            output_tokens: 0,
        };
        record.add(first);
        record
    }

    /// Adds a step that has ended, in any order.
    pub fn add(&mut self, step: &RequestSummary) {
        self.steps_ended = self.steps_ended.saturating_add(1);
        if step.outcome() == Outcome::Ok {
            self.steps_ok = self.steps_ok.saturating_add(1);
        }
        self.origin = self.origin.min(step.origin());
        let last = step.e2e().map(|e2e| step.origin().after(e2e));
        self.ended = self.ended.max(last.unwrap_or_else(|| step.ended()));
        self.output_tokens += u64::from(step.output_tokens());
    }

    /// Whether every planned step ended well.
    #[must_use]
    pub const fn complete(&self) -> bool {
        self.steps_ok >= self.steps_planned
    }

    /// From the origin of the first step to the last token of the last, tool and think time
    /// included. `None` until every planned step ended well.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        self.complete().then(|| self.ended.since(self.origin))?
    }
}
