//! One chunk of an answer: what the fast scanner and the full parser both make of an event's JSON.

mod full;
mod scan;
#[cfg(test)]
mod tests;
mod text;

use goodput_record::FinishReason;

pub(crate) use full::{error_message, parse, parse_whole};
pub(crate) use scan::scan;
pub(crate) use text::Text;

use crate::timings::EngineTimings;

/// Token counts as a server reports them. `None`: not reported, or not a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) output: Option<u32>,
    pub(crate) input: Option<u32>,
    pub(crate) cached: Option<u32>,
    pub(crate) reasoning: Option<u32>,
    /// One of its numbers is no count: negative, a fraction, too large.
    pub(crate) odd: bool,
}

impl Usage {
    /// The newer report, with what it leaves out from the older one.
    pub(crate) fn over(self, older: Self) -> Self {
        Self {
            output: self.output.or(older.output),
            input: self.input.or(older.input),
            cached: self.cached.or(older.cached),
            reasoning: self.reasoning.or(older.reasoning),
            odd: self.odd || older.odd,
        }
    }

    /// Without what cannot be: a prompt of no tokens, more cached tokens than there were.
    pub(crate) fn plausible(mut self) -> Self {
        let Self { input, cached, .. } = self;
        self.input = input.filter(|&n| n > 0);
        self.cached = cached.filter(|&n| input.is_none_or(|input| n <= input));
        self.odd |= self.input != input || self.cached != cached;
        self
    }
}

/// Why a choice is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The server ended it for this reason.
    Reason(FinishReason),
    /// The server gave it up.
    GivenUp,
}

impl Finish {
    /// Reads the word of any engine; an empty one is none.
    pub(crate) fn read(word: &[u8]) -> Option<Self> {
        Some(Self::Reason(match word {
            b"" => return None,
            b"abort" | b"error" => return Some(Self::GivenUp),
            b"stop" | b"eos" | b"eos_token" | b"stop_sequence" | b"end_turn" => FinishReason::Stop,
            b"length" | b"max_tokens" => FinishReason::Length,
            b"tool_calls" | b"function_call" | b"tool_use" => FinishReason::ToolCalls,
            b"content_filter" => FinishReason::ContentFilter,
            _ => FinishReason::Other,
        }))
    }
}

/// A piece of a tool call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tool<'a> {
    pub(crate) name: Text<'a>,
    pub(crate) arguments: Text<'a>,
}

/// What a chunk says of one choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Choice<'a> {
    pub(crate) index: u32,
    /// Text of the answer: chat content or completions text.
    pub(crate) content: Text<'a>,
    pub(crate) reasoning: Text<'a>,
    pub(crate) tool: Tool<'a>,
    /// Further tool calls of the same delta.
    pub(crate) more_tools: Vec<Tool<'a>>,
    pub(crate) finish: Option<Finish>,
}

/// One event's JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Chunk<'a> {
    pub(crate) choice: Option<Choice<'a>>,
    /// Further choices of the same chunk.
    pub(crate) more_choices: Vec<Choice<'a>>,
    pub(crate) usage: Option<Usage>,
    pub(crate) timings: Option<EngineTimings>,
    /// The message of an error object.
    pub(crate) error: Option<String>,
    /// The model's name; only the full parser reads it.
    pub(crate) model: Option<String>,
    /// What the server calls its configuration; only the full parser reads it.
    pub(crate) fingerprint: Option<String>,
}

impl<'a> Chunk<'a> {
    pub(crate) fn choices(&self) -> impl Iterator<Item = &Choice<'a>> {
        self.choice.iter().chain(&self.more_choices)
    }
}
