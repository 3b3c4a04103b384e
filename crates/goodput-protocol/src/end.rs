//! What is known of an answer once it is over.

use goodput_record::{End, FinishReason, Outcome, TokenCount, UsageReport};

use crate::timings::EngineTimings;

/// An answer's end as its reader saw it: everything for [`goodput_record::End`], and more.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamEnd {
    /// How it ended, as far as the bytes tell. Time limits and cancellation are the caller's.
    pub outcome: Outcome,
    /// Why the server stopped, if it said so; a content filter goes before all else.
    pub finish_reason: Option<FinishReason>,
    /// Output tokens over all choices: the last `usage` of each; the number of token events,
    /// marked as a lower bound, where there is no usage or it says less than was seen.
    pub output_tokens: Option<TokenCount>,
    /// Input tokens by `usage`.
    pub input_tokens: Option<u32>,
    /// Of these, tokens read from the prefix cache, by `usage`.
    pub cached_tokens: Option<u32>,
    /// Output tokens that were reasoning, by `usage`.
    pub reasoning_tokens: Option<u32>,
    /// What `usage` said, believed or not.
    pub usage: UsageReport,
    /// Unicode scalar values of the text, all channels.
    pub characters: u32,
    /// Words of the text, all channels.
    pub words: u32,
    /// Of the characters, those that could not be read and count as U+FFFD.
    pub replaced_characters: u32,
    /// Choices seen, at least 1.
    pub choices: u16,
    /// Whether it came as an event stream.
    pub streamed: bool,
    /// Whether `[DONE]` came.
    pub done_seen: bool,
    /// Events that had data, the end mark and flushed data included.
    pub events: u32,
    /// Of these, token events.
    pub token_events: u32,
    /// What went wrong, in the server's words where there are any.
    pub error: Option<String>,
    /// The model that answered, which may be another than the one asked for.
    pub served_model: Option<String>,
    /// What the server calls its configuration (`system_fingerprint`), by the first chunk that
    /// was read whole: replicas of one service need not agree.
    pub fingerprint: Option<String>,
    /// Times the engine reports of itself.
    pub timings: Option<EngineTimings>,
}

impl StreamEnd {
    /// An end of which nothing but the outcome and a message is known.
    #[must_use]
    pub fn failed(outcome: Outcome, error: impl Into<String>) -> Self {
        Self {
            outcome,
            finish_reason: None,
            output_tokens: None,
            input_tokens: None,
            cached_tokens: None,
            reasoning_tokens: None,
            usage: UsageReport::Absent,
            characters: 0,
            words: 0,
            replaced_characters: 0,
            choices: 1,
            streamed: false,
            done_seen: false,
            events: 0,
            token_events: 0,
            error: Some(error.into()),
            served_model: None,
            fingerprint: None,
            timings: None,
        }
    }

    /// What the answerer calls itself: the model, and its configuration where it tells.
    #[must_use]
    pub fn answered_as(&self) -> Option<String> {
        match (&self.served_model, &self.fingerprint) {
            (Some(model), Some(print)) => Some(format!("{model} ({print})")),
            (one, other) => one.as_ref().or(other.as_ref()).cloned(),
        }
    }

    /// The end for the record. `asked_choices` is the request's `n`.
    #[must_use]
    pub fn to_end(&self, http_status: Option<u16>, asked_choices: u16) -> End {
        End {
            outcome: self.outcome,
            timeout_phase: None,
            http_status,
            finish_reason: self.finish_reason,
            output_tokens: self.output_tokens,
            input_tokens: self.input_tokens,
            cached_tokens: self.cached_tokens,
            reasoning_tokens: self.reasoning_tokens,
            usage: self.usage,
            tokenizer_tokens: None,
            characters: self.characters,
            words: self.words,
            choices: self.choices.max(asked_choices),
            streamed: self.streamed,
        }
    }
}
