//! Records of which only the first and the last token are known.

use std::time::Duration;

use crate::{
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
