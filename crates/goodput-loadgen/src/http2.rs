//! HTTP/2 through hyper. Frames are stamped as hyper hands them over, after its own parsing: a
//! little later than our HTTP/1.1 reader stamps, by the time hyper takes for what was read with
//! them.

use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::TokioIo;

use crate::client::Client;

/// Streams opened on one connection at most: what most servers allow. hyper would hold back those
/// above the server's limit without a word, which would look like a slow server.
const STREAMS_MAX: u32 = 100;

/// The connections.
#[derive(Debug, Default)]
pub(crate) struct Http2 {
    sessions: RefCell<Vec<Rc<Session>>>,
}

/// One connection with room for [`STREAMS_MAX`] streams.
#[derive(Debug)]
struct Session {
    sender: http2::SendRequest<Full<Bytes>>,
    open: Cell<u32>,
    used: Cell<bool>,
    setup: Cell<Option<Duration>>,
}

/// A place on a connection, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    session: Rc<Session>,
    /// Whether an earlier request went over the connection.
    pub(crate) reused: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.session.open.set(self.session.open.get() - 1);
    }
}

impl Place {
    fn on(session: &Rc<Session>) -> Self {
        session.open.set(session.open.get() + 1);
        Self {
            session: Rc::clone(session),
            reused: session.used.replace(true),
        }
    }

    /// The connection's set-up time, once.
    pub(crate) fn take_setup(&self) -> Option<Duration> {
        self.session.setup.take()
    }

    /// Sends a request; the answer's head.
    pub(crate) async fn send(
        &self,
        request: http::Request<Full<Bytes>>,
    ) -> hyper::Result<http::Response<Incoming>> {
        self.session.sender.clone().send_request(request).await
    }
}

impl Http2 {
    /// A place on a connection that stands and has room, if there is one.
    pub(crate) fn reuse(&self) -> Option<Place> {
        let mut sessions = self.sessions.borrow_mut();
        sessions.retain(|s| !s.sender.is_closed());
        sessions
            .iter()
            .find(|s| s.open.get() < STREAMS_MAX)
            .map(Place::on)
    }

    /// A place on a new connection.
    pub(crate) async fn dial(&self, client: &Client) -> io::Result<Place> {
        let session = Rc::new(connect(client).await?);
        let place = Place::on(&session);
        self.sessions.borrow_mut().push(session);
        Ok(place)
    }

    pub(crate) async fn open_ahead(&self, client: &Client, wanted: usize) {
        let needed = wanted.div_ceil(STREAMS_MAX as usize);
        while self.sessions.borrow().len() < needed {
            let Ok(session) = connect(client).await else {
                return;
            };
            self.sessions.borrow_mut().push(Rc::new(session));
        }
    }

    pub(crate) fn close_idle(&self) {
        self.sessions.borrow_mut().retain(|s| s.open.get() > 0);
    }
}

async fn connect(client: &Client) -> io::Result<Session> {
    let (stream, setup) = client.dial_stream().await?;
    let (sender, connection) = http2::Builder::new(LocalExecutor)
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(16 << 20)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    tokio::task::spawn_local(async move {
        // Its end shows in the requests that were on it.
        let _ = connection.await;
    });
    Ok(Session {
        sender,
        open: Cell::new(0),
        used: Cell::new(false),
        setup: Cell::new(Some(setup)),
    })
}

/// Runs hyper's own tasks on the load thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalExecutor;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}

/// The head of an answer, as its reader wants it.
pub(crate) fn head(headers: &http::HeaderMap, status: http::StatusCode) -> goodput_protocol::Head {
    let mut head = goodput_protocol::Head::new(status.as_u16());
    for (name, value) in headers {
        head.header(name.as_str(), value.as_bytes());
    }
    head
}
