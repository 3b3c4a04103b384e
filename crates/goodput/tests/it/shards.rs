//! Three processes that carry one schedule together, and their merging.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use crate::program::{Place, Ran};

/// `goodput emulate`, gone when the test is over.
struct Emulator {
    child: Child,
    url: String,
}

impl Emulator {
    fn start(place: &Place) -> Self {
        let mut child = place
            .command(&["emulate", "--listen", "127.0.0.1:0", "--until-stdin-closes"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut talk = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("serves ") {
            line.clear();
            assert!(talk.read_line(&mut line).unwrap() > 0, "it never served");
        }
        let url = line.trim().trim_start_matches("serves ").to_owned();
        Self { child, url }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Seconds since 1970, some seconds from now: long enough for three processes to be ready.
fn soon() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    (now.as_secs() + 15).to_string()
}

/// Lengths of every request by its session.
fn planned(rows: &[Value]) -> BTreeMap<u64, (u64, u64)> {
    let number = |row: &Value, name: &str| row[name].as_u64().unwrap();
    let of = |row: &Value| {
        let lengths = (
            number(row, "planned_input_tokens"),
            number(row, "planned_output_tokens"),
        );
        (number(row, "session"), lengths)
    };
    rows.iter()
        .filter(|row| row["phase"] != "warmup")
        .map(of)
        .collect()
}

#[test]
fn three_shards_are_one_run_with_the_schedule_of_the_whole() {
    let place = Place::new("shards");
    let emulator = Emulator::start(&place);
    let (url, start) = (emulator.url.as_str(), soon());
    let common = [
        "--url",
        url,
        "--rate",
        "20",
        "--duration",
        "2s",
        "--seed",
        "11",
    ];
    let common = [&common[..], &["--workload", "chat-short", "--warmup", "0"]].concat();
    let shard = |index: usize| {
        let (share, out) = (format!("{index}/3"), format!("s{index}"));
        let own = ["--shard", &share, "--start-at", &start, "--out", &out];
        place.start(&[&["bench"][..], &common, &own].concat())
    };
    let shards: Vec<Child> = (1..=3).map(shard).collect();
    for child in shards {
        Ran::of(&child.wait_with_output().unwrap()).measured();
    }
    let ran = place.run(&["report", "--merge", "s2", "s3", "s1", "--out", "out"]);
    let ran = ran.measured();
    assert!(ran.stdout.contains("20 req/s"), "{ran}");
    let (result, rows) = (place.result(), place.rows());
    let point = &result["points"][0];
    let measured: Vec<&Value> = rows.iter().filter(|r| r["phase"] == "measured").collect();
    assert_eq!(point["requests"], measured.len() as u64);
    assert_eq!(result["settings"]["shards"], "3");
    assert_eq!(result["kind"], "merged");
    let resumed = place.run(&["sweep", "--resume", "s1"]).exits(2);
    resumed.says(&["result of a shard"]);
    let sum: f64 = (1..=3)
        .map(|i| {
            let text = place.read(&format!("s{i}/result.json"));
            let one: Value = serde_json::from_str(&text).unwrap();
            one["points"][0]["throughput_tok_s"].as_f64().unwrap()
        })
        .sum();
    let whole = point["throughput_tok_s"].as_f64().unwrap();
    assert!((whole - sum).abs() < 1e-6, "{whole} is not the sum {sum}");
    // Nobody sent another's request, and together they sent what one process sends.
    let merged = planned(&rows);
    let sent = rows.iter().filter(|r| r["phase"] != "warmup").count();
    assert_eq!(merged.len(), sent, "a session was sent twice");
    place
        .run(&[&["bench"][..], &common, &["--out", "alone"]].concat())
        .measured();
    let alone = place.read("alone/requests.jsonl");
    let alone: Vec<Value> = alone
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let shared: Vec<_> = planned(&alone)
        .into_iter()
        .filter(|(session, _)| merged.contains_key(session))
        .collect();
    assert!(shared.len() > 20, "{} requests in common", shared.len());
    for (session, lengths) in shared {
        assert_eq!(merged[&session], lengths, "session {session}");
    }
    // Two of three are another run.
    let two = place.run(&["report", "--merge", "s1", "s2", "--out", "two"]);
    two.exits(2).one_error().says(&["missing: 3/3"]);
    let again = place.run(&["report", "--merge", "s1", "s2", "s3", "--out", "out"]);
    again.exits(2).says(&["holds a result already"]);
    let own = place.run(&["report", "--merge", "out", "--out", "three"]);
    own.exits(2).says(&["no shard of a run"]);
}

/// Runs a share that lacks the flag `without`, and asserts that it is refused with these words.
#[track_caller]
fn refused(verb: &str, without: &str, flags: &[&str], words: &[&str]) {
    let (place, start) = (Place::new("shard-flags"), soon());
    let whole = [
        ["--url", "http://127.0.0.1:9/v1"],
        ["--seed", "1"],
        ["--duration", "2s"],
        ["--start-at", &start],
    ];
    let kept = whole.iter().filter(|pair| pair[0] != without).flatten();
    let kept: Vec<&str> = kept.copied().collect();
    let ran = place.run(&[&[verb][..], &kept, flags].concat());
    ran.exits(2).one_error().says(words);
}

#[test]
fn a_search_and_too_few_users_cannot_be_shared_out() {
    let sweep = |flags: &[&str], words: &[&str]| refused("sweep", "", flags, words);
    sweep(
        &["--shard", "1/2"],
        &["automatic search", "--concurrency LIST"],
    );
    sweep(
        &["--shard", "1/2", "--concurrency", "4"],
        &["automatic search"],
    );
    let few = ["--shard", "1/3", "--concurrency", "2,8", "--rate", "none"];
    sweep(&few, &["2 users cannot be shared out among 3"]);
    refused(
        "bench",
        "",
        &["--shard", "1/3"],
        &["1 users cannot be shared out"],
    );
}

#[test]
fn what_all_shards_must_have_in_common_must_be_stated() {
    let bench = ["--shard", "1/2", "--rate", "1"];
    refused("bench", "--seed", &bench, &["needs --seed"]);
    refused(
        "bench",
        "--url",
        &bench,
        &["needs --url", "goodput emulate"],
    );
    refused("bench", "--duration", &bench, &["needs --duration"]);
    let counted = [&bench[..], &["--requests", "9"]].concat();
    refused("bench", "", &counted, &["--requests"]);
    refused(
        "bench",
        "",
        &["--shard", "3/2", "--rate", "1"],
        &["no share of a whole"],
    );
    refused("bench", "--start-at", &bench, &["--start-at"]);
    let past = [&bench[..], &["--start-at", "2020-01-01T00:00:00Z"]].concat();
    refused("bench", "--start-at", &past, &["--start-at was", "s ago"]);
    let never = [&bench[..], &["--start-at", "soon"]].concat();
    refused("bench", "--start-at", &never, &["no instant", "date +%s"]);
}
