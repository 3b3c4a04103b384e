//! How late the emulator writes tokens: 512 streams of a token every 20 ms, for 10 s.
//!
//! `cargo run --release -p goodput-emulator --example lateness [STREAMS] [TOKENS]`
//!
//! The server measures itself, from the instant at which the engine says a token is due to the
//! return of the write; the reader in this process only keeps the sockets empty, and says how far
//! the gaps between its reads were from 20 ms.
#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use std::{
    error::Error,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener},
    time::{Duration, Instant},
};

use goodput_emulator::{EmulatorConfig, Stop, serve};
use goodput_perf_model::Profile;
use goodput_stats::Distribution;
use mio::{Events, Interest, Poll, Token, net::TcpStream};

/// A step takes 20 ms whatever is in it, and everything fits.
const PROFILE: &str = r#"
name = "metronome"
model_id = "metronome"
gpu = "none"
precision = "none"
source = "a fixed step, for measuring the emulator itself"
[engine]
max_num_seqs = 4096
max_batched_tokens = 1048576
chunked_prefill = true
prefix_cache = false
kv_blocks = 4194304
block_tokens = 16
context_limit = 1048576
[step_time]
overhead_us = 20000
weights_us = 0
"#;

const STEP: Duration = Duration::from_millis(20);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let streams = arguments.next().map_or(Ok(512), |text| text.parse())?;
    let tokens = arguments.next().map_or(Ok(500), |text| text.parse())?;

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let stop = Stop::new();
    let config = EmulatorConfig::new(Profile::parse("metronome", PROFILE)?);
    let server = std::thread::spawn({
        let stop = stop.clone();
        move || serve(config, listener, &stop)
    });
    let began = Instant::now();
    let gaps = read_streams(address, streams, tokens)?;
    let took = began.elapsed();
    stop.drain();
    let report = server.join().map_err(|_| "the server panicked")??;

    let late = report.lateness.figures();
    let ms = |value: Option<f64>| value.map_or("-".to_owned(), |ms| format!("{ms:.3}"));
    println!(
        "{streams} streams of {tokens} tokens in {:.1} s",
        took.as_secs_f64()
    );
    println!(
        "server: {} writes, late p50 {} p90 {} p99 {} max {} ms, {} blocked",
        late.writes,
        ms(late.p50_ms),
        ms(late.p90_ms),
        ms(late.p99_ms),
        ms(late.max_ms),
        late.blocked,
    );
    let quantile = |q| ms(gaps.quantile(q).map(|nanos| nanos / 1e6));
    println!(
        "reader: {} gaps, off 20 ms by p50 {} p99 {} ms",
        gaps.count(),
        quantile(0.5),
        quantile(0.99),
    );
    Ok(())
}

/// Reads all streams to their end; returns how far each gap between reads was from a step.
fn read_streams(
    address: SocketAddr,
    streams: usize,
    tokens: usize,
) -> Result<Distribution, Box<dyn Error>> {
    let body = format!(r#"{{"prompt":"one two three","max_tokens":{tokens},"stream":true}}"#);
    let request = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut poll = Poll::new()?;
    let mut sockets = Vec::with_capacity(streams);
    for slot in 0..streams {
        let mut socket = std::net::TcpStream::connect(address)?;
        socket.write_all(request.as_bytes())?;
        socket.set_nonblocking(true)?;
        let mut socket = TcpStream::from_std(socket);
        poll.registry()
            .register(&mut socket, Token(slot), Interest::READABLE)?;
        sockets.push((socket, None, false));
    }
    let mut gaps = Distribution::default();
    let mut events = Events::with_capacity(1024);
    let mut buffer = vec![0; 64 * 1024];
    let mut open = streams;
    while open > 0 {
        poll.poll(&mut events, None)?;
        for event in &events {
            let (socket, last, ended) = &mut sockets[event.token().0];
            let now = Instant::now();
            loop {
                match socket.read(&mut buffer) {
                    Ok(0) => {
                        open -= usize::from(!std::mem::replace(ended, true));
                        break;
                    }
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
            if let Some(last) = last.replace(now) {
                let gap: Duration = now - last;
                let off = u64::try_from(gap.abs_diff(STEP).as_nanos())?;
                gaps.record(off);
            }
        }
    }
    Ok(gaps)
}
