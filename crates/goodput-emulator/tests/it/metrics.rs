use crate::setup::{Running, quick};

#[test]
fn the_server_names_its_model_and_its_limits() {
    let server = Running::start(quick());
    let mut client = server.client();
    let models = client.get("/v1/models").json();
    assert_eq!(models["data"][0]["id"], "test/quick");
    assert_eq!(models["data"][0]["max_model_len"], 4096);
    assert!(client.get("/version").json()["version"].is_string());
    assert_eq!(client.get("/health").status, 200);
}

#[test]
fn tokenize_counts_as_the_answers_do() {
    let server = Running::start(quick());
    let mut client = server.client();
    let body = r#"{"model":"test/quick","prompt":"to be, or not","return_token_strs":true}"#;
    let counted = client.post("/tokenize", body).json();
    assert_eq!(counted["count"], 4);
    assert_eq!(counted["tokens"].as_array().unwrap().len(), 4);
    assert_eq!(counted["token_strs"][1], "be,");
    assert_eq!(counted["max_model_len"], 4096);
    let chat = r#""messages":[{"role":"user","content":[{"type":"text","text":"a b c"}]}]"#;
    let counted = client.post("/tokenize", &format!("{{{chat}}}")).json();
    let asked = client.post(
        "/v1/chat/completions",
        &format!(r#"{{{chat},"max_tokens":1}}"#),
    );
    assert_eq!(counted["count"], asked.json()["usage"]["prompt_tokens"]);
}

#[test]
fn an_id_is_echoed_and_used() {
    let server = Running::start(quick());
    let mut client = server.client();
    client.headers = "X-Request-Id: run-7.42\r\n".to_owned();
    let plain = client.post("/v1/completions", r#"{"prompt":"a","max_tokens":2}"#);
    assert!(
        plain.head.contains("x-request-id: run-7.42"),
        "{}",
        plain.head
    );
    assert_eq!(plain.json()["id"], "cmpl-run-7.42");
    let seen = client.chat("a", r#""max_tokens":2"#);
    assert!(seen.raw.contains("x-request-id: run-7.42\r\n"));
}

#[test]
fn metrics_are_those_of_vllm() {
    let server = Running::start(quick());
    let mut client = server.client();
    client.chat("a b c", r#""max_tokens":20"#);
    client.post(
        "/v1/completions",
        r#"{"prompt":"a","max_tokens":30,"stop":"e"}"#,
    );
    assert!((server.metric("vllm:num_requests_running")).abs() < 1e-9);
    assert!(server.metric("vllm:generation_tokens_total") > 20.0);
    assert!((server.metric("vllm:time_to_first_token_seconds_count") - 2.0).abs() < 1e-9);
    assert!((server.metric("vllm:num_preemptions_total")).abs() < 1e-9);
    let page = client.get("/metrics").body;
    for line in [
        r#"vllm:request_success_total{engine="0",model_name="test/quick",finished_reason="stop"} 1.0"#,
        r#"vllm:request_success_total{engine="0",model_name="test/quick",finished_reason="length"} 1.0"#,
        r#"block_size="16""#,
        r#"num_gpu_blocks="4096""#,
    ] {
        assert!(page.contains(line), "{page}");
    }
    let late = client.get("/emulator/lateness").json();
    assert!(late["writes"].as_u64().unwrap() > 0);
    assert!(late["p99_ms"].as_f64().unwrap() > 0.0);
}
