//! `goodput sweep --boots` and `--resume`: boot after boot, with a server whose restart is a file.

use std::{fs, path::Path, thread, time::Duration};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use crate::{
    program::{Place, Ran, until},
    server::{Server, stream, text, whole},
};

/// A server that says it started when the file `started` of the place says so. While there is a file
/// `stuck` it answers nothing from the eighth request of a boot on, which is one of its second load.
fn server(place: &Place) -> Server {
    let file = place.path.join("started");
    let stuck = place.path.join("stuck");
    fs::write(&file, "1000").unwrap();
    Server::raw(move |asked, socket| match asked.path.as_str() {
        _ if asked.is_generation() => {
            while asked.number % 12 >= 7 && stuck.exists() {
                thread::sleep(Duration::from_millis(10));
            }
            stream(socket, 3)
        }
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

/// The folder of a sweep of one boot whose second boot was killed at its second load.
fn killed_in_the_second_boot(place: &Place, server: &Server) {
    sweep(place, server, &[]).measured();
    place.write("started", "2000");
    place.write("stuck", "");
    let mut child = place.start(&["sweep", "--resume", "out", "--boots", "2"]);
    let own = place.path.join("out/boots/2/result.json");
    until("the first load of boot 2", || {
        fs::read_to_string(&own).is_ok_and(|text| text.contains("\"point\": 0"))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(place.path.join("stuck")).unwrap();
}

#[test]
fn a_folder_whose_second_boot_was_killed_says_so() {
    let place = Place::new("killed-boot");
    let server = server(&place);
    killed_in_the_second_boot(&place, &server);
    let ran = place.run(&["report", "out"]).exits(3);
    assert!(ran.stdout.contains("INCOMPLETE: boot 2 of 2"), "{ran}");
    assert!(
        ran.stdout.contains("goodput sweep --resume out --boots 2"),
        "{ran}"
    );
}

/// The killed boot left a folder, and is no boot: it is measured anew under its own number.
#[test]
fn a_boot_that_was_killed_is_measured_anew_and_counted_once() {
    let place = Place::new("anew");
    let server = server(&place);
    killed_in_the_second_boot(&place, &server);
    let ran = place
        .run(&["sweep", "--resume", "out", "--boots", "2"])
        .measured();
    ran.says(&["boot 2 of 2", "measured anew", "out/boots/2-broken-off-1"]);
    let result = place.result();
    assert_eq!(result["complete"], true, "{}", result["incomplete_because"]);
    let boots = result["boots"].as_array().unwrap();
    let told: Vec<_> = boots
        .iter()
        .map(|b| (b["boot"].as_u64(), b["points"].as_array().unwrap().len()))
        .collect();
    assert_eq!(told, [(Some(1), 2), (Some(2), 2)]);
    assert!(
        place
            .path
            .join("out/boots/2-broken-off-1/requests.jsonl")
            .exists()
    );
    // As many as asked for are there now.
    place
        .run(&["sweep", "--resume", "out", "--boots", "2"])
        .exits(2)
        .says(&["2 boots already"]);
}

#[test]
fn a_signal_ends_the_restart_with_all_that_it_started() {
    let place = Place::new("restart-broken-off");
    let server = server(&place);
    let mut args = vec![
        "sweep",
        "--url",
        &server.url,
        "--out",
        "out",
        "--boots",
        "2",
    ];
    // The shell waits for a child, which a signal to the shell alone would not end.
    args.extend([
        "--restart-cmd",
        "sleep 600 & echo $! > sleeping; wait; true",
    ]);
    args.extend(LOADS);
    let child = place.start(&args);
    let file = place.path.join("sleeping");
    let sleeping = || fs::read_to_string(&file).ok()?.trim().parse::<i32>().ok();
    until("the restart", || sleeping().is_some());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ran = Ran::of(&child.wait_with_output().unwrap()).exits(130);
    assert!(
        ran.stdout
            .contains("INCOMPLETE: stopped by signal 2, with 1 of 2 boots"),
        "{ran}"
    );
    let sleeping = Pid::from_raw(sleeping().unwrap()).unwrap();
    until("the end of what it started", || {
        test_kill_process(sleeping).is_err()
    });
    assert_eq!(place.result()["complete"], false);
    // What there is counts, and the series goes on from it.
    place.write("started", "2000");
    place
        .run(&["sweep", "--resume", "out", "--boots", "2"])
        .measured();
    assert_eq!(place.result()["complete"], true);
}

#[test]
fn a_dry_run_tells_all_boots_on_stdout() {
    let place = Place::new("dry");
    let server = server(&place);
    let dry = |more: &[&str]| {
        let base = [
            "sweep",
            "--url",
            &server.url,
            "--dry-run",
            "--quiet",
            "--rate",
            "none",
        ];
        let loads = ["--concurrency", "1,2", "--duration", "60s"];
        let ran = place.run(&[&base[..], &loads, more].concat()).exits(0);
        assert_eq!(ran.stderr, "");
        ran.stdout
    };
    let one = dry(&[]);
    assert!(
        one.contains("2 closed-loop points and no open loop"),
        "{one}"
    );
    let three = ["--boots", "3", "--restart-cmd", "true"];
    let text = dry(&three);
    assert!(text.contains("boots     3: about"), "{text}");
    let json: Value =
        serde_json::from_str(&dry(&[&three[..], &["--format", "json"]].concat())).unwrap();
    let seconds = |name: &str| json[name].as_f64().unwrap();
    assert!(seconds("first_boot_s") >= 120.0, "{json}");
    let all = seconds("first_boot_s") + 2.0 * seconds("further_boot_s");
    assert_eq!((&json["boots"], seconds("in_all_s")), (&json!(3), all));
    assert!(server.generations().is_empty());
}

#[test]
fn a_restart_that_would_never_be_carried_out_is_refused() {
    let place = Place::new("never");
    let run = |more: &[&str]| place.run(&[&["sweep", "--restart-cmd", "true"][..], more].concat());
    run(&["--url", "http://127.0.0.1:1/v1"])
        .exits(2)
        .one_error()
        .says(&["--restart-cmd `true`", "only one boot", "--boots 3"]);
    run(&["--url", "http://127.0.0.1:1/v1", "--boots", "1"]).exits(2);
    run(&["--boots", "2"])
        .exits(2)
        .one_error()
        .says(&["no server to restart", "--url"]);
}
