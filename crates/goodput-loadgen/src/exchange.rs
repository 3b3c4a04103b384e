//! One request and its answer.

use std::{cell::RefCell, future::poll_fn, io, rc::Rc, task::Poll, time::Duration};

use goodput_record::{End, OpenRequest, Outcome, TimeoutPhase, Timestamp, TokenCount};

use crate::{
    answering::Answering,
    client::Client,
    connection::{Connection, Received},
    refusal::{advice, no_connection, ours},
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

/// What waiting for bytes came to.
enum Turn {
    Read(Received),
    Over,
    Failed(io::Error),
    Limit,
}

/// One request under way. Dropped before its answer is over it ends as cancelled; in a panic, as
/// failed.
#[derive(Debug)]
pub(crate) struct Exchange {
    client: Rc<Client>,
    slip: Rc<Slip>,
    answering: Rc<RefCell<Answering>>,
    watch: Watch,
    /// How it went and when it was over, until the record is filed.
    over: Option<(Result<(), Broken>, Timestamp)>,
}

impl Exchange {
    /// `keep_text`: whether the answer's text is collected.
    pub(crate) fn new(
        client: Rc<Client>,
        slip: Rc<Slip>,
        open: OpenRequest<Slip>,
        keep_text: bool,
    ) -> Self {
        let answering = Answering::new(client.target().http, open, keep_text);
        Self {
            watch: Watch::new(client.target().limits, client.clock().now()),
            client,
            slip,
            answering: Rc::new(RefCell::new(answering)),
            over: None,
        }
    }

    /// Sends the request, reads the answer and files the record. The text goes with it and is
    /// returned too, for the next step of a conversation.
    pub(crate) async fn run(mut self, wire: Wire) -> Option<String> {
        let now = self.client.clock().now();
        self.slip.note.borrow_mut().begun = Some(now);
        self.watch = Watch::new(self.client.target().limits, now);
        let went = match self.client.target().http {
            HttpVersion::Http1 => self.http1(&wire).await,
            HttpVersion::Http2 => self.http2(wire).await,
        };
        self.over = Some((went, self.client.clock().now()));
        self.client.ends.turn(self.client.inbox.is_busy()).await;
        self.file()
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
                    if self.answering.borrow().is_reusable() {
                        client.park(connection);
                    }
                    return Ok(());
                }
                // The server closed an idle connection just as the request set out: it has not
                // seen it. Once more, on a fresh one; the record counts the attempts.
                Err(Broken::Lost(_))
                    if reused && may_retry && !self.answering.borrow().is_answered() =>
                {
                    may_retry = false;
                    client.count(|t| t.retries += 1);
                }
                Err(broken) => return Err(broken),
            }
        }
    }

    /// Books a send that is about to happen.
    fn sending(&mut self, setup: Option<Duration>, reused: bool, bytes: usize) {
        self.client.count(|t| {
            t.sends += 1;
            t.sends_reused += u64::from(reused);
            t.bytes_sent += bytes as u64;
        });
        self.slip.in_flight();
        let now = self.client.clock().now();
        if let Some(open) = &mut self.answering.borrow_mut().open {
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
        let sent = self
            .watch
            .over(client.clock(), connection.send(request))
            .await;
        // A server may refuse and close before it has read all: its answer is worth reading.
        let unsent = match sent {
            None => return Err(Broken::Limit),
            Some(sent) => sent.err(),
        };
        let failure = loop {
            match self.turn(connection).await {
                Turn::Read(received) if received.bytes().is_empty() => {
                    client.inbox.buffers.recycle(received);
                    break io::ErrorKind::UnexpectedEof.into();
                }
                Turn::Read(received) => {
                    client.received(received.bytes().len());
                    client.inbox.leave(&self.answering, received);
                }
                Turn::Over => return Ok(()),
                Turn::Failed(error) => {
                    client.inbox.drain();
                    return Err(Broken::Lost(unsent.unwrap_or(error)));
                }
                Turn::Limit => {
                    client.inbox.drain();
                    let answering = self.answering.borrow();
                    let done = answering.is_settled() || answering.is_over();
                    return if done { Ok(()) } else { Err(Broken::Limit) };
                }
            }
        };
        // The server closed: a goodbye after a whole answer, or a cut. The answer's reader knows.
        client.inbox.drain();
        if self.answering.borrow().is_answered() {
            Ok(())
        } else {
            Err(Broken::Lost(unsent.unwrap_or(failure)))
        }
    }

    /// Waits until there are bytes, the answer is over, or a limit strikes.
    async fn turn(&mut self, connection: &mut Connection) -> Turn {
        let (client, answering, watch) = (&self.client, &self.answering, &mut self.watch);
        poll_fn(|cx| {
            if answering.borrow().is_over() {
                return Poll::Ready(Turn::Over);
            }
            match connection.poll_receive(cx, client.clock(), &client.inbox.buffers) {
                Poll::Ready(Ok(received)) => return Poll::Ready(Turn::Read(received)),
                Poll::Ready(Err(error)) => return Poll::Ready(Turn::Failed(error)),
                Poll::Pending => {}
            }
            let mut answering = answering.borrow_mut();
            answering.wake_at_end(cx.waker());
            watch.follow(&answering);
            watch.poll(cx, client.clock()).map(|()| Turn::Limit)
        })
        .await
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
        let head = crate::http2::head(answer.headers(), answer.status());
        self.answering.borrow_mut().take_head(clock.now(), head);
        let mut body = answer.into_body();
        loop {
            self.watch.follow(&self.answering.borrow());
            let frame = http_body_util::BodyExt::frame(&mut body);
            let frame = self.watch.over(clock, frame).await;
            let at = clock.now();
            let frame = match frame {
                None if self.answering.borrow().is_settled() => return Ok(()),
                None => return Err(Broken::Limit),
                Some(None) => return Ok(()),
                Some(Some(frame)) => frame.map_err(Broken::Http2)?,
            };
            if let Ok(data) = frame.into_data() {
                client.received(data.len());
                self.answering.borrow_mut().take_body(at, &data);
            }
        }
    }

    /// Files the record of an exchange that is over. Gives the answer's text.
    fn file(&mut self) -> Option<String> {
        let (went, over) = self.over.take()?;
        let mut answering = self.answering.borrow_mut();
        let (open, seen, status) = answering.close(went.is_err())?;
        let server_decode = seen.timings.and_then(|timings| timings.decode);
        let answered_as = seen.answered_as();
        let mut end = seen.to_end(status, 1);
        end.streamed |= self.client.target().stream && end.outcome != Outcome::Ok;
        let mut error = match went {
            Ok(()) => seen.error.map(|said| advised(status, said)),
            Err(broken) => Some(self.explain(broken, &mut end, seen.error, status)),
        };
        if answering.has_panicked() {
            end.outcome = Outcome::Failed;
            error = Some(PANICKED.to_owned());
        }
        let text = answering.text.take();
        drop(answering);
        self.count_text(&mut end, text.as_deref());
        {
            let mut note = self.slip.note.borrow_mut();
            note.text.clone_from(&text);
            note.error = error.map(|said| self.client.target().hide_secrets(&said));
            note.server_decode = server_decode;
            note.answered_as = answered_as;
        }
        open.end(over, end);
        text
    }

    /// A tokenizer of ours checks the server's count; where there is none it tells more than the
    /// number of events.
    fn count_text(&self, end: &mut End, text: Option<&str>) {
        let counter = self.client.target().counter.as_ref();
        let (Some(counter), Some(text), true) = (counter, text, end.choices <= 1) else {
            return;
        };
        let counted = counter.count(text);
        end.tokenizer_tokens = Some(counted);
        if let Some(TokenCount::AtLeast(events)) = end.output_tokens {
            end.output_tokens = Some(TokenCount::Tokenizer(counted.max(events)));
        }
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
                self.slip.note.borrow_mut().ours = ours(&error);
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

/// What a record says that fell to a bug of ours.
const PANICKED: &str = "goodput itself failed (a panic); please report it";

impl Drop for Exchange {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let open = self.answering.borrow_mut().open.take();
            if open.is_some() {
                self.slip.note.borrow_mut().error = Some(PANICKED.to_owned());
            }
            // Dropping it files a failure.
            return;
        }
        let mut answering = self.answering.borrow_mut();
        if answering.is_over() && self.over.is_none() {
            self.over = Some((Ok(()), answering.latest()));
        }
        if self.over.is_some() {
            // It only waited for its turn: a whole answer is none that was cut short.
            drop(answering);
            self.file();
            return;
        }
        let Some((open, seen, status)) = answering.close(true) else {
            return;
        };
        let end = End {
            outcome: Outcome::Cancelled,
            ..seen.to_end(status, 1)
        };
        let text = answering.text.take();
        drop(answering);
        {
            let mut note = self.slip.note.borrow_mut();
            note.text = text;
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
