//! `goodput sweep --boots` and `--resume`: boot after boot, with a server whose restart is a file.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    program::{Place, Ran},
    server::{Server, stream, text, whole},
};

/// A server that says it started when the file `started` of the place says so.
fn server(place: &Place) -> Server {
    let file = place.path.join("started");
    fs::write(&file, "1000").unwrap();
    Server::raw(move |asked, socket| match asked.path.as_str() {
        _ if asked.is_generation() => stream(socket, 3),
        "/v1/models" => whole(
            socket,
            200,
            &json!({"object": "list", "data": [{"id": "m", "object": "model"}]}),
        ),
        "/metrics" => text(socket, 200, "text/plain", &exposition(&file)),
        _ => whole(socket, 404, &json!({"error": {"message": "Not Found"}})),
    })
}

fn exposition(file: &Path) -> String {
    let started = fs::read_to_string(file).unwrap_or_default();
    format!(
        "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {}\n",
        started.trim()
    )
}

const LOADS: [&str; 10] = [
    "--concurrency",
    "1,2",
    "--rate",
    "none",
    "--requests",
    "6",
    "--warmup",
    "0",
    "--slo",
    "ttft=10s,tpot=10s",
];
const RESTART: &str = "echo $(( $(cat started) + 60 )) > started; echo talk";

fn sweep(place: &Place, server: &Server, more: &[&str]) -> Ran {
    let mut args = vec!["sweep", "--url", &server.url, "--out", "out"];
    args.extend(LOADS);
    args.extend(more);
    place.run(&args)
}

#[test]
fn a_sweep_over_boots_is_one_result() {
    let place = Place::new("boots");
    let server = server(&place);
    let more = ["--boots", "3", "--restart-cmd", RESTART, "--format", "json"];
    let ran = sweep(&place, &server, &more).measured();
    let printed: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        printed,
        place.result(),
        "stdout is the whole and nothing else"
    );
    let boots = printed["boots"].as_array().unwrap();
    let told: Vec<(&Value, &Value)> = boots
        .iter()
        .map(|b| (&b["boot"], &b["server_started_unix_s"]))
        .collect();
    let expect = [(1, 1000.0), (2, 1060.0), (3, 1120.0)].map(|(n, s)| (json!(n), json!(s)));
    assert_eq!(told, expect.each_ref().map(|(n, s)| (n, s)));
    assert!(
        printed["holds_for"]["boot"]
            .as_str()
            .unwrap()
            .starts_with("3 boots")
    );
    assert_eq!(printed["points"].as_array().unwrap().len(), 2);
    for boot in ["out", "out/boots/2", "out/boots/3"] {
        assert_eq!(
            place
                .read(&format!("{boot}/requests.jsonl"))
                .lines()
                .count(),
            12
        );
    }
    let own: Value = serde_json::from_str(&place.read("out/boots/2/result.json")).unwrap();
    assert_eq!(own["boots"], json!([]));
    assert_ne!(own["seed"], printed["seed"], "a seed of its own");
}

#[test]
fn a_finished_sweep_is_resumed_on_another_boot_and_only_there() {
    let place = Place::new("resume");
    let server = server(&place);
    sweep(&place, &server, &[]).measured();
    let before = place.read("out/result.json");
    let refused = place
        .run(&["sweep", "--resume", "out"])
        .exits(2)
        .one_error();
    refused.says(&["was not restarted"]);
    assert_eq!(
        place.read("out/result.json"),
        before,
        "what was measured is kept"
    );
    place.write("started", "2000");
    place.run(&["sweep", "--resume", "out"]).measured();
    place.write("started", "3000");
    place
        .run(&["sweep", "--resume", "out", "--boots", "3"])
        .measured();
    let result = place.result();
    assert_eq!(result["boots"].as_array().unwrap().len(), 3);
    for boot in result["boots"].as_array().unwrap() {
        let loads: Vec<&Value> = boot["points"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| &p["concurrency"])
            .collect();
        assert_eq!(loads, [&json!(1), &json!(2)]);
    }
    let kept: Value = serde_json::from_str(&place.read("out/boots/1/result.json")).unwrap();
    assert_eq!(kept, serde_json::from_str::<Value>(&before).unwrap());
    place
        .run(&["sweep", "--resume", "out", "--boots", "2"])
        .exits(2)
        .says(&["3 boots already"]);
    place.run(&["compare", "out", "out"]).exits(0);
    place.run(&["report", "out"]).measured();
}

#[test]
fn a_restart_that_is_none_ends_the_series_with_what_there_is() {
    let place = Place::new("no-restart");
    let server = server(&place);
    let same = ["--boots", "2", "--restart-cmd", "true"];
    sweep(&place, &server, &same)
        .exits(2)
        .says(&["was not restarted"]);
    assert_eq!(place.result()["complete"], true);
    let failing = Place::new("failed-restart");
    let server = self::server(&failing);
    let failed = ["--boots", "2", "--restart-cmd", "exit 7"];
    sweep(&failing, &server, &failed)
        .exits(3)
        .says(&["exit status: 7", "--resume"]);
    assert_eq!(failing.result()["complete"], true);
}

#[test]
fn boots_that_no_one_can_restart_are_refused_before_anything_is_sent() {
    let place = Place::new("alone");
    let server = server(&place);
    sweep(&place, &server, &["--boots", "2"])
        .exits(2)
        .says(&["--restart-cmd"]);
    assert!(!place.path.join("out").exists());
    place.run(&["sweep", "--resume", "nowhere"]).exits(2);
}
