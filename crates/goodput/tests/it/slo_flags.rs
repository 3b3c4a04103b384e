//! Case O-CI-02: a wrong SLO is an error, never a smaller SLO.

use serde_json::Value;

use crate::program::{Place, has_finding};

const METRICS: [&str; 6] = ["ttft", "tpot", "tpot_median", "itl_p99", "stall", "e2e"];

#[test]
fn a_misspelt_clause_lists_the_known_ones() {
    let place = Place::new("slo");
    for verb in [
        &["slo", "check", "tfft=500ms"][..],
        &["bench", "--slo", "tfft=500ms"],
        &["bench", "--slo", "ttft=500ms,tfft=500"],
    ] {
        let ran = place.run(verb).exits(2).one_error();
        let ran = ran.says(&METRICS).says(&["tfft", "did you mean `ttft`"]);
        assert_eq!(ran.stdout, "");
    }
    assert!(place.all_files().is_empty(), "nothing may be left behind");
}

#[test]
fn a_bound_has_a_unit_and_is_above_zero() {
    let place = Place::new("slo");
    for (slo, words) in [
        ("ttft=-5", &["-5", "500ms"][..]),
        ("ttft=0.5", &["0.5", "500ms"]),
        ("ttft=500", &["500", "ms"]),
        ("ttft=0ms", &["0ms"]),
    ] {
        place
            .run(&["bench", "--slo", slo])
            .exits(2)
            .one_error()
            .says(words);
    }
}

#[test]
fn an_slo_file_is_complained_about_with_line_and_column() {
    let place = Place::new("slo");
    place.write(
        "slo.toml",
        "[[slo]]\nname = \"chat\"\nobjective = \"99% over 28d\"\nclauses = [\n  \"tffs <= 500ms\",\n  \
         \"tpot <= 50\",\n]\n",
    );
    let ran = place.run(&["slo", "check", "slo.toml"]).exits(2);
    let ran = ran.says(&["slo.toml:5", "slo.toml:6", "tffs"]);
    assert!(!ran.stderr.contains("panicked"), "{ran}");
}

#[test]
fn single_brackets_are_told_to_be_double() {
    let place = Place::new("slo");
    place.write("slo.toml", "[slo.chat]\nobjective = \"99% over 28d\"\n");
    let ran = place
        .run(&["slo", "check", "slo.toml"])
        .exits(2)
        .one_error();
    ran.says(&["slo.toml:1", "[[slo]]"]);
}

#[test]
fn a_right_one_is_accepted_and_repeated() {
    let place = Place::new("slo");
    let slo = "ttft=500ms,tpot=50ms";
    place.run(&["slo", "check", slo]).exits(0);
    let ran = place.run(&[
        "bench",
        "--slo",
        slo,
        "--requests",
        "2",
        "--warmup",
        "0",
        "--out",
        "out",
    ]);
    ran.measured();
    let result = place.result();
    let clauses = result["holds_for"]["slos"][0]["clauses"]
        .as_array()
        .unwrap();
    let clauses: Vec<&str> = clauses
        .iter()
        .map(|c| c["clause"].as_str().unwrap())
        .collect();
    assert_eq!(clauses, ["ttft <= 500ms", "tpot <= 50ms"]);
    assert!(place.read("out/report.html").contains("ttft &lt;= 500ms"));
}

/// A bound that cannot be met is measured all the same: the answer is no.
#[test]
fn a_bound_that_cannot_be_met_is_a_no() {
    let place = Place::new("slo");
    let ran = place.run(&[
        "bench",
        "--slo",
        "ttft=1us",
        "--requests",
        "3",
        "--warmup",
        "0",
        "--out",
        "out",
        "--format",
        "json",
    ]);
    // 3 where a loaded machine made the point invalid.
    assert!(matches!(ran.code, Some(1 | 3)), "{ran}");
    let result = place.result();
    let point = &result["points"][0];
    assert_eq!(point["slo_attainment"], 0.0);
    assert_eq!(point["goodput_tok_s"], 0.0);
    assert_eq!(point["slos"][0]["missed"], 3);
    assert_eq!(result["operating_point"]["by_clauses"], Value::Null);
    assert!(!has_finding(&result, "failed-requests"));
}
