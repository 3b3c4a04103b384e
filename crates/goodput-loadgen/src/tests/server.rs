//! A server on raw sockets that does what a test tells it to.

use std::{cell::Cell, future::Future, io, net::SocketAddr, rc::Rc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// What a server has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: Cell<u32>,
    pub(crate) requests: Cell<u32>,
    pub(crate) in_flight: Cell<u32>,
    pub(crate) peak: Cell<u32>,
    /// Requests so far on the connection that asks.
    pub(crate) last_request: std::cell::RefCell<String>,
}

/// Starts a server. `answer` gets the socket, the number of the request on its connection (from 0)
/// and what was seen; whether the connection is to be kept.
pub(crate) async fn serve<F, A>(answer: F) -> (SocketAddr, Rc<Seen>)
where
    F: Fn(Sock, u32, Rc<Seen>) -> A + 'static,
    A: Future<Output = io::Result<Option<Sock>>> + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Rc::new(Seen::default());
    let (answer, told) = (Rc::new(answer), Rc::clone(&seen));
    tokio::task::spawn_local(async move {
        while let Ok((socket, _)) = listener.accept().await {
            socket.set_nodelay(true).unwrap();
            told.connections.set(told.connections.get() + 1);
            tokio::task::spawn_local(connection(
                Sock(socket),
                Rc::clone(&answer),
                Rc::clone(&told),
            ));
        }
    });
    (address, seen)
}

async fn connection<F, A>(mut sock: Sock, answer: Rc<F>, seen: Rc<Seen>)
where
    F: Fn(Sock, u32, Rc<Seen>) -> A,
    A: Future<Output = io::Result<Option<Sock>>>,
{
    let mut number = 0;
    while let Ok(Some(request)) = sock.request().await {
        *seen.last_request.borrow_mut() = request;
        seen.requests.set(seen.requests.get() + 1);
        seen.in_flight.set(seen.in_flight.get() + 1);
        seen.peak.set(seen.peak.get().max(seen.in_flight.get()));
        let kept = answer(sock, number, Rc::clone(&seen)).await;
        seen.in_flight.set(seen.in_flight.get() - 1);
        let Ok(Some(kept)) = kept else { return };
        sock = kept;
        number += 1;
    }
}

/// The server's end of a connection.
#[derive(Debug)]
pub(crate) struct Sock(pub(crate) TcpStream);

impl Sock {
    async fn request(&mut self) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        loop {
            if self.0.read_buf(&mut bytes).await? == 0 {
                return Ok(None);
            }
            let text = String::from_utf8_lossy(&bytes);
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |n| n.parse().unwrap());
            if body.len() >= length {
                return Ok(Some(text.into_owned()));
            }
        }
    }

    pub(crate) async fn write(&mut self, text: &str) -> io::Result<()> {
        self.0.write_all(text.as_bytes()).await
    }

    pub(crate) async fn begin_stream(&mut self) -> io::Result<()> {
        self.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n").await
    }

    pub(crate) async fn event(&mut self, data: &str) -> io::Result<()> {
        let event = format!("data: {data}\n\n");
        self.write(&format!("{:x}\r\n{event}\r\n", event.len()))
            .await
    }

    pub(crate) async fn token(&mut self) -> io::Result<()> {
        self.event(r#"{"id":"a","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":" tok"},"finish_reason":null}]}"#).await
    }

    /// Finish, usage and end mark.
    pub(crate) async fn end_stream(&mut self, tokens: u32) -> io::Result<()> {
        self.event(r#"{"id":"a","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#)
            .await?;
        self.event(&format!(
            r#"{{"id":"a","choices":[],"usage":{{"prompt_tokens":3,"completion_tokens":{tokens},"total_tokens":{}}}}}"#,
            3 + tokens
        ))
        .await?;
        self.event("[DONE]").await?;
        self.write("0\r\n\r\n").await
    }

    /// A whole streamed answer: `tokens` tokens, `first` before the first, `gap` between them.
    pub(crate) async fn stream(
        &mut self,
        tokens: u32,
        first: Duration,
        gap: Duration,
    ) -> io::Result<()> {
        self.begin_stream().await?;
        for i in 0..tokens {
            let wait = if i == 0 { first } else { gap };
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            self.token().await?;
        }
        self.end_stream(tokens).await
    }

    /// An answer that is not streamed.
    pub(crate) async fn whole(
        &mut self,
        status: &str,
        content_type: &str,
        body: &str,
    ) -> io::Result<()> {
        self.write(&format!(
            "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await
    }

    /// Closes with a reset instead of a goodbye.
    pub(crate) fn reset(self) {
        let _ = self.0.set_zero_linger();
    }
}
