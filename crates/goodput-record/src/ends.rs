//! Records of which only the first and the last token are known.

use std::time::Duration;

use crate::{
    outcome::{FinishReason, Outcome, TokenCount},
    request::{Arrival, End, RequestSummary},
    time::{Timestamp, nanos},
};

/// The tokens of a request that was not watched token by token: a simulated one, of which the first,
/// the last and the longest silence between two are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenEnds {
    /// The first token.
    pub first: Option<Timestamp>,
    /// The last token.
    pub last: Option<Timestamp>,
    /// Tokens in all.
    pub count: u32,
    /// The longest gap between two of them. `None` with fewer than two.
    pub longest_gap: Option<Duration>,
}

impl RequestSummary {
    /// The record of a request that was sent when it was due, and of whose tokens only this is known:
    /// every figure that needs more (the median gap) is undefined.
    #[must_use]
    pub fn of_ends(arrival: Arrival, tokens: &TokenEnds, ended: Timestamp, end: End) -> Self {
        let latest = tokens.last.unwrap_or(arrival.origin);
        Self {
            arrival,
            due: arrival.origin,
            sent: Some(arrival.origin),
            connect: None,
            dispatched: None,
            attempts: 1,
            first_byte: None,
            first_token: tokens.first,
            first_answer: tokens.first,
            last_token: tokens.last,
            ended: ended.max(latest),
            stall: tokens.longest_gap,
            tpot_median: None,
            itl_p99: None,
            events: tokens.count,
            bunched: 0,
            end,
        }
    }

    /// TTFT, TPOT, the longest gap and E2E of a streamed answer in nanoseconds, each `None` where it
    /// does not exist: [`Self::ttft`], [`Self::tpot`], [`Self::stall`] and [`Self::e2e`] at once.
    #[must_use]
    pub fn main_latencies_ns(&self) -> [Option<u64>; 4] {
        let origin = self.arrival.origin.nanos();
        let since = |at: Option<Timestamp>| at.and_then(|at| at.nanos().checked_sub(origin));
        let (ttft, e2e) = (since(self.first_token), since(self.last_token));
        let span = e2e.zip(ttft).map(|(last, first)| last - first);
        let gaps = self.token_gaps().filter(|_| !self.one_burst());
        let tpot = span.zip(gaps).map(|(span, gaps)| span / u64::from(gaps));
        [ttft, tpot, self.stall.map(nanos), e2e]
    }
}

/// Steps of an engine in a row at the end of each of which a request got one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRun {
    /// The number of the first of them, counted from 1 on since the engine was made.
    pub first: u64,
    /// The number of the last of them, not below the first.
    pub last: u64,
}

/// A whole answer of which the first and the last token are known, and of the gaps between them the
/// longest: what is left of a [`RequestSummary`] where many are simulated. It was sent when it was due
/// and ended with its last token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// When it was due.
    pub origin: Timestamp,
    /// Its first token, not before its origin.
    pub first: Timestamp,
    /// Its last token, not before its first.
    pub last: Timestamp,
    /// Tokens of the prompt.
    pub input_tokens: u32,
    /// Tokens of the answer, at least 1.
    pub tokens: u32,
    /// The longest gap between two of them, in ns. `None` with fewer than two.
    pub longest_gap_ns: Option<u64>,
}

impl Answer {
    /// Time to first token in ns, as [`RequestSummary::ttft`].
    #[must_use]
    pub const fn ttft_ns(&self) -> u64 {
        self.first.nanos().saturating_sub(self.origin.nanos())
    }

    /// End to end in ns, as [`RequestSummary::e2e`].
    #[must_use]
    pub const fn e2e_ns(&self) -> u64 {
        self.last.nanos().saturating_sub(self.origin.nanos())
    }

    /// From the first to the last token in ns.
    #[must_use]
    pub const fn span_ns(&self) -> u64 {
        self.last.nanos().saturating_sub(self.first.nanos())
    }

    /// Gaps between tokens.
    #[must_use]
    pub const fn gaps(&self) -> u32 {
        self.tokens.saturating_sub(1)
    }

    /// Time per output token in ns, as [`RequestSummary::tpot`]: `None` of a single token, and where
    /// all came at one instant.
    #[must_use]
    pub const fn tpot_ns(&self) -> Option<u64> {
        let span = self.span_ns();
        if span == 0 {
            return None;
        }
        span.checked_div(self.gaps() as u64)
    }

    /// Whether time per output token is within `bound_ns`, as [`RequestSummary::tpot_within`]; an answer
    /// without a TPOT is.
    #[must_use]
    pub const fn tpot_within(&self, bound_ns: u64) -> bool {
        self.span_ns() <= bound_ns.saturating_mul(self.gaps() as u64)
    }

    /// Its record. Nothing of its prompt was cached.
    #[must_use]
    pub fn summary(&self, arrival: Arrival) -> RequestSummary {
        let tokens = TokenEnds {
            first: Some(self.first),
            last: Some(self.last),
            count: self.tokens,
            longest_gap: self.longest_gap_ns.map(Duration::from_nanos),
        };
        let end = End {
            finish_reason: Some(FinishReason::Length),
            output_tokens: Some(TokenCount::Usage(self.tokens)),
            input_tokens: Some(self.input_tokens),
            cached_tokens: Some(0),
            ..End::of(Outcome::Ok)
        };
        RequestSummary::of_ends(arrival, &tokens, self.last, end)
    }
}
