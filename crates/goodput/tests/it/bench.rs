//! `goodput bench`: what exactly is sent, and what is kept of it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    program::Place,
    server::{Server, Stream, stream},
};

#[test]
fn one_request_is_one_request() {
    let server = Server::start(|_, socket| stream(socket, 3));
    let place = Place::new("one");
    let flags = ["--requests", "1", "--concurrency", "1", "--warmup", "0"];
    place.bench(&server.url, &flags).measured();
    let asked = server.generations();
    assert_eq!(asked.len(), 1, "{asked:#?}");
    assert_eq!(asked[0].path, "/v1/chat/completions");
    let body = asked[0].json();
    assert_eq!(body["stream"], true);
    assert_eq!(body["stream_options"]["include_usage"], true);
    assert_eq!(body["model"], "m");
    let rows = place.rows();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["phase"], "measured");
    assert_eq!(
        rows[0]["id"].as_str().unwrap(),
        asked[0].headers["x-request-id"]
    );
    assert_eq!(place.result()["points"][0]["requests"], 1);
}

#[test]
fn a_count_is_exact_and_every_id_is_found_again() {
    let server = Server::start(|_, socket| stream(socket, 3));
    let place = Place::new("count");
    let flags = ["--requests", "12", "--concurrency", "4", "--warmup", "0"];
    place.bench(&server.url, &flags).measured();
    let sent: BTreeSet<String> = server
        .generations()
        .iter()
        .map(|asked| asked.headers["x-request-id"].clone())
        .collect();
    let rows = place.rows();
    let kept: BTreeSet<String> = rows
        .iter()
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!((sent.len(), server.generations().len()), (12, 12));
    assert_eq!(sent, kept);
    let run = place.result()["run"].as_str().unwrap().to_owned();
    assert!(kept.iter().all(|id| id.starts_with(&format!("{run}-"))));
}

#[test]
fn warm_up_is_kept_apart() {
    let server = Server::start(|_, socket| stream(socket, 3));
    let place = Place::new("warm");
    let flags = ["--requests", "6", "--concurrency", "2", "--warmup", "3"];
    place.bench(&server.url, &flags).measured();
    let count = |phase: &str| place.rows().iter().filter(|r| r["phase"] == phase).count();
    assert_eq!((count("warmup"), count("measured")), (3, 6));
    assert_eq!(count("first_wave"), 2);
    assert_eq!(place.result()["points"][0]["requests"], 6);
}

#[test]
fn text_and_gaps_are_kept_on_request() {
    let server = Server::start(|_, socket| stream(socket, 3));
    let run = |more: &[&str]| {
        let place = Place::new("keep");
        let mut flags = vec!["--requests", "1", "--warmup", "0"];
        flags.extend(more);
        place.bench(&server.url, &flags).measured();
        place.rows().remove(0)
    };
    let plain = run(&[]);
    assert_eq!(
        (&plain["text"], &plain["gap_ns"]),
        (&Value::Null, &Value::Null)
    );
    assert!(plain["characters"].as_u64().unwrap() > 0);
    let kept = run(&["--keep-text", "--keep-gaps"]);
    assert_eq!(kept["text"], "w0 w1 w2 ");
    assert_eq!(kept["gap_ns"].as_array().unwrap().len(), 2);
}

#[test]
fn completions_are_asked_for_with_a_prompt() {
    let server = Server::start(|asked, socket| {
        assert_eq!(asked.path, "/v1/completions");
        let mut stream = Stream::begin(socket)?;
        for text in ["a", "b"] {
            let choice = json!({"index": 0, "text": text, "finish_reason": null});
            stream.event(&json!({"model": "m", "choices": [choice]}).to_string())?;
        }
        stream.finish("stop", 9, 2, &Value::Null)
    });
    let place = Place::new("completions");
    let flags = ["--requests", "2", "--warmup", "0", "--api", "completions"];
    place.bench(&server.url, &flags).measured();
    for asked in server.generations() {
        assert!(!asked.prompt().is_empty());
        assert_eq!(asked.json()["messages"], Value::Null);
    }
    for row in place.rows() {
        assert_eq!(
            (&row["outcome"], &row["output_tokens"]),
            (&json!("ok"), &json!(2))
        );
    }
}

#[test]
fn without_a_stream_a_whole_answer_is_asked_for() {
    let server = Server::start(|asked, socket| {
        assert_ne!(asked.json()["stream"], true);
        let message = json!({"role": "assistant", "content": "two words"});
        let body = json!({
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 6, "completion_tokens": 2, "total_tokens": 8},
        });
        crate::server::whole(socket, 200, &body)
    });
    let place = Place::new("whole");
    let flags = ["--requests", "2", "--warmup", "0", "--no-stream"];
    place.bench(&server.url, &flags).measured();
    for row in place.rows() {
        assert_eq!(
            (&row["outcome"], &row["ttft_ms"]),
            (&json!("ok"), &Value::Null)
        );
        assert!(row["e2e_ms"].as_f64().unwrap() > 0.0);
    }
    // It was not asked for: that is no finding.
    assert_eq!(place.result()["points"][0]["not_streamed"], 0);
}

#[test]
fn extra_headers_and_fields_reach_the_server() {
    let server = Server::start(|_, socket| stream(socket, 2));
    let place = Place::new("extra");
    place
        .bench(
            &server.url,
            &[
                "--requests",
                "1",
                "--warmup",
                "0",
                "--header",
                "x-team: search",
                "--body",
                "temperature=0",
                "--body",
                "tag=\"a\"",
                "--body",
                "word=plain",
            ],
        )
        .measured();
    let asked = &server.generations()[0];
    assert_eq!(asked.headers["x-team"], "search");
    let body = asked.json();
    assert_eq!(body["temperature"], 0);
    assert_eq!(
        (&body["tag"], &body["word"]),
        (&json!("a"), &json!("plain"))
    );
}

#[test]
fn an_open_loop_counts_from_the_schedule() {
    let server = Server::start(|_, socket| stream(socket, 2));
    let place = Place::new("open");
    place.write("w.toml", crate::workloads::TINY);
    let flags = [
        "--requests",
        "20",
        "--rate",
        "50",
        "--warmup",
        "0",
        "--workload",
        "w.toml",
    ];
    place.bench(&server.url, &flags).measured();
    let result = place.result();
    let point = &result["points"][0];
    assert_eq!(point["mode"], "open");
    assert_eq!(point["rate_req_s"], 50.0);
    assert_eq!(point["concurrency"], Value::Null);
    assert_eq!(server.generations().len(), 20);
    for row in place.rows() {
        assert!(row["sent_ns"].as_u64().unwrap() >= row["origin_ns"].as_u64().unwrap());
    }
}

/// Load threads share the users and the requests' numbers out, and their books are one.
#[test]
fn several_threads_measure_one_point() {
    let server = Server::start(|_, socket| stream(socket, 3));
    let place = Place::new("threads");
    place.write("w.toml", crate::workloads::TINY);
    let flags = [
        "--threads",
        "3",
        "--concurrency",
        "8",
        "--requests",
        "40",
        "--warmup",
        "0",
        "--workload",
        "w.toml",
        "--ramp",
        "0s",
    ];
    place.bench(&server.url, &flags).measured();
    assert_eq!(server.generations().len(), 40);
    let point = &place.result()["points"][0];
    assert_eq!(point["outcomes"], serde_json::json!({"ok": 40}));
    assert_eq!(
        (&point["requests"], &point["concurrency"]),
        (&40.into(), &8.into())
    );
    let rows = place.measured_rows();
    let distinct = |what: &str| {
        let all: std::collections::BTreeSet<String> =
            rows.iter().map(|row| row[what].to_string()).collect();
        all.len()
    };
    assert_eq!(distinct("id"), 40, "no two requests have the same id");
    let users: std::collections::BTreeSet<u64> = rows
        .iter()
        .map(|row| row["session"].as_u64().unwrap() % 8)
        .collect();
    assert_eq!(users.len(), 8, "every user asked");
}
