//! How a request ended.

use serde::{Deserialize, Serialize};

/// The one end of a request. Every arrival gets exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A whole answer with at least one token.
    Ok,
    /// A finished answer without any token.
    Empty,
    /// Stopped by a content filter.
    Filtered,
    /// The stream broke off before a finish reason or before the end of its transfer framing.
    Truncated,
    /// An error object inside a stream that began with status 200.
    ErrorEvent,
    /// The reply to a streamed request was no event stream and no answer either (HTML, say).
    NotAStream,
    /// An event that is not JSON of the expected shape.
    InvalidChunk,
    /// A stream that ended without a single event.
    EmptyStream,
    /// Refused by the server: 429 or 503.
    Rejected,
    /// Refused by our own gateway.
    Shed,
    /// A limit struck; the record says in which phase.
    TimedOut,
    /// Given up by the client.
    Cancelled,
    /// Anything else: no connection, a reset, another status, a bug of ours.
    Failed,
    /// Open when the keeper of the books was restarted.
    LostAtRestart,
}

impl Outcome {
    /// Every outcome, in the order of the books' columns.
    pub const ALL: [Self; 14] = [
        Self::Ok,
        Self::Empty,
        Self::Filtered,
        Self::Truncated,
        Self::ErrorEvent,
        Self::NotAStream,
        Self::InvalidChunk,
        Self::EmptyStream,
        Self::Rejected,
        Self::Shed,
        Self::TimedOut,
        Self::Cancelled,
        Self::Failed,
        Self::LostAtRestart,
    ];

    /// The position in [`Outcome::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in files and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Empty => "empty",
            Self::Filtered => "filtered",
            Self::Truncated => "truncated",
            Self::ErrorEvent => "error_event",
            Self::NotAStream => "not_a_stream",
            Self::InvalidChunk => "invalid_chunk",
            Self::EmptyStream => "empty_stream",
            Self::Rejected => "rejected",
            Self::Shed => "shed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::LostAtRestart => "lost_at_restart",
        }
    }
}

/// Where a request stood when its time limit struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TimeoutPhase {
    /// Before the connection stood.
    Connect,
    /// Connected, no token yet.
    FirstToken,
    /// Between two reads of a stream.
    Idle,
    /// The limit on the whole request.
    Total,
}

/// Why the server says it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// A natural end or a stop string.
    Stop,
    /// The limit on output tokens, or the end of the context.
    Length,
    /// The answer is a call of a tool.
    ToolCalls,
    /// A content filter.
    ContentFilter,
    /// Another word than these.
    Other,
}

impl FinishReason {
    /// The name in files and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Other => "other",
        }
    }
}

/// Who watched the request. TTFT differs between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Vantage {
    /// The one who asked, behind the network.
    Client,
    /// A gateway in front of the replicas.
    Gateway,
    /// The engine itself, or its simulation.
    Engine,
}

/// What a server's `usage` said of the tokens of one answer.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UsageReport {
    /// None came.
    #[default]
    Absent,
    /// Counts that may be true: no fewer output tokens than token events.
    Plausible,
    /// Fewer output tokens than token events were seen; the count it told.
    BelowEvents(u32),
    /// Something that is no count: negative, a fraction, beyond 32 bits, a prompt of no tokens,
    /// more cached tokens than there were.
    NotACount,
}

/// A count of output tokens, and who counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TokenCount {
    /// The server's own last `usage`.
    Usage(u32),
    /// A tokenizer's count of the text.
    Tokenizer(u32),
    /// The number of token events: a lower bound, since one event may carry several tokens.
    AtLeast(u32),
}

impl TokenCount {
    /// The number, whoever counted it.
    #[must_use]
    pub const fn get(self) -> u32 {
        match self {
            Self::Usage(n) | Self::Tokenizer(n) | Self::AtLeast(n) => n,
        }
    }

    /// The source's name in files: `usage`, `tokenizer` or `events`.
    #[must_use]
    pub const fn source(self) -> &'static str {
        match self {
            Self::Usage(_) => "usage",
            Self::Tokenizer(_) => "tokenizer",
            Self::AtLeast(_) => "events",
        }
    }
}
