//! A token event allocates nothing: an answer ten times as long costs the load thread no more
//! allocations.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    num::NonZeroU32,
    rc::Rc,
    sync::Arc,
    thread,
    time::Duration,
};

use goodput_loadgen::{
    Client, Clock, Compose, Ended, Endpoint, Observer, PointPlan, Settle, Stop, Target, Window,
    run_point, runtime,
};
use goodput_record::{Arrival, Outcome, Phase};
use goodput_workload::{Load, PlannedRequest, Shard, Workload, WorkloadSpec};

/// Answers one request after the other with as many tokens as it asks for, each in a write of its
/// own, and in events as vLLM sends them.
fn serve(mut socket: TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut lines = BufReader::new(socket.try_clone()?);
    loop {
        let mut length = 0;
        let mut line = String::new();
        while lines.read_line(&mut line)? > 2 {
            if let Some(bytes) = line.strip_prefix("content-length: ") {
                length = bytes.trim().parse().unwrap();
            }
            line.clear();
        }
        if length == 0 {
            return Ok(());
        }
        let mut body = vec![0; length];
        lines.read_exact(&mut body)?;
        let tokens: u32 = String::from_utf8(body).unwrap().parse().unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        socket.write_all(head.as_bytes())?;
        for token in 0..tokens {
            let event = format!(
                "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1764500000,\
                 \"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" w{token}\"}},\
                 \"logprobs\":null,\"finish_reason\":null}}]}}\n\n"
            );
            chunk(&mut socket, &event)?;
        }
        let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        chunk(&mut socket, end)?;
        socket.write_all(b"0\r\n\r\n")?;
    }
}

fn chunk(socket: &mut TcpStream, text: &str) -> std::io::Result<()> {
    socket.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
}

/// Asks for a number of tokens.
struct Tokens(u32);

impl Compose for Tokens {
    fn body(&self, _: &PlannedRequest, _: &[Option<String>]) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }
}

/// Counts token events of requests that ended well.
#[derive(Default)]
struct Events(std::cell::Cell<u64>);

impl Observer for Events {
    fn arrived(&self, _: &Arrival, _: Phase) {}
    fn ended(&self, ended: Ended) {
        let summary = ended.record.summary;
        assert_eq!(summary.outcome(), Outcome::Ok, "{:?}", ended.error);
        self.0.set(self.0.get() + u64::from(summary.events()));
    }
}

/// Allocations of the load thread over a point of eight requests, and the token events it took in.
fn point(url: &str, tokens: u32) -> (u64, u64) {
    let events = Rc::new(Events::default());
    let seen = Rc::clone(&events);
    let url = url.to_owned();
    let measured = allocation_counter::measure(move || {
        runtime().unwrap().block_on(async move {
            let load = Load::Closed(NonZeroU32::new(4).unwrap());
            let target = Target::new(Endpoint::parse(&url).unwrap(), "m");
            let client = Client::new(target, Clock::start(), "t").await.unwrap();
            let spec = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
            let workload = Workload::with_ramp(&spec, load, 7, Shard::WHOLE, Duration::ZERO);
            let plan = PointPlan {
                settle: Settle::None,
                ..PointPlan::new(0, load, Window::Requests(NonZeroU32::new(8).unwrap()))
            };
            let compose: Rc<dyn Compose> = Rc::new(Tokens(tokens));
            run_point(&client, &compose, workload, &plan, &seen, &Stop::new())
                .await
                .unwrap();
        });
    });
    (measured.count_total, events.0.get())
}

#[test]
fn a_token_event_allocates_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    thread::spawn(move || {
        for socket in listener.incoming() {
            thread::spawn(|| serve(socket.unwrap()));
        }
    });
    // What is made once a process is not counted.
    point(&url, 10);
    let (few, short) = point(&url, 500);
    let (many, long) = point(&url, 5_000);
    assert_eq!((short, long), (4_000, 40_000));
    // Buffers that double as they grow, and the series of the load thread's own ticks.
    let growth = 8 * 6 + 24;
    assert!(
        many < few + growth,
        "{few} allocations for {short} token events, {many} for {long}"
    );
}
