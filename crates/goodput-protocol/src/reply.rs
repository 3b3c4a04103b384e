//! The reply to one request, whatever it turns out to be: event stream, whole answer, error.

use goodput_record::{Outcome, Timestamp};

use crate::{
    answer::excerpt,
    chunk,
    end::StreamEnd,
    http::{Decoder, Head, HttpError, MediaType, Piece, ResponseReader},
    stream::{EndOfBody, StreamEvents, StreamOptions, StreamReader, read_whole},
};

/// How much is kept of an answer that is not streamed.
const MAX_WHOLE_BYTES: usize = 64 << 20;
/// How much is kept of a body that is no answer.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The first byte will tell.
    Unknown,
    Stream,
    Whole,
    /// The body of a status that is no success.
    Error,
    /// Neither a stream nor an answer.
    Neither,
}

/// Reads the body of one response, the transfer framing taken off; for any transport.
#[derive(Debug)]
pub struct ReplyReader {
    options: StreamOptions,
    kind: Kind,
    head: Head,
    stream: StreamReader,
    decoder: Option<Decoder>,
    /// Why the body cannot be decoded.
    undecodable: Option<String>,
    /// The body of whatever is no stream, up to a cap.
    body: Vec<u8>,
    overflow: bool,
}

impl ReplyReader {
    /// A reader for the body behind `head`.
    #[must_use]
    pub fn new(head: Head, options: StreamOptions) -> Self {
        let mut reader = Self {
            kind: Kind::Unknown,
            head: Head::new(0),
            stream: StreamReader::new(options.clone()),
            options,
            decoder: None,
            undecodable: None,
            body: Vec::new(),
            overflow: false,
        };
        reader.start(head);
        reader
    }

    /// Makes it ready for the body behind another head and keeps its memory.
    pub fn restart(&mut self, head: Head) {
        self.stream.reset();
        self.start(head);
    }

    fn start(&mut self, head: Head) {
        let success = (200..300).contains(&head.status);
        self.kind = if success { Kind::Unknown } else { Kind::Error };
        self.decoder = head.content_encoding.as_deref().and_then(Decoder::new);
        self.undecodable = match &head.content_encoding {
            Some(coding) if self.decoder.is_none() => Some(format!(
                "the body is compressed as {coding}, which no one asked for"
            )),
            _ => None,
        };
        self.head = head;
        self.body.clear();
        self.overflow = false;
    }

    /// The head of the response.
    #[must_use]
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// Whether nothing that may still come can change the end: the end mark was seen, or a line
    /// above the cap.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.stream.is_done() || self.stream.is_too_long()
    }

    /// Takes the next bytes of the body, which were read at `now`.
    pub fn on_body(&mut self, now: Timestamp, bytes: &[u8], out: &mut impl StreamEvents) {
        if self.undecodable.is_some() {
            return;
        }
        let Some(decoder) = &mut self.decoder else {
            self.on_plain(now, bytes, out);
            return;
        };
        match decoder.decode(bytes) {
            Ok(plain) => self.on_plain(now, &plain, out),
            Err(error) => {
                self.undecodable = Some(format!("the compressed body cannot be read: {error}"));
            }
        }
    }

    fn on_plain(&mut self, now: Timestamp, bytes: &[u8], out: &mut impl StreamEvents) {
        if self.kind == Kind::Unknown {
            self.kind = kind_of(self.head.media_type, bytes);
            // White space that came ahead of what decided is part of the stream too.
            if self.kind == Kind::Stream && !self.body.is_empty() {
                let ahead = std::mem::take(&mut self.body);
                self.stream.on_bytes(now, &ahead, out);
            }
        }
        if self.kind == Kind::Stream {
            self.stream.on_bytes(now, bytes, out);
            return;
        }
        let cap = match self.kind {
            Kind::Whole => MAX_WHOLE_BYTES,
            _ => MAX_ERROR_BYTES,
        };
        let room = cap.saturating_sub(self.body.len());
        self.overflow |= bytes.len() > room;
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Ends the body.
    pub fn finish(&mut self, end: EndOfBody, out: &mut impl StreamEvents) -> StreamEnd {
        if self.kind == Kind::Error {
            return StreamEnd::failed(self.refusal(), self.error_message());
        }
        // A stream that breaks off inside its compression has told what it told.
        let end = match &self.undecodable {
            Some(message) if self.kind == Kind::Unknown => {
                return StreamEnd::failed(Outcome::NotAStream, message.clone());
            }
            Some(_) => EndOfBody::Cut,
            None => end,
        };
        match self.kind {
            Kind::Stream => self.stream.finish(end, out),
            Kind::Whole => self.finish_whole(end, out),
            Kind::Unknown if end == EndOfBody::Cut => cut(),
            Kind::Unknown => {
                let message = "the response has an empty body";
                StreamEnd::failed(Outcome::EmptyStream, message)
            }
            _ => StreamEnd::failed(Outcome::NotAStream, self.error_message()),
        }
    }

    fn finish_whole(&mut self, end: EndOfBody, out: &mut impl StreamEvents) -> StreamEnd {
        if end == EndOfBody::Cut {
            return cut();
        }
        if self.overflow {
            let message = format!("the answer is longer than {MAX_WHOLE_BYTES} bytes");
            return StreamEnd::failed(Outcome::InvalidChunk, message);
        }
        read_whole(&self.body, &self.options, out).unwrap_or_else(|reason| {
            let body = excerpt(&self.body);
            let message = format!("neither a stream nor an answer: {reason}: {body}");
            StreamEnd::failed(Outcome::NotAStream, message)
        })
    }

    /// The outcome of a status that is no success.
    const fn refusal(&self) -> Outcome {
        match self.head.status {
            429 | 503 => Outcome::Rejected,
            _ => Outcome::Failed,
        }
    }

    fn error_message(&self) -> String {
        let what = self
            .undecodable
            .clone()
            .unwrap_or_else(|| explain(&self.body));
        match self.head.status {
            200..300 => what,
            300..400 => format!(
                "HTTP {}: a redirect to {}",
                self.head.status,
                self.head.location.as_deref().unwrap_or("nowhere")
            ),
            status => format!("HTTP {status}: {what}"),
        }
    }
}

fn cut() -> StreamEnd {
    StreamEnd::failed(
        Outcome::Truncated,
        "the connection closed in the middle of the answer",
    )
}

/// What a successful body is: its first byte is believed before its declared type, because
/// gateways put the wrong type on streams and on errors alike. White space tells nothing.
fn kind_of(declared: MediaType, bytes: &[u8]) -> Kind {
    let Some(first) = bytes.trim_ascii_start().first() else {
        return Kind::Unknown;
    };
    match (first, declared) {
        (_, MediaType::Html) | (b'<', _) => Kind::Neither,
        (b'{', _) => Kind::Whole,
        (b':' | b'd' | b'e' | b'i' | b'r' | 0xEF, _) | (_, MediaType::EventStream) => Kind::Stream,
        (_, MediaType::Json) => Kind::Whole,
        // A page, a word: `explain` shows what it says.
        (_, MediaType::Other) => Kind::Neither,
    }
}

/// What a body that is no answer says, for people.
#[must_use]
pub fn explain(body: &[u8]) -> String {
    let body = body.trim_ascii();
    if body.is_empty() {
        return "an empty body".to_owned();
    }
    if let Some(message) = chunk::error_message(body) {
        return message;
    }
    let start = body[..body.len().min(512)].to_ascii_lowercase();
    if start.starts_with(b"<!doctype html") || start.starts_with(b"<html") {
        return "an HTML page; is this the API's base URL?".to_owned();
    }
    excerpt(body)
}

/// Reads one whole HTTP/1.1 exchange: head, framing and body, cut anywhere.
#[derive(Debug)]
pub struct ExchangeReader {
    response: ResponseReader,
    reply: Option<ReplyReader>,
    options: StreamOptions,
    error: Option<HttpError>,
    in_body: bool,
    /// Bytes came that are no part of the response.
    surplus: bool,
    /// The connection broke instead of being closed.
    broken: bool,
}

impl ExchangeReader {
    /// A reader for the response to one request.
    #[must_use]
    pub const fn new(options: StreamOptions) -> Self {
        Self {
            response: ResponseReader::new(),
            reply: None,
            options,
            error: None,
            in_body: false,
            surplus: false,
            broken: false,
        }
    }

    /// Makes it ready for the next response on the connection and keeps its memory.
    pub fn reset(&mut self) {
        self.response.reset();
        self.error = None;
        self.in_body = false;
        self.surplus = false;
        self.broken = false;
    }

    /// The head; `None` before it is complete.
    #[must_use]
    pub fn head(&self) -> Option<&Head> {
        self.response.head()
    }

    /// Takes what was read from the connection at `now`. Whether the response is over: complete,
    /// broken, or settled by its end mark's framing.
    pub fn on_bytes(&mut self, now: Timestamp, bytes: &[u8], out: &mut impl StreamEvents) -> bool {
        let mut rest = bytes;
        while self.error.is_none() {
            match self.response.next(&mut rest) {
                Ok(Some(Piece::Head)) => self.on_head(),
                Ok(Some(Piece::Body(body))) => {
                    if let Some(reply) = &mut self.reply {
                        reply.on_body(now, body, out);
                    }
                }
                Ok(Some(Piece::End)) => {}
                Ok(None) => {
                    self.surplus |= !rest.is_empty();
                    return self.response.is_complete();
                }
                Err(error) => self.error = Some(error),
            }
        }
        true
    }

    fn on_head(&mut self) {
        let head = self.response.head().cloned().unwrap_or(Head::new(0));
        match &mut self.reply {
            Some(reply) => reply.restart(head),
            None => self.reply = Some(ReplyReader::new(head, self.options.clone())),
        }
        self.in_body = true;
    }

    /// Whether the end mark was seen or a cap was struck, so that nothing more is worth reading.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.in_body && self.reply.as_ref().is_some_and(ReplyReader::is_settled)
    }

    /// Whether the connection may carry the next request.
    #[must_use]
    pub fn is_reusable(&self) -> bool {
        self.error.is_none() && !self.surplus && self.response.is_reusable()
    }

    /// The connection broke, by a reset, a time limit or our own hang-up: a body that only a
    /// close by the server would have ended is cut.
    pub const fn on_broken(&mut self) {
        self.broken = true;
    }

    /// Ends the exchange: the response is complete, or the connection is closed or broken.
    pub fn finish(&mut self, out: &mut impl StreamEvents) -> StreamEnd {
        let end = if self.broken && !self.response.is_complete() {
            EndOfBody::Cut
        } else {
            self.response.on_close()
        };
        match (&mut self.reply, &self.error) {
            (Some(reply), None) if self.in_body => reply.finish(end, out),
            (Some(reply), Some(error)) if self.in_body => {
                let seen = reply.finish(EndOfBody::Cut, out);
                match seen.outcome {
                    Outcome::Truncated => StreamEnd {
                        error: Some(error.to_string()),
                        ..seen
                    },
                    _ => seen,
                }
            }
            (_, Some(error)) => StreamEnd::failed(Outcome::Failed, error.to_string()),
            (_, None) => StreamEnd::failed(
                Outcome::Failed,
                "the connection closed before a response came",
            ),
        }
    }
}
