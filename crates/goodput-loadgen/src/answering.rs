//! An answer that is coming in: its reader, its open request, and whoever waits for its end.

use std::task::Waker;

use goodput_protocol::{
    Channel, EndOfBody, ExchangeReader, Head, ReplyReader, StreamEnd, StreamEvents, StreamOptions,
};
use goodput_record::{OpenRequest, Outcome, Timestamp};

use crate::{slip::Slip, target::HttpVersion};

/// Who reads the answer.
#[derive(Debug)]
enum Reading {
    Http1(Box<ExchangeReader>),
    Http2(Option<Box<ReplyReader>>),
}

/// Hears of token events: the open request, and the text where it is kept.
struct Listener<'a> {
    open: &'a mut OpenRequest<Slip>,
    text: Option<&'a mut String>,
}

impl StreamEvents for Listener<'_> {
    fn token_event(&mut self, at: Timestamp, tokens: u32, answer: bool) {
        self.open.token_event(at, tokens, answer);
    }

    fn text(&mut self, channel: Channel, text: &str) {
        if let (Channel::Answer, Some(kept)) = (channel, &mut self.text) {
            kept.push_str(text);
        }
    }
}

/// How far an answer is, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    /// Nothing of it came.
    Awaited,
    /// A byte of it came.
    Answered,
    /// Its end mark came: only the end of the framing is missing.
    Settled,
    /// Nothing more belongs to it.
    Over,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Answering {
    /// `None` once it has been filed.
    pub(crate) open: Option<OpenRequest<Slip>>,
    reading: Reading,
    pub(crate) text: Option<String>,
    progress: Progress,
    /// When its latest bytes were read.
    latest: Timestamp,
    panicked: bool,
    /// The task that waits for its end.
    waker: Option<Waker>,
}

impl Answering {
    pub(crate) fn new(http: HttpVersion, open: OpenRequest<Slip>, keep_text: bool) -> Self {
        let reading = match http {
            HttpVersion::Http1 => Reading::Http1(Box::new(ExchangeReader::new(options(keep_text)))),
            HttpVersion::Http2 => Reading::Http2(None),
        };
        Self {
            open: Some(open),
            reading,
            text: keep_text.then(String::new),
            progress: Progress::Awaited,
            latest: Timestamp::ZERO,
            panicked: false,
            waker: None,
        }
    }

    /// Whether nothing more is to come.
    pub(crate) fn is_over(&self) -> bool {
        self.progress == Progress::Over
    }

    /// Whether any byte of an answer came.
    pub(crate) fn is_answered(&self) -> bool {
        self.progress >= Progress::Answered
    }

    /// Whether its end mark came.
    pub(crate) fn is_settled(&self) -> bool {
        self.progress >= Progress::Settled
    }

    /// Whether a token came.
    pub(crate) fn flows(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.events() > 0)
    }

    /// When its latest bytes were read.
    pub(crate) const fn latest(&self) -> Timestamp {
        self.latest
    }

    /// Whether reading it ran into a bug of ours.
    pub(crate) const fn has_panicked(&self) -> bool {
        self.panicked
    }

    /// Whether its connection may carry the next request.
    pub(crate) fn is_reusable(&self) -> bool {
        match &self.reading {
            Reading::Http1(reader) => reader.is_reusable(),
            Reading::Http2(_) => false,
        }
    }

    /// Wakes `waker` when it is over.
    pub(crate) fn wake_at_end(&mut self, waker: &Waker) {
        if !self
            .waker
            .as_ref()
            .is_some_and(|known| known.will_wake(waker))
        {
            self.waker = Some(waker.clone());
        }
    }

    fn ends(&mut self) {
        self.progress = Progress::Over;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(crate) fn panicked(&mut self) {
        self.panicked = true;
        self.ends();
    }

    /// Takes bytes off an HTTP/1.1 connection, which were read at `at`.
    pub(crate) fn take(&mut self, at: Timestamp, bytes: &[u8]) {
        let (Some(open), Reading::Http1(reader)) = (&mut self.open, &mut self.reading) else {
            return;
        };
        open.first_byte(at);
        self.latest = at;
        let (flowed, settled) = (open.events() > 0, reader.is_settled());
        let text = self.text.as_mut();
        let over = reader.on_bytes(at, bytes, &mut Listener { open, text });
        self.progress = if reader.is_settled() {
            Progress::Settled
        } else {
            Progress::Answered
        };
        // What is parsed came some time ago, and whoever waits has looked at it since: from here on
        // another limit holds.
        let turned = !flowed && open.events() > 0 || !settled && reader.is_settled();
        if over {
            self.ends();
        } else if turned && let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// Takes the head of an HTTP/2 answer.
    pub(crate) fn take_head(&mut self, at: Timestamp, head: Head) {
        if let Some(open) = &mut self.open {
            open.first_byte(at);
        }
        self.progress = Progress::Answered;
        let reader = ReplyReader::new(head, options(self.text.is_some()));
        self.reading = Reading::Http2(Some(Box::new(reader)));
    }

    /// Takes a piece of the body of an HTTP/2 answer.
    pub(crate) fn take_body(&mut self, at: Timestamp, bytes: &[u8]) {
        let (Some(open), Reading::Http2(Some(reader))) = (&mut self.open, &mut self.reading) else {
            return;
        };
        self.latest = at;
        let text = self.text.as_mut();
        reader.on_body(at, bytes, &mut Listener { open, text });
        if reader.is_settled() {
            self.progress = Progress::Settled;
        }
    }

    /// Takes the open request out, with what its answer came to as far as its bytes tell, and the
    /// status. `broken`: whether HTTP/2 broke off; HTTP/1.1 knows by itself.
    pub(crate) fn close(
        &mut self,
        broken: bool,
    ) -> Option<(OpenRequest<Slip>, StreamEnd, Option<u16>)> {
        let mut open = self.open.take()?;
        let text = self.text.as_mut();
        let mut listener = Listener {
            open: &mut open,
            text,
        };
        let (seen, status) = match &mut self.reading {
            Reading::Http1(reader) => {
                let status = reader.head().map(|head| head.status);
                (reader.finish(&mut listener), status)
            }
            Reading::Http2(Some(reader)) => {
                let body = if broken {
                    EndOfBody::Cut
                } else {
                    EndOfBody::Clean
                };
                let status = Some(reader.head().status);
                (reader.finish(body, &mut listener), status)
            }
            Reading::Http2(None) => {
                let why = "the connection closed before a response came";
                (StreamEnd::failed(Outcome::Failed, why), None)
            }
        };
        Some((open, seen, status))
    }
}

fn options(text: bool) -> StreamOptions {
    StreamOptions {
        text,
        ..StreamOptions::default()
    }
}
