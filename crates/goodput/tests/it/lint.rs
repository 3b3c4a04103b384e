//! Faults of servers, proxies and settings that a result names.

use std::{io, net::TcpStream, thread, time::Duration};

use goodput_sweep::{Question, RunResult, answers, findings};
use serde_json::{Value, json};

use crate::{
    program::{Place, Ran, has_finding},
    server::{Asked, Server, Stream, stream, whole},
};

const SMALL: [&str; 4] = ["--requests", "40", "--concurrency", "2"];

fn bench(server: &Server, flags: &[&str]) -> (Ran, Value) {
    let place = Place::new("lint");
    let flags = [&SMALL[..], flags].concat();
    let ran = place.bench(&server.url, &flags).measured();
    let result = place.result();
    (ran, result)
}

/// Asserts a finding that latencies decide. Those of a point that a loaded machine made invalid are
/// not looked at by the program; here they are, whether the point is valid or not.
#[track_caller]
fn latencies_name(found: &(Ran, Value), name: &str) {
    let (ran, result) = found;
    let point = &result["points"][0];
    let own = has_finding(result, name);
    assert_eq!(
        own,
        point["valid"] == true,
        "the program named it or not: {ran}"
    );
    let mut result: RunResult = serde_json::from_value(result.clone()).unwrap();
    for point in &mut result.points {
        point.valid = true;
    }
    let question = Question {
        objective: 0.99,
        e2e_at_tokens: 250,
    };
    let answers = answers(&result.points, question);
    let all = findings(&result.points, &answers, &result.holds_for);
    assert!(
        all.iter().any(|f| f.name == name),
        "no {name} in {all:?}\n{ran}"
    );
    assert_eq!(
        ran.code,
        Some(3),
        "whichever it is, it takes trust away: {ran}"
    );
}

#[track_caller]
fn names(found: &(Ran, Value), name: &str) {
    assert!(has_finding(&found.1, name), "no {name} in {}", found.0);
}

/// A server of one model, called so.
fn serving(
    model: &'static str,
    answer: impl Fn(&Asked, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
) -> Server {
    Server::raw(move |asked, socket| match asked.path.as_str() {
        _ if asked.is_generation() => answer(asked, socket),
        "/v1/models" => whole(socket, 200, &json!({"data": [{"id": model}]})),
        _ => whole(socket, 404, &json!({})),
    })
}

#[test]
fn a_tpot_below_the_reading_of_the_weights_is_impossible() {
    // 8.2 GB at 300 GB/s are 27 ms a step.
    let slow_device = ["--accelerator", "L4", "--gpus", "1"];
    let server = || {
        serving("Qwen/Qwen3-8B-FP8", |_, socket| {
            let mut answer = Stream::begin(socket)?;
            for _ in 0..3 {
                thread::sleep(Duration::from_millis(2));
                answer.token("w ")?;
            }
            answer.finish("length", 10, 3, &Value::Null)
        })
    };
    // Not named, not judged.
    assert!(!has_finding(&bench(&server(), &[]).1, "tpot-under-floor"));
    let found = bench(&server(), &slow_device);
    latencies_name(&found, "tpot-under-floor");
    let hardware = &found.1["holds_for"]["hardware"];
    assert_eq!(
        (&hardware["accelerator"], &hardware["weight_bits"]),
        (&json!("L4"), &json!(8))
    );
}

#[test]
fn an_accelerator_is_known_or_said_not_to_be() {
    let place = Place::new("accelerator");
    let base = ["bench", "--url", "http://127.0.0.1:1/v1"];
    let with = |more: &[&str]| place.run(&[&base[..], more].concat());
    with(&["--accelerator", "H100", "--gpus", "1"])
        .exits(2)
        .one_error()
        .says(&["no accelerator `H100`", "H100-SXM"]);
    with(&["--accelerator", "H100-SXM"])
        .exits(2)
        .says(&["--gpus"]);
    place
        .run(&["bench", "--accelerator", "L4", "--gpus", "1"])
        .exits(2)
        .one_error()
        .says(&["no --url", "--profile"]);
    let list = place.run(&["bench", "--accelerator", "list"]);
    assert!(list.exits(0).stdout.contains("MI300X"));
}

#[test]
fn two_events_a_token_are_named() {
    let server = Server::start(|_, socket| {
        let mut answer = Stream::begin(socket)?;
        for _ in 0..8 {
            answer.token("w ")?;
        }
        answer.finish("length", 10, 4, &Value::Null)
    });
    let found = bench(&server, &[]);
    names(&found, "events-above-usage");
    found.0.exits(3);
}

#[test]
fn a_usage_of_zero_is_not_the_length_of_a_prompt() {
    let server = Server::start(|_, socket| {
        let mut answer = Stream::begin(socket)?;
        answer.token("w ")?;
        answer.finish("length", 0, 1, &Value::Null)
    });
    let found = bench(&server, &[]);
    names(&found, "usage-not-a-count");
    assert!(!has_finding(&found.1, "no-usage"), "{}", found.0);
    assert!(found.1["points"][0]["lengths"]["input"][0].is_null());
}

#[test]
fn a_measured_herd_is_named_and_one_left_out_is_not() {
    let herd = || {
        Server::start(|asked, socket| {
            // The prompts of a start wait for each other.
            if asked.number < 2 {
                thread::sleep(Duration::from_millis(700));
            }
            stream(socket, 3)
        })
    };
    let warm = bench(&herd(), &[]);
    assert!(!has_finding(&warm.1, "first-wave-herd"), "{}", warm.0);
    latencies_name(&bench(&herd(), &["--warmup", "0"]), "first-wave-herd");
}

#[test]
fn answers_of_two_servers_are_named() {
    let server = Server::start(|asked, socket| {
        let mut answer = Stream::begin(socket)?;
        let print = format!("fp_{}", asked.number % 2);
        let choice = json!({"index": 0, "delta": {"role": "assistant"}});
        let first = json!({"model": "m", "system_fingerprint": print, "choices": [choice]});
        answer.event(&first.to_string())?;
        answer.token("w ")?;
        answer.finish("length", 10, 1, &Value::Null)
    });
    let found = bench(&server, &[]);
    names(&found, "several-replicas");
    let names = &found.1["points"][0]["server"]["answered_as"];
    assert_eq!(names, &json!(["m (fp_0)", "m (fp_1)"]));
}

#[test]
fn a_servers_names_do_not_reach_the_terminal_as_commands() {
    let server = serving("evil\u{1b}[2J\u{7}\nm", |_, socket| stream(socket, 3));
    let (ran, result) = bench(&server, &[]);
    assert_eq!(
        result["holds_for"]["model"],
        "evil\u{fffd}[2J\u{fffd}\u{fffd}m"
    );
    let place = Place::new("evil");
    let args = [
        "bench",
        "--url",
        &server.url,
        "--requests",
        "2",
        "--warmup",
        "0",
    ];
    let human = place.run(&args).measured();
    for text in [ran.stderr, human.stdout, human.stderr] {
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    }
    let refused = place.run(&[&args[..], &["--model", "other"]].concat());
    assert!(!refused.exits(3).stderr.contains('\u{1b}'));
    // It is asked for by its own name all the same.
    let sent = server.generations();
    assert!(
        sent.iter()
            .all(|asked| asked.json()["model"] == "evil\u{1b}[2J\u{7}\nm")
    );
}

#[test]
fn a_port_that_is_none_is_said() {
    let place = Place::new("port");
    place
        .run(&["bench", "--url", "http://127.0.0.1:99999/v1"])
        .exits(2)
        .one_error()
        .says(&["127.0.0.1:99999", "65535"]);
}
