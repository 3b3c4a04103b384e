//! Counts of one load point that are no records.

use std::{collections::BTreeSet, time::Duration};

use goodput_protocol::{Plausibility, plausibility};
use goodput_record::{Outcome, Phase, RequestSummary, Timestamp, nanos};
use goodput_stats::Distribution;

use crate::{
    doubt::Latencies, invalid::Invalid, plan::PointPlan, report::ServerTimings, slip::Note,
};

/// Spans shorter than this are made of buffers and wake-ups as much as of tokens.
const COMPARABLE: Duration = Duration::from_millis(20);

/// More names than this are no names of answerers: every answer has its own.
const NAMES_MAX: usize = 8;

/// A server is away if so many requests in a row got no answer, and for so long.
const AWAY_REQUESTS: u32 = 3;
/// See [`AWAY_REQUESTS`].
const AWAY_FOR: Duration = Duration::from_millis(500);

/// So many rejections in a row weigh as much as one failure.
const REFUSALS: u32 = 10;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) send_lag: Distribution,
    pub(crate) peak_in_flight: u32,
    /// Measured requests that were due.
    pub(crate) due: u64,
    /// Of these, requests of which a byte was sent.
    pub(crate) sent: u64,
    pub(crate) not_sent: u64,
    /// What the last of these said.
    pub(crate) not_sent_because: String,
    /// Measured requests that were cancelled.
    pub(crate) cut: u32,
    /// What is still in flight is being cancelled.
    pub(crate) cutting: bool,
    pub(crate) last_end: Timestamp,
    pub(crate) server_timings: ServerTimings,
    pub(crate) latencies: Latencies,
    /// What answerers call themselves.
    pub(crate) answered_as: BTreeSet<String>,
    /// What the point's own requests say against it.
    reasons: Vec<Invalid>,
    away: Away,
    open: u32,
    flying: u32,
    failed_in_a_row: u32,
    /// Rejections count less: a server that turns some requests away is being measured.
    refused_in_a_row: u32,
    last_error: String,
}

impl Tally {
    pub(crate) fn arrived(&mut self, phase: Phase) {
        self.open += 1;
        self.due += u64::from(phase == Phase::Measured);
    }

    pub(crate) fn in_flight(&mut self) {
        self.flying += 1;
        self.peak_in_flight = self.peak_in_flight.max(self.flying);
    }

    pub(crate) fn ended(&mut self, summary: &RequestSummary, phase: Phase, note: &Note) {
        self.open = self.open.saturating_sub(1);
        self.flying -= u32::from(note.in_flight);
        self.last_end = self.last_end.max(summary.ended());
        if let Some(ours) = &note.ours {
            self.not_sent += 1;
            self.not_sent_because.clone_from(ours);
        }
        if phase == Phase::Measured {
            self.sent += u64::from(summary.sent().is_some());
            self.cut += u32::from(self.cutting);
            let begun = note.begun.unwrap_or_else(|| summary.ended());
            let lag = begun.since(note.due).unwrap_or_default();
            self.send_lag.record(nanos(lag));
            self.latencies.take(summary, lag);
            self.compare_decode(summary, note.server_decode);
        }
        self.reasons.extend(self.away.hear(summary, note));
        if let Some(name) = &note.answered_as
            && self.answered_as.len() <= NAMES_MAX
            && !self.answered_as.contains(name)
        {
            self.answered_as.insert(name.clone());
        }
        match summary.outcome() {
            Outcome::Failed | Outcome::NotAStream => self.failed_in_a_row += 1,
            // An answer, though none to measure: to ask on is to hammer.
            Outcome::Rejected
            | Outcome::Empty
            | Outcome::EmptyStream
            | Outcome::InvalidChunk
            | Outcome::ErrorEvent => self.refused_in_a_row += 1,
            _ => {
                (self.failed_in_a_row, self.refused_in_a_row) = (0, 0);
                return;
            }
        }
        self.last_error = match &note.error {
            Some(error) => error.clone(),
            None => without_error(summary),
        };
    }

    /// Holds the server's own decode time against the client's.
    fn compare_decode(&mut self, summary: &RequestSummary, server: Option<Duration>) {
        let (Some(server), Some(e2e), Some(ttft)) = (server, summary.e2e(), summary.ttft()) else {
            return;
        };
        let client = e2e.saturating_sub(ttft);
        if client < COMPARABLE || summary.one_burst() {
            return;
        }
        self.server_timings.told += 1;
        if let Some(Plausibility::Implausible { ratio }) = plausibility(server, client) {
            self.server_timings.implausible += 1;
            self.server_timings.last_ratio = Some(ratio);
        }
    }

    /// What the answerers called themselves; empty if every answer had a name of its own.
    pub(crate) fn names(&self) -> Vec<String> {
        if self.answered_as.len() > NAMES_MAX {
            return Vec::new();
        }
        self.answered_as.iter().cloned().collect()
    }

    /// What the point's own requests say against it, once it is over.
    pub(crate) fn reasons(&mut self) -> Vec<Invalid> {
        let mut reasons = std::mem::take(&mut self.reasons);
        reasons.extend(std::mem::take(&mut self.away).over(self.last_end));
        reasons
    }

    /// Whether the load cannot be carried further.
    pub(crate) fn gives_up(&mut self, plan: &PointPlan) -> bool {
        let ends =
            |why: &Invalid| matches!(why, Invalid::Saturated { .. } | Invalid::Failing { .. });
        if self.reasons.iter().any(ends) {
            return true;
        }
        let why = if self.open > plan.most_in_flight {
            Some(Invalid::Saturated {
                most: plan.most_in_flight,
            })
        } else if self.failed_in_a_row >= plan.failures_in_a_row
            || self.refused_in_a_row >= plan.failures_in_a_row.saturating_mul(REFUSALS)
        {
            Some(Invalid::Failing {
                requests: self.failed_in_a_row + self.refused_in_a_row,
                error: self.last_error.clone(),
            })
        } else {
            None
        };
        let gives_up = why.is_some();
        self.reasons.extend(why);
        gives_up
    }
}

/// Watches for a while in which no request got an answer. An overloaded server leaves some without one
/// and still answers others; one that answers nobody is away.
#[derive(Debug, Default)]
struct Away {
    since: Option<Timestamp>,
    requests: u32,
    last_error: String,
}

impl Away {
    /// Hears of a request that has ended. Gives the absence that its answer puts an end to.
    fn hear(&mut self, summary: &RequestSummary, note: &Note) -> Option<Invalid> {
        let Some(begun) = summary.first_byte() else {
            // What this machine could not send says nothing of the server.
            if summary.outcome() == Outcome::Failed && note.ours.is_none() {
                self.since.get_or_insert(summary.ended());
                self.requests += 1;
                self.last_error = note.error.clone().unwrap_or_default();
            }
            return None;
        };
        let since = self.since?;
        let Some(span) = begun.since(since) else {
            // One that began before: it broke off, or shows that the server was there all along.
            if summary.last_token() > Some(since) {
                *self = Self::default();
            }
            return None;
        };
        std::mem::take(self).lasted(span)
    }

    /// Nobody gets an answer any more: the absence that goes on at the end of the point.
    fn over(self, end: Timestamp) -> Option<Invalid> {
        let span = end.since(self.since?)?;
        self.lasted(span)
    }

    /// An absence of this length, if it is one.
    fn lasted(self, span: Duration) -> Option<Invalid> {
        (self.requests >= AWAY_REQUESTS && span >= AWAY_FOR).then_some(Invalid::Away {
            requests: self.requests,
            span,
            error: self.last_error,
        })
    }
}

/// What is wrong with an answer that came without an error.
fn without_error(summary: &RequestSummary) -> String {
    let what = match summary.outcome() {
        Outcome::Empty => "the answer ended without a token",
        Outcome::EmptyStream => "the stream ended without an event",
        other => other.name(),
    };
    match summary.end().finish_reason {
        Some(reason) => format!("{what}, finish reason `{}`", reason.name()),
        None => what.to_owned(),
    }
}
