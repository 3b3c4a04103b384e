use std::time::{Duration, Instant};

use goodput_record::{Outcome, TokenCount};

use crate::setup::{Running, Seen, faulty};

fn seen_with(faults: &[&str], rest: &str) -> Seen {
    let server = Running::start(faulty(faults));
    server.client().chat("a b c", rest)
}

#[test]
fn refusals_and_errors_are_drawn_from_the_seed() {
    let statuses = |seed| -> Vec<u16> {
        let mut config = faulty(&["reject=30%", "errors=30%"]);
        config.seed = seed;
        let server = Running::start(config);
        let mut client = server.client();
        (0..60)
            .map(|_| client.post("/v1/completions", r#"{"prompt":"a","max_tokens":1}"#))
            .inspect(|plain| {
                if plain.status == 429 {
                    assert!(plain.head.contains("retry-after: 1"), "{}", plain.head);
                }
            })
            .map(|plain| plain.status)
            .collect()
    };
    let first = statuses(1);
    assert_eq!(first, statuses(1));
    assert_ne!(first, statuses(2));
    for status in [200, 429, 500] {
        assert!(first.contains(&status), "{first:?}");
    }
    let seen = seen_with(&["reject=100%,503"], r#""max_tokens":3"#);
    assert_eq!(seen.end.outcome, Outcome::Rejected);
    assert_eq!(seen.status, 503);
}

#[test]
fn a_cut_stream_breaks_off_and_its_place_is_free() {
    let server = Running::start(faulty(&["cut=100%"]));
    let seen = server.client().chat("a", r#""max_tokens":500"#);
    assert_eq!(seen.end.outcome, Outcome::Truncated);
    assert!(
        (1..500).contains(&seen.end.token_events),
        "{}",
        seen.end.token_events
    );
    server.wait_for("vllm:num_requests_running", 0.0);
    assert_eq!(server.end().counts.struck, 1);
}

#[test]
fn an_error_event_ends_a_stream_without_its_end_mark() {
    let server = Running::start(faulty(&["error-event=100%"]));
    let mut client = server.client();
    let seen = client.chat("a", r#""max_tokens":100"#);
    assert_eq!(seen.end.outcome, Outcome::ErrorEvent);
    assert!(!seen.end.done_seen);
    assert!((1..100).contains(&seen.end.token_events));
    assert_eq!(client.get("/health").status, 200, "the connection lives on");
}

#[test]
fn a_page_may_come_in_place_of_an_answer() {
    let seen = seen_with(&["html"], r#""max_tokens":10"#);
    assert_eq!((seen.status, seen.end.outcome), (200, Outcome::NotAStream));
}

#[test]
fn several_tokens_may_come_in_one_event() {
    let seen = seen_with(&["tokens-per-event=4"], r#""max_tokens":10"#);
    assert_eq!(seen.end.token_events, 3);
    assert_eq!(seen.end.output_tokens, Some(TokenCount::Usage(10)));
    assert_eq!(seen.end.words, 10);
}

#[test]
fn counts_and_the_end_mark_may_be_missing() {
    let seen = seen_with(&["no-usage", "no-done"], r#""max_tokens":10"#);
    assert_eq!(seen.end.output_tokens, Some(TokenCount::AtLeast(10)));
    assert!(!seen.end.done_seen);
    assert_eq!(seen.end.outcome, Outcome::Ok);
}

#[test]
fn the_limit_may_be_ignored() {
    let mut config = faulty(&["ignore-max-tokens"]);
    config.natural = Some(goodput_emulator::NaturalLength {
        median: 33.0,
        sigma: 0.0,
    });
    let server = Running::start(config);
    let seen = server.client().chat("a", r#""max_tokens":5"#);
    assert_eq!(seen.end.output_tokens, Some(TokenCount::Usage(33)));
}

#[test]
fn a_buffer_on_the_way_makes_a_stream_come_in_bursts() {
    let held = seen_with(&["buffer=16kB"], r#""max_tokens":200"#);
    assert_eq!(held.end.output_tokens, Some(TokenCount::Usage(200)));
    // Some 46 kB in bursts of 16 kB, which the reader may see in two or three pieces each.
    let mut instants = held.events.clone();
    instants.dedup();
    assert!(instants.len() <= 12, "{}", instants.len());
}

#[test]
fn the_role_may_come_long_before_the_first_token_or_never() {
    let early = seen_with(&["role-chunk=early"], r#""max_tokens":3"#);
    assert_eq!(early.raw.matches(r#""role":"assistant""#).count(), 1);
    let (head, body) = early.raw.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"));
    assert!(
        body.lines()
            .nth(1)
            .unwrap()
            .contains(r#""role":"assistant""#),
        "{body}"
    );
    let never = seen_with(&["role-chunk=none"], r#""max_tokens":3"#);
    assert!(!never.raw.contains(r#""role""#));
    assert_eq!(never.end.outcome, Outcome::Ok);
}

#[test]
fn a_silent_stream_is_kept_open_by_comments() {
    let mut config = faulty(&["keepalive=20ms"]);
    config.profile.step_time.overhead_s = 0.2;
    let server = Running::start(config);
    let seen = server.client().chat("a", r#""max_tokens":2"#);
    assert!(
        seen.raw.matches("\n: keep-alive\n").count() >= 4,
        "{}",
        seen.raw
    );
    assert_eq!(seen.end.token_events, 2);
}

#[test]
fn a_stall_holds_every_stream() {
    let server = Running::start(faulty(&["stall=every 400ms,300ms"]));
    let seen = server.client().chat("a", r#""max_tokens":450"#);
    let gaps = seen
        .events
        .windows(2)
        .filter_map(|pair| pair[1].since(pair[0]));
    assert!(gaps.max().unwrap() >= Duration::from_millis(250));
    assert_eq!(seen.end.output_tokens, Some(TokenCount::Usage(450)));
}

#[test]
fn a_cold_replica_is_slow_at_first() {
    let server = Running::start(faulty(&["slow-start=600ms,x20"]));
    let began = Instant::now();
    let seen = server.client().chat("a", r#""max_tokens":100"#);
    // Alone it would take 0.1 s; 30 steps of 20 ms come first, then 70 of 1 ms.
    assert!(
        began.elapsed() > Duration::from_millis(500),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(seen.end.output_tokens, Some(TokenCount::Usage(100)));
}

#[test]
fn a_replica_that_loads_answers_nothing_yet() {
    let server = Running::start(faulty(&["loading=300ms"]));
    let mut client = server.client();
    assert_eq!(client.get("/health").status, 503);
    let began = Instant::now();
    while client.get("/health").status == 503 {
        assert!(began.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(
        client.chat("a", r#""max_tokens":1"#).end.outcome,
        Outcome::Ok
    );
}

#[test]
fn a_convoy_holds_up_the_others() {
    let mut config = faulty(&["convoy=every 200ms,1500 tokens"]);
    // A step with 1500 tokens of a prompt takes 75 ms longer.
    config.profile.step_time.prefill_s = 50e-6;
    let server = Running::start(config);
    let seen = server.client().chat("a", r#""max_tokens":300"#);
    let gaps = seen
        .events
        .windows(2)
        .filter_map(|pair| pair[1].since(pair[0]));
    assert!(gaps.max().unwrap() >= Duration::from_millis(60));
}

#[test]
fn a_small_kv_cache_preempts() {
    let server = Running::start(faulty(&["kv=1%"]));
    // 41 blocks, 656 tokens: three answers of 400 tokens do not fit together.
    let mut clients: Vec<_> = (0..3).map(|_| server.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let body = format!(r#"{{"prompt":"{number}","max_tokens":400,"stream":true}}"#);
        client.send("POST", "/v1/completions", &body);
    }
    for client in &mut clients {
        assert_eq!(client.read_answer().end.token_events, 400);
    }
    assert!(server.metric("vllm:num_preemptions_total") >= 1.0);
    assert_eq!(
        server.client().get("/v1/models").json()["data"][0]["max_model_len"],
        656
    );
}
