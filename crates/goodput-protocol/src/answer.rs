//! The state of one answer while its chunks come in.

use goodput_record::{FinishReason, Outcome, Timestamp, TokenCount, UsageReport};

use crate::{
    chunk::{self, Choice, Chunk, Finish, Text},
    end::StreamEnd,
    measure::{Flow, Measure},
    sse::Event,
    stream::{Channel, EndOfBody, StreamEvents, StreamOptions},
    tally::{Tally, slot},
    timings::EngineTimings,
};

/// How much of a bad event its message shows.
const EXCERPT_BYTES: usize = 160;

/// What is known of one choice.
#[derive(Clone, Copy, Debug, Default)]
struct ChoiceState {
    flows: [Flow; Channel::COUNT],
    seen: bool,
    finished: bool,
}

/// One answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    choices: Vec<ChoiceState>,
    tally: Tally,
    events: u32,
    chunks: u32,
    token_events: u32,
    /// `[DONE]` came.
    done: bool,
    /// The body ended inside a chunk.
    fragment: bool,
    finish: Option<FinishReason>,
    server_error: Option<String>,
    bad_chunk: Option<String>,
    measure: Measure,
    model: Option<String>,
    fingerprint: Option<String>,
    timings: Option<EngineTimings>,
    /// For text with escapes undone.
    scratch: Vec<u8>,
}

impl Answer {
    /// Forgets everything but its memory.
    pub(crate) fn reset(&mut self) {
        let (mut choices, mut tally) = (
            std::mem::take(&mut self.choices),
            std::mem::take(&mut self.tally),
        );
        choices.clear();
        tally.reset();
        *self = Self {
            choices,
            tally,
            scratch: std::mem::take(&mut self.scratch),
            ..Self::default()
        };
    }

    pub(crate) const fn is_done(&self) -> bool {
        self.done
    }

    /// Takes one event of the stream.
    pub(crate) fn on_event(
        &mut self,
        at: Timestamp,
        event: Event<'_>,
        options: &StreamOptions,
        out: &mut impl StreamEvents,
    ) {
        self.events = self.events.saturating_add(1);
        let data = event.data.trim_ascii();
        if self.done || data.is_empty() || data == b"null" {
            return;
        }
        if data == b"[DONE]" {
            self.done = true;
            return;
        }
        if event.named_error {
            let message = chunk::error_message(data).unwrap_or_else(|| excerpt(data));
            self.server_error.get_or_insert(message);
            return;
        }
        // The first chunk goes the long way, which also reads the model's name.
        let scanned = if self.chunks == 0 {
            None
        } else {
            chunk::scan(data)
        };
        match scanned.map_or_else(|| chunk::parse(data), Ok) {
            Ok(chunk) => self.on_chunk(at, &chunk, options, out),
            // Half a chunk at the end of the body is no bad chunk, but a stream that broke off.
            Err(_) if event.flushed => self.fragment = true,
            Err(reason) => {
                let message = format!("{reason}, in the event {}", excerpt(data));
                self.bad_chunk.get_or_insert(message);
            }
        }
    }

    /// Books a line above the cap: the answer is over.
    pub(crate) fn too_long(&mut self, max_bytes: usize) {
        self.bad_chunk.get_or_insert_with(|| {
            format!("a line of the stream is longer than {max_bytes} bytes")
        });
    }

    fn on_chunk(
        &mut self,
        at: Timestamp,
        chunk: &Chunk<'_>,
        options: &StreamOptions,
        out: &mut impl StreamEvents,
    ) {
        self.chunks = self.chunks.saturating_add(1);
        if let Some(message) = &chunk.error {
            self.server_error.get_or_insert_with(|| message.clone());
        }
        if let Some(model) = &chunk.model {
            self.model.get_or_insert_with(|| model.clone());
        }
        if let Some(fingerprint) = &chunk.fingerprint {
            self.fingerprint.get_or_insert_with(|| fingerprint.clone());
        }
        self.timings = chunk.timings.or(self.timings);
        let (mut token, mut answer) = (false, false);
        for choice in chunk.choices() {
            let seen = self.on_choice(choice, options.text, out);
            token |= seen.token;
            answer |= seen.answer;
        }
        let tokens = self.tally.add(chunk, token);
        if token {
            self.token_events = self.token_events.saturating_add(1);
            out.token_event(at, tokens, answer);
        }
    }

    fn state(&mut self, index: u32) -> &mut ChoiceState {
        slot(&mut self.choices, index)
    }

    fn on_choice(
        &mut self,
        choice: &Choice<'_>,
        keep_text: bool,
        out: &mut impl StreamEvents,
    ) -> Seen {
        let state = self.state(choice.index);
        state.seen = true;
        state.finished |= choice.finish.is_some();
        if let Some(finish) = choice.finish {
            match finish {
                Finish::GivenUp => {
                    let message = "the server gave the answer up (finish_reason abort or error)";
                    self.server_error.get_or_insert_with(|| message.to_owned());
                }
                Finish::Reason(_) if self.finish == Some(FinishReason::ContentFilter) => {}
                Finish::Reason(reason) => self.finish = Some(reason),
            }
        }
        let mut seen = Seen::default();
        let first = choice.index == 0;
        let mut piece = |text: &Text<'_>, channel: Channel, answer: &mut Self| {
            if text.is_empty() {
                return;
            }
            seen.token = true;
            seen.answer |= channel != Channel::Reasoning;
            answer.add_text(choice.index, channel, text, |text| {
                if keep_text && first {
                    out.text(channel, text);
                }
            });
        };
        piece(&choice.reasoning, Channel::Reasoning, self);
        piece(&choice.content, Channel::Answer, self);
        for tool in std::iter::once(&choice.tool).chain(&choice.more_tools) {
            piece(&tool.name, Channel::ToolName, self);
            piece(&tool.arguments, Channel::ToolArguments, self);
        }
        seen
    }

    fn add_text(&mut self, index: u32, channel: Channel, text: &Text<'_>, emit: impl FnMut(&str)) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let piece = text.decode(&mut scratch);
        let mut flow = self.state(index).flows[channel as usize];
        self.measure.add(&mut flow, piece, emit);
        self.state(index).flows[channel as usize] = flow;
        self.scratch = scratch;
    }

    /// Takes a whole answer that was not streamed.
    pub(crate) fn on_whole(
        &mut self,
        whole: &Chunk<'_>,
        options: &StreamOptions,
        out: &mut impl StreamEvents,
    ) {
        for choice in whole.choices() {
            self.on_choice(choice, options.text, out);
        }
        let total = Chunk {
            usage: whole.usage,
            ..Chunk::default()
        };
        self.tally.add(&total, false);
        self.server_error.clone_from(&whole.error);
        self.model.clone_from(&whole.model);
        self.fingerprint.clone_from(&whole.fingerprint);
        self.timings = whole.timings;
    }

    /// Ends a stream.
    pub(crate) fn end(
        &mut self,
        end: EndOfBody,
        options: &StreamOptions,
        out: &mut impl StreamEvents,
    ) -> StreamEnd {
        self.close_channels(options, out);
        let outcome = self.outcome(end);
        let error = match outcome {
            Outcome::ErrorEvent => self.server_error.take(),
            Outcome::InvalidChunk => self.bad_chunk.take(),
            Outcome::Truncated if end == EndOfBody::Cut => {
                Some("the connection closed in the middle of the answer".to_owned())
            }
            Outcome::Truncated => Some("the stream ended without a finish reason".to_owned()),
            Outcome::EmptyStream => Some("the stream ended without a single chunk".to_owned()),
            _ => None,
        };
        StreamEnd {
            streamed: true,
            ..self.build(outcome, error, options)
        }
    }

    /// Ends an answer that was not streamed.
    pub(crate) fn end_whole(
        &mut self,
        options: &StreamOptions,
        out: &mut impl StreamEvents,
    ) -> StreamEnd {
        self.close_channels(options, out);
        let outcome = if self.server_error.is_some() {
            Outcome::ErrorEvent
        } else if self.finish == Some(FinishReason::ContentFilter) {
            Outcome::Filtered
        } else if self.measure.characters == 0 {
            Outcome::Empty
        } else {
            Outcome::Ok
        };
        let error = self.server_error.take();
        StreamEnd {
            streamed: false,
            ..self.build(outcome, error, options)
        }
    }

    fn close_channels(&mut self, options: &StreamOptions, out: &mut impl StreamEvents) {
        for index in 0..self.choices.len() {
            for channel in Channel::ALL {
                let flow = &mut self.choices[index].flows[channel as usize];
                self.measure.close(flow, &mut |text: &str| {
                    if options.text && index == 0 {
                        out.text(channel, text);
                    }
                });
            }
        }
    }

    fn outcome(&self, end: EndOfBody) -> Outcome {
        let finished = self.done
            || (end == EndOfBody::Clean
                && self.finish.is_some()
                && self
                    .choices
                    .iter()
                    .all(|choice| choice.finished || !choice.seen));
        if self.server_error.is_some() {
            Outcome::ErrorEvent
        } else if self.bad_chunk.is_some() {
            Outcome::InvalidChunk
        } else if self.chunks == 0 && !self.fragment && (self.done || end == EndOfBody::Clean) {
            Outcome::EmptyStream
        } else if !finished {
            Outcome::Truncated
        } else if self.finish == Some(FinishReason::ContentFilter) {
            Outcome::Filtered
        } else if self.token_events == 0 {
            Outcome::Empty
        } else {
            Outcome::Ok
        }
    }

    fn build(
        &mut self,
        outcome: Outcome,
        error: Option<String>,
        options: &StreamOptions,
    ) -> StreamEnd {
        let choices = self.choices.iter().filter(|choice| choice.seen).count();
        let usage = self.tally.sum(choices, options.prompts).plausible();
        let report = match usage.output {
            _ if usage.odd => UsageReport::NotACount,
            Some(told) if told >= self.token_events => UsageReport::Plausible,
            Some(told) => UsageReport::BelowEvents(told),
            None => UsageReport::Absent,
        };
        let output_tokens = match usage.output {
            Some(told) if told >= self.token_events => Some(TokenCount::Usage(told)),
            None if self.token_events == 0 => None,
            _ => Some(TokenCount::AtLeast(self.token_events)),
        };
        StreamEnd {
            outcome,
            finish_reason: self.finish,
            output_tokens,
            input_tokens: usage.input,
            cached_tokens: usage.cached,
            reasoning_tokens: usage.reasoning,
            usage: report,
            characters: self.measure.characters,
            words: self.measure.words,
            replaced_characters: self.measure.replaced,
            choices: u16::try_from(choices.max(1)).unwrap_or(u16::MAX),
            streamed: true,
            done_seen: self.done,
            events: self.events,
            token_events: self.token_events,
            error,
            served_model: self.model.take(),
            fingerprint: self.fingerprint.take(),
            timings: self.timings,
        }
    }
}

/// What one choice of a chunk brought.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    token: bool,
    answer: bool,
}

/// The beginning of some bytes, for a message.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(EXCERPT_BYTES)]);
    let dots = if bytes.len() > EXCERPT_BYTES {
        "..."
    } else {
        ""
    };
    format!("`{}{dots}`", printable(text.trim()))
}

/// A server's words, without what would steer the terminal they are shown on.
pub(crate) fn printable(text: &str) -> String {
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    text.replace(steers, "\u{fffd}")
}

/// A server's words as part of a line: no line break, nothing that steers a terminal, and nothing
/// that turns the direction of what follows.
#[must_use]
pub fn one_line(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.replace(|c: char| c.is_control() || turns(c), "\u{fffd}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_stays_on_its_line() {
        let evil = "m\u{1b}[31m\nx\u{202e}y";
        assert_eq!(crate::one_line(evil), "m\u{fffd}[31m\u{fffd}x\u{fffd}y");
        assert_eq!(
            crate::one_line("Qwen/Qwen3-8B \u{4f60}"),
            "Qwen/Qwen3-8B \u{4f60}"
        );
    }

    #[test]
    fn a_servers_words_do_not_steer_the_terminal() {
        let body = br#"{"error":{"message":"out of \u001b[2Jmemory\u0007"}}"#;
        assert_eq!(crate::explain(body), "out of \u{fffd}[2Jmemory\u{fffd}");
        assert_eq!(crate::explain(b"\x1b]0;x"), "`\u{fffd}]0;x`");
    }
}
