//! Files of other tools, read in: what becomes of them as a folder, and what they cost.

use std::fmt::Write as _;

use crate::{long_runs::peak_kib, program::Place};

/// Six answers of another tool at one request a second; the first one is late.
const VLLM: &str = r#"{"backend": "openai", "model_id": "m", "request_rate": 1.0,
    "input_lens": [9, 9, 9, 9, 9, 9], "output_lens": [3, 3, 3, 3, 3, 3],
    "ttfts": [0.6, 0.1, 0.1, 0.1, 0.1, 0.1],
    "itls": [[0.02, 0.02], [0.02, 0.02], [0.02, 0.02], [0.02, 0.02], [0.02, 0.02], [0.02, 0.02]],
    "start_times": [7.0, 8.0, 9.0, 10.0, 11.0, 12.0], "errors": ["", "", "", "", "", ""]}"#;

#[test]
fn an_imported_result_is_a_folder_like_any_other() {
    let place = Place::new("import");
    place.write("bench.json", VLLM);
    let import = |out: &str, slo: &str| {
        let flags = ["--import", "bench.json", "--slo", slo, "--out", out];
        place.run(&[&["report"][..], &flags].concat())
    };
    let ran = import("out", "ttft=500ms,tpot=50ms").exits(1);
    assert!(ran.stdout.contains("! imported"), "{ran}");
    let result = place.result();
    assert_eq!(result["kind"], "import");
    assert_eq!(result["points"][0]["slo_attainment"], 5.0 / 6.0);
    assert_eq!(
        result["points"][0]["client_cpu_share"],
        serde_json::Value::Null
    );
    assert_eq!(place.rows().len(), 6);
    assert_eq!(place.rows()[1]["ttft_ms"], 100.0);
    // Read again, judged again, put side by side.
    let again = place.run(&["report", "out", "--format", "json"]).exits(1);
    assert!(again.stdout.contains("\"kind\": \"import\""), "{again}");
    let rejudged = [
        "--import",
        "out/requests.jsonl",
        "--slo",
        "ttft=1s",
        "--out",
        "loose",
    ];
    place.run(&[&["report"][..], &rejudged].concat()).exits(0);
    let loose: serde_json::Value = serde_json::from_str(&place.read("loose/result.json")).unwrap();
    assert_eq!(
        loose["holds_for"]["workload"],
        result["holds_for"]["workload"]
    );
    assert_eq!(loose["seed"], result["seed"], "the same requests");
    let compared = place.run(&["compare", "out", "loose", "--across"]);
    assert!(compared.stdout.contains("1 req/s"), "{compared}");
    import("out", "chat")
        .exits(2)
        .says(&["holds a result already"]);
}

#[test]
fn what_cannot_be_imported_says_what_to_do() {
    let place = Place::new("import-bad");
    place.write(
        "summary.json",
        r#"{"completed": 3, "request_throughput": 1.0}"#,
    );
    place.write("bench.json", VLLM);
    let run = |flags: &[&str]| {
        place
            .run(&[&["report"][..], flags].concat())
            .exits(2)
            .one_error()
    };
    run(&["--import", "summary.json"]).says(&["summary.json", "--save-detailed"]);
    run(&["--import", "nowhere.json"]).says(&["there is no nowhere.json"]);
    run(&["--import", "bench.json", "--from", "wrk"]).says(&["no such tool", "inference-perf"]);
    run(&["--import", "bench.json", "--rate", "0"]).says(&["not a rate"]);
    run(&["bench.json", "--slo", "chat"]).says(&["--import"]);
    run(&["one", "two"]).says(&["--html FILE", "goodput compare"]);
    run(&["one", "two", "--html", "both.html"]).says(&["there is no one"]);
    assert!(
        !place.path.join("runs").exists(),
        "nothing is left of a refusal"
    );
}

/// Short answers without end: a row of 90 bytes each, of which a record is many times the size.
#[test]
fn memory_is_a_small_multiple_of_the_file() {
    let place = Place::new("import-memory");
    let peak = |requests: u32| {
        let mut text = String::new();
        for i in 0..requests {
            writeln!(
                text,
                r#"{{"i": {i}, "input_tokens": 100, "output_tokens": 4, "ttft_s": 0.1{i:05}, "itls_us": [{}, 4100, 4200], "ok": true}}"#,
                3_000 + i % 999
            )
            .unwrap();
        }
        place.write("lines.jsonl", &text);
        let out = format!("out-{requests}");
        let flags = [
            "--import",
            "lines.jsonl",
            "--concurrency",
            "8",
            "--out",
            &out,
        ];
        let mut child = place.start(&[&["report"][..], &flags].concat());
        let mut peak = 0;
        while child.try_wait().unwrap().is_none() {
            peak = peak.max(peak_kib(&child).unwrap_or(0));
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let rows = place.read(&format!("{out}/requests.jsonl"));
        assert_eq!(rows.lines().count(), requests as usize);
        (peak, text.len() as u64 / 1024)
    };
    let (small, few) = peak(4_000);
    let (large, many) = peak(40_000);
    let (grown, longer) = (large.saturating_sub(small), many - few);
    assert!(
        grown < 5 * longer,
        "{small} KiB for a file of {few} KiB, {large} KiB for one of {many} KiB"
    );
}
