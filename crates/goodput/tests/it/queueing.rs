//! `plan queue`: the classics of queueing, and where they end.

use serde_json::Value;

use crate::program::Place;

fn ask(args: &[&str]) -> crate::program::Ran {
    let all: Vec<&str> = ["plan", "queue"].iter().chain(args).copied().collect();
    Place::new("queue").run(&all)
}

fn answer(args: &[&str]) -> Value {
    let json = ["--format", "json"];
    let ran = ask(&[args, &json].concat()).exits(0);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// The formulas of the lever are beside what the engine does: of one server with exponential service
/// the 99th percentile is `ln(rho / 0.01) / (mu - lambda)`.
#[test]
fn the_lever_is_seen_through_the_engine() {
    let seen = answer(&["--rate", "5", "--service", "120ms"]);
    let before = &seen["variance_lever"]["before"];
    let exact = 1e3 * 60.0_f64.ln() / (1.0 / 0.12 - 5.0);
    let engine = before["wait_p99_engine_ms"].as_f64().unwrap();
    assert!((engine / exact - 1.0).abs() < 0.12, "{engine} {exact}");
    let many = answer(&["--rate", "10", "--service", "120ms", "--servers", "2"]);
    let none = &many["variance_lever"]["before"]["wait_p99_engine_ms"];
    assert!(none.is_null(), "the engine is one server here");
}

#[test]
fn the_essays_table_is_on_the_ladder() {
    let seen = answer(&["--rate", "7.5", "--service", "120ms"]);
    let ladder = seen["ladder"].as_array().unwrap();
    for (utilization, services) in [(0.5, 1.0), (0.9, 9.0), (0.95, 19.0)] {
        let row = ladder.iter().find(|r| r["utilization"] == utilization);
        let waits = row.unwrap()["wait_mean_services"].as_f64().unwrap();
        assert!((waits - services).abs() < 1e-9, "{utilization}: {waits}");
    }
    let first = &seen["formulas"][0];
    assert_eq!(first["formula"], "M/M/1");
    assert!((first["wait_mean_ms"].as_f64().unwrap() - 1080.0).abs() < 1e-6);
    let same = answer(&["--rate", "2.5", "--mu", "8.333333333333334"]);
    assert_eq!(same["formulas"][0]["formula"], "M/M/1");
    let text = ask(&["--rate", "5", "--service", "120ms"]).exits(0).stdout;
    for part in ["M/G/1 Pollaczek-Khinchine", "VARIANCE AS A LEVER", "1/mu"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn an_overloaded_queue_is_a_no_without_a_wait() {
    let ran = ask(&["--rate", "10", "--service", "120ms", "--format", "json"]).exits(1);
    let seen: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(seen["stable"], false);
    assert_eq!(seen["formulas"], Value::Null);
    let text = ask(&["--rate", "10", "--service", "120ms"]).exits(1).stdout;
    assert!(
        text.contains("UNSTABLE") && text.contains("at least 2 servers"),
        "{text}"
    );
}

#[test]
fn a_profile_is_seen_as_servers() {
    let load = ["--rate", "20", "--input", "1020", "--output", "129"];
    let seen = answer(&[&load[..], &["--profile", "qwen3-8b-h100"]].concat());
    let views = seen["views"].as_array().unwrap();
    assert_eq!(views.len(), 3);
    assert_eq!(
        views[0]["wait_mean_ms"],
        Value::Null,
        "alone it is overloaded"
    );
    assert_eq!(seen["question"]["servers"], 256);
    let same = views[2]["service_ms"].as_f64() == seen["question"]["service_ms"].as_f64();
    assert!(same, "the tables take the places as servers");
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    for (args, part) in [
        (
            &["--rate", "0", "--service", "1s"][..],
            "--rate: 0.0 is no rate",
        ),
        (
            &["--rate", "1e300", "--mu", "1e301"],
            "0.000001 to 1000000000",
        ),
        (&["--rate", "1", "--mu", "1e-9"], "--mu: 1e-9 is no rate"),
        (
            &["--rate", "1", "--mu", "2", "--servers", "4000000000"],
            "1..=1000000",
        ),
        (&["--rate", "1", "--service", "120"], "no unit"),
        (&["--rate", "1", "--service", "0s"], "takes time"),
        (&["--rate", "1", "--mu", "0"], "--mu"),
        (&["--rate", "1"], "--service"),
        (
            &["--rate", "1", "--mu", "2", "--scv-service", "nan"],
            "SCV of service",
        ),
        (
            &["--rate", "1", "--mu", "2", "--cut", "100%"],
            "the share cut",
        ),
        (
            &[
                "--rate",
                "1",
                "--profile",
                "laptop",
                "--input",
                "40000",
                "--output",
                "1",
            ],
            "never fits",
        ),
        (&["--rate", "1", "--profile", "laptop"], "--input"),
    ] {
        let ran = ask(args).exits(2).one_error().says(&[part]);
        assert_eq!(ran.stdout, "", "{args:?}");
    }
}
