//! A running emulator and a client for it.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use goodput_emulator::{EmulatorConfig, EmulatorReport, Faults, Stop, serve};
use goodput_perf_model::Profile;
use goodput_protocol::{Channel, ExchangeReader, StreamEnd, StreamEvents, StreamOptions};
use goodput_record::Timestamp;

/// A quick replica: a step takes 1 ms.
const PROFILE: &str = r#"
name = "quick"
model_id = "test/quick"
gpu = "none"
precision = "none"
source = "for tests"
[engine]
max_num_seqs = 64
max_batched_tokens = 2048
chunked_prefill = true
prefix_cache = true
kv_blocks = 4096
block_tokens = 16
context_limit = 4096
[step_time]
overhead_us = 1000
weights_us = 0
"#;

/// The quick profile, and configs from it.
pub(crate) fn quick() -> EmulatorConfig {
    EmulatorConfig::new(Profile::parse("quick", PROFILE).unwrap())
}

/// The quick profile with faults.
pub(crate) fn faulty(faults: &[&str]) -> EmulatorConfig {
    let mut config = quick();
    config.faults = Faults::parse(faults.iter().copied()).unwrap();
    config
}

/// A replica whose every step takes half a minute: it is silent for that long.
pub(crate) fn silent() -> EmulatorConfig {
    let mut config = quick();
    config.profile.step_time.overhead_s = 30.0;
    config
}

/// An emulator on a thread of its own.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) stop: Stop,
    thread: Option<JoinHandle<EmulatorReport>>,
}

impl Running {
    pub(crate) fn start(config: EmulatorConfig) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Stop::new();
        let thread = std::thread::spawn({
            let stop = stop.clone();
            move || serve(config, listener, &stop).unwrap()
        });
        Self {
            address,
            stop,
            thread: Some(thread),
        }
    }

    /// Waits until it has ended by itself.
    pub(crate) fn join(mut self) -> EmulatorReport {
        self.thread.take().unwrap().join().unwrap()
    }

    /// Ends it at once.
    pub(crate) fn end(self) -> EmulatorReport {
        self.stop.end();
        self.join()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.address)
    }

    /// One number of `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let page = self.client().get("/metrics").body;
        let found = goodput_protocol::metrics(&page).find(|metric| metric.name == name);
        found.unwrap_or_else(|| panic!("no {name}")).value
    }

    /// Waits until a metric is `value`; fails after 10 s.
    pub(crate) fn wait_for(&self, name: &str, value: f64) {
        let began = Instant::now();
        while (self.metric(name) - value).abs() > 1e-9 {
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "{name} {}",
                self.metric(name)
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a stream brought.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) end: StreamEnd,
    pub(crate) text: String,
    /// When each token event was read.
    pub(crate) events: Vec<Timestamp>,
    pub(crate) raw: String,
}

/// A plain answer.
#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Plain {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// One keep-alive connection.
pub(crate) struct Client {
    socket: TcpStream,
    pub(crate) headers: String,
}

#[derive(Default)]
struct Events {
    at: Vec<Timestamp>,
    text: String,
}

impl StreamEvents for Events {
    fn token_event(&mut self, at: Timestamp, _: u32, _: bool) {
        self.at.push(at);
    }

    fn text(&mut self, _: Channel, text: &str) {
        self.text.push_str(text);
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Self {
            socket,
            headers: String::new(),
        }
    }

    pub(crate) fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Sends a request and does not read.
    pub(crate) fn send(&mut self, method: &str, path: &str, body: &str) {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\n{}content-length: {}\r\n\r\n{body}",
            self.headers,
            body.len()
        );
        self.socket.write_all(request.as_bytes()).unwrap();
    }

    pub(crate) fn get(&mut self, path: &str) -> Plain {
        self.send("GET", path, "");
        self.read_plain()
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> Plain {
        self.send("POST", path, body);
        self.read_plain()
    }

    /// Posts a request for an answer and reads it with the project's reader.
    pub(crate) fn answer(&mut self, path: &str, body: &str) -> Seen {
        self.send("POST", path, body);
        self.read_answer()
    }

    pub(crate) fn chat(&mut self, content: &str, rest: &str) -> Seen {
        let body = format!(
            r#"{{"model":"test/quick","messages":[{{"role":"user","content":"{content}"}}],"stream":true,"stream_options":{{"include_usage":true}},{rest}}}"#
        );
        self.answer("/v1/chat/completions", &body)
    }

    pub(crate) fn read_answer(&mut self) -> Seen {
        let options = StreamOptions {
            text: true,
            ..StreamOptions::default()
        };
        let mut reader = ExchangeReader::new(options);
        let mut events = Events::default();
        let mut raw = Vec::new();
        let mut buffer = [0; 16 * 1024];
        let began = Instant::now();
        loop {
            let read = self.socket.read(&mut buffer).unwrap_or(0);
            let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap();
            raw.extend_from_slice(&buffer[..read]);
            let now = Timestamp::from_nanos(nanos);
            if read == 0 || reader.on_bytes(now, &buffer[..read], &mut events) {
                break;
            }
        }
        let status = reader.head().map_or(0, |head| head.status);
        let end = reader.finish(&mut events);
        Seen {
            status,
            end,
            text: events.text,
            events: events.at,
            raw: String::from_utf8_lossy(&raw).into_owned(),
        }
    }

    pub(crate) fn read_plain(&mut self) -> Plain {
        let mut bytes = Vec::new();
        let mut buffer = [0; 16 * 1024];
        loop {
            if let Some(plain) = whole(&bytes) {
                return plain;
            }
            let read = self.socket.read(&mut buffer).unwrap();
            assert!(
                read > 0,
                "closed after {:?}",
                String::from_utf8_lossy(&bytes)
            );
            bytes.extend_from_slice(&buffer[..read]);
        }
    }
}

/// A response with a content-length, if it is complete.
fn whole(bytes: &[u8]) -> Option<Plain> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))?;
    let length: usize = length.parse().unwrap();
    (body.len() >= length).then(|| Plain {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        body: body[..length].to_owned(),
    })
}
