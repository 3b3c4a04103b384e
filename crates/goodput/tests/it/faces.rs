//! What a run prints, what is rendered again, and what is put side by side.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use crate::{
    program::{Place, Ran},
    server::{Server, stream},
};

const SMALL: [&str; 4] = ["--requests", "6", "--warmup", "0"];

fn small_run(place: &Place, server: &Server, out: &str, more: &[&str]) -> Ran {
    let mut args = vec!["bench", "--url", &server.url, "--out", out];
    args.extend(SMALL);
    args.extend(more);
    place.run(&args).measured()
}

#[test]
fn stdout_is_data_and_stderr_is_talk() {
    let server = Server::start(|_, socket| stream(socket, 3));
    let place = Place::new("faces");
    let json_run = small_run(&place, &server, "a", &["--format", "json"]);
    let printed: Value = serde_json::from_str(&json_run.stdout).unwrap();
    let kept: Value = serde_json::from_str(&place.read("a/result.json")).unwrap();
    assert_eq!(printed, kept);
    assert_eq!(kept["schema_version"], 1);
    let csv = small_run(&place, &server, "b", &["--format", "csv"]).stdout;
    assert_eq!(csv, place.read("b/points.csv"));
    assert_eq!(csv.lines().count(), 2);
    let columns = |line: &str| line.matches(',').count();
    assert!(columns(csv.lines().next().unwrap()) >= 48);
    let human = small_run(&place, &server, "c", &["--quiet"]);
    assert_eq!(human.stderr, "");
    assert!(human.stdout.contains("ANSWER"), "{human}");
    assert!(!human.stdout.contains('\u{1b}'), "no colour in a pipe");
    for file in ["result.json", "points.csv", "requests.jsonl", "report.html"] {
        assert!(place.path.join("c").join(file).exists(), "{file}");
    }
    let page = place.read("c/report.html");
    for outside in ["<script src", "<link ", "<img src=\"http", "@import"] {
        assert!(
            !page.contains(outside),
            "the page is not self-contained: {outside}"
        );
    }
}

#[test]
fn a_result_is_rendered_again_as_it_was() {
    let server = Server::start(|_, socket| stream(socket, 3));
    let place = Place::new("report");
    let first = small_run(&place, &server, "out", &[]);
    let page = place.read("out/report.html");
    std::fs::remove_file(place.path.join("out/report.html")).unwrap();
    let again = place.run(&["report", "out"]).measured();
    assert_eq!(again.stdout, first.stdout);
    assert_eq!(again.code, first.code);
    assert_eq!(place.read("out/report.html"), page);
    let elsewhere = place.run(&["report", "out", "--html", "page.html", "--format", "json"]);
    let printed: Value = serde_json::from_str(&elsewhere.measured().stdout).unwrap();
    assert_eq!(printed, place.result());
    assert_eq!(place.read("page.html"), page);
}

#[test]
fn a_result_that_is_none_is_said_so() {
    let place = Place::new("report");
    place
        .run(&["report", "nowhere"])
        .exits(2)
        .one_error()
        .says(&["nowhere", "result folder"]);
    std::fs::create_dir(place.path.join("bad")).unwrap();
    place.write("bad/result.json", "{\"schema_version\": 1}");
    place
        .run(&["report", "bad"])
        .exits(2)
        .one_error()
        .says(&["bad", "missing field"]);
    place.write("bad/result.json", "{\"schema_version\": 999}");
    place
        .run(&["report", "bad"])
        .exits(2)
        .one_error()
        .says(&["newer"]);
}

#[test]
fn results_of_one_slo_compare_and_of_two_do_not() {
    let server = Server::start(|_, socket| stream(socket, 3));
    let place = Place::new("compare");
    let slo = |slo| ["--slo", slo, "--workload", "chat-short"];
    small_run(&place, &server, "a", &slo("ttft=10s,tpot=10s"));
    small_run(&place, &server, "b", &slo("ttft=10s,tpot=10s"));
    small_run(&place, &server, "c", &slo("ttft=1s,tpot=10s"));
    let same = place.run(&["compare", "a", "b", "--format", "json"]);
    assert!(matches!(same.code, Some(0 | 1)), "{same}");
    serde_json::from_str::<Value>(&same.stdout).unwrap();
    let rows = place.run(&["compare", "a", "b", "--format", "csv"]).stdout;
    let heading = "load,figure,base,other,change,change_low,change_high,evidence,rule,verdict,held,held_low,held_high,note\nanswers,sell_req_s,";
    assert!(rows.starts_with(heading), "{rows}");
    let human = place.run(&["compare", "a", "b"]);
    assert!(matches!(human.code, Some(0 | 1)), "{human}");
    assert!(!human.stdout.is_empty());
    let other = place.run(&["compare", "a", "c"]).exits(2).one_error();
    other.says(&["slo", "ttft <= 1s", "--across"]);
    let across = place.run(&["compare", "a", "c", "--across"]);
    assert!(matches!(across.code, Some(0 | 1)), "{across}");
}

#[test]
fn several_slos_are_judged_in_one_run() {
    let server = Server::start(|_, socket| stream(socket, 3));
    let place = Place::new("tiers");
    place.write(
        "tiers.toml",
        "[[slo]]\nname = \"gold\"\nobjective = \"99% over 28d\"\nclauses = [\"ttft <= 1us\"]\n\
         workload = { preset = \"chat-short\" }\n\
         [[slo]]\nname = \"bronze\"\nobjective = \"90% over 28d\"\nclauses = [\"ttft <= 100s\"]\n\
         workload = { preset = \"chat-short\" }\n",
    );
    small_run(
        &place,
        &server,
        "out",
        &["--slo", "tiers.toml", "--workload", "chat-short"],
    );
    let result = place.result();
    let slos = result["points"][0]["slos"].as_array().unwrap();
    let seen: Vec<(&Value, &Value)> = slos.iter().map(|s| (&s["slo"], &s["met"])).collect();
    assert_eq!(
        seen,
        [(&json!("gold"), &json!(0)), (&json!("bronze"), &json!(6))]
    );
    for row in place.measured_rows() {
        assert_eq!(row["verdicts"], json!({"bronze": "met", "gold": "missed"}));
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let place = Place::new("pipe");
    let mut child = place.start(&["slo", "presets"]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    drop(out);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // Closed before anything could be written.
    for verb in [
        &["slo", "presets"][..],
        &["--help"],
        &["emulate", "--profile", "list"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = place.command(verb).stdout(writer).output().unwrap();
        let ran = Ran::of(&output).exits(0);
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn presets_are_printed_with_their_reasons() {
    let place = Place::new("presets");
    let ran = place.run(&["slo", "presets", "--format", "json"]).exits(0);
    let presets: Value = serde_json::from_str(&ran.stdout).unwrap();
    let presets = presets.as_array().unwrap();
    assert!(presets.len() >= 6);
    for preset in presets {
        for field in ["name", "clauses", "workload", "reason", "source"] {
            assert!(!preset[field].is_null(), "{preset}");
        }
        let name = preset["name"].as_str().unwrap();
        let name = if name == "agent-step" {
            // It asks for a bound of one's own.
            place
                .run(&["slo", "check", name])
                .exits(2)
                .one_error()
                .says(&["agent-step:e2e=5s"]);
            "agent-step:e2e=5s"
        } else {
            name
        };
        place.run(&["slo", "check", name]).exits(0);
    }
    let csv = place.run(&["slo", "presets", "--format", "csv"]).exits(0);
    assert_eq!(csv.stdout.lines().count(), 1 + presets.len());
    let table = place.run(&["slo", "presets"]).exits(0).stdout;
    for preset in presets {
        assert!(table.contains(preset["name"].as_str().unwrap()));
    }
}

#[test]
fn lists_are_printed_by_every_verb_that_takes_the_flag() {
    let place = Place::new("lists");
    for verb in ["emulate", "bench", "sweep"] {
        let profiles = place.run(&[verb, "--profile", "list"]).exits(0).stdout;
        assert!(profiles.contains("laptop"), "{profiles}");
        let faults = place.run(&[verb, "--fault", "list"]).exits(0).stdout;
        assert!(faults.contains("errors=5%"), "{faults}");
    }
    assert!(place.all_files().is_empty());
}

#[test]
fn an_slo_of_another_workload_says_so_without_being_given_one() {
    let server = Server::start(|_, socket| stream(socket, 3));
    let place = Place::new("stated");
    place.write(
        "long.toml",
        "[[slo]]\nname = \"long\"\nobjective = \"99% over 28d\"\nclauses = [\"e2e <= 60s\"]\n\
         [slo.workload]\ninput_tokens = { p50 = 32000 }\noutput_tokens = { p50 = 1000 }\n",
    );
    let sweep =
        |more: &[&str]| place.run(&[&["sweep", "--slo", "long.toml", "--dry-run"], more].concat());
    sweep(&["--url", &server.url]).says(&["SLO and workload disagree"]);
    sweep(&["--url", &server.url, "--strict"]).exits(2);
    sweep(&[]).exits(0).says(&["not the SLO's own"]);
}

#[test]
fn a_dry_run_costs_nothing_and_leaves_nothing() {
    let server = Server::start(|_, socket| stream(socket, 3));
    let place = Place::new("dry");
    std::fs::create_dir(place.path.join("mine")).unwrap();
    place.write("mine/notes.txt", "mine");
    let ran = place.run(&[
        "sweep",
        "--url",
        &server.url,
        "--dry-run",
        "--out",
        "mine",
        "--warmup",
        "0",
    ]);
    let told = ran.exits(0).stdout;
    assert!(told.contains("cost      a closed-loop search"), "{told}");
    assert!(server.generations().is_empty());
    assert_eq!(place.read("mine/notes.txt"), "mine");
    assert_eq!(place.all_files().len(), 1);
}

/// The first command of the README, with few requests.
#[test]
fn a_sweep_without_a_server_brings_its_own() {
    let place = Place::new("sweep");
    let ran = place.run(&[
        "sweep",
        "--concurrency",
        "1,4",
        "--rate",
        "20",
        "--requests",
        "20",
        "--out",
        "out",
    ]);
    let ran = ran.measured().says(&["EMULATED", "cost"]);
    for part in [
        "CLOSED LOOP",
        "OPEN LOOP",
        "ANSWER",
        "no figure is about real",
    ] {
        assert!(ran.stdout.contains(part), "no `{part}` in\n{ran}");
    }
    let result = place.result();
    assert_eq!(result["complete"], true);
    assert_eq!(result["holds_for"]["server"]["emulated"], true);
    let loads: Vec<(&Value, &Value)> = result["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| (&point["concurrency"], &point["rate_req_s"]))
        .collect();
    let none = Value::Null;
    assert!(loads.contains(&(&json!(1), &none)) && loads.contains(&(&json!(4), &none)));
    assert!(loads.contains(&(&none, &json!(20.0))), "{loads:?}");
    let csv = place.read("out/points.csv");
    assert_eq!(csv.lines().count(), loads.len() + 1);
    let metrics = place.read("out/server_metrics.jsonl");
    let first: Value = serde_json::from_str(metrics.lines().next().unwrap()).unwrap();
    for field in ["t_ns", "replica", "name", "value"] {
        assert!(!first[field].is_null(), "{first}");
    }
    assert!(metrics.contains("vllm:num_requests_running"));
}

#[test]
fn faults_of_the_replica_are_misses() {
    let place = Place::new("faults");
    place
        .run(&[
            "bench",
            "--fault",
            "errors=50%",
            "--requests",
            "40",
            "--warmup",
            "0",
            "--seed",
            "3",
            "--out",
            "out",
        ])
        .measured();
    let point = &place.result()["points"][0];
    let ok = point["outcomes"]["ok"].as_u64().unwrap();
    assert!((5..=35).contains(&ok), "{}", point["outcomes"]);
    let met = point["slos"][0]["met"].as_u64().unwrap();
    assert!(met <= ok, "failures stay in the denominator");
    assert_eq!(point["slos"][0]["missed"].as_u64().unwrap() + met, 40);
}

/// What all verbs share stands at the end of a page, below the verb's own flags and above examples.
#[test]
fn every_help_page_has_its_own_flags_first_and_examples_last() {
    let place = Place::new("pages");
    let pages: [&[&str]; 12] = [
        &[],
        &["sweep"],
        &["bench"],
        &["compare"],
        &["report"],
        &["trace"],
        &["trace", "inspect"],
        &["trace", "convert"],
        &["slo"],
        &["slo", "check"],
        &["slo", "presets"],
        &["emulate"],
    ];
    for page in pages {
        for help in ["-h", "--help"] {
            let text = place.run(&[page, &[help]].concat()).exits(0).stdout;
            let (own, rest) = text.split_once("Global options:\n").expect("a heading");
            for flag in ["--quiet", "--verbose", "--color", "-h, --help", "--version"] {
                assert!(!own.contains(flag), "{flag} in the middle of\n{text}");
            }
            let (shared, examples) = rest.split_once("\nExample").expect("examples");
            assert!(shared.contains("--quiet") && shared.contains("-h, --help"));
            assert!(examples.contains("\n  goodput ") && !examples.contains("      --"));
        }
    }
    let length = |help| place.run(&["sweep", help]).exits(0).stdout.lines().count();
    assert!(length("-h") < 90 && length("--help") > 150);
}

#[test]
fn help_version_completions_and_man_pages_are_there() {
    let place = Place::new("help");
    let version = place.run(&["--version"]).exits(0).stdout;
    assert!(version.starts_with("goodput "));
    for verb in [
        "sweep", "bench", "compare", "report", "trace", "slo", "emulate",
    ] {
        let help = place.run(&[verb, "--help"]).exits(0);
        assert!(help.stdout.contains("Usage:"), "{help}");
        assert_eq!(help.stderr, "");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = place.run(&["completions", shell]).exits(0).stdout;
        assert!(script.contains("goodput") && script.contains("sweep"));
    }
    place.run(&["man", "pages"]).exits(0);
    assert!(place.all_files().len() >= 6);
    assert_eq!(place.run(&[]).code, Some(2));
    place.run(&["swep"]).exits(2).says(&["sweep"]);
    place
        .run(&["sweep", "--concurency", "4"])
        .exits(2)
        .says(&["--concurrency"]);
}
