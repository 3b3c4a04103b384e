//! Case O-RP-02, scaled down: rows go to disk as they end, memory does not grow with the run.

use std::{fs, process::Child};

use crate::{
    program::{Place, until},
    server::{Server, stream},
};

const WORKLOAD: &str = "\
class = \"chat\"
output_policy = \"max_tokens\"
arrivals = \"poisson\"
input.fixed = 4
output.fixed = 40
";

/// The most memory the process ever held, in KiB.
pub(crate) fn peak_kib(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Memory in KiB and bytes of rows after `requests` requests.
fn run(server: &Server, requests: &str) -> (u64, u64) {
    let place = Place::new("long");
    place.write("w.toml", WORKLOAD);
    let mut child = place.start(&[
        "bench",
        "--url",
        &server.url,
        "--workload",
        "w.toml",
        "--concurrency",
        "8",
        "--requests",
        requests,
        "--warmup",
        "0",
        "--out",
        "out",
        "--quiet",
    ]);
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(peak_kib(&child).unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(place.rows().len().to_string(), requests);
    let size = |name: &str| {
        fs::metadata(place.path.join("out").join(name))
            .unwrap()
            .len()
    };
    assert!(size("result.json") < 1 << 20, "the summary is not small");
    (peak, size("requests.jsonl"))
}

#[test]
fn memory_does_not_grow_with_requests() {
    let server = Server::start(|_, socket| stream(socket, 40));
    let (short, few) = run(&server, "500");
    let (long, many) = run(&server, "4000");
    let (grown, written) = (long.saturating_sub(short), (many - few) / 1024);
    assert!(
        grown < written / 2,
        "{short} KiB for 500 requests, {long} KiB for 4000: {grown} KiB more for {written} KiB of rows"
    );
    assert!(long < 300 * 1024, "{long} KiB");
}

#[test]
fn rows_are_on_disk_while_the_run_goes_on_and_token_times_only_on_request() {
    let server = Server::start(|_, socket| stream(socket, 3));
    let place = Place::new("rows");
    let mut child = place.start(&[
        "bench",
        "--url",
        &server.url,
        "--concurrency",
        "1",
        "--duration",
        "10min",
        "--warmup",
        "0",
        "--out",
        "out",
    ]);
    until("rows on disk", || {
        fs::read_to_string(place.path.join("out/requests.jsonl"))
            .is_ok_and(|t| t.lines().count() > 2)
    });
    // However it dies.
    child.kill().unwrap();
    child.wait().unwrap();
    let text = place.read("out/requests.jsonl");
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["gap_ns"], serde_json::Value::Null);
    assert_eq!(first["text"], serde_json::Value::Null);
}
