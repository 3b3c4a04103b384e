//! Events read per second of CPU time, HTTP chunk framing included: `cargo bench -p goodput-protocol`.

#![expect(
    clippy::print_stdout,
    reason = "a benchmark's result is what it prints"
)]

use std::{hint::black_box, time::Duration};

use goodput_protocol::{ExchangeReader, StreamEvents, StreamOptions};
use goodput_record::Timestamp;

/// Token events of one stream, and how often it is read. Several hundred milliseconds in all: the
/// system's count of CPU time may lag by one tick of its clock.
const EVENTS: usize = 20_000;
const ROUNDS: usize = 40;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

#[derive(Default)]
struct Count {
    events: usize,
}

impl StreamEvents for Count {
    fn token_event(&mut self, at: Timestamp, tokens: u32, answer: bool) {
        self.events += 1;
        black_box((at, tokens, answer));
    }
}

fn vllm(_: usize) -> String {
    r#"{"id":"chatcmpl-be991ece765fa762","object":"chat.completion.chunk","created":1795999414,"model":"tiny-llama","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null,"token_ids":null}]}"#.to_owned()
}

fn vllm_with_usage(i: usize) -> String {
    let (total, output) = (25 + i, 1 + i);
    let mut chunk = vllm(i);
    chunk.truncate(chunk.len() - 1);
    chunk
        + &format!(
            r#","usage":{{"prompt_tokens":24,"total_tokens":{total},"completion_tokens":{output},"completion_tokens_details":null}}}}"#
        )
}

fn llama_cpp(_: usize) -> String {
    r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"content":" \"one\n"}}],"created":1795998557,"id":"chatcmpl-AiYjrROuwa6OaQ0kfdgOMfdptr36ENuh","model":"gemma-3-270m","system_fingerprint":"b0-unknown","object":"chat.completion.chunk"}"#.to_owned()
}

/// A shape for the full parser: two pieces of tool calls in one delta.
fn odd(_: usize) -> String {
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"a"}},{"index":1,"function":{"arguments":"b"}}]},"finish_reason":null}]}"#.to_owned()
}

/// A response of one HTTP chunk per event, as reads of one event each.
fn reads(chunk: fn(usize) -> String) -> Vec<Vec<u8>> {
    let events = (0..EVENTS).map(chunk).chain(["[DONE]".to_owned()]);
    let framed = events.map(|data| {
        let event = format!("data: {data}\n\n");
        format!("{:x}\r\n{event}\r\n", event.len())
    });
    let ends = ["0\r\n\r\n".to_owned()];
    let all = [HEAD.to_owned()].into_iter().chain(framed).chain(ends);
    all.map(String::into_bytes).collect()
}

/// CPU time of this thread so far, where the system tells.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn cpu_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

fn measure(name: &str, reads: &[&[u8]]) {
    let mut reader = ExchangeReader::new(StreamOptions::default());
    let before = cpu_time();
    for _ in 0..ROUNDS {
        let mut count = Count::default();
        reader.reset();
        for read in reads {
            reader.on_bytes(Timestamp::ZERO, black_box(read), &mut count);
        }
        let end = reader.finish(&mut count);
        assert!(count.events == EVENTS && end.done_seen);
    }
    let Some(spent) = before.zip(cpu_time()).map(|(before, after)| after - before) else {
        println!("{name}: this system does not tell CPU time");
        return;
    };
    let events = (EVENTS * ROUNDS) as f64;
    println!(
        "{name}: {:.2} M events per CPU second",
        events / spent.as_secs_f64() / 1e6
    );
}

fn main() {
    type Shape = (&'static str, fn(usize) -> String);
    let shapes: [Shape; 4] = [
        ("vLLM chat", vllm),
        ("vLLM chat with running usage", vllm_with_usage),
        ("llama.cpp chat with escapes", llama_cpp),
        ("full parser", odd),
    ];
    for (name, chunk) in shapes {
        let reads = reads(chunk);
        let single: Vec<&[u8]> = reads.iter().map(Vec::as_slice).collect();
        measure(&format!("{name}, one event a read"), &single);
        let all = reads.concat();
        let large: Vec<&[u8]> = all.chunks(16 << 10).collect();
        measure(&format!("{name}, 16 KiB a read"), &large);
    }
}
