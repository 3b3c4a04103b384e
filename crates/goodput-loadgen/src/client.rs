//! The client: one target, its connections, and what they have carried.

use std::{
    cell::{Cell, RefCell},
    fmt, io,
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use goodput_record::SeriesTable;
use http_body_util::Full;
use tokio::task::AbortHandle;

use crate::{
    clock::Clock,
    connection::Connection,
    dial::Dialer,
    ends::Ends,
    error::TargetError,
    exchange::Wire,
    http2::Http2,
    inbox::Inbox,
    reach::{Reach, reach},
    target::{HttpVersion, Target},
    watch::Watch,
};

/// Connections that are opened at once before a point; a server's backlog may be short.
const DIALS_AT_ONCE: usize = 32;

/// What we call ourselves.
pub(crate) const USER_AGENT: &str = concat!("goodput/", env!("CARGO_PKG_VERSION"));

/// What the connections have carried since the client was made. Differences of two snapshots are
/// a point's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Connections opened.
    pub connections_opened: u64,
    /// Requests sent, every attempt counted.
    pub sends: u64,
    /// Of these, over a connection that had carried one before.
    pub sends_reused: u64,
    /// Requests sent a second time because the server had closed an idle connection.
    pub retries: u64,
    /// Bytes of requests, heads included, above TLS.
    pub bytes_sent: u64,
    /// Bytes of answers, framing included, above TLS. Over HTTP/2: of bodies only.
    pub bytes_received: u64,
}

impl Traffic {
    /// What has come since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            connections_opened: self.connections_opened - earlier.connections_opened,
            sends: self.sends - earlier.sends,
            sends_reused: self.sends_reused - earlier.sends_reused,
            retries: self.retries - earlier.retries,
            bytes_sent: self.bytes_sent - earlier.bytes_sent,
            bytes_received: self.bytes_received - earlier.bytes_received,
        }
    }

    /// What two clients have carried.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            connections_opened: self.connections_opened + other.connections_opened,
            sends: self.sends + other.sends,
            sends_reused: self.sends_reused + other.sends_reused,
            retries: self.retries + other.retries,
            bytes_sent: self.bytes_sent + other.bytes_sent,
            bytes_received: self.bytes_received + other.bytes_received,
        }
    }

    /// Share of sends over a connection that was used before. `None` without any send.
    #[must_use]
    pub fn reused_share(&self) -> Option<f64> {
        (self.sends > 0).then(|| self.sends_reused as f64 / self.sends as f64)
    }
}

/// A client of one target, for one thread. There is no limit on its connections.
pub struct Client {
    target: Target,
    clock: Clock,
    run: String,
    /// Further headers, checked; the key among them.
    pub(crate) headers: Vec<(String, String)>,
    /// Head of every HTTP/1.1 request, up to its own headers.
    head: String,
    pub(crate) inbox: Rc<Inbox>,
    pub(crate) ends: Rc<Ends>,
    /// What works for this client beside its requests.
    helpers: [AbortHandle; 2],
    bytes_received: Cell<u64>,
    dialer: Dialer,
    idle: RefCell<Vec<Connection>>,
    pub(crate) http2: Http2,
    traffic: Cell<Traffic>,
    series: RefCell<SeriesTable>,
    next_id: Cell<u64>,
    id_step: Cell<u64>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("target", &self.target)
            .field("run", &self.run)
            .field("idle", &self.idle.borrow().len())
            .field("traffic", &self.traffic.get())
            .finish_non_exhaustive()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.helpers.iter().for_each(AbortHandle::abort);
    }
}

impl Client {
    /// Makes a client and looks the host up. Nothing is sent yet. Must run inside a
    /// [`tokio::runtime::LocalRuntime`].
    ///
    /// `run`: the run's id, the first part of every `x-request-id`.
    pub async fn new(
        target: Target,
        clock: Clock,
        run: impl Into<String>,
    ) -> Result<Rc<Self>, TargetError> {
        let headers = target.checked_headers()?;
        let dialer = Dialer::new(&target).await?;
        let head = head(&target, &headers);
        let inbox = Rc::new(Inbox::default());
        let ends = Rc::new(Ends::default());
        let parser = tokio::task::spawn_local(Rc::clone(&inbox).parse());
        let attendant = tokio::task::spawn_local(Rc::clone(&ends).attend());
        Ok(Rc::new(Self {
            target,
            clock,
            run: run.into(),
            headers,
            head,
            inbox,
            ends,
            helpers: [parser.abort_handle(), attendant.abort_handle()],
            bytes_received: Cell::new(0),
            dialer,
            idle: RefCell::default(),
            http2: Http2::default(),
            traffic: Cell::default(),
            series: RefCell::default(),
            next_id: Cell::new(0),
            id_step: Cell::new(1),
        }))
    }

    /// The target.
    #[must_use]
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// The run's clock.
    #[must_use]
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The run's id.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.run
    }

    /// The names behind the records' series.
    #[must_use]
    pub const fn series(&self) -> &RefCell<SeriesTable> {
        &self.series
    }

    /// What the connections have carried so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        Traffic {
            bytes_received: self.bytes_received.get(),
            ..self.traffic.get()
        }
    }

    /// The furthest of the host's addresses: load on a public one must be meant.
    #[must_use]
    pub fn reach(&self) -> Reach {
        let all = self.dialer.addresses().iter();
        all.map(|a| reach(a.ip())).max().unwrap_or(Reach::Public)
    }

    /// `host:port`, for messages.
    #[must_use]
    pub fn authority(&self) -> String {
        self.target.endpoint.authority()
    }

    /// Opens connections ahead, so that `wanted` requests can be sent at once without waiting for
    /// one. A failure is left to the request that will meet it again.
    pub async fn open_connections(self: &Rc<Self>, wanted: usize) {
        if self.target.http == HttpVersion::Http2 {
            return self.http2.open_ahead(self, wanted).await;
        }
        let missing = wanted.saturating_sub(self.idle.borrow().len());
        let left = Rc::new(Cell::new(missing));
        let mut dials = tokio::task::JoinSet::new();
        for _ in 0..missing.min(DIALS_AT_ONCE) {
            let (client, left) = (Rc::clone(self), Rc::clone(&left));
            dials.spawn_local(async move {
                while left.get() > 0 {
                    left.set(left.get() - 1);
                    let mut watch = Watch::new(client.target.limits, client.clock.now());
                    let Ok(Some(Ok(connection))) = Ok::<_, ()>(client.dial(&mut watch).await)
                    else {
                        return;
                    };
                    client.park(connection);
                }
            });
        }
        while dials.join_next().await.is_some() {}
    }

    /// Closes the connections that no request uses.
    pub fn close_idle(&self) {
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        idle.into_iter().for_each(Connection::close);
        self.http2.close_idle();
    }

    /// An idle connection that still stands, if there is one. The last used first: those that are
    /// not needed grow old together and are closed by the server.
    pub(crate) fn reuse(&self) -> Option<Connection> {
        loop {
            let mut connection = self.idle.borrow_mut().pop()?;
            if connection.quiet() {
                return Some(connection);
            }
        }
    }

    /// Opens a connection; `None` if the limit on that struck.
    pub(crate) async fn dial(&self, watch: &mut Watch) -> Option<io::Result<Connection>> {
        let began = self.clock.now();
        let stream = watch.over(&self.clock, self.dialer.dial()).await?;
        Some(stream.map(|stream| {
            self.count(|t| t.connections_opened += 1);
            Connection::new(stream, self.took(began))
        }))
    }

    /// Opens a bare stream, for HTTP/2.
    pub(crate) async fn dial_stream(&self) -> io::Result<(crate::dial::Stream, Duration)> {
        let began = self.clock.now();
        let stream = self.dialer.dial().await?;
        self.count(|t| t.connections_opened += 1);
        Ok((stream, self.took(began)))
    }

    /// The sockets that are open.
    pub(crate) fn sockets(&self) -> &crate::socket::Sockets {
        self.dialer.sockets()
    }

    fn took(&self, began: goodput_record::Timestamp) -> Duration {
        self.clock.now().since(began).unwrap_or_default()
    }

    /// Keeps a connection for the next request.
    pub(crate) fn park(&self, connection: Connection) {
        self.idle.borrow_mut().push(connection);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.bytes_received
            .set(self.bytes_received.get() + bytes as u64);
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Traffic)) {
        let mut traffic = self.traffic.get();
        change(&mut traffic);
        self.traffic.set(traffic);
    }

    /// The whole request as HTTP/1.1 bytes.
    pub(crate) fn http1_request(&self, wire: &Wire) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.head.len() + wire.body.len() + 96);
        bytes.extend_from_slice(self.head.as_bytes());
        bytes.extend_from_slice(b"x-request-id: ");
        bytes.extend_from_slice(wire.id.as_bytes());
        bytes.extend_from_slice(
            format!("\r\ncontent-length: {}\r\n\r\n", wire.body.len()).as_bytes(),
        );
        bytes.extend_from_slice(&wire.body);
        bytes
    }

    /// The whole request for HTTP/2.
    pub(crate) fn http2_request(&self, wire: Wire) -> http::Request<Full<Bytes>> {
        let mut request = http::Request::post(format!("{}{}", self.origin(), self.target.path()))
            .header("content-type", "application/json")
            .header("accept", self.accept())
            .header("user-agent", USER_AGENT)
            .header("x-request-id", wire.id);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request
            .body(Full::new(Bytes::from(wire.body)))
            .expect("invariant: every part was checked when the client was made")
    }

    /// Scheme, host and port.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.target.endpoint.tls {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.authority())
    }

    fn accept(&self) -> &'static str {
        accept(&self.target)
    }

    /// Shares the numbers of a run's requests with the other `of - 1` clients of the same run:
    /// this one takes `index`, `index + of`, and so on. To be called before anything is sent.
    pub fn share_numbers(&self, index: u16, of: u16) {
        self.next_id.set(u64::from(index));
        self.id_step.set(u64::from(of.max(1)));
    }

    /// The next request's number within the run.
    pub(crate) fn number(&self) -> u64 {
        self.next_id
            .replace(self.next_id.get() + self.id_step.get())
    }
}

fn accept(target: &Target) -> &'static str {
    if target.stream {
        "text/event-stream"
    } else {
        "application/json"
    }
}

fn head(target: &Target, headers: &[(String, String)]) -> String {
    let mut head = format!(
        "POST {} HTTP/1.1\r\nhost: {}\r\nuser-agent: {USER_AGENT}\r\ncontent-type: application/json\r\naccept: {}\r\n",
        target.path(),
        target.endpoint.authority(),
        accept(target)
    );
    for (name, value) in headers {
        head.push_str(name);
        head.push_str(": ");
        head.push_str(value);
        head.push_str("\r\n");
    }
    head
}
