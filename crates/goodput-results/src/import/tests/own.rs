//! Requests of our own, judged by another SLO.

use goodput_ledger::PointRow;
use goodput_record::{Outcome, VerdictWord};
use goodput_sweep::{HoldsFor, OperatingPoint, RunResult, SCHEMA_VERSION};

use super::{Files, evidence, import, slos, users};
use crate::import::ImportAsk;

const ROW: &str = r#"{"id":"r-0","point":0,"phase":"settling","vantage":"client","tenant":"","class":"","pool":"","model":"m","replica":"","session":0,"step":0,"steps":1,"origin_ns":1000000000,"due_ns":999000000,"sent_ns":1001000000,"connect_ms":null,"dispatched_ns":null,"attempts":1,"first_byte_ns":null,"first_token_ns":1100000000,"first_answer_ns":null,"last_token_ns":1200000000,"end_ns":1200000000,"ttft_ms":100.0,"ttft_answer_ms":null,"tpot_ms":10.0,"tpot_median_ms":10.0,"itl_p99_ms":12.0,"stall_ms":12.0,"e2e_ms":200.0,"outcome":"ok","timeout_phase":null,"http_status":200,"finish_reason":null,"input_tokens":5,"planned_input_tokens":6,"cached_tokens":null,"planned_cached_tokens":0,"output_tokens":11,"output_tokens_source":"usage","planned_output_tokens":11,"reasoning_tokens":null,"events":11,"characters":9,"words":2,"choices":1,"streamed":true,"one_burst":false,"verdicts":{}}"#;

fn measured() -> String {
    ROW.replace("settling", "measured").replace("r-0", "r-1")
}

/// A result of our own with these points.
fn result(points: Vec<PointRow>) -> String {
    let result = RunResult {
        schema_version: SCHEMA_VERSION,
        goodput_version: "0".to_owned(),
        kind: "bench".to_owned(),
        run: "r".to_owned(),
        started: String::new(),
        epoch_unix_ns: 0,
        duration_s: 1.0,
        complete: true,
        incomplete_because: None,
        under_way: None,
        seed: 3,
        holds_for: HoldsFor::default(),
        points,
        boots: Vec::new(),
        operating_point: OperatingPoint::default(),
        findings: Vec::new(),
        definitions: std::collections::BTreeMap::new(),
        charts: Vec::new(),
        settings: std::collections::BTreeMap::new(),
    };
    serde_json::to_string(&result).unwrap()
}

#[test]
fn a_point_that_was_not_valid_stays_so_and_keeps_what_its_client_saw_of_itself() {
    let files = Files::new("own-invalid");
    let path = files.write("requests.jsonl", &measured());
    let read = |ask: &ImportAsk| {
        let mut got = import(std::slice::from_ref(&path), ask, &slos("ttft=1s")).unwrap();
        got.import.points.remove(0)
    };
    let alone = read(&users(4));
    assert!(alone.valid);
    assert!(
        alone.warnings[0].contains("was valid is not known"),
        "{:?}",
        alone.warnings
    );
    let mut own = alone;
    own.warnings = vec!["requests were sent late".to_owned()];
    own.valid = false;
    own.client_cpu_share = Some(0.9);
    own.client.waited_share = Some(0.3);
    own.loop_lag_p99_ms = Some(7.0);
    files.write("result.json", &result(vec![own.clone()]));
    let again = read(&ImportAsk::default());
    assert!(!again.valid);
    assert_eq!(again.warnings, ["requests were sent late"]);
    assert_eq!(again.concurrency, Some(4), "the load of the run");
    assert_eq!(again.client_cpu_share, Some(0.9));
    assert_eq!(again.client.waited_share, Some(0.3));
    assert_eq!(again.loop_lag_p99_ms, Some(7.0));
    own.valid = true;
    files.write("result.json", &result(vec![own]));
    let again = read(&ImportAsk::default());
    assert!(again.valid);
    assert_eq!(again.warnings, ["requests were sent late"]);
}

#[test]
fn a_row_whose_instants_contradict_each_other_is_a_miss() {
    let files = Files::new("own-negative");
    let before = measured().replace(
        "\"first_token_ns\":1100000000",
        "\"first_token_ns\":900000000",
    );
    let after = measured().replace(
        "\"last_token_ns\":1200000000",
        "\"last_token_ns\":1050000000",
    );
    for row in [before, after] {
        assert_ne!(row, measured());
        let path = files.write("requests.jsonl", &[row, measured()].join("\n"));
        let got = import(&[path], &users(4), &slos("ttft=1s")).unwrap();
        let point = &got.points[0];
        assert_eq!((point.slo_attainment, point.ttft_n), (Some(0.5), 1));
        let row = &got.requests[0];
        assert_eq!((row.outcome, row.ttft_ms), (Outcome::Failed, None));
        assert_eq!(row.verdicts.values().next(), Some(&VerdictWord::Missed));
        assert!(evidence(&got, "impossible-times").is_some());
    }
}

#[test]
fn our_own_requests_judged_anew_keep_their_loads_and_phases() {
    let other = measured().replace("\"point\":0", "\"point\":1");
    let text = [ROW, &measured(), &other].join("\n");
    let files = Files::new("own");
    let path = files.write("requests.jsonl", &text);
    let strict = import(std::slice::from_ref(&path), &users(4), &slos("ttft=99ms")).unwrap();
    let loose = import(&[path], &users(4), &slos("ttft=100ms")).unwrap();
    assert_eq!(strict.points.len(), 2);
    assert_eq!(strict.points[0].requests, 1, "what settled is not measured");
    assert_eq!(strict.points[0].slo_attainment, Some(0.0));
    assert_eq!(loose.points[0].slo_attainment, Some(1.0));
    assert_eq!(loose.points[0].tpot_median_p50_ms, Some(10.0));
    assert_eq!(loose.points[0].lengths.planned_input[0], Some(6.0));
    assert!(loose.findings.is_empty());
    let ids: Vec<&str> = loose.requests.iter().map(|r| r.id.as_str()).collect();
    assert_eq!(ids, ["r-0", "r-1", "r-1"], "as the server knows them");
    assert_eq!(
        loose.requests[1].origin_ns, 1_000_000_000,
        "on the run's own axis"
    );
}

#[test]
fn the_window_of_a_run_lies_between_its_phases() {
    let files = Files::new("own-window");
    let at = |phase: &str, second: f64| {
        let moved = |text: String, name: &str, after: f64| {
            let ns = goodput_record::nanos_of(second + after);
            let start = text.find(&format!("\"{name}\":")).unwrap() + name.len() + 3;
            let end = start + text[start..].find(',').unwrap();
            format!("{}{ns}{}", &text[..start], &text[end..])
        };
        let row = ROW.replace("settling", phase);
        [
            ("origin_ns", 0.0),
            ("due_ns", 0.0),
            ("sent_ns", 0.0),
            ("first_token_ns", 0.1),
            ("last_token_ns", 0.2),
            ("end_ns", 0.2),
        ]
        .into_iter()
        .fold(row, |row, (name, after)| moved(row, name, after))
    };
    // The window was 2.0 to 4.0: the first request in it came late.
    let rows = [
        at("settling", 1.8),
        at("measured", 2.9),
        at("measured", 3.9),
        at("drain", 4.1),
    ];
    let path = files.write("requests.jsonl", &rows.join("\n"));
    let mut own = import(std::slice::from_ref(&path), &users(4), &slos("ttft=1s"))
        .unwrap()
        .import
        .points
        .remove(0);
    own.window_s = 2.0;
    files.write("result.json", &result(vec![own]));
    let got = import(&[path], &ImportAsk::default(), &slos("ttft=1s")).unwrap();
    let point = &got.points[0];
    assert!((point.window_s - 2.0).abs() < 1e-9);
    // Two answers of 11 tokens lie in it whole; with the window at the first request in it, 2.9 to
    // 4.9, the third, which was not measured, would lie in it too.
    assert!(
        (point.throughput_tok_s - 11.0).abs() < 1e-6,
        "{}",
        point.throughput_tok_s
    );
}
