//! `goodput compare` as a gate: exit codes, files, what is said.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::program::Place;

/// The sample result that the faces are drawn from, as a result folder.
fn sample() -> Value {
    let file =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../goodput-report/tests/sample.json");
    let mut result: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    result["findings"] = json!([]);
    for point in result["points"].as_array_mut().unwrap() {
        (point["valid"], point["warnings"]) = (json!(true), json!([]));
    }
    result
}

/// Results `base` and `other`, the latter with `factor` times the goodput.
fn two(name: &str, factor: f64) -> Place {
    let place = Place::new(name);
    let base = sample();
    let mut other = base.clone();
    for point in other["points"].as_array_mut().unwrap() {
        let scaled = |value: &Value| json!(value.as_f64().unwrap() * factor);
        point["goodput_tok_s"] = scaled(&point["goodput_tok_s"]);
        let interval = &point["goodput_interval"];
        point["goodput_interval"] =
            json!({"low": scaled(&interval["low"]), "high": scaled(&interval["high"])});
    }
    for (folder, result) in [("base", base), ("other", other)] {
        fs::create_dir(place.path.join(folder)).unwrap();
        place.write(&format!("{folder}/result.json"), &result.to_string());
    }
    place
}

const LESS: &str = "goodput_tok_s < -5%";

#[test]
fn a_gate_passes_fails_or_says_that_it_cannot_tell() {
    let place = two("gate-codes", 0.7);
    let compare = |args: &[&str]| {
        let mut all = vec!["compare", "base", "other"];
        all.extend(args);
        place.run(&all)
    };
    assert!(
        compare(&["--fail-on", LESS])
            .exits(1)
            .stdout
            .contains("GATE  FAIL")
    );
    compare(&["--fail-on", "goodput_tok_s < -50%"]).exits(0);
    compare(&["--fail-on", "goodput_tok_s < -5% at 17"]).exits(3);
    let both = ["--fail-on", LESS, "--fail-on", "goodput_tok_s < -5% at 17"];
    compare(&both).exits(1);
    // No percentile has an interval without requests.
    let open = ["--fail-on", "ttft_p99_ms > +5% at 16"];
    compare(&open)
        .exits(0)
        .says(&["warning: 1 of 1 checks are not decided"]);
    compare(&[&open[..], &["--undecided", "fail"]].concat()).exits(1);
    compare(&[]).exits(0);
}

#[test]
fn a_wrong_rule_is_marked_and_told() {
    let place = two("gate-wrong", 1.0);
    let wrong = |rule| {
        let args = ["compare", "base", "other", "--fail-on", rule];
        place.run(&args).exits(2).one_error()
    };
    wrong("godput_tok_s < -3%").says(&["^^^^", "did you mean `goodput_tok_s`?", "`sell_req_s`"]);
    wrong("ttft_p99_ms > 500").says(&["has no unit", "500ms"]);
    place.write(
        "gate.toml",
        "fail_on = [\n  \"goodput_tok_s < -3%\",\n  \"goodput_tok_s < 3%\",\n]\n",
    );
    place
        .run(&["compare", "base", "other", "--rules", "gate.toml"])
        .exits(2)
        .says(&["gate.toml:3", "write `-3%` for less"]);
    place
        .run(&["compare", "base", "other", "--junit", "x.xml"])
        .exits(2)
        .says(&["--fail-on"]);
    place
        .run(&["compare", "base", "other", "--rules", "none.toml"])
        .exits(2);
}

/// A gate without a rule would pass whatever came: a file that was emptied by mistake is an error.
#[test]
fn a_file_without_a_rule_is_no_gate() {
    let place = two("gate-empty", 0.1);
    let args = ["compare", "base", "other", "--rules", "gate.toml"];
    for empty in [
        "",
        "# none yet\n",
        "fail_on = []\n",
        "undecided = \"fail\"\n",
    ] {
        place.write("gate.toml", empty);
        place
            .run(&args)
            .exits(2)
            .one_error()
            .says(&["there is no rule in gate.toml", "hint: write fail_on ="]);
        place
            .run(&[&args[..], &["--fail-on", LESS]].concat())
            .exits(2);
    }
}

#[test]
fn a_file_of_rules_is_read_and_a_flag_goes_before_it() {
    let place = two("gate-file", 1.0);
    place.write(
        "gate.toml",
        "undecided = \"fail\"\nfail_on = [\"ttft_p99_ms > +5% at 16\", \"goodput_tok_s < -20%\"]\n",
    );
    let args = ["compare", "base", "other", "--rules", "gate.toml"];
    place.run(&args).exits(1);
    place
        .run(&[&args[..], &["--undecided", "pass"]].concat())
        .exits(0);
}

#[test]
fn a_gate_is_written_for_people_programs_and_servers() {
    let place = two("gate-faces", 0.7);
    let args = [
        "compare",
        "base",
        "other",
        "--fail-on",
        LESS,
        "--junit",
        "gate.xml",
    ];
    let with = |format| {
        place
            .run(&[&args[..], &["--format", format]].concat())
            .exits(1)
            .stdout
    };
    let json: Value = serde_json::from_str(&with("json")).unwrap();
    assert_eq!(json["gate"]["verdict"], "fail");
    assert_eq!(json["gate"]["cases"][0]["word"], "fail");
    assert_eq!(json["boots"], json!({"base": 1, "other": 1}));
    assert!(with("markdown").starts_with("### goodput: FAIL: "));
    let csv = with("csv");
    let (heading, rows) = csv.split_once('\n').unwrap();
    assert_eq!(
        heading,
        "load,figure,base,other,change,change_low,change_high,evidence,rule,verdict,held,held_low,held_high,note"
    );
    let failed = rows
        .lines()
        .filter(|row| row.contains(",goodput_tok_s < -5%,fail,-0.3"));
    assert!(failed.count() > 3, "{csv}");
    assert!(with("human").contains("this boot only"));
    let junit = fs::read_to_string(place.path.join("gate.xml")).unwrap();
    assert!(junit.starts_with("<?xml"), "{junit}");
    assert!(junit.contains("name=\"goodput_tok_s &lt; -5%\"") && junit.contains("<failure"));
}

#[test]
fn an_invalid_point_decides_nothing() {
    let place = two("gate-invalid", 0.7);
    let mut other: Value =
        serde_json::from_str(&fs::read_to_string(place.path.join("other/result.json")).unwrap())
            .unwrap();
    let points = other["points"].as_array_mut().unwrap();
    for point in points {
        point["valid"] = json!(false);
    }
    place.write("other/result.json", &other.to_string());
    let ran = place
        .run(&["compare", "base", "other", "--fail-on", LESS])
        .exits(3);
    assert!(ran.stdout.contains("NOT EVALUABLE") && ran.stdout.contains("other: not valid"));
}
