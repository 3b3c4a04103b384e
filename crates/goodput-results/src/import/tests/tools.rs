//! One file a tool.

use goodput_ledger::Mode;
use goodput_record::{Outcome, Phase, VerdictWord};

use super::{Files, evidence, import, imported, refused, slos, told, users};
use crate::import::{ImportAsk, ToldLoad};

const MS: u64 = 1_000_000;

#[test]
fn vllm_keeps_its_gaps_its_wait_and_its_text() {
    // Two users' worth of waiting: the second request waited 0.2 s for a place, the third came
    // back empty, the fourth failed, the fifth has one token.
    let file = r#"{"date": "20260101-000000", "endpoint_type": "openai", "backend": "openai",
        "model_id": "m", "num_prompts": 5, "request_rate": 2.0, "burstiness": 1.0,
        "max_concurrency": 2, "duration": 4.0, "completed": 4, "failed": 1,
        "input_lens": [10, 20, 30, 40, 50], "output_lens": [3, 3, 0, 0, 1],
        "ttfts": [0.1, 0.45, 0.0, 0.0, 0.2],
        "itls": [[0.02, 0.03], [0.04, 0.04], [], [], []],
        "latencies": [0.15, 0.53, 0.3, 0.0, 0.2],
        "start_times": [100.0, 100.7, 101.0, 101.5, 102.0],
        "queue_times": [0.0, 0.2, 0.0, 0.0, 0.0],
        "generated_texts": ["a bc d", "e f", "", "", "x"],
        "errors": ["", "", "", "Traceback\n  deep\nTimeoutError: too late", ""]}"#;
    let import = told("vllm", file);
    let row = &import.points[0];
    assert_eq!((row.mode, row.rate_req_s), (Mode::Open, Some(2.0)));
    assert_eq!(import.model.as_deref(), Some("m"));
    assert_eq!(row.requests, 5);
    let outcomes: Vec<(&str, u64)> = row.outcomes.iter().map(|(k, n)| (k.as_str(), *n)).collect();
    assert_eq!(outcomes, [("empty", 1), ("ok", 3), ("timed_out", 1)]);
    let [first, second, third, fourth, fifth] = import.requests.as_slice() else {
        panic!("five requests")
    };
    assert_eq!(first.ttft_ms, Some(100.0));
    assert_eq!(first.tpot_ms, Some(25.0));
    assert_eq!(first.stall_ms, Some(30.0));
    assert_eq!((first.characters, first.words), (6, 3));
    assert_eq!(first.gap_ns, Some(vec![20 * MS, 30 * MS]));
    assert_eq!(
        first.ttft_answer_ms, None,
        "vLLM does not tell reasoning apart"
    );
    // Due 0.2 s before it was sent: the wait is its user's.
    assert_eq!(second.ttft_ms, Some(650.0));
    assert_eq!(second.verdicts.values().next(), Some(&VerdictWord::Missed));
    assert_eq!(third.outcome, Outcome::Empty);
    assert_eq!((third.ttft_ms, third.e2e_ms), (None, None), "none, not 0");
    assert_eq!(fourth.outcome, Outcome::TimedOut);
    assert_eq!(fourth.error.as_deref(), Some("TimeoutError: too late"));
    assert_eq!((fifth.tpot_ms, fifth.ttft_ms), (None, Some(200.0)));
    assert_eq!(row.tpot_n, 2, "a token alone has no TPOT");
    assert_eq!(row.ttft_n, 3, "an empty answer has no TTFT");
    assert_eq!(row.slo_attainment, Some(2.0 / 5.0));
    assert_eq!(row.lengths.planned_output, [None; 3]);
    assert_eq!(
        (row.loop_lag_p99_ms, row.client_cpu_share, row.sent_share),
        (None, None, None)
    );
    let empty = evidence(&import, "empty-answers-called-success").unwrap();
    assert!(
        empty.starts_with("1 of 5") && empty.contains("0.150 s") && empty.contains("0.200 s"),
        "{empty}"
    );
    assert!(
        evidence(&import, "one-token-answers")
            .unwrap()
            .starts_with("1 of 5")
    );
    assert!(
        evidence(&import, "failures-were-left-out")
            .unwrap()
            .starts_with("1 of 5")
    );
    assert!(evidence(&import, "wait-in-the-client").is_some());
    assert_eq!(evidence(&import, "start-times-not-told"), None);
    assert_eq!(
        evidence(&import, "ttft-may-be-of-role-chunk"),
        None,
        "completions have no roles"
    );
}

fn vllm_chat(first_gap: f64) -> String {
    let itls = format!("[{first_gap}, 0.02, 0.02, 0.02, 0.02]");
    format!(
        r#"{{"endpoint_type": "openai-chat", "request_rate": "inf", "max_concurrency": 1,
        "input_lens": [10, 20], "output_lens": [5, 5], "ttfts": [0.003, 0.003],
        "itls": [{itls}, {itls}], "start_times": [1.0, 2.0], "errors": ["", ""]}}"#
    )
}

#[test]
fn a_role_chunk_taken_for_a_token_is_seen_by_the_gap_after_it() {
    let import = told("role", &vllm_chat(0.2));
    let finding = import
        .findings
        .iter()
        .find(|f| f.name == "ttft-of-role-chunk")
        .unwrap();
    assert!(finding.severe && finding.evidence.contains("in 2 of 2"));
    let import = told("role", &vllm_chat(0.02));
    assert_eq!(evidence(&import, "ttft-of-role-chunk"), None);
    assert!(evidence(&import, "ttft-may-be-of-role-chunk").is_some());
    assert_eq!(import.points[0].concurrency, Some(1));
}

#[test]
fn several_vllm_runs_are_several_points() {
    let two = format!("{}\n{}", vllm_chat(0.02), vllm_chat(0.02));
    assert_eq!(told("append", &two).points.len(), 2);
    let files = Files::new("files");
    let one = files.write("1.json", &vllm_chat(0.02));
    let other = files.write("2.json", &vllm_chat(0.03));
    let import = import(&[one, other], &ImportAsk::default(), &slos("ttft=1s")).unwrap();
    let numbers: Vec<u32> = import.points.iter().map(|p| p.point).collect();
    assert_eq!(numbers, [0, 1]);
    assert_eq!(import.charts.len(), 2);
}

#[test]
fn a_file_without_start_times_needs_the_load_and_says_so() {
    let file = r#"{"ttfts": [0.1, 0.1], "itls": [[0.05], [0.05]],
        "input_lens": [1, 1], "output_lens": [2, 2], "errors": ["", ""]}"#;
    refused(
        imported("nostart", file, &ImportAsk::default()),
        "neither when requests began",
        "--concurrency N",
    );
    let import = imported("nostart", file, &users(1)).unwrap();
    let origins: Vec<u64> = import.requests.iter().map(|r| r.origin_ns).collect();
    assert_eq!(origins, [0, 150 * MS], "one user asks again when answered");
    assert!(import.requests.iter().all(|r| r.sent_ns.is_none()));
    assert!(evidence(&import, "start-times-not-told").is_some());
    assert_eq!(import.points[0].goodput_interval, None);
    let rate = ImportAsk {
        load: Some(ToldLoad::Rate(4.0)),
        ..ImportAsk::default()
    };
    let import = imported("nostart", file, &rate).unwrap();
    assert_eq!(import.requests[1].origin_ns, 250 * MS);
    assert_eq!(import.points[0].rate_req_s, Some(4.0));
}

#[test]
fn columns_that_do_not_belong_together_are_refused() {
    let file = r#"{"ttfts": [0.1], "itls": [], "input_lens": [1], "output_lens": [2]}"#;
    refused(
        imported("torn", file, &users(1)),
        "differ in length",
        "--save-detailed",
    );
}

#[test]
fn aiperf_runs_from_the_credit_in_an_open_loop() {
    let line = |start: u64, phase: &str, rest: &str| {
        format!(
            r#"{{"metadata": {{"session_num": 1, "x_request_id": "id-{start}", "credit_issued_ns": {}, "request_start_ns": {start}, "request_ack_ns": {}, "request_end_ns": {}, "benchmark_phase": "{phase}", "was_cancelled": false}}, {rest}}}"#,
            start - 50 * MS,
            start + 5 * MS,
            start + 200 * MS
        )
    };
    let good = r#""metrics": {"time_to_first_token": {"value": 100.0, "unit": "ms"},
        "time_to_first_output_token": {"value": 0.11, "unit": "sec"},
        "request_latency": {"value": 199.0, "unit": "ms"},
        "inter_chunk_latency": {"value": [10.0, 20.0], "unit": "ms"},
        "output_sequence_length": {"value": 3, "unit": "tokens"},
        "usage_prompt_tokens": {"value": 12, "unit": "tokens"},
        "usage_prompt_cache_read_tokens": {"value": 4, "unit": "tokens"},
        "input_sequence_length": {"value": 10, "unit": "tokens"}}, "error": null"#
        .replace('\n', " ");
    let busy = r#""metrics": {"error_isl": {"value": 10, "unit": "tokens"}}, "error": {"code": 429, "type": "HTTPError", "message": "busy"}"#;
    let late = r#""metrics": {}, "error": {"code": null, "type": "TimeoutError", "message": null}"#;
    let second = 1_000 * MS;
    let file = [
        line(second, "warmup", &good),
        line(2 * second, "profiling", &good),
        line(3 * second, "profiling", busy),
        line(4 * second, "profiling", late),
    ]
    .join("\n");
    let rate = ImportAsk {
        load: Some(ToldLoad::Rate(1.0)),
        ..ImportAsk::default()
    };
    let import = imported("aiperf", &file, &rate).unwrap();
    let row = &import.requests[1];
    assert_eq!(row.id, format!("id-{}", 2 * second));
    assert_eq!(
        row.ttft_ms,
        Some(150.0),
        "50 ms between credit and send are counted"
    );
    assert_eq!(row.ttft_answer_ms, Some(160.0), "the event at 110 ms");
    assert_eq!(row.tpot_ms, Some(15.0));
    assert_eq!((row.input_tokens, row.cached_tokens), (Some(12), Some(4)));
    assert_eq!(row.output_tokens_source.as_deref(), Some("tokenizer"));
    assert_eq!(
        row.first_byte_ns.map(|at| at - row.sent_ns.unwrap()),
        Some(5 * MS)
    );
    assert_eq!(import.requests[0].phase, Phase::Warmup);
    assert_eq!(import.requests[2].outcome, Outcome::Rejected);
    assert_eq!(import.requests[2].http_status, Some(429));
    assert_eq!(import.requests[2].input_tokens, Some(10));
    assert_eq!(import.requests[3].outcome, Outcome::TimedOut);
    assert_eq!(import.points[0].send_lag_p50_ms, Some(50.0));
    assert_eq!(
        import.points[0].characters_per_s, None,
        "AIPerf keeps no text"
    );
    assert_eq!(import.points[0].slos[0].good_words_per_s, None);
    assert_eq!(import.points[0].requests, 3, "warm-up is not measured");
    assert!(
        evidence(&import, "wait-in-the-client")
            .unwrap()
            .contains("50.0 ms")
    );
    // Users that wait for their answers have no schedule to be late on.
    let closed = imported("aiperf", &file, &users(1)).unwrap();
    assert_eq!(closed.requests[1].ttft_ms, Some(100.0));
    assert_eq!(closed.points[0].send_lag_p50_ms, None, "not told, not 0");
}

fn guidellm(first_token: f64) -> String {
    format!(
        r#"{{"metadata": {{"version": 2}}, "benchmarks": [
        {{"type_": "generative_benchmark",
          "config": {{"strategy": {{"type_": "concurrent", "streams": 2}}, "backend": {{"model": "m"}}}},
          "scheduler_metrics": {{"measure_start_time": 1000.0, "measure_end_time": 1010.0}},
          "requests": {{
            "successful": [{{"request_id": "a", "output": "hello you", "prompt_tokens": 7, "output_tokens": 5,
                "input_metrics": {{"cached_tokens": 2}},
                "info": {{"status": "completed", "timings": {{"targeted_start": 1000.5, "request_start": 1001.0,
                   "first_token_iteration": {first_token}, "first_output_token_iteration": {first_token},
                   "last_token_iteration": 1001.3, "token_iterations": 5, "request_end": 1001.4}}}}}}],
            "incomplete": [{{"request_id": "b", "prompt_tokens": 7, "output_tokens": 2,
                "info": {{"timings": {{"request_start": 1009.0, "first_token_iteration": 1009.1,
                   "last_token_iteration": 1009.9, "token_iterations": 2, "resolve_end": 1010.0}}}}}}],
            "errored": [{{"request_id": "c", "prompt_tokens": 7,
                "info": {{"error": "refused", "timings": {{"resolve_start": 1002.0, "resolve_end": 1002.5}}}}}}]}}}},
        {{"config": {{"strategy": {{"type_": "poisson", "rate": 3.0}}}},
          "requests": {{"successful": [{{"request_id": "d", "prompt_tokens": 7, "output_tokens": 1,
                "info": {{"timings": {{"targeted_start": 1100.0, "request_start": 1100.4,
                   "first_token_iteration": 1100.5, "last_token_iteration": 1100.5, "token_iterations": 1,
                   "request_end": 1100.5}}}}}}]}}}}]}}"#
    )
}

#[test]
fn guidellms_throughput_is_a_closed_loop_and_its_wait_is_nobodys() {
    let poisson = r#"{"type_": "poisson", "rate": 3.0}"#;
    let throughput = r#"{"type_": "throughput", "max_concurrency": 16}"#;
    let file = guidellm(1001.1).replace(poisson, throughput);
    let import = told("throughput", &file);
    assert_eq!(import.points[1].concurrency, Some(16));
    let row = import.requests.iter().find(|r| r.id == "d").unwrap();
    let ttft = row.ttft_ms.unwrap();
    assert!((ttft - 100.0).abs() < 0.001, "from the send: {ttft}");
}

#[test]
fn guidellm_has_a_point_for_each_load_and_no_gaps() {
    let import = told("guidellm", &guidellm(1001.1));
    let [closed, open] = import.points.as_slice() else {
        panic!("two points")
    };
    assert_eq!((closed.mode, closed.concurrency), (Mode::Closed, Some(2)));
    assert_eq!((open.mode, open.rate_req_s), (Mode::Open, Some(3.0)));
    assert!(
        (closed.window_s - 10.0).abs() < 1e-6,
        "GuideLLM's own window"
    );
    let row = |id: &str| import.requests.iter().find(|r| r.id == id).unwrap();
    let near = |ms: Option<f64>, expected: f64| (ms.unwrap() - expected).abs() < 0.001;
    assert!(near(row("a").ttft_ms, 100.0) && near(row("a").tpot_ms, 50.0));
    assert!(near(row("a").ttft_answer_ms, 100.0));
    assert_eq!(
        (
            row("a").stall_ms,
            row("a").itl_p99_ms,
            row("a").gap_ns.as_ref()
        ),
        (None, None, None)
    );
    assert_eq!(
        (row("a").events, row("a").words, row("a").characters),
        (5, 2, 9)
    );
    assert_eq!(row("a").cached_tokens, Some(2));
    assert_eq!(row("b").outcome, Outcome::Cancelled);
    assert_eq!(
        (row("c").outcome, row("c").ttft_ms),
        (Outcome::Failed, None)
    );
    assert_eq!(row("c").error.as_deref(), Some("refused"));
    // In the open loop the latency runs from the target.
    assert!(near(row("d").ttft_ms, 500.0));
    let clock = import
        .findings
        .iter()
        .find(|f| f.name == "wall-clock")
        .unwrap();
    assert!(!clock.severe);
}

#[test]
fn a_clock_that_was_set_back_shows_and_its_request_is_a_miss() {
    let import = told("clock", &guidellm(1000.2));
    let found = |name: &str| import.findings.iter().find(|f| f.name == name);
    let clock = found("impossible-times").unwrap();
    assert!(
        clock.severe
            && clock.evidence.contains("1 of 4")
            && clock.evidence.contains("TTFT of -0.800000 s")
            && clock.advice.contains("wall clock"),
        "{clock:?}"
    );
    assert_eq!(found("wall-clock"), None);
    let row = import.requests.iter().find(|r| r.id == "a").unwrap();
    assert_eq!((row.outcome, row.ttft_ms), (Outcome::Failed, None));
    assert_eq!(row.verdicts.values().next(), Some(&VerdictWord::Missed));
    let point = &import.points[0];
    assert!(!point.valid, "one of three requests: {:?}", point.warnings);
}

#[test]
fn inference_perf_counts_its_failures_again() {
    let file = r#"[
      {"start_time": 10.0, "end_time": 10.5, "request": "{\"model\": \"m\", \"max_tokens\": 4}", "response": "..",
       "info": {"input_tokens": 9, "request_metrics": {"text": {"input_tokens": 9}},
         "response_metrics": {"output_tokens": 5, "chunk_times": [10.1, 10.2, 10.4],
           "output_token_times": [10.1, 10.2, 10.2, 10.4],
           "server_usage": {"prompt_tokens": 8, "completion_tokens": 4,
             "prompt_tokens_details": {"cached_tokens": 3}}}}, "error": null},
      {"start_time": 11.0, "end_time": 11.5, "request": "{}", "response": null,
       "info": {"request_metrics": {"text": {"input_tokens": 9}}, "response_metrics": null},
       "error": {"error_type": "ClientResponseError", "error_msg": "503 - busy"}},
      {"start_time": 12.0, "end_time": 12.5, "request": "{}", "response": "",
       "info": {"input_tokens": 9, "response_metrics": {"output_tokens": 0, "chunk_times": []}}, "error": null},
      {"start_time": 13.0, "end_time": 13.5, "request": "{}", "response": "old",
       "info": {"input_tokens": 9, "output_tokens": 2, "output_token_times": [13.1, 13.14]}, "error": null}]"#;
    let import = told("perf", file);
    assert_eq!(import.model.as_deref(), Some("m"));
    let [whole, busy, empty, old] = import.requests.as_slice() else {
        panic!("four requests")
    };
    let near = |ms: Option<f64>, expected: f64| (ms.unwrap() - expected).abs() < 0.001;
    assert!(
        near(whole.ttft_ms, 100.0) && near(whole.tpot_ms, 100.0) && near(whole.stall_ms, 200.0)
    );
    assert_eq!(
        (whole.output_tokens, whole.output_tokens_source.as_deref()),
        (Some(4), Some("usage"))
    );
    assert_eq!(
        (whole.input_tokens, whole.cached_tokens, whole.events),
        (Some(8), Some(3), 3)
    );
    assert_eq!(busy.outcome, Outcome::Rejected);
    assert_eq!((empty.outcome, empty.ttft_ms), (Outcome::Empty, None));
    assert!(near(old.ttft_ms, 100.0) && near(old.tpot_ms, 40.0));
    let row = &import.points[0];
    assert_eq!(
        row.slo_attainment,
        Some(0.25),
        "of all, not of the successful"
    );
    assert!(
        evidence(&import, "failures-were-left-out")
            .unwrap()
            .starts_with("1 of 4")
    );
    assert!(
        evidence(&import, "empty-answers-called-success")
            .unwrap()
            .starts_with("1 of 4")
    );
    assert!(
        row.warnings[0].contains("the file does not tell the load"),
        "{:?}",
        row.warnings
    );
}

#[test]
fn llmperf_has_no_gaps_and_no_times_of_day() {
    let file = r#"[
      {"error_code": null, "error_msg": "", "inter_token_latency_s": 0.02, "ttft_s": 0.2,
       "end_to_end_latency_s": 1.2, "request_output_throughput_token_per_s": 50.0,
       "number_total_tokens": 61, "number_output_tokens": 51, "number_input_tokens": 10},
      {"error_code": 429, "error_msg": "slow down", "inter_token_latency_s": 0, "ttft_s": 0,
       "end_to_end_latency_s": 0, "number_output_tokens": 1, "number_input_tokens": 10}]"#;
    let import = imported("llmperf", file, &users(1)).unwrap();
    let [good, bad] = import.requests.as_slice() else {
        panic!("two requests")
    };
    assert_eq!(
        (good.ttft_ms, good.e2e_ms, good.tpot_ms),
        (Some(200.0), Some(1200.0), Some(20.0))
    );
    assert_eq!((good.stall_ms, good.tpot_median_ms), (None, None));
    assert_eq!(
        (bad.outcome, bad.http_status),
        (Outcome::Rejected, Some(429))
    );
    assert_eq!((bad.ttft_ms, bad.output_tokens), (None, None));
    assert_eq!(import.points[0].lengths.tokens_per_event, None);
    assert!(evidence(&import, "another-tpot").is_some());

    let csv = "run,i,error,ttft_s,itl_mean_s,e2e_s,out_tok_s,input_tokens,output_tokens\n\
        a,0,,0.2,0.02,1.2,50,10,51\nb,0,429.0,0.0,0.0,0.0,0.0,10,1\n";
    refused(imported("csv", csv, &users(1)), "2 runs: a, b", "--run");
    let ask = |run: &str| ImportAsk {
        run: Some(run.to_owned()),
        ..users(1)
    };
    assert_eq!(
        imported("csv", csv, &ask("a")).unwrap().requests[0].tpot_ms,
        Some(20.0)
    );
    let bad = imported("csv", csv, &ask("b")).unwrap();
    assert_eq!(bad.requests[0].error.as_deref(), Some("error 429.0"));
    refused(imported("csv", csv, &ask("c")), "no run `c`", "a, b");
    refused(
        imported("csv", "ttft_s,e2e_s\n1,2\n", &users(1)),
        "no column",
        "--from",
    );
}

#[test]
fn a_load_that_no_file_tells_is_seen_from_its_times() {
    let line = |start: u64, span: u64| {
        format!(
            r#"{{"metadata": {{"request_start_ns": {start}, "request_end_ns": {}, "benchmark_phase": "profiling"}}, "metrics": {{"time_to_first_token": {{"value": 1.0, "unit": "ms"}}, "output_sequence_length": {{"value": 1, "unit": "tokens"}}}}, "error": null}}"#,
            start + span
        )
    };
    // Three users, each asks again as soon as it is answered.
    let held: Vec<String> = (0..30)
        .map(|i: u64| line(1_000 * MS + (i / 3) * 100 * MS, 99 * MS))
        .collect();
    let import = told("held", &held.join("\n"));
    assert_eq!(import.points[0].concurrency, Some(3));
    // The same with a client that takes 9 ms to send the next: three are in flight for less than
    // four fifths of the time.
    let slow: Vec<String> = (0..60)
        .map(|i: u64| {
            let (round, offset) = (i / 3, [0, 20, 60][(i % 3) as usize]);
            line(1_000 * MS + round * 108 * MS + offset * MS, 99 * MS)
        })
        .collect();
    let import = told("slow", &slow.join("\n"));
    assert_eq!(import.points[0].concurrency, Some(3));
    // Five a second, short answers, now and then two at once.
    let spread: Vec<String> = (0..50)
        .map(|i: u64| {
            line(
                1_000 * MS + i * 200 * MS,
                if i.is_multiple_of(10) { 250 } else { 50 } * MS,
            )
        })
        .collect();
    let import = told("spread", &spread.join("\n"));
    assert_eq!(import.points[0].rate_req_s, Some(5.0));
    assert_eq!(import.points[0].in_flight_peak, Some(2));
}

/// One time in the wrong unit must neither fill the memory with bins nor become a figure.
#[test]
fn a_request_of_years_is_refused_with_its_length() {
    let file = r#"{"backend": "openai", "model_id": "m", "num_prompts": 2, "request_rate": 2.0,
        "duration": 4.0, "completed": 2, "input_lens": [10, 20], "output_lens": [3, 3],
        "ttfts": [0.1, 1e9], "itls": [[0.02, 0.03], [0.04, 0.04]], "errors": ["", ""]}"#;
    let got = imported("years", file, &ImportAsk::default());
    refused(got, "lasts 1.0e9 s", "another unit");
}
