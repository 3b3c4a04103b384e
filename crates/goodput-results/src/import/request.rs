//! One request as another tool wrote it down, and the record it becomes.

use std::{cell::RefCell, rc::Rc};

use goodput_record::{
    Arrival, End, Gaps, OpenRequest, Outcome, RequestRecord, RequestSummary, SeriesId, Sink,
    Timestamp, TokenCount, ToldInstants, Vantage,
};

/// One request. Instants are nanoseconds on the file's own axis, spans nanoseconds since the send;
/// what the tool did not write down is `None`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Foreign {
    /// The id under which the server knew it.
    pub(super) id: Option<Box<str>>,
    /// When it was due by the schedule.
    pub(super) due: Option<u64>,
    /// When it was sent.
    pub(super) sent: Option<u64>,
    /// To the first byte of the response.
    pub(super) first_byte: Option<u64>,
    /// To the first token of any channel. `None`: no token came, or nobody looked.
    pub(super) first_token: Option<u64>,
    /// What the tool has as the time to first token of an answer that had none.
    pub(super) told_ttft: Option<u64>,
    /// To the first token that is not reasoning.
    pub(super) first_answer: Option<u64>,
    /// To the last token.
    pub(super) last_token: Option<u64>,
    /// Gaps between token events.
    pub(super) gaps: Option<Box<[u64]>>,
    /// Token events.
    pub(super) events: Option<u32>,
    /// To the end.
    pub(super) lived: u64,
    /// Whether it only warmed the server up.
    pub(super) warm_up: bool,
    /// How it ended and what was counted.
    pub(super) end: End,
    /// Why it failed.
    pub(super) error: Option<Box<str>>,
    /// Whether its times contradict each other.
    pub(super) impossible: bool,
    /// A row of our own, which is taken as it is.
    pub(super) row: Option<Box<goodput_record::RequestRow>>,
}

impl Foreign {
    /// A request of which nothing but its outcome is known.
    pub(super) fn of(outcome: Outcome) -> Self {
        Self {
            id: None,
            due: None,
            sent: None,
            first_byte: None,
            first_token: None,
            told_ttft: None,
            first_answer: None,
            last_token: None,
            gaps: None,
            events: None,
            lived: 0,
            warm_up: false,
            end: End::of(outcome),
            error: None,
            impossible: false,
            row: None,
        }
    }

    /// An answer that came, or one without a token that the tool took for one: a success without
    /// output is [`Outcome::Empty`], and has no first token, whatever was written for it.
    pub(super) fn answered(first_token: Option<u64>, tokens: Option<TokenCount>) -> Self {
        let none =
            tokens.is_some_and(|t| t.get() == 0) || (first_token.is_none() && tokens.is_none());
        let outcome = if none { Outcome::Empty } else { Outcome::Ok };
        let mut request = Self::of(outcome);
        request.end.output_tokens = tokens;
        request.end.streamed = first_token.is_some() || none;
        if none {
            request.told_ttft = first_token;
        } else {
            request.first_token = first_token;
        }
        request
    }

    /// Leaves nothing of when its tokens came.
    fn forget_tokens(&mut self) {
        self.first_token = None;
        self.first_answer = None;
        self.last_token = None;
        self.gaps = None;
        self.events = None;
    }

    /// Token events: as seen, else one a gap and one more, else one a token.
    pub(super) fn events(&self) -> u32 {
        let by_gaps = self
            .gaps
            .as_ref()
            .and_then(|g| u32::try_from(g.len() + 1).ok());
        let by_tokens = self.end.output_tokens.map_or(0, TokenCount::get);
        self.events.or(by_gaps).unwrap_or(by_tokens)
    }

    /// How long it was in flight, from its send to its end.
    pub(super) fn span(&self) -> u64 {
        [self.last_token, self.first_token]
            .into_iter()
            .flatten()
            .fold(self.lived, u64::max)
    }

    /// The record of the request that is number `id`, due at `origin` and sent at `sent`.
    pub(super) fn record(
        &self,
        id: u64,
        origin: Timestamp,
        sent: Option<Timestamp>,
    ) -> RequestRecord {
        let tokens = self.end.output_tokens.map_or(0, TokenCount::get);
        let arrival = Arrival {
            id,
            origin,
            series: SeriesId::default(),
            vantage: Vantage::Client,
            session: u32::try_from(id).unwrap_or(u32::MAX),
            step: 0,
            steps: 1,
            // What was planned is not told: what was counted stands for it in the row.
            planned_input_tokens: self.end.input_tokens.unwrap_or_default(),
            planned_cached_tokens: 0,
            planned_output_tokens: tokens,
        };
        if let (Some(gaps), Some(first)) = (&self.gaps, self.first_token) {
            return self.token_by_token(arrival, sent, gaps, first);
        }
        let after = |ns: u64| after(sent.unwrap_or(origin), ns);
        let told = ToldInstants {
            sent,
            first_byte: self.first_byte.map(after),
            first_token: self.first_token.map(after),
            first_answer: self.first_answer.map(after),
            last_token: self.last_token.map(after),
            ended: after(self.span()),
        };
        RequestRecord {
            summary: RequestSummary::told(arrival, &told, self.events(), self.end),
            gaps: Gaps::NotKept,
        }
    }

    /// The record where every gap is known: as if it were measured.
    fn token_by_token(
        &self,
        arrival: Arrival,
        sent: Option<Timestamp>,
        gaps: &[u64],
        first: u64,
    ) -> RequestRecord {
        let sink = Rc::new(Caught::default());
        let mut open = OpenRequest::arrive(Rc::clone(&sink), arrival);
        let from = sent.unwrap_or(arrival.origin);
        if let Some(at) = sent {
            open.sent(at);
        }
        if let Some(byte) = self.first_byte {
            open.first_byte(after(from, byte));
        }
        let instants = gaps.iter().scan(first, |at, gap| {
            *at = at.saturating_add(*gap);
            Some(*at)
        });
        for at in std::iter::once(first).chain(instants) {
            let answer = self.first_answer.is_some_and(|answer| at >= answer);
            open.token_event(after(from, at), 0, answer);
        }
        open.end(after(from, self.span()), self.end);
        sink.record()
    }
}

fn after(from: Timestamp, ns: u64) -> Timestamp {
    Timestamp::from_nanos(from.nanos().saturating_add(ns))
}

/// Catches the record that an open request ends as.
#[derive(Debug, Default)]
struct Caught(RefCell<Option<RequestRecord>>);

impl Caught {
    fn record(&self) -> RequestRecord {
        self.0
            .take()
            .expect("invariant: an open request that has ended has a record")
    }
}

impl Sink for Caught {
    fn arrived(&self, _: &Arrival) {}

    fn ended(&self, record: RequestRecord) {
        *self.0.borrow_mut() = Some(record);
    }
}

/// Spans of one request as they are read, in seconds. A span below zero is no span: what it was is
/// kept.
#[derive(Debug, Default)]
pub(super) struct Spans {
    below_zero: Option<(&'static str, f64)>,
}

impl Spans {
    /// A span in nanoseconds. What is not positive is none.
    pub(super) fn span(&mut self, what: &'static str, seconds: f64) -> Option<u64> {
        self.signed(what, seconds).filter(|ns| *ns > 0)
    }

    /// A span between two instants, which may be 0.
    pub(super) fn signed(&mut self, what: &'static str, seconds: f64) -> Option<u64> {
        if seconds < 0.0 {
            self.below_zero.get_or_insert((what, seconds));
            return None;
        }
        Some(goodput_record::nanos_of(seconds))
    }

    /// A span that cannot be 0 where there was anything to wait for.
    pub(super) fn must_not_be_zero(&mut self, what: &'static str) {
        self.below_zero.get_or_insert((what, 0.0));
    }

    /// The request, or, where its times cannot be, a miss of which no figure is taken.
    pub(super) fn checked(&self, mut request: Foreign) -> Foreign {
        let why = if let Some((what, seconds)) = self.below_zero {
            format!("{what} of {seconds:.6} s")
        } else if let (Some(first), Some(last)) = (request.first_token, request.last_token)
            && last < first
        {
            let seconds = (first - last) as f64 / 1e9;
            format!("last token {seconds:.6} s before the first")
        } else {
            return request;
        };
        request.impossible = true;
        request.forget_tokens();
        if matches!(
            request.end.outcome,
            Outcome::Ok | Outcome::Empty | Outcome::Cancelled
        ) {
            request.end.outcome = Outcome::Failed;
            request.error = Some(format!("its times cannot be: {why}").into());
        }
        request
    }
}

/// How a request ended, and with which status, by what a Python client wrote down of its failure: its
/// HTTP library's words differ, those of HTTP do not.
pub(super) fn failure(words: &str) -> (Outcome, Option<u16>) {
    const STATUSES: [(u16, &str); 5] = [
        (429, "Too Many Requests"),
        (500, "Internal Server Error"),
        (502, "Bad Gateway"),
        (503, "Service Unavailable"),
        (504, "Gateway Timeout"),
    ];
    // The last line of a traceback says what happened; the others have numbers of lines.
    let last = words.trim().lines().last().unwrap_or_default();
    let named = |number: u16| {
        last.split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| word.parse() == Ok(number))
    };
    let status = STATUSES
        .into_iter()
        .find(|(number, phrase)| words.contains(phrase) || named(*number))
        .map(|(number, _)| number);
    let broke_off = [
        "ClientPayloadError",
        "incomplete chunked read",
        "IncompleteRead",
    ];
    let outcome = match status {
        Some(429 | 503) => Outcome::Rejected,
        None if broke_off.iter().any(|word| words.contains(word)) => Outcome::Truncated,
        None if words.contains("Timeout") => Outcome::TimedOut,
        _ => Outcome::Failed,
    };
    (outcome, status)
}

/// Seconds of the other tool's file as nanoseconds; what is not positive is no time at all.
pub(super) fn span(seconds: f64) -> Option<u64> {
    (seconds > 0.0).then(|| goodput_record::nanos_of(seconds))
}

/// A count of the other tool's file.
pub(super) fn count(tokens: u64) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}
