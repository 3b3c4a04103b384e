//! Answers recorded from llama.cpp b11549 and vLLM 0.32.0, byte for byte.
//!
//! The expected values were read off the recordings by hand; a second, slow reader checks every
//! stream as well, and all recordings of a folder if `GOODPUT_CAPTURES` names one.

use std::collections::BTreeMap;

use goodput_protocol::ServerIdentity;
use goodput_record::{FinishReason, Outcome, TokenCount};
use serde_json::Value;

use crate::harness::{Seen, Transport, cut_finer, read};

macro_rules! capture {
    ($file:literal) => {
        include_bytes!(concat!("../fixtures/captures/", $file, ".http")).as_slice()
    };
}

fn whole(bytes: &[u8]) -> Seen {
    let delivery = [(100, bytes.len())];
    let seen = read(bytes, &delivery, &Transport::Raw);
    let every: Vec<usize> = (1..bytes.len()).collect();
    let finest = read(bytes, &cut_finer(&delivery, &every), &Transport::Raw);
    assert_eq!(finest, seen, "byte by byte");
    seen
}

/// Output tokens, input, cached, token events, choices, finish reason.
type Counts = (
    TokenCount,
    Option<u32>,
    Option<u32>,
    u32,
    u16,
    Option<FinishReason>,
);

fn counts(seen: &Seen) -> Counts {
    let end = &seen.end;
    (
        end.output_tokens.unwrap(),
        end.input_tokens,
        end.cached_tokens,
        end.token_events,
        end.choices,
        end.finish_reason,
    )
}

/// A stream that ended well.
#[track_caller]
fn good(bytes: &[u8], expected: Counts) -> Seen {
    let seen = whole(bytes);
    assert_eq!(seen.end.outcome, Outcome::Ok);
    assert_eq!(
        (seen.end.streamed, seen.end.done_seen, &seen.end.error),
        (true, true, &None)
    );
    assert_eq!(counts(&seen), expected);
    check_slowly(bytes, &seen);
    seen
}

const LENGTH: Option<FinishReason> = Some(FinishReason::Length);
const STOP: Option<FinishReason> = Some(FinishReason::Stop);

use TokenCount::{AtLeast as at_least, Usage as usage};

#[test]
fn llama_cpp_streams() {
    let seen = good(
        capture!("llama.cpp/chat_stream"),
        (at_least(24), None, None, 24, 1, LENGTH),
    );
    assert_eq!(seen.end.served_model.as_deref(), Some("gemma-3-270m"));
    assert_eq!(seen.end.timings.unwrap().output_tokens, Some(24));
    assert_eq!(
        (seen.end.characters, seen.end.words, seen.end.events),
        (84, 10, 27)
    );
    assert!(!seen.reusable, "the server closes");
    good(
        capture!("llama.cpp/chat_stream_usage"),
        (usage(24), Some(29), Some(24), 24, 1, LENGTH),
    );
    // A limit of 0 makes one token all the same.
    good(
        capture!("llama.cpp/chat_stream_max0"),
        (at_least(1), None, None, 1, 1, LENGTH),
    );
    good(
        capture!("llama.cpp/completion_stream_stop"),
        (usage(1), Some(6), Some(1), 1, 1, STOP),
    );
}

#[test]
fn llama_cpp_counts_one_choice_where_there_are_two() {
    // Its usage says 8; sixteen token events came.
    let expected = (at_least(16), Some(29), Some(24), 16, 2, LENGTH);
    let seen = good(capture!("llama.cpp/chat_stream_n2_usage"), expected);
    assert_eq!(
        seen.record.summary.tpot(),
        None,
        "several choices have no TPOT"
    );
    // Here each choice has a usage of its own: 6 + 6 for one prompt of 6.
    let expected = (usage(12), Some(6), Some(1), 12, 2, LENGTH);
    good(capture!("llama.cpp/completion_stream_n2_usage"), expected);
}

#[test]
fn llama_cpp_begins_the_answer_to_two_prompts_with_null() {
    let expected = (usage(10), Some(4), Some(1), 10, 2, LENGTH);
    let seen = good(
        capture!("llama.cpp/completion_stream_two_prompts_usage"),
        expected,
    );
    assert_eq!(
        seen.answer, " in the world is a",
        "the first choice alone is kept"
    );
}

#[test]
fn llama_cpp_fails_in_mid_stream() {
    let bytes = capture!("llama.cpp/completion_stream_kv_overflow_0");
    let seen = whole(bytes);
    assert_eq!(seen.end.outcome, Outcome::ErrorEvent);
    assert_eq!(
        seen.end.error.as_deref(),
        Some("Context size has been exceeded.")
    );
    assert_eq!(counts(&seen), (at_least(51), None, None, 51, 1, None));
    assert!(!seen.end.done_seen);
    check_slowly(bytes, &seen);
}

#[test]
fn refusals_are_told_in_the_servers_words() {
    let refused = |bytes: &[u8], status: u16, outcome: Outcome, message: &str| {
        let seen = whole(bytes);
        assert_eq!(seen.end.outcome, outcome);
        assert_eq!(seen.record.summary.end().http_status, Some(status));
        assert_eq!(seen.end.error.as_deref(), Some(message));
        assert_eq!(seen.record.summary.ttft(), None);
    };
    refused(
        capture!("llama.cpp/err_overlong_stream"),
        400,
        Outcome::Failed,
        "HTTP 400: request (4120 tokens) exceeds the available context size (2048 tokens), try increasing it",
    );
    refused(
        capture!("llama.cpp/loading_chat_stream"),
        503,
        Outcome::Rejected,
        "HTTP 503: Loading model",
    );
    refused(
        capture!("llama.cpp/err_auth_missing_key"),
        401,
        Outcome::Failed,
        "HTTP 401: Invalid API Key",
    );
    refused(
        capture!("vllm/err_unknown_path"),
        404,
        Outcome::Failed,
        "HTTP 404: Not Found",
    );
    refused(
        capture!("vllm/err_malformed_json"),
        400,
        Outcome::Failed,
        "HTTP 400: 1 validation error:\n  {'type': 'json_invalid', 'loc': 'body.28', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting value'}}",
    );
}

#[test]
fn vllm_streams() {
    // 24 tokens in 6 events: only usage counts tokens.
    let seen = good(
        capture!("vllm/chat_stream_usage"),
        (usage(24), Some(24), Some(0), 6, 1, LENGTH),
    );
    assert_eq!(seen.tokens, [0; 6]);
    let seen = good(
        capture!("vllm/chat_stream_usage_continuous"),
        (usage(24), Some(24), Some(0), 24, 1, LENGTH),
    );
    assert_eq!(
        seen.tokens, [1; 24],
        "a running usage tells the tokens of each event"
    );
    good(
        capture!("vllm/chat_stream_n2_usage"),
        (usage(16), Some(24), Some(0), 15, 2, LENGTH),
    );
    good(
        capture!("vllm/chat_stream_max1_usage"),
        (usage(1), Some(24), Some(0), 1, 1, LENGTH),
    );
    good(
        capture!("vllm/completion_stream_logprobs"),
        (at_least(5), None, None, 5, 1, LENGTH),
    );
    good(
        capture!("vllm/completion_stream_stop"),
        (usage(1), Some(8), Some(0), 1, 1, STOP),
    );
}

#[test]
fn vllm_streams_reasoning_and_tool_calls() {
    let seen = good(
        capture!("vllm/chat_stream_reasoning"),
        (usage(40), Some(24), Some(0), 23, 1, LENGTH),
    );
    assert!(
        seen.reasoning.starts_with("odule 1 commonroup"),
        "{}",
        seen.reasoning
    );
    // One delta holds both the end of the reasoning and the start of the answer.
    assert!(
        seen.answer.starts_with("onroup clearstonycaten"),
        "{}",
        seen.answer
    );
    assert_eq!(
        seen.end.reasoning_tokens,
        Some(0),
        "as the server says, although it reasoned"
    );
    let seen = good(
        capture!("vllm/chat_stream_tool_required"),
        (usage(60), Some(24), Some(0), 34, 1, LENGTH),
    );
    assert_eq!(seen.answer, "");
    assert_eq!(seen.tool_names, ["get_weather"]);
    assert!(
        seen.tool_arguments.starts_with("\"\\n"),
        "{}",
        seen.tool_arguments
    );
    assert!(seen.record.summary.ttft_answer().is_some());
}

#[test]
fn whole_answers() {
    let seen = whole(capture!("vllm/chat_nonstream_reasoning"));
    assert_eq!((seen.end.outcome, seen.end.streamed), (Outcome::Ok, false));
    assert_eq!(counts(&seen), (usage(40), Some(24), Some(0), 0, 1, LENGTH));
    assert_eq!(
        (seen.reasoning.chars().count(), seen.answer.as_str()),
        (179, "")
    );
    let times = (seen.record.summary.ttft(), seen.record.summary.tpot());
    assert_eq!(times, (None, None));
    assert_eq!(seen.record.summary.e2e().unwrap().as_millis(), 100);
    let seen = whole(capture!("llama.cpp/completion_nonstream_two_prompts"));
    assert_eq!(counts(&seen), (usage(5), Some(3), Some(1), 0, 2, LENGTH));
    assert_eq!(seen.end.timings.unwrap().prompt_tokens, Some(2));
}

#[test]
fn servers_are_told_apart() {
    let mut llama = ServerIdentity::default();
    let body = |bytes: &'static [u8]| split(bytes).1;
    assert!(llama.add_models(body(capture!("llama.cpp/get_v1_models_idle"))));
    llama.add_props(body(capture!("llama.cpp/get_props_idle")));
    assert_eq!(llama.to_string(), "llama.cpp b0-unknown");
    assert_eq!(
        (llama.models.as_slice(), llama.context_tokens),
        (["gemma-3-270m".to_owned()].as_slice(), Some(2048))
    );
    let slots = ("slots".to_owned(), "4".to_owned());
    assert!(llama.flags.contains(&slots), "{:?}", llama.flags);
    let mut vllm = ServerIdentity::default();
    assert!(vllm.add_models(body(capture!("vllm/get_v1_models_idle"))));
    vllm.add_version(b"{\"version\":\"0.32.0\"}");
    vllm.add_metrics(include_str!(
        "../fixtures/captures/vllm/metrics_under_preemption.prom"
    ));
    assert_eq!(vllm.to_string(), "vLLM 0.32.0");
    assert_eq!(vllm.context_tokens, Some(2048));
    let blocks = ("num_gpu_blocks".to_owned(), "48".to_owned());
    assert!(vllm.flags.contains(&blocks), "{:?}", vllm.flags);
    assert!(!vllm.add_models(b"<html>"));
}

/// Head and body of a response.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    (&bytes[..end], &bytes[end + 4..])
}

/// Takes the chunk framing off.
fn unchunk(mut body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(end) = body.windows(2).position(|w| w == b"\r\n") {
        let size = std::str::from_utf8(&body[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        out.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[(end + 4 + size).min(body.len())..];
    }
    out
}

/// Reads a recorded stream with generic JSON values and compares.
fn check_slowly(bytes: &[u8], seen: &Seen) {
    let text = String::from_utf8(unchunk(split(bytes).1)).unwrap();
    let mut texts: BTreeMap<(u64, &str), String> = BTreeMap::new();
    let (mut token_events, mut output, mut finish) = (0, None, Value::Null);
    let data = text
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("data: "));
    for chunk in data.filter_map(|data| serde_json::from_str::<Value>(data).ok()) {
        output = chunk["usage"]["completion_tokens"].as_u64().or(output);
        let mut token = false;
        for choice in chunk["choices"].as_array().into_iter().flatten() {
            if choice["finish_reason"].is_string() {
                finish = choice["finish_reason"].clone();
            }
            let (delta, call) = (
                &choice["delta"],
                &choice["delta"]["tool_calls"][0]["function"],
            );
            let pieces = [
                ("answer", &choice["text"]),
                ("answer", &delta["content"]),
                ("reasoning", &delta["reasoning"]),
                ("name", &call["name"]),
                ("arguments", &call["arguments"]),
            ];
            for (channel, piece) in pieces {
                let piece = piece.as_str().unwrap_or("");
                token |= !piece.is_empty();
                let index = choice["index"].as_u64().unwrap();
                texts.entry((index, channel)).or_default().push_str(piece);
            }
        }
        token_events += u32::from(token);
    }
    let of = |channel| texts.get(&(0, channel)).cloned().unwrap_or_default();
    assert_eq!(seen.answer, of("answer"));
    assert_eq!(seen.reasoning, of("reasoning"));
    assert_eq!(seen.tool_names.concat(), of("name"));
    assert_eq!(seen.tool_arguments, of("arguments"));
    assert_eq!(seen.end.token_events, token_events);
    assert_eq!(
        serde_json::to_value(seen.end.finish_reason).unwrap(),
        finish
    );
    let characters: usize = texts.values().map(|text| text.chars().count()).sum();
    let words: usize = texts
        .values()
        .map(|text| text.split_whitespace().count())
        .sum();
    assert_eq!(
        (seen.end.characters as usize, seen.end.words as usize),
        (characters, words)
    );
    if seen.end.choices == 1 {
        assert_eq!(
            seen.end.output_tokens.unwrap().get(),
            output.map_or(token_events, |n| u32::try_from(n).unwrap())
        );
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "reads the folder its caller names"
)]
fn all_recordings_of_a_folder() {
    let Some(root) = std::env::var_os("GOODPUT_CAPTURES") else {
        println!("skipped: GOODPUT_CAPTURES names no folder of recordings");
        return;
    };
    let (mut folders, mut streams) = (vec![std::path::PathBuf::from(root)], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "http") {
                println!("{}", path.display());
                streams += u32::from(check_recording(&path));
            }
        }
    }
    assert!(streams > 0, "a folder without a recorded stream");
}

/// Checks one recording as it was delivered. Whether it is an event stream.
#[expect(clippy::disallowed_methods, reason = "reads the file its caller names")]
fn check_recording(path: &std::path::Path) -> bool {
    let bytes = std::fs::read(path).unwrap();
    let mut delivery = Vec::new();
    let reads = std::fs::read_to_string(path.with_extension("recv.tsv")).unwrap_or_default();
    let mut at = 0;
    for line in reads.lines() {
        let (ms, length) = line.split_once('\t').unwrap();
        let Ok(length) = length.parse::<usize>() else {
            continue;
        };
        at += length;
        delivery.push((ms.split('.').next().unwrap().parse().unwrap(), at));
    }
    if delivery.last().is_none_or(|last| last.1 != bytes.len()) {
        delivery = vec![(0, bytes.len())];
    }
    let seen = read(&bytes, &delivery, &Transport::Raw);
    let status = seen.record.summary.end().http_status.unwrap();
    if status != 200 {
        assert!(matches!(
            seen.end.outcome,
            Outcome::Failed | Outcome::Rejected
        ));
        assert!(seen.end.error.is_some());
        return false;
    }
    let head = String::from_utf8_lossy(split(&bytes).0).to_lowercase();
    if !head.contains("text/event-stream") {
        return false;
    }
    assert!(
        matches!(seen.end.outcome, Outcome::Ok | Outcome::ErrorEvent),
        "{seen:?}"
    );
    check_slowly(&bytes, &seen);
    true
}
