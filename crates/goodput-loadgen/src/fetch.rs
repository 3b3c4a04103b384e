//! Small requests beside the load: what a server says of itself.

use std::{io, time::Duration};

use bytes::Bytes;
use goodput_protocol::{EndOfBody, Head, HttpError, Piece, ResponseReader};
use goodput_record::Timestamp;
use http_body_util::{BodyExt, Full};

use crate::{
    client::{Client, USER_AGENT},
    connection::{Connection, ReadFailure},
    refusal::{no_connection, too_late},
    target::{HttpVersion, Limits},
    watch::Watch,
};

/// No side request may take longer.
const LIMIT: Duration = Duration::from_secs(10);
/// Nor may its answer be longer: 16 MiB.
const BODY_BYTES_MAX: usize = 16 << 20;

/// A whole answer to a side request.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its head.
    pub head: Head,
    /// Its body.
    pub body: Vec<u8>,
    /// Bytes that came, head and framing included. Over HTTP/2: of the body.
    pub(crate) bytes: usize,
    /// Bytes that came behind the first read, and the time they took. `None` where one read
    /// brought all, or nobody looked.
    pub(crate) transfer: Option<(usize, Duration)>,
}

impl Reply {
    /// Bytes a second at which it came once it had begun to come.
    pub(crate) fn transfer_rate(&self) -> Option<f64> {
        let (bytes, took) = self.transfer?;
        Some(bytes as f64 / took.as_secs_f64().max(1e-6))
    }
}

/// Why a side request got no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// No connection; the sentence says to whom and why.
    #[error("{0}")]
    Connect(String),
    /// It took longer than it may.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Lost(#[source] io::Error),
    /// What came is no HTTP.
    #[error("{0}")]
    Http(#[source] HttpError),
    /// HTTP/2 failed.
    #[error("HTTP/2: {0}")]
    Http2(#[source] hyper::Error),
    /// The answer is too long.
    #[error("the answer is longer than {BODY_BYTES_MAX} bytes")]
    Long,
}

impl Client {
    /// `GET path`, an absolute path on the target's host, over a connection of the pool.
    pub async fn get(&self, path: &str) -> Result<Reply, FetchError> {
        self.fetch(path, None).await
    }

    /// `POST path` with a JSON body.
    pub async fn post(&self, path: &str, json: Vec<u8>) -> Result<Reply, FetchError> {
        self.fetch(path, Some(json)).await
    }

    async fn fetch(&self, path: &str, json: Option<Vec<u8>>) -> Result<Reply, FetchError> {
        if self.target().http == HttpVersion::Http2 {
            return self.fetch_http2(path, json).await;
        }
        let mut connection = self.reuse();
        let reply = self.fetch_on(&mut connection, path, json.as_deref()).await;
        if let Some(connection) = connection {
            self.park(connection);
        }
        reply
    }

    /// The same over a connection of the caller's own, which is opened if there is none and left
    /// there if it can be used again.
    pub(crate) async fn fetch_on(
        &self,
        kept: &mut Option<Connection>,
        path: &str,
        json: Option<&[u8]>,
    ) -> Result<Reply, FetchError> {
        let request = self.side_request(path, json);
        let limits = Limits {
            total: Some(LIMIT),
            ..self.target().limits
        };
        let mut watch = Watch::new(limits, self.clock().now());
        if let Some(mut connection) = kept.take() {
            match self.ask(&mut connection, &request, &mut watch).await {
                Ok((reply, reusable)) => {
                    *kept = reusable.then_some(connection);
                    return Ok(reply);
                }
                // The server had closed it: once more, below, on a fresh one.
                Err(FetchError::Lost(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let mut connection = match self.dial(&mut watch).await {
            None => {
                let limit = watch.struck().1;
                let tls = self.target().endpoint.tls;
                return Err(FetchError::Connect(too_late(&self.authority(), limit, tls)));
            }
            Some(dialled) => {
                dialled.map_err(|e| FetchError::Connect(no_connection(&self.authority(), &e)))?
            }
        };
        watch.sent(self.clock().now());
        let (reply, reusable) = self.ask(&mut connection, &request, &mut watch).await?;
        *kept = reusable.then_some(connection);
        Ok(reply)
    }

    async fn ask(
        &self,
        connection: &mut Connection,
        request: &[u8],
        watch: &mut Watch,
    ) -> Result<(Reply, bool), FetchError> {
        let sent = watch.over(self.clock(), connection.send(request)).await;
        sent.ok_or(FetchError::Late(LIMIT))?
            .map_err(FetchError::Lost)?;
        let mut reader = ResponseReader::new();
        let mut body = Vec::new();
        let mut reads: Option<(Timestamp, usize)> = None;
        let mut bytes = 0;
        loop {
            let received = match connection
                .receive(self.clock(), &self.inbox.buffers, watch)
                .await
            {
                Ok(received) => received,
                Err(ReadFailure::Limit) => return Err(FetchError::Late(LIMIT)),
                Err(ReadFailure::Io(error)) => return Err(FetchError::Lost(error)),
            };
            let closed = received.bytes().is_empty();
            let at = received.at;
            bytes += received.bytes().len();
            let (first, later) = reads.map_or((at, 0), |(first, before)| {
                (first, before + received.bytes().len())
            });
            reads = Some((first, later));
            let read = take(&mut reader, received.bytes(), &mut body);
            self.inbox.buffers.recycle(received);
            read?;
            let whole = if closed {
                reader.on_close() == EndOfBody::Clean
            } else {
                reader.is_complete()
            };
            match (whole, closed, reader.head()) {
                (true, _, Some(head)) => {
                    let took = at.since(first).unwrap_or_default();
                    let reply = Reply {
                        head: head.clone(),
                        body,
                        bytes,
                        transfer: (later > 0).then_some((later, took)),
                    };
                    return Ok((reply, reader.is_reusable() && !closed));
                }
                (_, true, _) => return Err(FetchError::Lost(io::ErrorKind::UnexpectedEof.into())),
                _ => {}
            }
        }
    }

    fn side_request(&self, path: &str, json: Option<&[u8]>) -> Vec<u8> {
        let verb = if json.is_some() { "POST" } else { "GET" };
        let mut head = vec![
            format!("{verb} {path} HTTP/1.1"),
            format!("host: {}", self.authority()),
            format!("user-agent: {USER_AGENT}"),
            "accept: */*".to_owned(),
        ];
        let own = self.headers.iter();
        head.extend(own.map(|(name, value)| format!("{name}: {value}")));
        if let Some(json) = json {
            head.push("content-type: application/json".to_owned());
            head.push(format!("content-length: {}", json.len()));
        }
        let mut bytes = (head.join("\r\n") + "\r\n\r\n").into_bytes();
        bytes.extend_from_slice(json.unwrap_or_default());
        bytes
    }

    async fn fetch_http2(&self, path: &str, json: Option<Vec<u8>>) -> Result<Reply, FetchError> {
        let whole = async {
            let place = match self.http2.reuse() {
                Some(place) => place,
                None => self
                    .http2
                    .dial(self)
                    .await
                    .map_err(|e| FetchError::Connect(no_connection(&self.authority(), &e)))?,
            };
            let verb = if json.is_some() {
                http::Method::POST
            } else {
                http::Method::GET
            };
            let mut request = http::Request::builder()
                .method(verb)
                .uri(format!("{}{path}", self.origin()))
                .header("user-agent", USER_AGENT);
            for (name, value) in &self.headers {
                request = request.header(name, value);
            }
            if json.is_some() {
                request = request.header("content-type", "application/json");
            }
            let body = Full::new(Bytes::from(json.unwrap_or_default()));
            let request = request
                .body(body)
                .expect("invariant: every part was checked when the client was made");
            let answer = place.send(request).await.map_err(FetchError::Http2)?;
            let head = crate::http2::head(answer.headers(), answer.status());
            let body = http_body_util::Limited::new(answer.into_body(), BODY_BYTES_MAX);
            let body = body
                .collect()
                .await
                .map_err(|_| FetchError::Long)?
                .to_bytes()
                .to_vec();
            Ok(Reply {
                head,
                bytes: body.len(),
                body,
                transfer: None,
            })
        };
        let limits = Limits {
            total: Some(LIMIT),
            ..self.target().limits
        };
        let mut watch = Watch::new(limits, self.clock().now());
        watch.sent(self.clock().now());
        watch
            .over(self.clock(), whole)
            .await
            .unwrap_or(Err(FetchError::Late(LIMIT)))
    }
}

fn take(
    reader: &mut ResponseReader,
    mut bytes: &[u8],
    body: &mut Vec<u8>,
) -> Result<(), FetchError> {
    while let Some(piece) = reader.next(&mut bytes).map_err(FetchError::Http)? {
        match piece {
            Piece::Body(part) if body.len() + part.len() > BODY_BYTES_MAX => {
                return Err(FetchError::Long);
            }
            Piece::Body(part) => body.extend_from_slice(part),
            Piece::End => break,
            Piece::Head => {}
        }
    }
    Ok(())
}
