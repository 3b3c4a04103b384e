//! What becomes of a server while it serves: others use it, it slows down, it dies and comes back.

use std::{num::NonZeroU16, thread::sleep, time::Duration};

use goodput_record::Outcome;

use crate::setup::{Running, faulty, quick};

const RUNNING: &str = "vllm:num_requests_running";
const STARTED: &str = "process_start_time_seconds";

#[test]
fn requests_of_someone_else_run_and_end_in_the_engine() {
    // A request of 200 tokens takes 200 steps of 1 ms: about two at a time.
    let server = Running::start(faulty(&["foreign=every 100ms,200 tokens"]));
    sleep(Duration::from_millis(700));
    assert!(server.metric(RUNNING) >= 1.0);
    let page = server.client().get("/metrics").body;
    let ended: f64 = goodput_protocol::metrics(&page)
        .filter(|m| m.name == "vllm:request_success_total")
        .map(|m| m.value)
        .sum();
    assert!(ended >= 1.0, "{page}");
    let seen = server.client().chat("a b c", r#""max_tokens":5"#);
    assert_eq!(seen.end.outcome, Outcome::Ok, "ours are served beside them");
}

#[test]
fn after_a_slowdown_tokens_take_so_much_longer() {
    let server = Running::start(faulty(&["slowdown=after 1ms,900%"]));
    sleep(Duration::from_millis(5));
    let seen = server.client().chat("a", r#""max_tokens":21"#);
    let (first, last) = (seen.events[0], *seen.events.last().unwrap());
    // Twenty steps of 1 ms take 200; a loaded machine makes it no shorter.
    let span = last.since(first).unwrap();
    assert!(span >= Duration::from_millis(180), "{span:?}");
}

#[test]
fn a_restart_cuts_forgets_and_loads() {
    let server = Running::start(faulty(&["restart=after 2500ms,1500ms"]));
    let before = server.metric(STARTED);
    server.client().chat("a", r#""max_tokens":3"#);
    assert!(server.metric("vllm:generation_tokens_total") >= 3.0);
    // It would last for four seconds.
    let cut = server.client().chat("a", r#""max_tokens":4000"#);
    assert_eq!(cut.end.outcome, Outcome::Truncated);
    let loading = server.client().get("/v1/models");
    assert_eq!(loading.status, 503);
    while server.client().get("/health").status == 503 {
        sleep(Duration::from_millis(10));
    }
    assert!(server.metric(STARTED) > before);
    assert!(server.metric("vllm:generation_tokens_total").abs() < 1e-9);
    let again = server.client().chat("a", r#""max_tokens":3"#);
    assert_eq!(again.end.outcome, Outcome::Ok);
}

#[test]
fn replicas_behind_one_url_show_their_counters_in_turn() {
    let mut config = quick();
    config.replicas = NonZeroU16::new(2).unwrap();
    config.metrics_in_turn = true;
    let server = Running::start(config);
    let seen: Vec<f64> = (0..4).map(|_| server.metric(STARTED)).collect();
    assert!((seen[0] - seen[1]).abs() > 1.0, "{seen:?}");
    assert!((seen[0] - seen[2]).abs() < 1e-9 && (seen[1] - seen[3]).abs() < 1e-9);
    // One server of several engines shows them all, and one start.
    let mut config = quick();
    config.replicas = NonZeroU16::new(2).unwrap();
    let server = Running::start(config);
    let page = server.client().get("/metrics").body;
    assert_eq!(page.matches("vllm:num_requests_running{").count(), 2);
    assert_eq!(page.matches("\nprocess_start_time_seconds ").count(), 1);
}
