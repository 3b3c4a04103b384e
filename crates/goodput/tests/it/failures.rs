//! Servers that fail or answer in another form.

use serde_json::{Value, json};

use crate::{
    program::{Place, has_finding},
    server::{Server, stream, whole},
};

/// Case O-ST-06: with no success at all, nothing is 0 ms.
#[test]
fn twenty_refusals_are_no_latency() {
    let server =
        Server::start(|_, socket| whole(socket, 503, &json!({"error": {"message": "overloaded"}})));
    let place = Place::new("refusals");
    let ran = place.bench(&server.url, &["--requests", "20", "--warmup", "0"]);
    assert!(matches!(ran.code, Some(1 | 3)), "{ran}");
    let result = place.result();
    let point = &result["points"][0];
    assert_eq!(point["requests"], 20);
    assert_eq!(point["slo_attainment"], 0.0);
    assert_eq!(point["goodput_tok_s"], 0.0);
    assert_eq!(point["statuses"], json!({"503": 20}));
    assert_eq!(point["outcomes"], json!({"rejected": 20}));
    for (name, value) in point.as_object().unwrap() {
        let latency = ["ttft_p", "tpot_p", "tpot_m", "e2e_p", "stall_p", "itl_"];
        if latency.iter().any(|l| name.starts_with(l)) && name.ends_with("_ms") {
            assert_eq!(*value, Value::Null, "{name}");
        }
    }
    for answer in ["by_objective", "by_clauses", "by_goodput", "run_at"] {
        assert_eq!(result["operating_point"][answer], Value::Null, "{answer}");
    }
    assert!(has_finding(&result, "failed-requests"));
    let csv = place.read("out/points.csv");
    assert!(!csv.contains("NaN") && !csv.contains("inf"), "{csv}");
}

/// Case O-SSE-22: the server ignores `stream: true`.
#[test]
fn a_whole_answer_instead_of_a_stream_is_an_answer_without_ttft() {
    let server = Server::start(|asked, socket| {
        assert_eq!(asked.json()["stream"], true);
        let message = json!({"role": "assistant", "content": "plain body"});
        let body = json!({
            "id": "cmpl-t1", "object": "chat.completion", "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 6, "completion_tokens": 2, "total_tokens": 8},
        });
        whole(socket, 200, &body)
    });
    let place = Place::new("whole");
    place
        .bench(
            &server.url,
            &["--requests", "5", "--warmup", "0", "--keep-text"],
        )
        .measured();
    let (result, rows) = (place.result(), place.measured_rows());
    assert_eq!(rows.len(), 5);
    for row in &rows {
        assert_eq!(row["outcome"], "ok");
        assert_eq!(row["streamed"], false);
        assert_eq!(row["text"], "plain body");
        assert_eq!(row["output_tokens"], 2);
        assert_eq!(
            (&row["ttft_ms"], &row["tpot_ms"]),
            (&Value::Null, &Value::Null)
        );
        assert!(row["e2e_ms"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(result["points"][0]["not_streamed"], 5);
    assert!(has_finding(&result, "not-streamed"));
}

/// Case O-RP-01: answers of one token have no TPOT; every file is strict.
#[test]
fn one_token_answers_leave_null_and_empty_cells() {
    let server = Server::start(|_, socket| stream(socket, 1));
    let place = Place::new("one-token");
    let ran = place
        .bench(&server.url, &["--requests", "4", "--warmup", "0"])
        .measured();
    // serde_json takes no NaN and no Infinity.
    let printed: Value = serde_json::from_str(&ran.stdout).unwrap();
    let point = &printed["points"][0];
    assert_eq!(point["tpot_n"], 0);
    assert_eq!(point["tpot_p50_ms"], Value::Null);
    assert_eq!(point["stream_tok_s"], Value::Null);
    assert_eq!(point["rate_req_s"], Value::Null);
    assert!(point["ttft_p50_ms"].as_f64().unwrap() > 0.0);
    for row in place.rows() {
        assert_eq!(row["tpot_ms"], Value::Null);
    }
    let csv = place.read("out/points.csv");
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (head, cells) = (lines.next().unwrap(), lines.next().unwrap());
    for name in ["tpot_p50_ms", "tpot_p99_ms", "stream_tok_s", "rate_req_s"] {
        let place = head.iter().position(|h| *h == name).unwrap();
        assert_eq!(cells[place], "", "{name}");
    }
}
