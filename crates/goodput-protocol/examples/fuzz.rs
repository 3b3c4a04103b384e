//! Feeds mutated streams to the readers: nothing may panic, and the same bytes must come to the
//! same result however they are cut.
//!
//!     cargo run --release -p goodput-protocol --example fuzz -- 10000000
//!
//! The second argument is the seed of the first input; a failure prints the input's own seed, which
//! as seed of a run of one input gives it again.

#![expect(clippy::print_stdout, reason = "an example talks")]
#![expect(
    clippy::disallowed_methods,
    reason = "the crate is pure, its example has arguments and a clock"
)]

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use goodput_protocol::{
    Channel, EndOfBody, ExchangeReader, StreamEnd, StreamEvents, StreamOptions, StreamReader,
};
use goodput_record::Timestamp;

/// What streams are made of: right, nearly right, and wrong.
const PARTS: &[&str] = &[
    "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"tok\"},\"finish_reason\":null}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"text\":\"\\ud83d\\ude00\",\"index\":0}]}\r\r",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7,\"total_tokens\":12}}\n\n",
    "data: [DONE]\n\n",
    "data: {\"error\":{\"message\":\"out of memory\",\"code\":500}}\n\n",
    ": ping\n\n",
    "event: error\ndata: x\n\n",
    "id: 7\nretry: 10\ndata: null\n\n",
    "data: \n",
    "data",
    "\u{FEFF}",
    "\n",
    "\r",
    "{\"choices\":[{\"message\":{\"content\":\"whole\"}}]}",
    "<html>502 Bad Gateway</html>",
];

/// Small, fast and good enough to choose bytes: splitmix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.roll() % n.max(1) as u64).unwrap_or(0)
    }
}

/// One input: parts of streams, some of them damaged, some behind an HTTP head.
fn input(dice: &mut Dice) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    for _ in 0..=dice.below(8) {
        bytes.extend_from_slice(PARTS[dice.below(PARTS.len())].as_bytes());
    }
    for _ in 0..dice.below(5) {
        damage(&mut bytes, dice);
    }
    let framed = dice.below(4) == 0;
    if framed {
        bytes = behind_a_head(&bytes, dice);
        if dice.below(2) == 0 {
            damage(&mut bytes, dice);
        }
    }
    (bytes, framed)
}

fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    if bytes.is_empty() {
        return;
    }
    let at = dice.below(bytes.len());
    let byte = u8::try_from(dice.roll() & 0xff).unwrap_or(0);
    match dice.below(5) {
        0 => bytes[at] = byte,
        1 => bytes.insert(at, byte),
        2 => {
            bytes.remove(at);
        }
        3 => bytes.truncate(at),
        _ => {
            let to = at + dice.below(bytes.len() - at);
            let copy = bytes[at..to].to_vec();
            bytes.splice(at..at, copy);
        }
    }
}

fn behind_a_head(body: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut whole = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n".to_vec();
    if dice.below(3) == 0 {
        whole.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        whole.extend_from_slice(body);
        return whole;
    }
    whole.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
    let mut left = body;
    while !left.is_empty() {
        let (piece, rest) = left.split_at(1 + dice.below(left.len()));
        whole.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        whole.extend_from_slice(piece);
        whole.extend_from_slice(b"\r\n");
        left = rest;
    }
    whole.extend_from_slice(b"0\r\n\r\n");
    whole
}

/// All that comes out of a reader, instants left out: those are the cuts' own.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    events: Vec<(u32, bool)>,
    text: [String; 4],
    end: Option<StreamEnd>,
}

impl StreamEvents for Seen {
    fn token_event(&mut self, _at: Timestamp, tokens: u32, answer: bool) {
        self.events.push((tokens, answer));
    }

    fn text(&mut self, channel: Channel, text: &str) {
        let place = Channel::ALL.iter().position(|c| *c == channel);
        self.text[place.unwrap_or(0)].push_str(text);
    }
}

fn read(bytes: &[u8], framed: bool, mut piece: impl FnMut() -> usize) -> Seen {
    let options = StreamOptions {
        text: true,
        ..StreamOptions::default()
    };
    let mut seen = Seen::default();
    let mut left = bytes;
    let mut pieces = std::iter::from_fn(|| {
        let (next, rest) = left.split_at(piece().clamp(1, left.len().max(1)).min(left.len()));
        left = rest;
        (!next.is_empty()).then_some(next)
    });
    let end = if framed {
        let mut reader = ExchangeReader::new(options);
        for bytes in &mut pieces {
            reader.on_bytes(Timestamp::ZERO, bytes, &mut seen);
        }
        reader.finish(&mut seen)
    } else {
        let mut reader = StreamReader::new(options);
        for bytes in &mut pieces {
            reader.on_bytes(Timestamp::ZERO, bytes, &mut seen);
        }
        reader.finish(EndOfBody::Clean, &mut seen)
    };
    seen.end = Some(end);
    seen
}

/// Reads one input whole, cut anywhere, and byte by byte.
fn holds(seed: u64) -> bool {
    let mut dice = Dice(seed);
    let (bytes, framed) = input(&mut dice);
    let whole = read(&bytes, framed, || usize::MAX);
    let cut = read(&bytes, framed, || 1 + dice.below(40));
    let single = read(&bytes, framed, || 1);
    if whole != cut || whole != single {
        println!(
            "seed {seed}: {}\nwhole  {whole:?}\ncut    {cut:?}\nsingle {single:?}",
            String::from_utf8_lossy(&bytes)
        );
        return false;
    }
    true
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().ok());
    let inputs: u64 = arguments.next().flatten().unwrap_or(1_000_000);
    let first: u64 = arguments.next().flatten().unwrap_or(1);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (began, broken) = (Instant::now(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let broken = &broken;
            scope.spawn(move || {
                let mine = (first + thread as u64..first + inputs).step_by(threads);
                let bad = mine.filter(|&seed| !holds(seed)).count();
                broken.fetch_add(bad as u64, Ordering::Relaxed);
            });
        }
    });
    let broken = broken.load(Ordering::Relaxed);
    println!(
        "{inputs} inputs, each whole, cut and byte by byte: {broken} differ, {:.0} s",
        began.elapsed().as_secs_f64()
    );
    std::process::exit(i32::from(broken > 0));
}
