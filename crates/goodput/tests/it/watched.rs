//! The server is watched: foreign traffic, a second replica, a slowed and a restarted server are
//! noticed, and a server of our own is not suspected.

use std::process::Child;

use serde_json::Value;

use crate::program::{Place, Ran, has_finding};

/// Eight users of the emulated replica for eight seconds, with these flags.
fn bench(place: &Place, flags: &[&str]) -> (Ran, Value) {
    bench_for(place, "8s", flags)
}

/// The same for as long as this.
fn bench_for(place: &Place, span: &str, flags: &[&str]) -> (Ran, Value) {
    let mut args = vec!["bench", "--out", "out", "--format", "json", "--seed", "7"];
    args.extend(["--concurrency", "8", "--duration", span]);
    args.extend(flags);
    let ran = place.run(&args).measured();
    let result = place.result();
    (ran, result)
}

fn warnings(result: &Value) -> String {
    result["points"][0]["warnings"].to_string()
}

#[test]
fn a_replica_of_our_own_is_watched_and_not_suspected() {
    let place = Place::new("watched");
    let (ran, result) = bench(&place, &[]);
    let server = &result["points"][0]["server"];
    assert!(server["looks"].as_u64().unwrap() >= 5, "{server}");
    assert_eq!(server["replicas_seen"], 1);
    assert_eq!(server["restarts"], 0);
    assert_eq!(server["foreign_share"], 0.0, "{server}");
    assert_eq!(server["ended_in_server"], server["ended_ours"]);
    for name in [
        "foreign-traffic",
        "several-replicas",
        "server-restarted",
        "server-sees-less",
        "two-boots",
    ] {
        assert!(!has_finding(&result, name), "{ran}");
    }
    let seen = &result["holds_for"]["server"]["seen"];
    assert_eq!(seen, "1 replica seen | no foreign traffic");
}

#[test]
fn requests_of_someone_else_are_noticed() {
    let place = Place::new("foreign");
    let fault = "foreign=every 200ms,200 tokens";
    let (ran, result) = bench(&place, &["--fault", fault]);
    assert!(has_finding(&result, "foreign-traffic"), "{ran}");
    assert_eq!(result["points"][0]["valid"], false);
    assert!(warnings(&result).contains("worked for others"), "{ran}");
    let server = &result["holds_for"]["server"];
    assert_eq!(server["faults"][0], fault);
    ran.exits(3);
}

/// An emulator of its own process, ended with the value.
struct Emulator {
    child: Child,
    url: String,
}

impl Emulator {
    fn start(place: &Place) -> Self {
        use std::io::{BufRead as _, BufReader};
        let mut child = place.start(&["emulate", "--listen", "127.0.0.1:0"]);
        let mut line = String::new();
        let out = child.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("serves ").unwrap().to_owned();
        Self { child, url }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_second_client_of_the_same_server_is_noticed() {
    let place = Place::new("shared");
    let emulator = Emulator::start(&place);
    let other = Place::new("shared-by");
    let mut second = other.start(&[
        "bench",
        "--url",
        &emulator.url,
        "--concurrency",
        "4",
        "--duration",
        "60s",
    ]);
    let (ran, result) = bench(&place, &["--url", &emulator.url]);
    let _ = second.kill();
    let _ = second.wait();
    assert!(has_finding(&result, "foreign-traffic"), "{ran}");
    let share = result["points"][0]["server"]["foreign_share"].as_f64();
    assert!(share.unwrap() > 0.2, "{ran}");
}

#[test]
fn an_emulator_at_a_url_is_called_one() {
    let place = Place::new("emulated");
    let emulator = Emulator::start(&place);
    let flags = ["--requests", "3", "--concurrency", "1", "--warmup", "0"];
    let ran = place.bench(&emulator.url, &flags).measured();
    ran.says(&["EMULATED goodput emulator"]);
    assert_eq!(place.result()["holds_for"]["server"]["emulated"], true);
    let page = place.read("out/report.html");
    assert!(page.contains("No figure here is about real hardware"));
    // It is no replica of the run's own: a resumed run goes back to the URL.
    let swept = Place::new("emulated-swept");
    let loads = [
        "--concurrency",
        "1",
        "--rate",
        "none",
        "--requests",
        "3",
        "--warmup",
        "0",
    ];
    let args = [
        &["sweep", "--url", &emulator.url, "--out", "out"][..],
        &loads,
    ]
    .concat();
    swept.run(&args).measured();
    let refused = swept.run(&["sweep", "--resume", "out"]).exits(2);
    refused.says(&["was not restarted"]);
}

#[test]
fn a_second_replica_behind_the_url_is_noticed() {
    let place = Place::new("replicas");
    let (ran, result) = bench(&place, &["--replicas", "2"]);
    assert!(has_finding(&result, "several-replicas"), "{ran}");
    assert_eq!(result["points"][0]["server"]["replicas_seen"], 2);
    assert!(warnings(&result).contains("at least 2 replicas"), "{ran}");
    assert!(!has_finding(&result, "server-restarted"), "{ran}");
    let seen = result["holds_for"]["server"]["seen"].as_str().unwrap();
    assert!(seen.starts_with("at least 2 replicas seen"), "{seen}");
}

#[test]
fn a_server_that_slows_down_is_noticed() {
    let place = Place::new("slowed");
    // In the middle of the window, or near it, however long the start takes.
    let (ran, result) = bench_for(&place, "14s", &["--fault", "slowdown=after 9s,60%"]);
    assert!(has_finding(&result, "clock"), "{ran}");
    assert_eq!(result["points"][0]["valid"], false);
    assert!(warnings(&result).contains("slower"), "{ran}");
}

#[test]
fn a_server_that_restarts_is_noticed() {
    let place = Place::new("restarted");
    let (ran, result) = bench_for(&place, "14s", &["--fault", "restart=after 9s,20ms"]);
    assert!(has_finding(&result, "server-restarted"), "{ran}");
    assert_eq!(result["points"][0]["valid"], false);
    assert!(warnings(&result).contains("restarted"), "{ran}");
}

#[test]
fn a_server_without_metrics_is_said_not_to_be_watched() {
    let server = crate::server::Server::start(|_, socket| crate::server::stream(socket, 3));
    let place = Place::new("unwatched");
    let flags = ["--requests", "3", "--concurrency", "1", "--warmup", "0"];
    let ran = place.bench(&server.url, &flags).measured();
    let ran = ran.says(&["not watched: the server shows no metrics"]);
    let result = place.result();
    assert!(result["points"][0]["server"].is_null(), "{ran}");
    assert!(result["holds_for"]["server"]["seen"].is_null(), "{ran}");
}
