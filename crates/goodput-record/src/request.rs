//! One request: its life while open, its record when it has ended, and the only place where
//! latencies are computed.

use std::time::Duration;

use crate::{
    gaps::{GapBuffer, Gaps},
    outcome::{FinishReason, Outcome, TimeoutPhase, TokenCount, UsageReport, Vantage},
    series::SeriesId,
    time::{Timestamp, nanos},
};

/// A request that was due: offered load, posted when it happens and whatever becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The request's number within its run.
    pub id: u64,
    /// When it was due by the arrival process (open loop) or was issued (closed loop).
    pub origin: Timestamp,
    /// Whom it belongs to.
    pub series: SeriesId,
    /// Who watches.
    pub vantage: Vantage,
    /// The session it is part of; a request of its own is a session of one step.
    pub session: u32,
    /// Its place in the session, from 0.
    pub step: u16,
    /// Steps of the whole session, as planned; 1 for a request of its own.
    pub steps: u16,
    /// Input tokens as planned.
    pub planned_input_tokens: u32,
    /// Input tokens, of those planned, that an earlier request of the same run made reusable.
    pub planned_cached_tokens: u32,
    /// Output tokens as planned, which is the limit sent along.
    pub planned_output_tokens: u32,
}

/// How a request ended, and what was counted. Given once, to [`crate::OpenRequest::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The outcome.
    pub outcome: Outcome,
    /// Where a time limit struck; `None` unless `outcome` is [`Outcome::TimedOut`].
    pub timeout_phase: Option<TimeoutPhase>,
    /// The HTTP status, if a head arrived.
    pub http_status: Option<u16>,
    /// Why the server stopped, if it said so.
    pub finish_reason: Option<FinishReason>,
    /// Output tokens over all choices. `None`: nothing is known, not even an event.
    pub output_tokens: Option<TokenCount>,
    /// Input tokens by the server's `usage`.
    pub input_tokens: Option<u32>,
    /// Of these, tokens read from the server's prefix cache.
    pub cached_tokens: Option<u32>,
    /// Output tokens that were reasoning, by the server's `usage`.
    pub reasoning_tokens: Option<u32>,
    /// What the server's `usage` said, believed or not.
    pub usage: UsageReport,
    /// Output tokens by a tokenizer of ours, where one was given, whatever `output_tokens` is from.
    pub tokenizer_tokens: Option<u32>,
    /// Unicode scalar values of the answer's text, all channels.
    pub characters: u32,
    /// Words of the answer's text: runs between white space, all channels.
    pub words: u32,
    /// How many choices were asked or seen. Above one, TPOT does not exist.
    pub choices: u16,
    /// Whether the answer came as an event stream.
    pub streamed: bool,
}

impl End {
    /// An end of which nothing but the outcome is known.
    #[must_use]
    pub const fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            timeout_phase: None,
            http_status: None,
            finish_reason: None,
            output_tokens: None,
            input_tokens: None,
            cached_tokens: None,
            reasoning_tokens: None,
            usage: UsageReport::Absent,
            tokenizer_tokens: None,
            characters: 0,
            words: 0,
            choices: 1,
            streamed: true,
        }
    }
}

/// The instants and gaps of a request, as they come in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    /// When the client was to send it, where that is not its origin.
    pub(crate) due: Option<Timestamp>,
    pub(crate) sent: Option<Timestamp>,
    pub(crate) connect: Option<Duration>,
    pub(crate) dispatched: Option<Timestamp>,
    pub(crate) attempts: u8,
    pub(crate) first_byte: Option<Timestamp>,
    pub(crate) first_token: Option<Timestamp>,
    pub(crate) first_answer: Option<Timestamp>,
    pub(crate) last_token: Option<Timestamp>,
    pub(crate) stall: Option<Duration>,
    pub(crate) events: u32,
    pub(crate) bunched: u32,
    pub(crate) gaps: GapBuffer,
}

impl Track {
    /// Books one token event that was read at `at`.
    pub(crate) fn token_event(&mut self, at: Timestamp, tokens: u32, answer: bool) {
        self.events = self.events.saturating_add(1);
        if let Some(last) = self.last_token {
            let gap = at.since(last).unwrap_or_default();
            self.stall = self.stall.max(Some(gap));
            self.bunched += u32::from(gap.is_zero());
            self.gaps.push(gap, tokens);
            self.last_token = self.last_token.max(Some(at));
        } else {
            self.first_token = Some(at);
            self.last_token = Some(at);
        }
        if answer && self.first_answer.is_none() {
            self.first_answer = self.last_token;
        }
    }

    /// The latest instant known.
    pub(crate) fn latest(&self, origin: Timestamp) -> Timestamp {
        [self.sent, self.dispatched, self.first_byte, self.last_token]
            .into_iter()
            .flatten()
            .fold(origin, Timestamp::max)
    }
}

/// What happened to one request, as one watcher saw it. Fixed size, no heap, never edited.
///
/// Invariant: `origin <= first_token <= first_answer <= last_token <= end` where they exist.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestSummary {
    pub(crate) arrival: Arrival,
    pub(crate) due: Timestamp,
    pub(crate) sent: Option<Timestamp>,
    pub(crate) connect: Option<Duration>,
    pub(crate) dispatched: Option<Timestamp>,
    pub(crate) attempts: u8,
    pub(crate) first_byte: Option<Timestamp>,
    pub(crate) first_token: Option<Timestamp>,
    pub(crate) first_answer: Option<Timestamp>,
    pub(crate) last_token: Option<Timestamp>,
    pub(crate) ended: Timestamp,
    pub(crate) stall: Option<Duration>,
    pub(crate) tpot_median: Option<Duration>,
    pub(crate) itl_p99: Option<Duration>,
    pub(crate) events: u32,
    pub(crate) bunched: u32,
    pub(crate) end: End,
}

/// A whole record: the summary, and the gaps where they are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestRecord {
    /// The fixed-size part.
    pub summary: RequestSummary,
    /// The gaps between token events.
    pub gaps: Gaps,
}

impl RequestSummary {
    /// Closes the books on a request.
    pub(crate) fn close(arrival: Arrival, track: &Track, ended: Timestamp, end: End) -> Self {
        let mut summary = Self {
            arrival,
            due: track.due.unwrap_or(arrival.origin),
            sent: track.sent,
            connect: track.connect,
            dispatched: track.dispatched,
            attempts: track.attempts,
            first_byte: track.first_byte,
            first_token: track.first_token,
            first_answer: track.first_answer,
            last_token: track.last_token,
            ended: ended.max(track.latest(arrival.origin)),
            stall: track.stall,
            tpot_median: None,
            itl_p99: None,
            events: track.events,
            bunched: track.bunched,
            end,
        };
        if summary.token_gaps().is_some() && !summary.one_burst() {
            let shared = shared_gaps(&track.gaps, end.output_tokens.map_or(0, TokenCount::get));
            summary.tpot_median = weighted_quantile(&shared, 0.5, true);
            summary.itl_p99 = weighted_quantile(&shared, 0.99, false);
        }
        summary
    }

    /// The arrival it answers.
    #[must_use]
    pub const fn arrival(&self) -> &Arrival {
        &self.arrival
    }
    /// The request's number within its run.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.arrival.id
    }
    /// Where every latency starts: the scheduled instant in an open loop, the send in a closed one.
    #[must_use]
    pub const fn origin(&self) -> Timestamp {
        self.arrival.origin
    }
    /// When the client was to send it: the origin in an open loop, the end of the user's last answer
    /// in a closed one. Which part of a load point it belongs to goes by this.
    #[must_use]
    pub const fn due(&self) -> Timestamp {
        self.due
    }
    /// When its first byte was handed to the kernel. `None`: it was never sent.
    #[must_use]
    pub const fn sent(&self) -> Option<Timestamp> {
        self.sent
    }
    /// How late the send was: against the schedule in an open loop, against the end of the user's
    /// last answer in a closed one. `None`: never sent.
    #[must_use]
    pub fn send_lag(&self) -> Option<Duration> {
        self.sent?.since(self.due)
    }
    /// Set-up of the connection (name, TCP, TLS) made for this request. `None`: one was reused.
    #[must_use]
    pub const fn connect(&self) -> Option<Duration> {
        self.connect
    }
    /// When a gateway handed it to a replica.
    #[must_use]
    pub const fn dispatched(&self) -> Option<Timestamp> {
        self.dispatched
    }
    /// How often it was sent. More than one: a retry, never hidden.
    #[must_use]
    pub const fn attempts(&self) -> u8 {
        self.attempts
    }
    /// When the first byte of the response was read (its head; never the first token).
    #[must_use]
    pub const fn first_byte(&self) -> Option<Timestamp> {
        self.first_byte
    }
    /// The first token event of any channel.
    #[must_use]
    pub const fn first_token(&self) -> Option<Timestamp> {
        self.first_token
    }
    /// The first token event that is not reasoning.
    #[must_use]
    pub const fn first_answer(&self) -> Option<Timestamp> {
        self.first_answer
    }
    /// The last token event.
    #[must_use]
    pub const fn last_token(&self) -> Option<Timestamp> {
        self.last_token
    }
    /// When the request was over for the watcher.
    #[must_use]
    pub const fn ended(&self) -> Timestamp {
        self.ended
    }
    /// Token events seen.
    #[must_use]
    pub const fn events(&self) -> u32 {
        self.events
    }
    /// Of these, events read at the same instant as the one before: they came in one piece.
    #[must_use]
    pub const fn bunched(&self) -> u32 {
        self.bunched
    }
    /// How it ended and what was counted.
    #[must_use]
    pub const fn end(&self) -> &End {
        &self.end
    }
    /// The outcome.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        self.end.outcome
    }
    /// Output tokens, whoever counted; 0 where nothing came.
    #[must_use]
    pub fn output_tokens(&self) -> u32 {
        self.end.output_tokens.map_or(0, TokenCount::get)
    }

    /// Time to first token: from the origin to the first token event of any channel.
    /// `None` if no token came; never zero for want of one.
    #[must_use]
    pub fn ttft(&self) -> Option<Duration> {
        self.first_token?.since(self.arrival.origin)
    }
    /// Time to the first token event that is not reasoning.
    #[must_use]
    pub fn ttft_answer(&self) -> Option<Duration> {
        self.first_answer?.since(self.arrival.origin)
    }
    /// End to end: from the origin to the last token event; for an answer that was not streamed,
    /// to the last byte. `None` if no token came.
    #[must_use]
    pub fn e2e(&self) -> Option<Duration> {
        let last = match self.last_token {
            Some(at) => at,
            None if !self.end.streamed && self.end.outcome == Outcome::Ok => self.ended,
            None => return None,
        };
        last.since(self.arrival.origin)
    }
    /// How long the watcher had it: from the origin to the end, whatever the end was.
    #[must_use]
    pub fn open_for(&self) -> Duration {
        self.ended.since(self.arrival.origin).unwrap_or_default()
    }
    /// The silence before the end: from the last token event to the end. `None` if no token came.
    #[must_use]
    pub fn silence(&self) -> Option<Duration> {
        self.ended.since(self.last_token?)
    }
    /// The longest gap between two token events. `None` with fewer than two events.
    #[must_use]
    pub const fn stall(&self) -> Option<Duration> {
        self.stall
    }

    /// The token gaps TPOT divides by: output tokens minus one. `None` where TPOT does not exist:
    /// fewer than two tokens or two token events, or several choices interleaved.
    #[must_use]
    pub fn token_gaps(&self) -> Option<u32> {
        if self.events < 2 || self.end.choices > 1 {
            return None;
        }
        self.output_tokens().checked_sub(1).filter(|&gaps| gaps > 0)
    }

    /// Whether several token events all came at one instant: such a stream was buffered on its
    /// way, and has no TPOT worth printing.
    #[must_use]
    pub fn one_burst(&self) -> bool {
        self.events >= 2 && self.first_token == self.last_token
    }

    /// From the first to the last token event.
    fn span(&self) -> Option<Duration> {
        self.last_token?.since(self.first_token?)
    }

    /// Time per output token: `(last - first token event) / (output_tokens - 1)`, to the nearest
    /// nanosecond below. `None` where it does not exist, see [`Self::token_gaps`], and for a
    /// stream that came in one burst.
    #[must_use]
    pub fn tpot(&self) -> Option<Duration> {
        if self.one_burst() {
            return None;
        }
        Some(self.span()? / self.token_gaps()?)
    }

    /// Whether TPOT is within `bound`, exactly and inclusively:
    /// `last - first <= bound x (tokens - 1)`, without a division.
    #[must_use]
    pub fn tpot_within(&self, bound: Duration) -> Option<bool> {
        if self.one_burst() {
            return None;
        }
        let (span, gaps) = (self.span()?, self.token_gaps()?);
        Some(u128::from(nanos(span)) <= u128::from(nanos(bound)) * u128::from(gaps))
    }

    /// The median gap between tokens: gaps between token events, each shared out evenly over the
    /// tokens its event carries. It hides a preemption; look at [`Self::stall`] beside it.
    #[must_use]
    pub const fn tpot_median(&self) -> Option<Duration> {
        self.tpot_median
    }

    /// The 99th percentile of the same gaps, nearest rank.
    #[must_use]
    pub const fn itl_p99(&self) -> Option<Duration> {
        self.itl_p99
    }

    /// Time to the `n`-th output token, from the origin, where token events are known one by one.
    ///
    /// `None` if fewer than `n` tokens came or the gaps were not kept. An event of several tokens
    /// brings them all at its own instant.
    #[must_use]
    pub fn time_to_token(&self, n: u32, gaps: &Gaps) -> Option<Duration> {
        let first = self.first_token?;
        if n <= 1 {
            return self.ttft();
        }
        let buffer = gaps.kept()?;
        let total = self.output_tokens().max(self.events);
        let per_event = f64::from(total) / f64::from(self.events.max(1));
        let mut seen = 0.0;
        for (index, at) in buffer.instants(first).enumerate() {
            let told = index.checked_sub(1).and_then(|i| buffer.tokens().get(i));
            seen += told
                .filter(|&&t| t > 0)
                .map_or(per_event, |&t| f64::from(t));
            if seen + 1e-9 >= f64::from(n) {
                return at.since(self.arrival.origin);
            }
        }
        None
    }
}

/// Each event's gap per token, with the tokens it stands for.
fn shared_gaps(gaps: &GapBuffer, output_tokens: u32) -> Vec<(u64, f64)> {
    let events = gaps.len() as f64 + 1.0;
    let even = (f64::from(output_tokens) / events).max(1.0);
    let told = gaps.tokens();
    let mut shared: Vec<(u64, f64)> = gaps
        .iter()
        .enumerate()
        .map(|(i, gap)| {
            let tokens = told
                .get(i)
                .filter(|&&t| t > 0)
                .map_or(even, |&t| f64::from(t));
            (
                nanos(Duration::from_nanos(nanos(gap)).div_f64(tokens)),
                tokens,
            )
        })
        .collect();
    shared.sort_unstable_by_key(|a| a.0);
    shared
}

/// The smallest gap such that at least the share `q` of all tokens has it or less. Where that share
/// is exact and `between` is asked for, as for a median, the mean of it and the next.
fn weighted_quantile(sorted: &[(u64, f64)], q: f64, between: bool) -> Option<Duration> {
    let total: f64 = sorted.iter().map(|g| g.1).sum();
    let mut below = 0.0;
    for (i, (gap, weight)) in sorted.iter().enumerate() {
        below += weight;
        if below + 1e-9 >= total * q {
            let next = sorted
                .get(i + 1)
                .filter(|_| between && (below - total * q).abs() < 1e-9);
            let value = next.map_or(*gap, |n| gap.midpoint(n.0));
            return Some(Duration::from_nanos(value));
        }
    }
    None
}
