//! Measures the token path: our own HTTP/1.1 reader inside a whole load point, against hyper's
//! body API in the shortest loop that can use it. Prints one line of JSON.
//!
//! ```text
//! cargo run --release -p goodput-loadgen --example transport -- \
//!     own|hyper URL STREAMS REQUESTS TOKENS [CSV [RATE]]
//! ```
//!
//! With a CSV file every request is written with its instants on `CLOCK_MONOTONIC`, to be joined
//! by id with the log of a server on the same machine. With a RATE the load is open.

use std::{
    cell::{Cell, RefCell},
    error::Error,
    io::Write,
    num::NonZeroU32,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use goodput_loadgen::{
    Client, Clock, Compose, Ended, Endpoint, Observer, PointPlan, Settle, Stop, Target, Window,
    run_point, runtime,
};
use goodput_protocol::{EndOfBody, StreamEvents, StreamOptions, StreamReader};
use goodput_record::{Arrival, Phase, Timestamp};
use goodput_stats::Distribution;
use goodput_workload::{Load, PlannedRequest, Shard, Workload, WorkloadSpec};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;

/// One request: id, origin, first and last token event, token events.
type Row = (String, Timestamp, Option<Timestamp>, Option<Timestamp>, u32);

struct Ask {
    transport: String,
    url: String,
    streams: u32,
    requests: u32,
    tokens: u32,
    csv: Option<String>,
    rate: Option<f64>,
}

fn ask() -> Option<Ask> {
    let mut args = std::env::args().skip(1);
    Some(Ask {
        transport: args.next()?,
        url: args.next()?,
        streams: args.next()?.parse().ok()?,
        requests: args.next()?.parse().ok()?,
        tokens: args.next()?.parse().ok()?,
        csv: args.next(),
        rate: args.next().and_then(|r| r.parse().ok()),
    })
}

fn body(tokens: u32) -> Vec<u8> {
    format!(
        r#"{{"model":"truth","stream":true,"stream_options":{{"include_usage":true}},"max_tokens":{tokens},"messages":[{{"role":"user","content":"one two three"}}]}}"#
    )
    .into_bytes()
}

struct Body(u32);

impl Compose for Body {
    fn body(&self, _: &PlannedRequest, _: &[Option<String>]) -> Vec<u8> {
        body(self.0)
    }
}

#[derive(Default)]
struct Rows(RefCell<Vec<Row>>);

impl Observer for Rows {
    fn arrived(&self, _: &Arrival, _: Phase) {}
    fn ended(&self, ended: Ended) {
        let s = ended.record.summary;
        let id = format!("t-{}", s.id());
        self.0
            .borrow_mut()
            .push((id, s.origin(), s.first_token(), s.last_token(), s.events()));
    }
}

async fn own(ask: &Ask, clock: Clock) -> Result<Vec<Row>, Box<dyn Error>> {
    let client = Client::new(Target::new(Endpoint::parse(&ask.url)?, "truth"), clock, "t").await?;
    let streams = NonZeroU32::new(ask.streams).ok_or("no streams")?;
    let requests = NonZeroU32::new(ask.requests).ok_or("no requests")?;
    let load = ask
        .rate
        .map_or(Load::Closed(streams), |per_second| Load::Open {
            per_second,
        });
    let spec = Arc::new(WorkloadSpec::preset("chat-short")?);
    let workload = Workload::with_ramp(&spec, load, 7, Shard::WHOLE, Duration::ZERO);
    let plan = PointPlan {
        settle: Settle::None,
        ..PointPlan::new(0, load, Window::Requests(requests))
    };
    let (rows, body): (_, Rc<dyn Compose>) = (Rc::new(Rows::default()), Rc::new(Body(ask.tokens)));
    let report = run_point(&client, &body, workload, &plan, &rows, &Stop::new()).await?;
    let p99 = |d: &Distribution| d.quantile(0.99).map_or(0.0, |ns| ns / 1e6);
    note(&format!(
        "send lag p99 {:.3} ms, loop lag p99 {:.3} ms",
        p99(&report.send_lag),
        p99(report.loop_lag())
    ));
    note(&format!(
        "unread {:?}, {:?}\nmoved {:?}",
        report.unread_for, report.machine, report.moved
    ));
    for why in &report.invalid {
        note(&format!("invalid: {why}"));
    }
    Ok(rows.0.take())
}

#[expect(clippy::print_stderr, reason = "an example may talk")]
fn note(text: &str) {
    eprintln!("{text}");
}

#[derive(Default)]
struct Seen {
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    events: u32,
}

impl StreamEvents for Seen {
    fn token_event(&mut self, at: Timestamp, _: u32, _: bool) {
        self.first.get_or_insert(at);
        self.last = Some(at);
        self.events += 1;
    }
}

async fn through_hyper(ask: &Ask, clock: Clock) -> Result<Vec<Row>, Box<dyn Error>> {
    let endpoint = Endpoint::parse(&ask.url)?;
    let (next, rows) = (Rc::new(Cell::new(0)), Rc::new(Rows::default()));
    let mut users = tokio::task::JoinSet::new();
    let mut senders = Vec::new();
    for _ in 0..ask.streams {
        let tcp = tokio::net::TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
        tcp.set_nodelay(true)?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tcp)).await?;
        tokio::task::spawn_local(connection);
        senders.push(sender);
    }
    for mut sender in senders {
        let (next, rows, authority) = (next.clone(), rows.clone(), endpoint.authority());
        let (total, tokens) = (ask.requests, ask.tokens);
        users.spawn_local(async move {
            while next.get() < total {
                let id = format!("t-{}", next.replace(next.get() + 1));
                let origin = clock.now();
                let request = http::Request::post("/v1/chat/completions")
                    .header("host", &authority)
                    .header("content-type", "application/json")
                    .header("x-request-id", &id)
                    .body(Full::new(bytes::Bytes::from(body(tokens))))
                    .expect("a fixed request");
                sender.ready().await.expect("a connection");
                let mut answer = sender
                    .send_request(request)
                    .await
                    .expect("an answer")
                    .into_body();
                let (mut reader, mut seen) =
                    (StreamReader::new(StreamOptions::default()), Seen::default());
                while let Some(frame) = answer.frame().await {
                    let at = clock.now();
                    if let Ok(data) = frame.expect("a whole body").into_data() {
                        reader.on_bytes(at, &data, &mut seen);
                    }
                }
                reader.finish(EndOfBody::Clean, &mut seen);
                rows.0
                    .borrow_mut()
                    .push((id, origin, seen.first, seen.last, seen.events));
            }
        });
    }
    while users.join_next().await.is_some() {}
    Ok(rows.0.take())
}

#[expect(clippy::print_stdout, reason = "an example's only output")]
fn main() -> Result<(), Box<dyn Error>> {
    let ask = ask().ok_or("usage: transport own|hyper URL STREAMS REQUESTS TOKENS [CSV [RATE]]")?;
    let clock = Clock::start();
    let cpu = cpu_ns();
    let rows = runtime()?.block_on(async {
        match ask.transport.as_str() {
            "hyper" => through_hyper(&ask, clock).await,
            _ => own(&ask, clock).await,
        }
    })?;
    let cpu_s = (cpu_ns() - cpu) as f64 / 1e9;
    let events: u64 = rows.iter().map(|r| u64::from(r.4)).sum();
    if let Some(path) = &ask.csv {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
        writeln!(file, "id,origin_ns,first_ns,last_ns,events")?;
        let at = |t: Option<Timestamp>| t.map_or(0, |t| t.nanos() + clock.monotonic_zero_ns());
        for (id, origin, first, last, events) in &rows {
            writeln!(
                file,
                "{id},{},{},{},{events}",
                at(Some(*origin)),
                at(*first),
                at(*last)
            )?;
        }
    }
    println!(
        r#"{{"requests":{},"events":{events},"wall_s":{:.3},"cpu_s":{cpu_s:.3},"cpu_us_per_event":{:.3}}}"#,
        rows.len(),
        clock.now().seconds(),
        cpu_s * 1e6 / (events.max(1) as f64)
    );
    Ok(())
}

fn cpu_ns() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(used.tv_sec).unwrap_or_default() * 1_000_000_000
        + u64::try_from(used.tv_nsec).unwrap_or_default()
}
