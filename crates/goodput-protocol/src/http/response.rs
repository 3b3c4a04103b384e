//! Cuts the bytes of a connection into one response: head, pieces of body, end.

use memchr::memchr;

use super::head::Head;
use crate::stream::EndOfBody;

/// Longest head, and most headers, of a response.
const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 128;
/// Longest line of chunk framing and longest trailer section.
const MAX_FRAMING_BYTES: usize = 16 << 10;

/// The bytes are no HTTP/1.1 response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The head cannot be read.
    #[error("the response is not HTTP/1.1 ({0}); is this the right port and scheme?")]
    Head(String),
    /// The head is longer than 64 KiB or has more than 128 headers.
    #[error("the head of the response is larger than 64 KiB or has more than 128 headers")]
    LongHead,
    /// `content-length` is no number, or two of them differ.
    #[error("the response's content-length is not one number")]
    Length,
    /// The chunk framing is broken.
    #[error("the chunked body is broken: {0}")]
    Chunk(&'static str),
}

/// The next part of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The head is complete: see [`ResponseReader::head`].
    Head,
    /// Bytes of the body, transfer framing taken off, lying where they were read.
    Body(&'a [u8]),
    /// The response is complete; what is left of the bytes is not part of it.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    /// Bytes left by `content-length`.
    Length(u64),
    /// Until the connection closes.
    Close,
    ChunkSize,
    ChunkData(u64),
    /// The line end behind a chunk's data.
    ChunkEnd,
    Trailers,
    /// All read; `Piece::End` not yet given out.
    Ending,
    Done,
}

/// Reads one HTTP/1.1 response from bytes that may be cut anywhere.
#[derive(Clone, Debug)]
pub struct ResponseReader {
    state: State,
    head: Head,
    /// An unfinished head or framing line.
    held: Vec<u8>,
    trailer_bytes: usize,
    keep_alive: bool,
    to_head_request: bool,
}

impl Default for ResponseReader {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseReader {
    /// A reader for the response to any request but HEAD.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: State::Head,
            head: Head::new(0),
            held: Vec::new(),
            trailer_bytes: 0,
            keep_alive: false,
            to_head_request: false,
        }
    }

    /// Makes it ready for the next response on the connection and keeps its memory.
    pub fn reset(&mut self) {
        self.state = State::Head;
        self.held.clear();
        self.trailer_bytes = 0;
        self.keep_alive = false;
    }

    /// The head; `None` before it is complete.
    #[must_use]
    pub fn head(&self) -> Option<&Head> {
        (self.state != State::Head).then_some(&self.head)
    }

    /// Whether the response is complete.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        matches!(self.state, State::Ending | State::Done)
    }

    /// Whether the connection may carry another request: the response is complete, its framing
    /// said where it ends, and the server did not ask to close.
    #[must_use]
    pub const fn is_reusable(&self) -> bool {
        self.is_complete() && self.keep_alive
    }

    /// The connection was closed by the server: whether the response came whole.
    #[must_use]
    pub const fn on_close(&self) -> EndOfBody {
        match self.state {
            State::Close | State::Ending | State::Done => EndOfBody::Clean,
            _ => EndOfBody::Cut,
        }
    }

    /// Takes the next piece off the front of `bytes`; `None` when they are used up.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Piece<'a>>, HttpError> {
        loop {
            if self.state == State::Ending {
                self.state = State::Done;
                return Ok(Some(Piece::End));
            }
            if bytes.is_empty() || self.state == State::Done {
                return Ok(None);
            }
            match self.state {
                State::Head => {
                    if self.take_head(bytes)? {
                        return Ok(Some(Piece::Head));
                    }
                }
                State::Close => return Ok(Some(Piece::Body(std::mem::take(bytes)))),
                State::Length(left) => {
                    let (body, left) = take_body(bytes, left);
                    self.state = if left == 0 {
                        State::Ending
                    } else {
                        State::Length(left)
                    };
                    return Ok(Some(Piece::Body(body)));
                }
                State::ChunkData(left) => {
                    let (body, left) = take_body(bytes, left);
                    self.state = if left == 0 {
                        State::ChunkEnd
                    } else {
                        State::ChunkData(left)
                    };
                    return Ok(Some(Piece::Body(body)));
                }
                _ => self.take_framing(bytes)?,
            }
        }
    }

    /// Takes one line of chunk framing, if it is complete.
    fn take_framing(&mut self, bytes: &mut &[u8]) -> Result<(), HttpError> {
        let Some(end) = memchr(b'\n', bytes) else {
            self.held.extend_from_slice(bytes);
            *bytes = &[];
            if self.held.len() > MAX_FRAMING_BYTES {
                return Err(HttpError::Chunk("a framing line is too long"));
            }
            return Ok(());
        };
        let (line, rest) = bytes.split_at(end);
        *bytes = &rest[1..];
        if self.held.is_empty() {
            self.state = self.after_framing(line)?;
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(line);
            self.state = self.after_framing(&held)?;
            held.clear();
            self.held = held;
        }
        Ok(())
    }

    /// The state behind one framing line (without its LF).
    fn after_framing(&mut self, line: &[u8]) -> Result<State, HttpError> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match self.state {
            State::ChunkEnd if line.is_empty() => Ok(State::ChunkSize),
            State::ChunkEnd => Err(HttpError::Chunk("a chunk is longer than its size says")),
            State::ChunkSize => Ok(match chunk_size(line)? {
                0 => State::Trailers,
                size => State::ChunkData(size),
            }),
            _ if line.is_empty() => Ok(State::Ending),
            _ => {
                self.trailer_bytes += line.len();
                if self.trailer_bytes > MAX_FRAMING_BYTES {
                    return Err(HttpError::Chunk("the trailers are too long"));
                }
                Ok(State::Trailers)
            }
        }
    }

    /// Takes the head, if it is complete; interim (1xx) heads are dropped.
    fn take_head(&mut self, bytes: &mut &[u8]) -> Result<bool, HttpError> {
        let before = self.held.len();
        let take = bytes.len().min((MAX_HEAD_BYTES + 1).saturating_sub(before));
        self.held.extend_from_slice(&bytes[..take]);
        let held = std::mem::take(&mut self.held);
        let parsed = self.parse_head(&held);
        self.held = held;
        let Some(length) = parsed? else {
            if self.held.len() > MAX_HEAD_BYTES {
                return Err(HttpError::LongHead);
            }
            *bytes = &[];
            return Ok(false);
        };
        *bytes = &bytes[length.saturating_sub(before)..];
        self.held.clear();
        Ok(self.state != State::Head)
    }

    /// Reads a head and sets the state behind it; its length, or `None` if it is not complete.
    fn parse_head(&mut self, held: &[u8]) -> Result<Option<usize>, HttpError> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(held) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(HttpError::LongHead),
            Err(error) => return Err(HttpError::Head(error.to_string())),
        };
        let status = response.code.unwrap_or_default();
        // 101 would end HTTP on this connection; no one asked for it.
        if (100..200).contains(&status) && status != 101 {
            return Ok(Some(length));
        }
        self.head = Head::new(status);
        let mut framing = Framing::default();
        for header in response.headers.iter() {
            self.head.header(header.name, header.value);
            framing.header(header.name, header.value)?;
        }
        let old = response.version == Some(0);
        let bodiless = self.to_head_request || matches!(status, 204 | 304);
        self.state = match (bodiless, framing.coding, framing.length) {
            (true, ..) | (_, Coding::None, Some(0)) => State::Ending,
            (_, Coding::Chunked, _) => State::ChunkSize,
            (_, Coding::None, Some(length)) => State::Length(length),
            _ => State::Close,
        };
        let persistent = match framing.persistence {
            Persistence::Implied => !old,
            asked => asked == Persistence::KeepAlive,
        };
        // A coding and a length beside it is how responses are smuggled: not on this connection.
        let ambiguous = framing.coding != Coding::None && framing.length.is_some();
        self.keep_alive = persistent && !ambiguous && self.state != State::Close;
        Ok(Some(length))
    }
}

/// What the headers say of where the body ends.
#[derive(Clone, Copy, Debug, Default)]
struct Framing {
    length: Option<u64>,
    coding: Coding,
    persistence: Persistence,
}

/// The last transfer coding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Coding {
    #[default]
    None,
    Chunked,
    /// One that does not tell where the body ends.
    Other,
}

/// What `connection` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Persistence {
    /// What the version implies.
    #[default]
    Implied,
    KeepAlive,
    Close,
}

impl Framing {
    fn header(&mut self, name: &str, value: &[u8]) -> Result<(), HttpError> {
        let value = value.trim_ascii();
        let words = || value.split(|&b| b == b',').map(<[u8]>::trim_ascii);
        if name.eq_ignore_ascii_case("content-length") {
            for word in words() {
                let digits = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
                let number = std::str::from_utf8(word).ok().filter(|_| digits);
                let length = number
                    .and_then(|n| n.parse().ok())
                    .ok_or(HttpError::Length)?;
                if self.length.is_some_and(|earlier| earlier != length) {
                    return Err(HttpError::Length);
                }
                self.length = Some(length);
            }
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            for word in words().filter(|word| !word.is_empty()) {
                self.coding = if word.eq_ignore_ascii_case(b"chunked") {
                    Coding::Chunked
                } else if word.eq_ignore_ascii_case(b"identity") {
                    Coding::None
                } else {
                    Coding::Other
                };
            }
        } else if name.eq_ignore_ascii_case("connection") {
            for word in words() {
                if word.eq_ignore_ascii_case(b"close") {
                    self.persistence = Persistence::Close;
                } else if word.eq_ignore_ascii_case(b"keep-alive")
                    && self.persistence == Persistence::Implied
                {
                    self.persistence = Persistence::KeepAlive;
                }
            }
        }
        Ok(())
    }
}

/// The size at the front of a chunk's line; extensions are ignored.
fn chunk_size(line: &[u8]) -> Result<u64, HttpError> {
    let digits = line
        .split(|&b| b == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    if digits.is_empty() || digits.len() > 16 {
        return Err(HttpError::Chunk("a chunk's size is missing or too large"));
    }
    digits.iter().try_fold(0, |size, &digit| {
        let value = char::from(digit).to_digit(16);
        let value = value.ok_or(HttpError::Chunk("a chunk's size is not hexadecimal"))?;
        Ok(size << 4 | u64::from(value))
    })
}

/// Takes up to `left` bytes; gives them and how many are then left.
fn take_body<'a>(bytes: &mut &'a [u8], left: u64) -> (&'a [u8], u64) {
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
    let (body, rest) = bytes.split_at(length);
    *bytes = rest;
    (body, left - length as u64)
}
