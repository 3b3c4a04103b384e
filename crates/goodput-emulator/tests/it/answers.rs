use goodput_record::{FinishReason, Outcome, TokenCount};

use crate::setup::{Running, quick, silent};
use goodput_emulator::NaturalLength;

#[test]
fn a_chat_stream_has_the_asked_length_and_its_counts() {
    let server = Running::start(quick());
    let seen = server.client().chat("one two three", r#""max_tokens":40"#);
    assert_eq!(seen.status, 200);
    assert_eq!(seen.end.outcome, Outcome::Ok);
    assert_eq!(seen.end.output_tokens, Some(TokenCount::Usage(40)));
    // Three words, four tokens of the template around them, three to open the answer.
    assert_eq!(seen.end.input_tokens, Some(10));
    assert_eq!(seen.end.cached_tokens, Some(0));
    assert_eq!(seen.end.finish_reason, Some(FinishReason::Length));
    assert_eq!(seen.end.token_events, 40);
    assert_eq!(seen.end.words, 40);
    assert_eq!(seen.text.split_ascii_whitespace().count(), 40);
    assert!(seen.end.done_seen);
    assert_eq!(seen.end.served_model.as_deref(), Some("test/quick"));
    assert!(
        seen.raw
            .contains("content-type: text/event-stream; charset=utf-8\r\n")
    );
    assert!(!seen.raw.contains("content-encoding"));
    // The role comes in an event of its own, right before the first token.
    let role = seen
        .raw
        .find(r#""delta":{"role":"assistant","content":""}"#)
        .unwrap();
    assert!(role < seen.raw.find(r#""delta":{"content":""#).unwrap());
}

#[test]
fn completions_stream_and_come_whole_with_the_same_text() {
    let server = Running::start(quick());
    let mut client = server.client();
    let ask = r#""prompt":"the river runs","max_tokens":12"#;
    let seen = client.answer("/v1/completions", &format!(r#"{{{ask},"stream":true}}"#));
    assert_eq!(seen.end.outcome, Outcome::Ok);
    assert_eq!(seen.end.token_events, 12);
    assert_eq!(
        seen.end.output_tokens,
        Some(TokenCount::AtLeast(12)),
        "no usage unless asked"
    );
    let whole = client.post("/v1/completions", &format!("{{{ask}}}")).json();
    assert_eq!(whole["choices"][0]["text"], seen.text.as_str());
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    assert_eq!(whole["usage"]["prompt_tokens"], 3);
    assert_eq!(whole["usage"]["completion_tokens"], 12);
    let other = client.post("/v1/completions", r#"{"prompt":"another","max_tokens":12}"#);
    assert_ne!(other.json()["choices"][0]["text"], seen.text.as_str());
}

#[test]
fn several_choices_and_several_prompts_are_summed_once() {
    let server = Running::start(quick());
    let mut client = server.client();
    let seen = client.chat("a b", r#""max_tokens":6,"n":3"#);
    assert_eq!(seen.end.choices, 3);
    assert_eq!(seen.end.output_tokens, Some(TokenCount::Usage(18)));
    assert_eq!(seen.end.input_tokens, Some(9));
    let body = r#"{"prompt":["a b c","d e"],"max_tokens":5,"n":2}"#;
    let whole = client.post("/v1/completions", body).json();
    let choices = whole["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 4);
    assert_eq!(choices[3]["index"], 3);
    assert_eq!(whole["usage"]["prompt_tokens"], 5);
    assert_eq!(whole["usage"]["completion_tokens"], 20);
    let ids = client
        .post("/v1/completions", r#"{"prompt":[7,8,9],"max_tokens":1}"#)
        .json();
    assert_eq!(ids["usage"]["prompt_tokens"], 3);
}

#[test]
fn counts_come_on_every_event_for_those_who_ask() {
    let server = Running::start(quick());
    let body = r#"{"prompt":"a","max_tokens":3,"stream":true,
        "stream_options":{"include_usage":true,"continuous_usage_stats":true}}"#;
    let seen = server.client().answer("/v1/completions", body);
    for made in 1..=3 {
        let counts = format!(r#""total_tokens":{},"completion_tokens":{made}"#, made + 1);
        assert!(seen.raw.contains(&counts), "{}", seen.raw);
    }
    assert_eq!(seen.end.output_tokens, Some(TokenCount::Usage(3)));
}

#[test]
fn history_is_found_in_the_prefix_cache() {
    let server = Running::start(quick());
    let mut client = server.client();
    let system = "word ".repeat(100);
    let ask = |turns: &str| {
        format!(
            r#"{{"messages":[{{"role":"system","content":"{system}"}},{turns}],"max_tokens":50}}"#
        )
    };
    let first = r#"{"role":"user","content":"first question"}"#;
    let answer = client.post("/v1/chat/completions", &ask(first)).json();
    assert_eq!(answer["usage"]["prompt_tokens"], 104 + 6 + 3);
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    let said = answer["choices"][0]["message"]["content"].as_str().unwrap();
    let second = format!(
        r#"{first},{{"role":"assistant","content":"{said}"}},{{"role":"user","content":"and now"}}"#
    );
    let again = client.post("/v1/chat/completions", &ask(&second)).json();
    // The first prompt and its answer but for the last token are whole blocks in the cache.
    let reusable = (104 + 6 + 3 + 49) / 16 * 16;
    assert_eq!(
        again["usage"]["prompt_tokens_details"]["cached_tokens"],
        reusable
    );
    let (queries, hits) = (
        server.metric("vllm:prefix_cache_queries_total"),
        server.metric("vllm:prefix_cache_hits_total"),
    );
    assert!((hits - f64::from(reusable)).abs() < 0.5, "{hits}");
    assert!(
        (queries - f64::from(113 + 113 + 50 + 1 + 6 + 3)).abs() < 0.5,
        "{queries}"
    );
}

#[test]
fn answers_end_by_themselves_where_that_is_asked_for() {
    let mut config = quick();
    config.natural = Some(NaturalLength {
        median: 20.0,
        sigma: 0.0,
    });
    let server = Running::start(config);
    let mut client = server.client();
    let natural = client.chat("a", r#""max_tokens":500"#);
    assert_eq!(natural.end.output_tokens, Some(TokenCount::Usage(20)));
    assert_eq!(natural.end.finish_reason, Some(FinishReason::Stop));
    let capped = client.chat("a", r#""max_completion_tokens":7"#);
    assert_eq!(capped.end.output_tokens, Some(TokenCount::Usage(7)));
    assert_eq!(capped.end.finish_reason, Some(FinishReason::Length));
    let least = client.chat("a", r#""max_tokens":500,"min_tokens":31"#);
    assert_eq!(least.end.output_tokens, Some(TokenCount::Usage(31)));
    let all = client.chat("a", r#""max_tokens":60,"ignore_eos":true"#);
    assert_eq!(all.end.output_tokens, Some(TokenCount::Usage(60)));
}

#[test]
fn a_stop_string_ends_an_answer_before_it() {
    let server = Running::start(quick());
    let mut client = server.client();
    let ask = |stop: &str| format!(r#"{{"prompt":"a","max_tokens":200{stop}}}"#);
    let full = client.post("/v1/completions", &ask("")).json();
    let full = full["choices"][0]["text"].as_str().unwrap().to_owned();
    let stopped = client
        .post("/v1/completions", &ask(r#","stop":[".","never there"]"#))
        .json();
    let choice = &stopped["choices"][0];
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(choice["stop_reason"], ".");
    let text = choice["text"].as_str().unwrap();
    assert_eq!(text, &full[..full.find('.').unwrap()]);
    let words = text.split_ascii_whitespace().count();
    assert_eq!(stopped["usage"]["completion_tokens"], words);
}

#[test]
fn sixty_four_streams_at_once_all_come_whole() {
    let server = Running::start(quick());
    let clients: Vec<_> = (0..64)
        .map(|number| {
            let mut client = server.client();
            std::thread::spawn(move || {
                client.chat(&format!("prompt {number}"), r#""max_tokens":100"#)
            })
        })
        .collect();
    let mut texts = std::collections::BTreeSet::new();
    for client in clients {
        let seen = client.join().unwrap();
        assert_eq!(seen.end.outcome, Outcome::Ok, "{:?}", seen.end.error);
        assert_eq!(seen.end.output_tokens, Some(TokenCount::Usage(100)));
        texts.insert(seen.text);
    }
    assert_eq!(texts.len(), 64, "every prompt has its own answer");
    let report = server.end();
    assert_eq!(report.counts.completed, 64);
    assert_eq!(report.counts.cancelled, 0);
    // A write may carry several tokens where the machine is busy, never more writes than events.
    let writes = report.lateness.spans().count();
    assert!((64..=6400).contains(&writes), "{writes}");
}

#[test]
fn a_step_of_many_streams_is_written_in_order_by_whoever_writes() {
    let mut config = quick();
    config.profile.max_num_seqs = 256.try_into().unwrap();
    let server = Running::start(config);
    let ask = r#""prompt":"the same for all","max_tokens":150"#;
    let whole = server
        .client()
        .post("/v1/completions", &format!("{{{ask}}}"));
    let whole = whole.json();
    let mut clients: Vec<_> = (0..200).map(|_| server.client()).collect();
    for client in &mut clients {
        let body = format!(r#"{{{ask},"stream":true}}"#);
        client.send("POST", "/v1/completions", &body);
    }
    clients.truncate(180);
    for client in &mut clients {
        let seen = client.read_answer();
        assert_eq!(seen.end.outcome, Outcome::Ok, "{:?}", seen.end.error);
        assert_eq!(whole["choices"][0]["text"], seen.text.as_str());
    }
    server.wait_for("vllm:num_requests_running", 0.0);
    let counts = server.end().counts;
    assert!(counts.completed >= 181, "{counts:?}");
    assert_eq!(counts.completed + counts.cancelled, counts.requests);
}

#[test]
fn requests_follow_each_other_on_one_connection_without_a_wait() {
    // Without TCP_NODELAY on the accepted socket, each small answer would take some 40 ms more.
    let server = Running::start(quick());
    let mut client = server.client();
    let mut took: Vec<_> = (0..100)
        .map(|_| {
            let began = std::time::Instant::now();
            let seen = client.chat("a", r#""max_tokens":1"#);
            assert_eq!(seen.end.output_tokens, Some(TokenCount::Usage(1)));
            began.elapsed()
        })
        .collect();
    took.sort();
    assert!(took[50].as_millis() < 35, "{:?}", took[50]);
    assert_eq!(server.end().counts.connections, 1);
}

#[test]
fn the_head_of_a_stream_comes_long_before_its_first_token() {
    use std::io::Read;
    let server = Running::start(silent());
    let mut client = server.client();
    client.send(
        "POST",
        "/v1/completions",
        r#"{"prompt":"a","max_tokens":9,"stream":true}"#,
    );
    let mut head = [0; 15];
    client.socket().read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Running::start(quick());
    let mut client = server.client();
    let ask = |tokens| format!(r#"{{"prompt":"a","max_tokens":{tokens}}}"#);
    client.send("POST", "/v1/completions", &ask(5));
    client.send("GET", "/health", "");
    let first = client.read_plain();
    assert_eq!(first.json()["usage"]["completion_tokens"], 5);
}

#[test]
fn replicas_share_the_load() {
    let mut config = quick();
    config.replicas = 2.try_into().unwrap();
    let server = Running::start(config);
    let mut clients: Vec<_> = (0..4).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send(
            "POST",
            "/v1/completions",
            r#"{"prompt":"a","max_tokens":3000}"#,
        );
    }
    let began = std::time::Instant::now();
    loop {
        let page = server.client().get("/metrics").body;
        let running: Vec<f64> = goodput_protocol::metrics(&page)
            .filter(|metric| metric.name == "vllm:num_requests_running")
            .map(|metric| metric.value)
            .collect();
        if running == [2.0, 2.0] {
            break;
        }
        assert!(began.elapsed().as_secs() < 5, "{running:?}");
    }
}

#[test]
fn a_template_is_counted_around_every_conversation() {
    let mut config = quick();
    config.profile.template_tokens = 24;
    let plain = Running::start(quick());
    let with_template = Running::start(config);
    let chat = r#"{"messages":[{"role":"user","content":"the river runs"}],"max_tokens":2}"#;
    let text = r#"{"prompt":"the river runs","max_tokens":2}"#;
    let counted = |server: &Running, path, body| {
        let usage = server.client().post(path, body).json()["usage"].clone();
        usage["prompt_tokens"].as_u64().unwrap()
    };
    let bare = counted(&plain, "/v1/chat/completions", chat);
    assert_eq!(bare, 3 + 7, "its own");
    assert_eq!(
        counted(&with_template, "/v1/chat/completions", chat),
        3 + 24
    );
    assert_eq!(counted(&with_template, "/v1/completions", text), 3);
}
