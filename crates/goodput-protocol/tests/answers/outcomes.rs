//! Which outcome and which counts an answer gets.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use goodput_protocol::{
    EndOfBody, ExchangeReader, Head, StreamEnd, StreamEvents, StreamOptions, StreamReader,
};
use goodput_record::{FinishReason, Outcome, Timestamp, TokenCount};

use crate::harness::{Seen, Transport, cut_finer, read};

fn head(status: u16, headers: &[(&str, &str)]) -> Head {
    let mut head = Head::new(status);
    for (name, value) in headers {
        head.header(name, value.as_bytes());
    }
    head
}

/// A reply with this status, type and body that ends well.
fn reply(status: u16, media_type: &str, body: &str) -> Seen {
    let head = head(status, &[("content-type", media_type)]);
    let transport = Transport::Body(head, EndOfBody::Clean);
    let whole = [(50, body.len())];
    let seen = read(body.as_bytes(), &whole, &transport);
    let every: Vec<usize> = (1..body.len()).collect();
    let finest = read(body.as_bytes(), &cut_finer(&whole, &every), &transport);
    assert_eq!(finest, seen, "byte by byte");
    seen
}

/// A stream of these data lines that ends as `end` says.
fn stream_to(end: EndOfBody, data: &[&str]) -> Seen {
    let body = data
        .iter()
        .fold(String::new(), |body, data| body + "data: " + data + "\n\n");
    let head = head(200, &[("content-type", "text/event-stream")]);
    read(
        body.as_bytes(),
        &[(50, body.len())],
        &Transport::Body(head, end),
    )
}

pub(crate) fn stream(data: &[&str]) -> Seen {
    stream_to(EndOfBody::Clean, data)
}

const HI: &str = r#"{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const DONE: &str = "[DONE]";

#[test]
fn a_stream_is_whole_by_its_end_mark_or_by_a_finish_reason_and_a_clean_end() {
    use EndOfBody::{Clean, Cut};
    let outcome = |end, data: &[&str]| stream_to(end, data).end.outcome;
    assert_eq!(outcome(Clean, &[HI, STOP, DONE]), Outcome::Ok);
    assert_eq!(outcome(Clean, &[HI, STOP]), Outcome::Ok);
    assert_eq!(
        outcome(Clean, &[HI, DONE]),
        Outcome::Ok,
        "some servers name no reason"
    );
    assert_eq!(outcome(Clean, &[HI]), Outcome::Truncated);
    assert_eq!(outcome(Cut, &[HI, STOP]), Outcome::Truncated);
    assert_eq!(
        outcome(Cut, &[HI, STOP, DONE]),
        Outcome::Ok,
        "the end mark is the last word"
    );
    assert_eq!(outcome(Clean, &[STOP, DONE]), Outcome::Empty);
    assert_eq!(outcome(Clean, &[]), Outcome::EmptyStream);
    assert_eq!(outcome(Clean, &["null", DONE]), Outcome::EmptyStream);
    assert_eq!(outcome(Cut, &[]), Outcome::Truncated);
    let other = r#"{"choices":[{"index":1,"delta":{"content":"x"}}]}"#;
    assert_eq!(
        outcome(Clean, &[HI, other, STOP]),
        Outcome::Truncated,
        "one choice is not over"
    );
    assert_eq!(
        outcome(Clean, &[other, &STOP.replace(":0", ":1")]),
        Outcome::Ok
    );
}

#[test]
fn comments_alone_are_an_empty_stream_and_half_a_chunk_a_truncated_one() {
    let seen = reply(200, "text/event-stream", ": ping\n\n:\n\n");
    assert_eq!(
        (seen.end.outcome, seen.end.events),
        (Outcome::EmptyStream, 0)
    );
    let seen = reply(200, "text/event-stream", "data: {\"choices\":[{\"in");
    assert_eq!((seen.end.outcome, seen.end.events), (Outcome::Truncated, 1));
}

#[test]
fn errors_in_the_stream_are_told_in_the_servers_words() {
    let message = |data: &str| {
        let seen = stream(&[HI, data, DONE]);
        assert_eq!(seen.end.outcome, Outcome::ErrorEvent, "{data}");
        assert_eq!(seen.end.output_tokens, Some(TokenCount::AtLeast(1)));
        seen.end.error.unwrap()
    };
    assert_eq!(message(r#"{"error":{"message":"a","code":500}}"#), "a");
    assert_eq!(message(r#"{"error":"b","error_type":"generation"}"#), "b");
    assert_eq!(
        message(r#"{"object":"error","message":"c","type":"x","code":400}"#),
        "c"
    );
    assert_eq!(message(r#"{"choices":[],"error":{"message":"d"}}"#), "d");
    assert_eq!(
        message(r#"{"detail":[{"loc":["body","n"],"msg":"e"}]}"#),
        "body.n: e"
    );
    assert!(message(&STOP.replace("stop", "abort")).contains("gave the answer up"));
    let named = reply(
        200,
        "text/event-stream",
        "event: error\ndata: out of memory\n\n",
    );
    assert_eq!(named.end.outcome, Outcome::ErrorEvent);
    assert_eq!(named.end.error.as_deref(), Some("`out of memory`"));
    assert_eq!(
        message(r#"{"error":{"message":"","code":9}}"#),
        r#"{"code":9,"message":""}"#
    );
    for none in ["null", "\"\"", "false"] {
        let seen = stream(&[HI, &format!("{{\"choices\":[],\"error\":{none}}}"), STOP]);
        assert_eq!(seen.end.outcome, Outcome::Ok, "{none}");
    }
}

#[test]
fn a_bad_chunk_fails_the_request_and_is_shown() {
    for bad in ["{\"choices\":[}", "<html>", "7", "[]", "{\"choices\":3}"] {
        let seen = stream(&[HI, bad, STOP, DONE]);
        assert_eq!(seen.end.outcome, Outcome::InvalidChunk, "{bad}");
        assert!(seen.end.error.unwrap().contains(bad), "{bad}");
    }
    let deep = format!("{}{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    assert_eq!(stream(&[HI, &deep]).end.outcome, Outcome::InvalidChunk);
}

#[test]
fn what_is_no_event_costs_nothing() {
    let pretty = HI.replace(",\"", ",\ndata: \"");
    let body = format!(
        "\u{FEFF}data\n\nevent: ping\ndata: {{\"type\":\"ping\"}}\n\ndata: {pretty}\n\ndata:\n\n\
         data: {STOP}\n\ndata: {DONE}\n\ndata: {HI}\n\n"
    );
    let seen = reply(200, "text/event-stream", &body);
    assert_eq!(
        (seen.end.outcome, seen.answer.as_str()),
        (Outcome::Ok, "hi")
    );
    assert_eq!(
        seen.end.token_events, 1,
        "nothing behind the end mark counts"
    );
}

#[test]
fn finish_reasons_of_every_engine_are_known() {
    let reason = |word: &str| stream(&[HI, &STOP.replace("stop", word)]).end.finish_reason;
    assert_eq!(reason("eos_token"), Some(FinishReason::Stop));
    assert_eq!(reason("max_tokens"), Some(FinishReason::Length));
    assert_eq!(reason("function_call"), Some(FinishReason::ToolCalls));
    assert_eq!(reason("content_filter"), Some(FinishReason::ContentFilter));
    assert_eq!(reason("whatever"), Some(FinishReason::Other));
    let empty = STOP.replace("stop", "");
    let seen = stream(&[HI, &empty]);
    assert_eq!(
        seen.end.outcome,
        Outcome::Truncated,
        "an empty reason is none"
    );
    let filtered = stream(&[HI, &STOP.replace("stop", "content_filter"), STOP, DONE]);
    assert_eq!(filtered.end.outcome, Outcome::Filtered);
}

/// A chunk with text and a usage of its own.
fn told(index: u32, text: &str, output: i64) -> String {
    format!(
        r#"{{"choices":[{{"index":{index},"text":"{text}"}}],"usage":{{"prompt_tokens":{},"completion_tokens":{output}}}}}"#,
        index + 3
    )
}

fn total(output: i64) -> String {
    format!(r#"{{"choices":[],"usage":{{"prompt_tokens":9,"completion_tokens":{output}}}}}"#)
}

#[test]
fn the_last_usage_counts_and_never_less_than_was_seen() {
    let tokens = |data: &[&str]| stream(data).end.output_tokens;
    assert_eq!(tokens(&[HI, HI, DONE]), Some(TokenCount::AtLeast(2)));
    assert_eq!(
        tokens(&[HI, HI, &total(9), &total(5), DONE]),
        Some(TokenCount::Usage(5))
    );
    assert_eq!(
        tokens(&[HI, HI, &total(1), DONE]),
        Some(TokenCount::AtLeast(2))
    );
    assert_eq!(
        tokens(&[HI, &total(-4), DONE]),
        Some(TokenCount::AtLeast(1)),
        "no negative counts"
    );
    assert_eq!(
        tokens(&[STOP, DONE]),
        None,
        "nothing was counted, which is not 0"
    );
    assert_eq!(tokens(&[STOP, &total(0), DONE]), Some(TokenCount::Usage(0)));
    assert_eq!(
        tokens(&[&total(2), &told(0, "x", 7), DONE]),
        Some(TokenCount::Usage(7))
    );
    assert_eq!(
        tokens(&[&told(0, "x", 7), &total(8), DONE]),
        Some(TokenCount::Usage(8))
    );
}

#[test]
fn a_running_usage_tells_the_tokens_of_each_event() {
    let tokens = |data: &[&str]| stream(data).tokens;
    assert_eq!(
        tokens(&[
            &told(0, "", 0),
            &told(0, "a", 2),
            &told(0, "b", 5),
            &told(0, "c", 6)
        ]),
        [2, 3, 1]
    );
    // Tokens that gave no text yet belong to the event that brings it.
    assert_eq!(
        tokens(&[&told(0, "a", 1), &told(0, "", 2), &told(0, "b", 3)]),
        [1, 2]
    );
    // The total on the last event alone says nothing of that event.
    assert_eq!(tokens(&[HI, HI, &told(0, "c", 12)]), [0, 0, 0]);
    // Each choice runs on its own.
    assert_eq!(
        tokens(&[&told(0, "a", 1), &told(1, "b", 3), &told(0, "c", 2)]),
        [1, 3, 1]
    );
}

struct Deaf;

impl StreamEvents for Deaf {
    fn token_event(&mut self, _: Timestamp, _: u32, _: bool) {}
}

/// The end of a stream whose request had so many prompts.
fn end_of(prompts: u16, data: &[&str]) -> StreamEnd {
    let options = StreamOptions {
        prompts,
        ..StreamOptions::default()
    };
    let mut reader = StreamReader::new(options);
    for data in data {
        let event = format!("data: {data}\n\n");
        reader.on_bytes(Timestamp::ZERO, event.as_bytes(), &mut Deaf);
    }
    reader.finish(EndOfBody::Clean, &mut Deaf)
}

#[test]
fn usage_per_choice_is_summed_over_choices_and_input_over_prompts() {
    let data = [told(0, "a", 5), told(1, "b", 6)];
    let data: Vec<&str> = data.iter().map(String::as_str).collect();
    let one = end_of(1, &data);
    assert_eq!(
        (one.output_tokens, one.input_tokens, one.choices),
        (Some(TokenCount::Usage(11)), Some(4), 2)
    );
    let two = end_of(2, &data);
    assert_eq!(
        (two.output_tokens, two.input_tokens),
        (Some(TokenCount::Usage(11)), Some(7))
    );
}

#[test]
fn a_reader_is_as_new_after_a_reset() {
    let mut reader = StreamReader::new(StreamOptions::default());
    let event = format!("data: {}\r", told(3, "a b", 9));
    reader.on_bytes(Timestamp::ZERO, event.as_bytes(), &mut Deaf);
    let _ = reader.finish(EndOfBody::Cut, &mut Deaf);
    reader.reset();
    let event = format!("data: {HI}\n\ndata: {DONE}\n\n");
    reader.on_bytes(Timestamp::ZERO, event.as_bytes(), &mut Deaf);
    assert_eq!(
        reader.finish(EndOfBody::Clean, &mut Deaf),
        end_of(1, &[HI, DONE])
    );
}

#[test]
fn what_is_no_stream_is_said_so() {
    let seen = |media_type: &str, body: &str| {
        let seen = reply(200, media_type, body);
        (seen.end.outcome, seen.end.error.unwrap_or_default())
    };
    let (outcome, error) = seen(
        "text/html; charset=utf-8",
        "\n<!DOCTYPE html><title>x</title>",
    );
    assert_eq!(
        (outcome, error.as_str()),
        (
            Outcome::NotAStream,
            "an HTML page; is this the API's base URL?"
        )
    );
    assert_eq!(seen("text/plain", "It works!").0, Outcome::NotAStream);
    let (outcome, error) = seen("application/json", "{\"status\":\"ok\"}");
    assert_eq!(outcome, Outcome::NotAStream);
    assert!(
        error.contains("without `choices`") && error.contains("status"),
        "{error}"
    );
    assert_eq!(seen("application/json", "").0, Outcome::EmptyStream);
    assert_eq!(
        seen("application/json", "{\"error\":{\"message\":\"x\"}}"),
        (Outcome::ErrorEvent, "x".to_owned())
    );
}

#[test]
fn a_wrong_type_hides_neither_stream_nor_answer() {
    let body = format!("data: {HI}\n\ndata: {STOP}\n\n");
    for media_type in [
        "application/json",
        "text/plain",
        "application/octet-stream",
        "",
    ] {
        let seen = reply(200, media_type, &body);
        assert_eq!(
            (seen.end.outcome, seen.end.streamed),
            (Outcome::Ok, true),
            "{media_type}"
        );
    }
    let answer = r#"{"choices":[{"message":{"content":"a b"},"finish_reason":"stop"}]}"#;
    let seen = reply(200, "text/event-stream", answer);
    assert_eq!(
        (seen.end.outcome, seen.end.streamed, seen.end.words),
        (Outcome::Ok, false, 2)
    );
    assert_eq!(seen.record.summary.e2e().unwrap().as_millis(), 50);
    let error = reply(
        200,
        "text/event-stream",
        "{\"error\":{\"message\":\"busy\"}}",
    );
    assert_eq!(
        (error.end.outcome, error.end.error.as_deref()),
        (Outcome::ErrorEvent, Some("busy"))
    );
}

#[test]
fn statuses_are_refusals_or_failures() {
    let seen = |status, body: &str| {
        let seen = reply(status, "text/html", body);
        (seen.end.outcome, seen.end.error.unwrap())
    };
    assert_eq!(seen(429, "").0, Outcome::Rejected);
    assert_eq!(seen(503, "<html>").0, Outcome::Rejected);
    assert_eq!(
        seen(500, "oops"),
        (Outcome::Failed, "HTTP 500: `oops`".to_owned())
    );
    assert_eq!(
        seen(404, "<html><body>nginx"),
        (
            Outcome::Failed,
            "HTTP 404: an HTML page; is this the API's base URL?".to_owned()
        )
    );
    let head = head(308, &[("location", "https://b/v1")]);
    let moved = read(b"", &[], &Transport::Body(head, EndOfBody::Clean));
    assert_eq!(
        moved.end.error.as_deref(),
        Some("HTTP 308: a redirect to https://b/v1")
    );
}

#[test]
fn a_compressed_stream_is_read_as_it_comes() {
    let body = format!("data: {HI}\n\n");
    let rest = format!("data: {HI}\n\ndata: {STOP}\n\ndata: {DONE}\n\n");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body.as_bytes()).unwrap();
    encoder.flush().unwrap();
    let first = encoder.get_ref().len();
    encoder.write_all(rest.as_bytes()).unwrap();
    let coded = encoder.finish().unwrap();
    let headers = [
        ("content-type", "text/event-stream"),
        ("content-encoding", "GZIP"),
    ];
    let transport = Transport::Body(head(200, &headers), EndOfBody::Clean);
    let delivery = [(100, first), (300, coded.len())];
    let seen = read(&coded, &delivery, &transport);
    assert_eq!(
        (seen.end.outcome, seen.answer.as_str()),
        (Outcome::Ok, "hihi")
    );
    let times = (seen.record.summary.ttft(), seen.record.summary.e2e());
    assert_eq!(
        times
            .0
            .zip(times.1)
            .map(|(a, b)| (a.as_millis(), b.as_millis())),
        Some((100, 300))
    );
    let every: Vec<usize> = (1..coded.len()).collect();
    let bytewise = read(&coded, &cut_finer(&delivery, &every), &transport);
    assert_eq!((bytewise.end, bytewise.answer), (seen.end, seen.answer));
    let broken = read(b"data: no gzip\n\n", &[(0, 15)], &transport);
    assert_eq!(broken.end.outcome, Outcome::NotAStream);
    assert!(
        broken
            .end
            .error
            .unwrap()
            .contains("compressed body cannot be read")
    );
    let unknown = head(200, &[("content-encoding", "br")]);
    let unknown = read(b"x", &[(0, 1)], &Transport::Body(unknown, EndOfBody::Clean));
    assert!(unknown.end.error.unwrap().contains("compressed as br"));
}

#[test]
fn a_body_that_the_close_ends_is_cut_by_a_reset() {
    let text = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {HI}\n\ndata: {STOP}\n\n"
    );
    let outcome = |broken: bool| {
        let mut reader = ExchangeReader::new(StreamOptions::default());
        reader.on_bytes(Timestamp::ZERO, text.as_bytes(), &mut Deaf);
        if broken {
            reader.on_broken();
        }
        reader.finish(&mut Deaf).outcome
    };
    assert_eq!(
        (outcome(false), outcome(true)),
        (Outcome::Ok, Outcome::Truncated)
    );
}

#[test]
fn bytes_behind_the_response_spoil_the_connection() {
    let response = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    let raw = |text: &str| read(text.as_bytes(), &[(0, text.len())], &Transport::Raw);
    assert!(raw(response).reusable);
    assert!(!raw(&format!("{response}HTTP/1.1 200 OK\r\n")).reusable);
    let nothing = raw("");
    assert_eq!(
        nothing.end.error.as_deref(),
        Some("the connection closed before a response came")
    );
    let tls = raw("\x15\x03\x01\x02\x02");
    assert!(tls.end.error.unwrap().contains("right port and scheme"));
    let broken = raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n");
    assert_eq!(broken.end.outcome, Outcome::Truncated);
    assert!(broken.end.error.unwrap().contains("not hexadecimal"));
}
