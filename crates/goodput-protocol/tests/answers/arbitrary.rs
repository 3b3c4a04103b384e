//! No bytes make a reader panic, and no chunking changes what it makes of them.

use goodput_protocol::{EndOfBody, Head, ServerIdentity, engine_sample, explain};
use goodput_record::Timestamp;
use proptest::prelude::*;

use crate::harness::{Transport, cut_finer, read};

/// Bytes that are often nearly right.
fn nearly(parts: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        8 => prop::sample::select(parts).prop_map(|part| part.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(part, 0..30).prop_map(|parts| parts.concat())
}

const STREAM: &[&str] = &[
    "data: ",
    "data:",
    "\n",
    "\n\n",
    "\r",
    "\r\n",
    ":",
    "event: error",
    "id: 1",
    "null",
    "[DONE]",
    "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"",
    "a",
    " b",
    "\\ud83d",
    "\\ude00",
    "\"}",
    ",\"finish_reason\":\"stop\"}]",
    ",\"finish_reason\":null}]",
    "}",
    "{",
    "[",
    "]",
    ",\"usage\":{\"completion_tokens\":",
    "-3",
    "7",
    "1e400",
    "\"error\":",
    "\u{FEFF}",
    "\u{2028}",
    "{\"choices\":[],\"usage\":{\"completion_tokens\":5}}",
    "{\"error\":{\"message\":\"x\"}}",
    "{\"choices\":[{\"text\":\"t\",\"index\":4294967295}]}",
];

const RESPONSE: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.0 503 Busy\r\n",
    "content-type: text/event-stream\r\n",
    "content-type: application/json\r\n",
    "transfer-encoding: chunked\r\n",
    "content-length: 5\r\n",
    "connection: close\r\n",
    "\r\n",
    "5\r\n",
    "a;x=y\r\n",
    "0\r\n",
    "ffffffffffffffff\r\n",
    "hello",
    "data: {\"choices\":[]}\n\n",
    "{\"choices\":[]}",
    "<html>",
    "\n",
];

fn stream() -> Transport {
    let mut head = Head::new(200);
    head.header("content-type", b"text/event-stream");
    Transport::Body(head, EndOfBody::Clean)
}

/// Found by the fuzzer: a byte order mark behind white space that a read of its own brought was
/// taken for the stream's first.
#[test]
fn white_space_ahead_of_a_stream_is_part_of_it_however_it_is_cut() {
    let bytes = "\n\u{FEFF}data: {\"choices\":[]}\n\n".as_bytes();
    let whole = [(0, bytes.len())];
    let seen = read(bytes, &whole, &stream());
    assert_eq!(read(bytes, &cut_finer(&whole, &[1]), &stream()), seen);
}

proptest! {
    #[test]
    fn streams(bytes in nearly(STREAM), cuts in prop::collection::vec(1_usize..200, 0..10)) {
        let whole = [(0, bytes.len())];
        let seen = read(&bytes, &whole, &stream());
        prop_assert_eq!(read(&bytes, &cut_finer(&whole, &cuts), &stream()), seen);
    }

    #[test]
    fn responses(bytes in nearly(RESPONSE), cuts in prop::collection::vec(1_usize..200, 0..10)) {
        let whole = [(0, bytes.len())];
        let seen = read(&bytes, &whole, &Transport::Raw);
        prop_assert_eq!(read(&bytes, &cut_finer(&whole, &cuts), &Transport::Raw), seen);
    }

    #[test]
    fn noise(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let whole = [(0, bytes.len())];
        let _ = read(&bytes, &whole, &stream());
        let _ = read(&bytes, &whole, &Transport::Raw);
        let _ = explain(&bytes);
        let _ = engine_sample(&String::from_utf8_lossy(&bytes), Timestamp::ZERO, 0);
        let mut identity = ServerIdentity::default();
        identity.add_models(&bytes);
        identity.add_version(&bytes);
        identity.add_props(&bytes);
        identity.add_info(&bytes);
    }
}
