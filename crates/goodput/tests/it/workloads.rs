//! What the prompts of a run are, and what is said of them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    program::{Place, has_finding},
    server::{Server, Stream, stream},
};

/// Short prompts, short answers.
pub(crate) const TINY: &str = "\
class = \"chat\"
output_policy = \"max_tokens\"
arrivals = \"poisson\"
input.fixed = 12
output.fixed = 4
";

/// Case O-WL-02: no point replays the prompts of another, nor does a second run.
#[test]
fn no_prompt_is_sent_twice() {
    let server = Server::start(|_, socket| stream(socket, 2));
    let place = Place::new("unique");
    place.write("w.toml", TINY);
    let sweep = |out: &str, more: &[&str]| {
        let mut args = vec![
            "sweep",
            "--url",
            &server.url,
            "--workload",
            "w.toml",
            "--concurrency",
            "1,2",
            "--rate",
            "none",
            "--requests",
            "64",
            "--warmup",
            "3",
            "--out",
            out,
        ];
        args.extend(more);
        place.run(&args).measured();
    };
    sweep("out", &["--seed", "7"]);
    let points = place.result()["points"].as_array().unwrap().len();
    assert_eq!(points, 2);
    // Seeds are fresh unless one is given.
    sweep("second", &[]);
    sweep("third", &[]);
    let loads: Vec<String> = server
        .generations()
        .iter()
        .filter(|asked| asked.json()["stream"] == true)
        .map(crate::server::Asked::prompt)
        .collect();
    let distinct: BTreeSet<&String> = loads.iter().collect();
    assert!(loads.len() >= 3 * 2 * 64);
    assert_eq!(distinct.len(), loads.len(), "a prompt was repeated");
}

#[test]
fn a_seed_gives_the_same_prompts_again() {
    let prompts = || {
        let server = Server::start(|_, socket| stream(socket, 2));
        let place = Place::new("seed");
        let flags = ["--requests", "6", "--warmup", "0", "--seed", "7"];
        place.bench(&server.url, &flags).measured();
        let asked = server.generations();
        asked
            .iter()
            .map(crate::server::Asked::prompt)
            .collect::<Vec<_>>()
    };
    let first = prompts();
    assert_eq!(first.len(), 6);
    assert_eq!(first, prompts());
}

/// Case O-WL-05: answers that end before the asked length are said.
#[test]
fn early_stops_are_reported_with_asked_and_got() {
    let server = Server::start(|asked, socket| {
        let (tokens, reason) = if asked.number % 5 < 3 {
            (200, "length")
        } else {
            (90, "stop")
        };
        let mut stream = Stream::begin(socket)?;
        stream.token("word ")?;
        stream.token("after word")?;
        stream.finish(reason, 12, tokens, &Value::Null)
    });
    let place = Place::new("early");
    place.write(
        "w.toml",
        &TINY.replace("output.fixed = 4", "output.fixed = 200"),
    );
    place
        .bench(
            &server.url,
            &["--requests", "100", "--warmup", "0", "--workload", "w.toml"],
        )
        .measured();
    let result = place.result();
    let lengths = &result["points"][0]["lengths"];
    assert_eq!(lengths["output_mean"], 156.0);
    assert_eq!(lengths["early_stop_share"], 0.4);
    assert_eq!(lengths["planned_output"][0], 200.0);
    assert_eq!(
        lengths["finish_reasons"],
        json!({"length": 0.6, "stop": 0.4})
    );
    assert!(has_finding(&result, "early-stops"));
    for asked in server.generations() {
        assert_eq!(asked.json()["max_tokens"], 200);
    }
}

#[test]
fn a_field_the_server_refuses_is_said_with_the_servers_words() {
    let server = Server::start(|asked, socket| {
        assert_eq!(asked.json()["min_p"], 0.1);
        let body = json!({"error": {"message": "unknown field `min_p`", "code": 400}});
        crate::server::whole(socket, 400, &body)
    });
    let place = Place::new("field");
    let ran = place.bench(
        &server.url,
        &["--requests", "3", "--warmup", "0", "--body", "min_p=0.1"],
    );
    assert!(matches!(ran.code, Some(1 | 3)), "{ran}");
    let row = &place.rows()[0];
    assert_eq!(row["http_status"], 400);
    assert!(
        row["error"]
            .as_str()
            .unwrap()
            .contains("unknown field `min_p`"),
        "{row}"
    );
}

/// Case O-WL-04's file: six rows, of which two can be used.
const ODD: &str = r#"[
 {"id": "a", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]},
 {"id": "b", "conversations": []},
 {"id": "c", "conversations": [{"from": "gpt", "value": "orphan"}]},
 {"id": "d", "conversations": [
  {"from": "system", "value": "Be brief"}, {"from": "human", "value": "2+2?"},
  {"from": "gpt", "value": "4"}, {"from": "human", "value": "and 3?"}, {"from": "gpt", "value": "5"}]},
 {"id": "e", "conversations": [{"from": "human", "value": ""}, {"from": "gpt", "value": "x"}]},
 {"id": "f"}
]"#;

#[test]
fn unusable_conversations_are_counted_with_their_reasons() {
    let place = Place::new("odd");
    place.write("odd.json", ODD);
    let ran = place
        .run(&["trace", "inspect", "odd.json", "--format", "json"])
        .exits(0);
    let ran = ran.says(&[
        "2 rows left out: no turns",
        "1 rows left out: no user turn",
        "empty prompt",
    ]);
    let facts: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(facts["requests"], 2);
}

#[test]
fn a_trace_that_is_shorter_than_asked_stops_and_says_so() {
    let server = Server::start(|_, socket| stream(socket, 2));
    let place = Place::new("odd");
    place.write("odd.json", ODD);
    place
        .run(&["trace", "convert", "odd.json", "--out", "odd.toml"])
        .exits(0);
    let text = place.read("odd.toml");
    assert!(!text.contains("Hi") && !text.contains("2+2"), "{text}");
    let flags = ["--workload", "odd.toml", "--requests", "6", "--warmup", "0"];
    let ran = place.bench(&server.url, &flags).measured();
    ran.says(&["! the workload ended early: it had 2 of 6 requests"]);
    assert_eq!(server.generations().len(), 2, "nothing is repeated unasked");
    let result = place.result();
    let warnings = result["points"][0]["warnings"].to_string();
    assert!(warnings.contains("2 of 6"), "{warnings}");
    assert!(has_finding(&result, "workload-ended"));
    // A window that it does not fill says by how much.
    let again = Place::new("odd-window");
    again.write("odd.toml", &text);
    let flags = [
        "--workload",
        "odd.toml",
        "--duration",
        "9s",
        "--rate",
        "100",
        "--warmup",
        "0",
    ];
    let said = again.bench(&server.url, &flags).measured().stderr;
    assert!(said.contains("of the 9 s of the window"), "{said}");
}

fn share(point: &Value, which: &str) -> f64 {
    point["lengths"][which]
        .as_f64()
        .unwrap_or_else(|| panic!("no {which} in {}", point["lengths"]))
}

/// Planned, reported and scraped cache hits of a run on the emulated replica.
fn cached(workload: &str) -> [f64; 3] {
    let place = Place::new("cache");
    place.write("w.toml", workload);
    place
        .run(&[
            "bench",
            "--workload",
            "w.toml",
            "--concurrency",
            "4",
            "--requests",
            "120",
            "--out",
            "out",
        ])
        .measured();
    let result = place.result();
    let point = &result["points"][0];
    assert_eq!(point["outcomes"], json!({"ok": 120}));
    assert!(
        !has_finding(&result, "prefix-cache"),
        "{}",
        result["findings"]
    );
    [
        "planned_cached_share",
        "reported_cached_share",
        "server_cached_share",
    ]
    .map(|which| share(point, which))
}

#[test]
fn planned_and_seen_cache_hits_agree_for_shared_prefixes() {
    let shared = TINY.replace("input.fixed = 12", "input.fixed = 1536");
    let [planned, reported, server] = cached(&format!(
        "{shared}[prefixes]\nsystem_tokens = 1024\nblock_tokens = 16\n"
    ));
    assert!(planned > 0.5, "the workload shares a lot: {planned}");
    assert!(
        (planned - reported).abs() <= 0.02,
        "{planned} planned, {reported} reported"
    );
    assert!(
        (planned - server).abs() <= 0.02,
        "{planned} planned, {server} counted"
    );
}

#[test]
fn unique_prompts_hit_no_cache() {
    let unique = TINY.replace("input.fixed = 12", "input.fixed = 512");
    for share in cached(&unique) {
        assert!(share <= 0.02, "{share}");
    }
}

#[test]
fn an_agents_sessions_are_judged_as_trajectories() {
    let place = Place::new("agent");
    let sessions = "[sessions]\nsteps.fixed = 3\nnext_input.fixed = 8\n";
    place.write("w.toml", &format!("{TINY}{sessions}"));
    place
        .run(&[
            "bench",
            "--slo",
            "ttft=10s,trajectory=10min",
            "--workload",
            "w.toml",
            "--concurrency",
            "4",
            "--requests",
            "60",
            "--warmup",
            "0",
            "--out",
            "out",
        ])
        .measured();
    let rows = place.measured_rows();
    assert_eq!(rows.len(), 60);
    for row in &rows {
        assert_eq!(row["steps"], 3);
        // Each step carries the conversation so far.
        let grown = 12 + row["step"].as_u64().unwrap() * (4 + 8);
        assert_eq!(row["planned_input_tokens"], grown);
    }
    let result = place.result();
    let slo = &result["points"][0]["slos"][0];
    let judged = slo["trajectories"].as_u64().unwrap();
    assert!((10..=20).contains(&judged), "{slo}");
    assert_eq!(slo["trajectory_attainment"], 1.0);
    assert_eq!(result["points"][0]["trajectory_attainment"], 1.0);
}
