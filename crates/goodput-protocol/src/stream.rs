//! The reader of an event stream, and what it tells while it reads.

use goodput_record::{OpenRequest, Sink, Timestamp};

use crate::{
    answer::Answer,
    chunk,
    end::StreamEnd,
    sse::{EventReader, TooLong},
};

/// Which part of an answer a piece of text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Chat content or completions text.
    Answer,
    /// Reasoning before the answer.
    Reasoning,
    /// The name of a tool that is called.
    ToolName,
    /// The arguments of a tool call, as JSON.
    ToolArguments,
}

impl Channel {
    pub(crate) const COUNT: usize = 4;
    /// Every channel.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Answer,
        Self::Reasoning,
        Self::ToolName,
        Self::ToolArguments,
    ];
}

/// Who listens to a stream.
pub trait StreamEvents {
    /// A token event: a chunk with text in any channel or a piece of a tool call, read at `at`.
    /// `tokens`: how many it carries, where a running `usage` tells, else 0. `answer`: whether
    /// any of it is not reasoning.
    fn token_event(&mut self, at: Timestamp, tokens: u32, answer: bool);
    /// A piece of the first choice's text, if [`StreamOptions::text`] asks for it.
    fn text(&mut self, channel: Channel, text: &str) {
        let _ = (channel, text);
    }
}

impl<S: Sink> StreamEvents for OpenRequest<S> {
    fn token_event(&mut self, at: Timestamp, tokens: u32, answer: bool) {
        Self::token_event(self, at, tokens, answer);
    }
}

/// How to read an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// The longest line and the longest event taken, in bytes. One above it fails its request.
    pub max_line_bytes: usize,
    /// Whether to hand out the text.
    pub text: bool,
    /// How many prompts the request had. Where usage comes per choice, the input of several
    /// prompts is summed; the choices of one prompt share their input.
    pub prompts: u16,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            max_line_bytes: 8 << 20,
            text: false,
            prompts: 1,
        }
    }
}

/// How the body of a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndOfBody {
    /// As its transfer framing says.
    Clean,
    /// Before that.
    Cut,
}

/// Reads one answer that comes as an event stream; sans IO, and reusable.
///
/// Bytes may be cut anywhere. An event's instant is that of the read that brought its blank line.
/// A token of the usual shape costs no allocation.
#[derive(Clone, Debug)]
pub struct StreamReader {
    options: StreamOptions,
    events: EventReader,
    answer: Answer,
    too_long: bool,
    latest: Timestamp,
}

impl StreamReader {
    /// A reader for one answer.
    #[must_use]
    pub fn new(options: StreamOptions) -> Self {
        Self {
            events: EventReader::new(options.max_line_bytes),
            answer: Answer::default(),
            options,
            too_long: false,
            latest: Timestamp::ZERO,
        }
    }

    /// Makes it ready for the next answer and keeps its memory.
    pub fn reset(&mut self) {
        self.events.reset();
        self.answer.reset();
        self.too_long = false;
        self.latest = Timestamp::ZERO;
    }

    /// Whether `[DONE]` came: nothing behind it counts.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.answer.is_done()
    }

    /// Whether a line above the cap came: nothing behind it is read, and the request has failed.
    #[must_use]
    pub const fn is_too_long(&self) -> bool {
        self.too_long
    }

    /// Takes the next bytes of the body, which were read at `now`.
    pub fn on_bytes(&mut self, now: Timestamp, bytes: &[u8], out: &mut impl StreamEvents) {
        if self.too_long {
            return;
        }
        self.latest = now;
        let (answer, options) = (&mut self.answer, &self.options);
        let read = self
            .events
            .on_bytes(bytes, |event| answer.on_event(now, event, options, out));
        if read == Err(TooLong) {
            self.too_long = true;
            self.answer.too_long(self.options.max_line_bytes);
        }
    }

    /// Ends the body. Pending data counts, at the instant of its last byte.
    pub fn finish(&mut self, end: EndOfBody, out: &mut impl StreamEvents) -> StreamEnd {
        let (answer, options, at) = (&mut self.answer, &self.options, self.latest);
        if !self.too_long {
            self.events
                .finish(|event| answer.on_event(at, event, options, out));
        }
        self.answer.end(end, &self.options, out)
    }
}

/// Reads a whole answer that was not streamed; the error says why `body` is none.
///
/// It has no token events: its end is its only instant.
pub fn read_whole(
    body: &[u8],
    options: &StreamOptions,
    out: &mut impl StreamEvents,
) -> Result<StreamEnd, String> {
    let body = body.trim_ascii();
    let whole = chunk::parse_whole(body)?;
    let mut answer = Answer::default();
    answer.on_whole(&whole, options, out);
    Ok(answer.end_whole(options, out))
}
