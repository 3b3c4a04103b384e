//! Requests as a calibration sees them.

use goodput_record::{Gaps, RequestRecord, Timestamp};

/// One request with the instants it is known by, in seconds since its run's epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The load point it is from.
    pub point: u32,
    /// When it was sent.
    pub sent: f64,
    /// When its first token came; `None`: none did.
    pub first: Option<f64>,
    /// When its last token came; for a request without a token, when it was over.
    pub last: f64,
    /// Prompt tokens.
    pub input: f64,
    /// Of these, found in the prefix cache.
    pub cached: f64,
    /// Tokens answered.
    pub output: f64,
    /// Each token event's instant and its tokens, the first event included. Empty: not kept.
    pub events: Vec<(f64, u32)>,
}

impl Observed {
    /// Reads a record. `None` for a request that never reached the server, or whose answer came in one
    /// piece: it says nothing of the server's steps.
    #[must_use]
    pub fn of(point: u32, record: &RequestRecord) -> Option<Self> {
        let summary = &record.summary;
        let (arrival, end) = (summary.arrival(), summary.end());
        let sent = summary.sent()?.seconds();
        let first = summary.first_token();
        let output = end
            .output_tokens
            .map_or(summary.events(), goodput_record::TokenCount::get);
        let input = end.input_tokens.unwrap_or(arrival.planned_input_tokens);
        let cached = end.cached_tokens.unwrap_or(arrival.planned_cached_tokens);
        let mut events = Vec::new();
        if let (Some(at), Gaps::Kept(gaps)) = (first, &record.gaps) {
            // Where nobody counted the tokens of an event it is taken for one.
            let told = gaps.tokens().iter().map(|tokens| (*tokens).max(1));
            let tokens = std::iter::once(1).chain(told).chain(std::iter::repeat(1));
            events.extend(gaps.instants(at).map(Timestamp::seconds).zip(tokens));
        }
        let last = summary.last_token().unwrap_or(summary.ended());
        (!summary.one_burst() || output < 2).then(|| Self {
            point,
            sent,
            first: first.map(Timestamp::seconds),
            last: last.seconds(),
            input: f64::from(input),
            cached: f64::from(cached.min(input)),
            output: f64::from(output),
            events,
        })
    }

    /// Prompt tokens that had to be computed.
    #[must_use]
    pub fn computed(&self) -> f64 {
        self.input - self.cached
    }

    /// Attention pairs of these, the cached tokens in front of them.
    #[must_use]
    pub fn pairs(&self) -> f64 {
        let chunk = self.computed();
        chunk * self.cached + chunk * (chunk + 1.0) / 2.0
    }
}
