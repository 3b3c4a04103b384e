//! Events read per second of CPU time, HTTP chunk framing included: `cargo bench -p goodput-protocol`.

#![expect(
    clippy::print_stdout,
    reason = "a benchmark's result is what it prints"
)]

use std::{hint::black_box, time::Duration};

use goodput_protocol::{ExchangeReader, StreamEvents, StreamOptions};
use goodput_record::Timestamp;

#[derive(Default)]
struct Count {
    events: u64,
    tokens: u64,
}

impl StreamEvents for Count {
    fn token_event(&mut self, at: Timestamp, tokens: u32, answer: bool) {
        self.events += 1;
        self.tokens += u64::from(tokens);
        black_box((at, answer));
    }
}

/// Streams of the shapes that engines send, `events` token events each.
fn streams(events: usize) -> Vec<(&'static str, Vec<u8>, usize)> {
    let vllm = |usage: bool| {
        let chunk = move |i: usize| {
            let usage = if usage {
                format!(
                    ",\"usage\":{{\"prompt_tokens\":24,\"total_tokens\":{},\"completion_tokens\":{},\"completion_tokens_details\":null}}",
                    25 + i,
                    i + 1
                )
            } else {
                String::new()
            };
            format!(
                "data: {{\"id\":\"chatcmpl-be991ece765fa762\",\"object\":\"chat.completion.chunk\",\"created\":1795999414,\"model\":\"tiny-llama\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" word\"}},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}}]{usage}}}\n\n"
            )
        };
        framed((0..events).map(chunk))
    };
    let llama = framed((0..events).map(|_| {
        "data: {\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"content\":\" \\\"one\\n\"}}],\"created\":1795998557,\"id\":\"chatcmpl-AiYjrROuwa6OaQ0kfdgOMfdptr36ENuh\",\"model\":\"gemma-3-270m\",\"system_fingerprint\":\"b0-unknown\",\"object\":\"chat.completion.chunk\"}\n\n".to_owned()
    }));
    vec![
        ("vLLM chat, one event a read", vllm(false), 1),
        ("vLLM chat, 16 KiB a read", vllm(false), 16 << 10),
        (
            "vLLM chat with running usage, 16 KiB a read",
            vllm(true),
            16 << 10,
        ),
        (
            "llama.cpp chat with escapes, 16 KiB a read",
            llama.clone(),
            16 << 10,
        ),
        ("llama.cpp chat with escapes, 100 bytes a read", llama, 100),
    ]
}

/// A chunked response, one HTTP chunk per event.
fn framed(events: impl Iterator<Item = String>) -> Vec<u8> {
    let mut out =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec();
    for event in events.chain(["data: [DONE]\n\n".to_owned()]) {
        out.extend_from_slice(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes());
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

/// CPU time of this thread so far, where the system tells.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn cpu_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

fn main() {
    const EVENTS: usize = 20_000;
    for (name, bytes, piece) in streams(EVENTS) {
        let pieces: Vec<&[u8]> = if piece == 1 {
            bytes.chunks(bytes.len() / EVENTS).collect()
        } else {
            bytes.chunks(piece).collect()
        };
        let mut reader = ExchangeReader::new(StreamOptions::default());
        let mut best = f64::INFINITY;
        for _ in 0..15 {
            let mut count = Count::default();
            reader.reset();
            let before = cpu_time();
            for piece in &pieces {
                reader.on_bytes(Timestamp::ZERO, black_box(piece), &mut count);
            }
            let end = reader.finish(&mut count);
            let spent = before.zip(cpu_time()).map(|(before, after)| after - before);
            assert_eq!(
                (count.events, end.token_events as usize),
                (EVENTS as u64, EVENTS)
            );
            if let Some(spent) = spent {
                best = best.min(spent.as_secs_f64());
            }
        }
        println!(
            "{name}: {:.2} M events per CPU second",
            EVENTS as f64 / best / 1e6
        );
    }
}
