//! `goodput calibrate`: from what the program itself measured to a profile it can serve.

use crate::program::Place;

/// Two loads of the emulated replica with every gap kept.
fn measure(place: &Place, out: &str, more: &[&str]) {
    let flags = [
        "sweep",
        "--rate",
        "none",
        "--warmup",
        "1",
        "--slo",
        "ttft=10s,tpot=10s",
        "--out",
        out,
    ];
    place.run(&[&flags[..], more].concat()).measured();
}

#[test]
fn what_was_measured_becomes_a_profile_that_can_be_served() {
    let place = Place::new("calibrate");
    measure(
        &place,
        "low",
        &["--concurrency", "2,6", "--requests", "24", "--keep-gaps"],
    );
    let flags = ["calibrate", "low", "--out", "mine.toml"];

    // The records tell blocks, not the scheduler's limits: no number is invented for them.
    let ran = place.run(&flags).exits(2).one_error();
    let ran = ran.says(&["max_num_seqs", "--set max_num_seqs=N", "--base"]);
    assert!(!place.path.join("mine.toml").exists(), "{ran}");
    // The same records twice are no more than once: intervals would be too narrow.
    let twice = place.run(&["calibrate", "low", "low"]).exits(2);
    twice.one_error().says(&["is named twice"]);

    let limits = [
        "--set",
        "max_num_seqs=48",
        "--set",
        "max_batched_tokens=2048",
        "--set",
        "context_limit=32768",
        "--format",
        "json",
    ];
    // On a loaded machine points are invalid, which calibrate says by its exit code.
    let ran = place.run(&[&flags[..], &limits].concat()).measured();
    let found: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(found["samples_are"], "steps", "{ran}");
    assert!(found["samples"].as_u64().unwrap() > 100, "{ran}");
    let step = &found["coefficients"][0];
    assert_eq!(step["name"], "step");
    let value = step["seconds"].as_f64().unwrap();
    let interval = [0, 1].map(|i| step["interval"][i].as_f64().unwrap());
    assert!(interval[0] <= value && value <= interval[1], "{step}");
    // Four tokens around the message, three that open the answer.
    assert_eq!(found["template_tokens"], 7, "{found}");
    // The emulator's step takes 4 ms; a loaded machine only makes it longer.
    assert!(value > 0.003, "{step}");

    let profile = place.read("mine.toml");
    for part in [
        "kv_blocks = 8192",
        "max_num_seqs = 48",
        "[fitted_on]",
        "[step_time_interval]",
    ] {
        assert!(profile.contains(part), "{part} in\n{profile}");
    }
    measure(
        &place,
        "again",
        &[
            "--concurrency",
            "2",
            "--requests",
            "4",
            "--profile",
            "mine.toml",
        ],
    );

    let ran = place
        .run(&["calibrate", "low", "--base", "laptop", "--refine", "20"])
        .measured();
    for part in [
        "COEFFICIENTS",
        "90% interval",
        "LOADS",
        "holds for",
        "refined",
    ] {
        assert!(ran.stdout.contains(part), "{part} in\n{ran}");
    }
}

#[test]
fn what_cannot_be_fitted_is_said_and_nothing_is_invented() {
    let place = Place::new("calibrate-refusals");
    measure(
        &place,
        "one",
        &["--concurrency", "1", "--requests", "6", "--keep-gaps"],
    );
    let refused = |flags: &[&str], words: &[&str]| {
        place
            .run(&[&["calibrate"], flags].concat())
            .exits(2)
            .one_error()
            .says(words);
    };
    refused(
        &["one"],
        &["of one load", "hint: add a folder of another load"],
    );
    refused(&["nowhere"], &["there is no nowhere"]);
    refused(
        &["one", "--base", "gpt-9"],
        &["there is no engine profile `gpt-9`"],
    );
    refused(&["one", "--set", "kv_block=7"], &["kv_block"]);
    refused(&["one", "--trust-base"], &["--base"]);
    // A run that was killed has left records and no document.
    std::fs::create_dir(place.path.join("killed")).unwrap();
    place.write("killed/requests.jsonl", &place.read("one/requests.jsonl"));
    let ran = place.run(&["calibrate", "killed"]).exits(3);
    ran.says(&["INCOMPLETE: killed has no result.json", "--import"]);
    std::fs::create_dir(place.path.join("foreign")).unwrap();
    std::fs::write(place.path.join("foreign/result.json"), "{\"runs\": []}").unwrap();
    refused(&["foreign"], &["foreign/result.json is not a result"]);
}
