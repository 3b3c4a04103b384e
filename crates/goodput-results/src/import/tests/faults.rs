//! Files that contradict themselves, are cut off, or leave out what is needed.

use goodput_record::{Outcome, VerdictWord};

use super::{Files, Got, evidence, import, imported, refused, slos, told, users};
use crate::import::{ImportAsk, ToldLoad};

const MS: u64 = 1_000_000;

fn word(import: &Got, request: usize) -> VerdictWord {
    *import.requests[request].verdicts.values().next().unwrap()
}

/// Twenty good answers of vLLM bench and one with this TTFT, gap and latency.
fn vllm(ttft: f64, gap: f64) -> String {
    let all = |one: &str, other: &str| format!("[{}{other}]", format!("{one}, ").repeat(20));
    let starts: Vec<String> = (0..21).map(|i| format!("{}.0", 7 + i)).collect();
    format!(
        r#"{{"endpoint_type": "openai", "request_rate": "inf", "max_concurrency": 1,
        "input_lens": {}, "output_lens": {}, "ttfts": {}, "itls": {}, "start_times": [{}]}}"#,
        all("9", "9"),
        all("2", "2"),
        all("0.1", &ttft.to_string()),
        all("[0.02]", &format!("[{gap}]")),
        starts.join(", ")
    )
}

#[test]
fn a_negative_ttft_is_a_miss_and_is_told() {
    let import = told("negative", &vllm(-0.012, 0.02));
    let row = &import.requests[20];
    assert_eq!((row.outcome, row.ttft_ms), (Outcome::Failed, None));
    assert_eq!(row.tpot_ms, None, "no figure is taken of it");
    assert_eq!(word(&import, 20), VerdictWord::Missed);
    assert!(
        row.error
            .as_deref()
            .unwrap()
            .contains("TTFT of -0.012000 s")
    );
    let point = &import.points[0];
    assert_eq!((point.requests, point.ttft_n), (21, 20));
    assert_eq!(point.slo_attainment, Some(20.0 / 21.0));
    assert!(point.valid, "one of twenty-one moves no figure by 5 %");
    let found = import
        .findings
        .iter()
        .find(|f| f.name == "impossible-times");
    let found = found.unwrap();
    assert!(
        found.severe && found.evidence.starts_with("1 of 21"),
        "{found:?}"
    );
    assert_eq!(evidence(&import, "failures-were-left-out"), None);
}

#[test]
fn a_ttft_of_nothing_before_tokens_and_a_negative_gap_are_misses_too() {
    for (name, file) in [("zero", vllm(0.0, 0.02)), ("gap", vllm(0.1, -0.02))] {
        let import = told(name, &file);
        assert_eq!(word(&import, 20), VerdictWord::Missed, "{name}");
        assert!(evidence(&import, "impossible-times").is_some(), "{name}");
    }
    assert_eq!(
        evidence(&told("good", &vllm(0.1, 0.02)), "impossible-times"),
        None
    );
}

#[test]
fn no_tools_negative_time_is_met() {
    let aiperf = r#"{"metadata": {"request_start_ns": 1000, "request_end_ns": 900000000, "benchmark_phase": "profiling"}, "metrics": {"time_to_first_token": {"value": -4.0, "unit": "ms"}, "output_sequence_length": {"value": 3}}}"#;
    let inference_perf = r#"[{"start_time": 10.0, "end_time": 10.5, "info": {"input_tokens": 9,
        "response_metrics": {"output_tokens": 2, "chunk_times": [9.9, 10.4]}}}]"#;
    let llmperf = r#"[{"error_code": null, "error_msg": "", "ttft_s": -0.2, "end_to_end_latency_s": 1.2,
        "number_output_tokens": 51, "number_input_tokens": 10}]"#;
    let dstack = r#"{"i": 0, "input_tokens": 5, "output_tokens": 2, "ttft_s": -0.1, "itls_us": [900], "ok": true}"#;
    let order = r#"{"benchmarks": [{"requests": {"successful": [{"output_tokens": 3, "info": {"timings": {
        "request_start": 10.0, "first_token_iteration": 10.4, "last_token_iteration": 10.3, "request_end": 10.5}}}]}}]}"#;
    for (name, file) in [
        ("aiperf", aiperf),
        ("inference-perf", inference_perf),
        ("llmperf", llmperf),
        ("dstack", dstack),
        ("guidellm", order),
    ] {
        let import = imported(name, file, &users(1)).unwrap();
        assert_eq!(word(&import, 0), VerdictWord::Missed, "{name}");
        let point = &import.points[0];
        assert_eq!(
            (point.slo_attainment, point.ttft_n),
            (Some(0.0), 0),
            "{name}"
        );
        assert!(!point.valid, "{name}: all of its requests");
        assert!(evidence(&import, "impossible-times").is_some(), "{name}");
    }
}

/// Two answers of 150 ms without start times, in a run that is said to have taken so long.
fn lasting(duration: f64) -> String {
    format!(
        r#"{{"duration": {duration}, "ttfts": [0.1, 0.1], "itls": [[0.05], [0.05]],
        "input_lens": [1, 1], "output_lens": [2, 2], "errors": ["", ""]}}"#
    )
}

#[test]
fn requests_without_starts_fill_the_time_that_the_file_says() {
    let import = imported("longer", &lasting(0.6), &users(1)).unwrap();
    let origins: Vec<u64> = import.requests.iter().map(|r| r.origin_ns).collect();
    assert_eq!(origins, [0, 450 * MS - 1], "the last ends when the run did");
    let point = &import.points[0];
    assert!((point.window_s - 0.6).abs() < 1e-9, "{}", point.window_s);
    assert!((point.throughput_tok_s - 4.0 / 0.6).abs() < 1e-6);
    let told = evidence(&import, "start-times-not-told").unwrap();
    assert!(
        told.contains("0.6 s that the file says") && told.contains("fill 0.3 s"),
        "{told}"
    );
    // A rate that the file's own length contradicts gives way to it.
    let rate = ImportAsk {
        load: Some(ToldLoad::Rate(1.0)),
        ..ImportAsk::default()
    };
    let import = imported("shorter", &lasting(0.2), &rate).unwrap();
    let origins: Vec<u64> = import.requests.iter().map(|r| r.origin_ns).collect();
    assert_eq!(origins, [0, 50 * MS - 1]);
    // Nothing fits into less than the longest request.
    let import = imported("never", &lasting(0.1), &users(1)).unwrap();
    let told = evidence(&import, "start-times-not-told").unwrap();
    assert!(told.contains("the load is another one"), "{told}");
    let window = import.points[0].window_s;
    assert!((window - 0.3).abs() < 1e-9, "left as laid out: {window}");
}

#[test]
fn a_course_of_time_that_was_made_up_shows_no_change_of_the_server() {
    let lines: Vec<String> = (0..200)
        .map(|i| {
            let gaps = vec![if i < 100 { "100000" } else { "20000" }; 20].join(", ");
            format!(
                r#"{{"i": {i}, "input_tokens": 5, "output_tokens": 21, "ttft_s": 0.1, "itls_us": [{gaps}], "ok": true}}"#
            )
        })
        .collect();
    let import = imported("course", &lines.join("\n"), &users(2)).unwrap();
    let point = &import.points[0];
    assert_eq!(point.checks.speed_shift, None);
    assert_eq!((point.tpot_p95_ms, point.valid), (Some(100.0), true));
}

#[test]
fn without_a_rate_and_a_cap_all_requests_are_sent_at_once() {
    let file = lasting(0.6).replace("{\"duration\"", "{\"request_rate\": \"inf\", \"duration\"");
    let import = told("inf", &file);
    assert_eq!(import.points[0].concurrency, Some(2));
    let origins: Vec<u64> = import.requests.iter().map(|r| r.origin_ns).collect();
    assert_eq!(origins, [0, 0]);
}

#[test]
fn a_torn_last_line_is_left_out_and_said() {
    let line = r#"{"i": 0, "input_tokens": 5, "output_tokens": 2, "ttft_s": 0.1, "itls_us": [900], "ok": true}"#;
    let torn = format!("{line}\n{}", &line[..40]);
    let import = imported("torn", &torn, &users(1)).unwrap();
    assert_eq!(import.points[0].requests, 1);
    let said = import.points[0].warnings.join(" ");
    assert!(said.contains("cut off"), "{said}");
    let broken = format!("{line}\n{}\n{line}\n", &line[..40]);
    refused(imported("broken", &broken, &users(1)), "line 2", "--from");
}

#[test]
fn llmperf_takes_its_load_from_the_summary_and_any_error_for_one() {
    let files = Files::new("llmperf-summary");
    let responses = r#"[{"error_code": null, "error_msg": "", "ttft_s": 0.2, "end_to_end_latency_s": 1.2,
        "number_output_tokens": 51, "number_input_tokens": 10},
        {"error_code": "context_length_exceeded", "error_msg": "too long", "ttft_s": 0,
        "end_to_end_latency_s": 0, "number_output_tokens": 0, "number_input_tokens": 10},
        {"error_code": -1, "error_msg": "", "ttft_s": 0, "end_to_end_latency_s": 0,
        "number_output_tokens": 0, "number_input_tokens": 10}]"#;
    let path = files.write("m_550_150_individual_responses.json", responses);
    files.write(
        "m_550_150_summary.json",
        r#"{"model": "m", "num_concurrent_requests": 3, "results_ttft_s_mean": 0.2}"#,
    );
    let import = import(&[path], &ImportAsk::default(), &slos("ttft=500ms")).unwrap();
    assert_eq!(import.points[0].concurrency, Some(3));
    assert_eq!(import.model.as_deref(), Some("m"));
    let outcomes: Vec<Outcome> = import.requests.iter().map(|r| r.outcome).collect();
    assert_eq!(outcomes, [Outcome::Ok, Outcome::Failed, Outcome::Failed]);
    assert_eq!(evidence(&import, "failures-may-be-missing"), None);
}

/// As vLLM bench 0.32, GuideLLM 0.8.1 and inference-perf 0.7.0 wrote them down.
#[test]
fn failures_are_told_apart_by_the_words_of_the_tools() {
    use crate::import::request::failure;
    let payload = "Response payload is not completed: <TransferEncodingError: 400, message='Not enough data to satisfy transfer length header.'>";
    let traceback = format!(
        "Traceback (most recent call last):\n  File \"endpoint_request_func.py\", line 503, in call\naiohttp.client_exceptions.ClientPayloadError: {payload}"
    );
    for (words, outcome, status) in [
        ("Too Many Requests", Outcome::Rejected, Some(429)),
        ("Internal Server Error", Outcome::Failed, Some(500)),
        (traceback.as_str(), Outcome::Truncated, None),
        (
            "HTTPStatusError(\"Client error '429 Too Many Requests' for url 'http://127.0.0.1:18772/v1'\")",
            Outcome::Rejected,
            Some(429),
        ),
        (
            "RemoteProtocolError('peer closed connection without sending complete message body (incomplete chunked read)')",
            Outcome::Truncated,
            None,
        ),
        ("HTTP Error 503 {}", Outcome::Rejected, Some(503)),
        ("asyncio.exceptions.TimeoutError", Outcome::TimedOut, None),
        (
            "Cannot connect to host 127.0.0.1:1500",
            Outcome::Failed,
            None,
        ),
    ] {
        assert_eq!(failure(words), (outcome, status), "{words}");
    }
}
