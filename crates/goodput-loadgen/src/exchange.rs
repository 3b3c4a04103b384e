//! One request and its answer.
//!
//! The order on the token path is: read, stamp, let every other ready connection read and stamp,
//! and only then parse. A stamp so waits for other reads (a microsecond each), never for parsing.

use std::{io, rc::Rc};

use goodput_protocol::{
    Channel, EndOfBody, ExchangeReader, ReplyReader, StreamEnd, StreamEvents, StreamOptions,
};
use goodput_record::{End, OpenRequest, Outcome, TimeoutPhase, Timestamp};

use crate::{
    client::Client,
    connection::{Connection, ReadFailure},
    refusal::{advice, is_ours, no_connection},
    slip::Slip,
    target::HttpVersion,
    watch::Watch,
};

/// A request, ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    /// The body.
    pub(crate) body: Vec<u8>,
    /// `x-request-id`.
    pub(crate) id: String,
}

/// Why an exchange broke off.
#[derive(Debug)]
enum Broken {
    /// No connection.
    Dial(io::Error),
    /// The connection broke or closed.
    Lost(io::Error),
    /// A time limit struck.
    Limit,
    /// HTTP/2 failed.
    Http2(hyper::Error),
}

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

/// One request under way. Dropped early it ends as cancelled; in a panic, as failed.
pub(crate) struct Exchange {
    client: Rc<Client>,
    slip: Rc<Slip>,
    open: Option<OpenRequest<Slip>>,
    reading: Reading,
    text: Option<String>,
    watch: Watch,
    /// Whether any byte of an answer came.
    answered: bool,
}

impl Exchange {
    /// `keep_text`: whether the answer's text is collected.
    pub(crate) fn new(
        client: Rc<Client>,
        slip: Rc<Slip>,
        open: OpenRequest<Slip>,
        keep_text: bool,
    ) -> Self {
        let options = StreamOptions {
            text: keep_text,
            ..StreamOptions::default()
        };
        let reading = match client.target().http {
            HttpVersion::Http1 => Reading::Http1(Box::new(ExchangeReader::new(options))),
            HttpVersion::Http2 => Reading::Http2(None),
        };
        let now = client.clock().now();
        slip.note.borrow_mut().begun = Some(now);
        Self {
            watch: Watch::new(client.target().limits, now),
            client,
            slip,
            open: Some(open),
            reading,
            text: keep_text.then(String::new),
            answered: false,
        }
    }

    /// Sends the request, reads the answer and files the record. The text goes with it and is
    /// returned too, for the next step of a conversation.
    pub(crate) async fn run(mut self, wire: Wire) -> Option<String> {
        let went = match self.client.target().http {
            HttpVersion::Http1 => self.http1(&wire).await,
            HttpVersion::Http2 => self.http2(wire).await,
        };
        self.file(went)
    }

    async fn http1(&mut self, wire: &Wire) -> Result<(), Broken> {
        let request = self.client.http1_request(wire);
        let client = Rc::clone(&self.client);
        let mut may_retry = true;
        loop {
            let idle = if may_retry { client.reuse() } else { None };
            let mut connection = match idle {
                Some(connection) => connection,
                None => match client.dial(&mut self.watch).await {
                    Some(dialled) => dialled.map_err(Broken::Dial)?,
                    None => return Err(Broken::Limit),
                },
            };
            let reused = connection.used();
            self.sending(connection.take_setup(), reused, request.len());
            match self.over(&mut connection, &request).await {
                Ok(()) => {
                    if let Reading::Http1(reader) = &self.reading
                        && reader.is_reusable()
                    {
                        client.park(connection);
                    }
                    return Ok(());
                }
                // The server closed an idle connection just as the request set out: it has not
                // seen it. Once more, on a fresh one; the record counts the attempts.
                Err(Broken::Lost(_)) if reused && may_retry && !self.answered => {
                    may_retry = false;
                    client.count(|t| t.retries += 1);
                }
                Err(broken) => return Err(broken),
            }
        }
    }

    /// Books a send that is about to happen.
    fn sending(&mut self, setup: Option<std::time::Duration>, reused: bool, bytes: usize) {
        self.client.count(|t| {
            t.sends += 1;
            t.sends_reused += u64::from(reused);
            t.bytes_sent += bytes as u64;
        });
        self.slip.in_flight();
        let now = self.client.clock().now();
        if let Some(open) = &mut self.open {
            if let Some(setup) = setup {
                open.connected(setup);
            }
            open.sent(now);
        }
        self.watch.sent(now);
    }

    /// Sends on `connection` and reads until the answer is over.
    async fn over(&mut self, connection: &mut Connection, request: &[u8]) -> Result<(), Broken> {
        let client = Rc::clone(&self.client);
        let clock = client.clock();
        let sent = self.watch.over(clock, connection.send(request)).await;
        // A server may refuse and close before it has read all: its answer is worth reading.
        let unsent = match sent {
            None => return Err(Broken::Limit),
            Some(sent) => sent.err(),
        };
        loop {
            let received = match connection
                .receive(clock, &client.buffers, &mut self.watch)
                .await
            {
                Ok(received) => received,
                Err(ReadFailure::Limit) if self.is_settled() => return Ok(()),
                Err(ReadFailure::Limit) => return Err(Broken::Limit),
                Err(ReadFailure::Io(error)) => return Err(Broken::Lost(unsent.unwrap_or(error))),
            };
            if received.bytes().is_empty() {
                client.buffers.recycle(received);
                let closed = || unsent.unwrap_or(io::ErrorKind::UnexpectedEof.into());
                return if self.answered {
                    Ok(())
                } else {
                    Err(Broken::Lost(closed()))
                };
            }
            tokio::task::yield_now().await;
            client.count(|t| t.bytes_received += received.bytes().len() as u64);
            let over = self.take(received.at, received.bytes());
            client.buffers.recycle(received);
            if over {
                return Ok(());
            }
        }
    }

    /// Takes bytes off the connection. Whether the answer is over.
    fn take(&mut self, at: Timestamp, bytes: &[u8]) -> bool {
        let (Some(open), Reading::Http1(reader)) = (&mut self.open, &mut self.reading) else {
            return true;
        };
        open.first_byte(at);
        self.answered = true;
        let text = self.text.as_mut();
        let over = reader.on_bytes(at, bytes, &mut Listener { open, text });
        if reader.is_settled() {
            self.watch.lingers(at);
        } else if open.events() > 0 {
            self.watch.flows(at);
        }
        over
    }

    fn is_settled(&self) -> bool {
        match &self.reading {
            Reading::Http1(reader) => reader.is_settled(),
            Reading::Http2(reader) => reader.as_ref().is_some_and(|r| r.is_settled()),
        }
    }

    async fn http2(&mut self, wire: Wire) -> Result<(), Broken> {
        let client = Rc::clone(&self.client);
        let clock = client.clock();
        let place = match client.http2.reuse() {
            Some(place) => place,
            None => match self.watch.over(clock, client.http2.dial(&client)).await {
                Some(dialled) => dialled.map_err(Broken::Dial)?,
                None => return Err(Broken::Limit),
            },
        };
        self.sending(place.take_setup(), place.reused, wire.body.len());
        let request = client.http2_request(wire);
        let answer = self.watch.over(clock, place.send(request)).await;
        let answer = answer.ok_or(Broken::Limit)?.map_err(Broken::Http2)?;
        let now = clock.now();
        if let Some(open) = &mut self.open {
            open.first_byte(now);
        }
        let options = StreamOptions {
            text: self.text.is_some(),
            ..StreamOptions::default()
        };
        let reader = ReplyReader::new(
            crate::http2::head(answer.headers(), answer.status()),
            options,
        );
        self.reading = Reading::Http2(Some(Box::new(reader)));
        let mut body = answer.into_body();
        loop {
            let frame = self
                .watch
                .over(clock, http_body_util::BodyExt::frame(&mut body))
                .await;
            let at = clock.now();
            let frame = match frame {
                None if self.is_settled() => return Ok(()),
                None => return Err(Broken::Limit),
                Some(None) => return Ok(()),
                Some(Some(frame)) => frame.map_err(Broken::Http2)?,
            };
            if let Ok(data) = frame.into_data() {
                client.count(|t| t.bytes_received += data.len() as u64);
                self.take_body(at, &data);
            }
        }
    }

    fn take_body(&mut self, at: Timestamp, bytes: &[u8]) {
        let (Some(open), Reading::Http2(Some(reader))) = (&mut self.open, &mut self.reading) else {
            return;
        };
        let text = self.text.as_mut();
        reader.on_body(at, bytes, &mut Listener { open, text });
        if reader.is_settled() {
            self.watch.lingers(at);
        } else if open.events() > 0 {
            self.watch.flows(at);
        }
    }

    /// What the answer came to, as far as its bytes tell.
    fn seen(&mut self, open: &mut OpenRequest<Slip>, broken: bool) -> (StreamEnd, Option<u16>) {
        let text = self.text.as_mut();
        let mut listener = Listener { open, text };
        match &mut self.reading {
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
        }
    }

    /// Files the record.
    fn file(mut self, went: Result<(), Broken>) -> Option<String> {
        let mut open = self.open.take()?;
        let (seen, status) = self.seen(&mut open, went.is_err());
        let mut end = seen.to_end(status, 1);
        end.streamed |= self.client.target().stream && end.outcome != Outcome::Ok;
        let error = match went {
            Ok(()) => seen.error.map(|said| advised(status, said)),
            Err(broken) => Some(self.explain(broken, &mut end, seen.error, status)),
        };
        let now = self.client.clock().now();
        let text = self.text.take();
        {
            let mut note = self.slip.note.borrow_mut();
            note.text.clone_from(&text);
            note.error = error;
        }
        open.end(now, end);
        text
    }

    fn explain(
        &self,
        broken: Broken,
        end: &mut End,
        said: Option<String>,
        status: Option<u16>,
    ) -> String {
        match broken {
            Broken::Limit => {
                let (phase, limit) = self.watch.struck();
                (end.outcome, end.timeout_phase) = (Outcome::TimedOut, Some(phase));
                let what = match phase {
                    TimeoutPhase::Connect => "no connection",
                    TimeoutPhase::FirstToken => "no first token",
                    TimeoutPhase::Idle => "nothing more",
                    TimeoutPhase::Total => "no end of the answer",
                };
                format!("{what} within the limit of {limit:?}")
            }
            Broken::Dial(error) => {
                self.slip.note.borrow_mut().ours = is_ours(&error);
                no_connection(&self.client.authority(), &error)
            }
            Broken::Lost(error) => {
                let said = said.unwrap_or_else(|| "the connection broke".to_owned());
                format!("{} ({error})", advised(status, said))
            }
            Broken::Http2(error) => {
                let said = said.unwrap_or_else(|| "HTTP/2 broke off".to_owned());
                format!("{} ({})", advised(status, said), with_causes(&error))
            }
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        if std::thread::panicking() {
            self.slip.note.borrow_mut().error = Some("goodput itself failed (a panic)".to_owned());
            // Dropping it files a failure.
            return;
        }
        let (seen, status) = self.seen(&mut open, true);
        let end = End {
            outcome: Outcome::Cancelled,
            ..seen.to_end(status, 1)
        };
        {
            let mut note = self.slip.note.borrow_mut();
            note.text = self.text.take();
            note.error = Some("cancelled by goodput: the load point was over".to_owned());
        }
        open.end(self.client.clock().now(), end);
    }
}

fn advised(status: Option<u16>, said: String) -> String {
    match status.map_or("", |status| advice(status, &said)) {
        "" => said,
        advice => format!("{said}; {advice}"),
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
