use std::time::{Duration, Instant};

use goodput_record::Outcome;

use crate::setup::{Running, quick, silent};

const LONG: &str = r#"{"prompt":"a","max_tokens":4000,"stream":true}"#;

#[test]
fn a_client_that_leaves_frees_its_place() {
    let server = Running::start(quick());
    let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send("POST", "/v1/completions", LONG);
    }
    server.wait_for("vllm:num_requests_running", 8.0);
    drop(clients);
    let began = Instant::now();
    server.wait_for("vllm:num_requests_running", 0.0);
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(server.end().counts.cancelled, 8);
}

#[test]
fn a_client_that_leaves_before_the_first_token_frees_its_place() {
    // Nothing is written in all that time.
    let server = Running::start(silent());
    let mut client = server.client();
    client.send("POST", "/v1/completions", LONG);
    server.wait_for("vllm:num_requests_running", 1.0);
    drop(client);
    server.wait_for("vllm:num_requests_running", 0.0);
    assert_eq!(server.end().counts.cancelled, 1);
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody_and_is_dropped() {
    let mut config = quick();
    config.max_backlog = 64 * 1024;
    // Room for an answer that is larger than what the kernel takes for a client.
    config.profile.context_limit = 400_000;
    config.profile.kv_blocks = 40_000;
    config.profile.step_time.overhead_s = 20e-6;
    let server = Running::start(config);
    let mut deaf = server.client();
    let body = r#"{"prompt":"a","max_tokens":300000,"stream":true}"#;
    deaf.send("POST", "/v1/completions", body);
    let seen = server.client().chat("a", r#""max_tokens":2000"#);
    assert_eq!(seen.end.outcome, Outcome::Ok);
    server.wait_for("vllm:num_requests_running", 0.0);
    let report = server.end();
    assert_eq!(report.counts.too_slow, 1);
    assert_eq!(report.counts.completed, 1);
}

#[test]
fn a_graceful_stop_lets_open_streams_end_and_takes_no_more() {
    let server = Running::start(quick());
    let mut client = server.client();
    let mut idle = server.client();
    assert_eq!(idle.get("/health").status, 200);
    client.send(
        "POST",
        "/v1/completions",
        r#"{"prompt":"a","max_tokens":300,"stream":true}"#,
    );
    server.wait_for("vllm:num_requests_running", 1.0);
    server.stop.drain();
    let late = idle.post("/v1/completions", LONG);
    assert_eq!(late.status, 503, "{late:?}");
    let seen = client.read_answer();
    assert_eq!(seen.end.outcome, Outcome::Ok);
    assert_eq!(seen.end.token_events, 300);
    assert_eq!(server.join().counts.completed, 1);
}

#[test]
fn a_graceful_stop_ends_when_its_time_is_over() {
    let mut config = quick();
    config.grace = Duration::from_millis(50);
    let server = Running::start(config);
    let mut client = server.client();
    client.send("POST", "/v1/completions", LONG);
    server.wait_for("vllm:num_requests_running", 1.0);
    server.stop.drain();
    assert_eq!(client.read_answer().end.outcome, Outcome::Truncated);
    assert_eq!(server.join().counts.completed, 0);
}
