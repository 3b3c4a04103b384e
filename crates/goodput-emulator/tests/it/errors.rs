use crate::setup::{Running, quick};

#[track_caller]
fn check(server: &Running, path: &str, body: &str, status: u16, kind: &str, says: &str) {
    let mut client = server.client();
    let plain = client.post(path, body);
    assert_eq!(plain.status, status, "{plain:?}");
    let error = &plain.json()["error"];
    assert_eq!(error["type"], kind);
    assert_eq!(error["code"], status);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(says), "{message}");
    assert_eq!(client.get("/health").status, 200, "the connection lives on");
}

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

#[test]
fn a_body_of_another_shape_is_refused() {
    let server = Running::start(quick());
    let bad = "Bad Request";
    check(&server, CHAT, r#"{"messages": ["#, 400, bad, "json_invalid");
    check(
        &server,
        CHAT,
        r#"{"stream":true}"#,
        400,
        bad,
        "body.messages",
    );
    check(&server, COMPLETIONS, "{}", 400, bad, "body.prompt");
    check(&server, CHAT, r#"{"messages":3}"#, 400, bad, "value_error");
}

#[test]
fn what_cannot_be_served_is_refused() {
    let server = Running::start(quick());
    let chat = |body, status, kind, says| check(&server, CHAT, body, status, kind, says);
    let asks = |body, says| check(&server, COMPLETIONS, body, 400, "BadRequestError", says);
    chat(
        r#"{"model":"no-such","messages":[{"role":"user","content":"a"}],"stream":true}"#,
        404,
        "NotFoundError",
        "The model `no-such` does not exist.",
    );
    chat(
        r#"{"messages":[]}"#,
        400,
        "BadRequestError",
        "empty conversation",
    );
    asks(r#"{"prompt":""}"#, "non-empty");
    asks(r#"{"prompt":"a","temperature":-3}"#, "non-negative");
    asks(r#"{"prompt":"a","max_tokens":0}"#, "at least 1");
    asks(r#"{"prompt":"a","n":0}"#, "n must be");
    asks(
        r#"{"prompt":"a","max_tokens":5,"min_tokens":6}"#,
        "min_tokens",
    );
    asks(
        r#"{"prompt":"a","max_tokens":8192}"#,
        "max_tokens=8192 cannot be greater than max_model_len=4096",
    );
    let long = format!(r#"{{"prompt":"{}","max_tokens":9}}"#, "w ".repeat(5000));
    asks(
        &long,
        "maximum context length is 4096 tokens. However, your prompt contains at least 4097",
    );
    let close = format!(r#"{{"prompt":"{}","max_tokens":200}}"#, "w ".repeat(4000));
    asks(&close, "for a total of 4200 tokens");
}

#[test]
fn unknown_paths_and_methods_are_told() {
    let server = Running::start(quick());
    let mut client = server.client();
    let plain = client.post("/v1/nothing", "{}");
    assert_eq!(
        (plain.status, plain.body.as_str()),
        (404, r#"{"detail":"Not Found"}"#)
    );
    let plain = client.get("/v1/chat/completions");
    assert_eq!(
        (plain.status, plain.body.as_str()),
        (405, r#"{"detail":"Method Not Allowed"}"#)
    );
    client.send("DELETE", "/v1/models", "");
    assert_eq!(client.read_plain().status, 405);
}

#[test]
fn a_key_is_asked_for_where_one_is_set() {
    let mut config = quick();
    config.api_key = Some("secret".to_owned());
    let server = Running::start(config);
    let mut client = server.client();
    let ask = r#"{"prompt":"a","max_tokens":1}"#;
    assert_eq!(client.post("/v1/completions", ask).status, 401);
    assert_eq!(client.get("/v1/models").status, 401);
    assert_eq!(client.get("/health").status, 200);
    client.headers = "Authorization: Bearer wrong\r\n".to_owned();
    assert_eq!(client.post("/v1/completions", ask).status, 401);
    client.headers = "Authorization: Bearer secret\r\n".to_owned();
    assert_eq!(client.post("/v1/completions", ask).status, 200);
}

#[test]
fn what_is_not_http_is_refused_and_closed() {
    use std::io::{Read, Write};
    let server = Running::start(quick());
    let mut client = server.client();
    client
        .socket()
        .write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01")
        .unwrap();
    let mut answer = String::new();
    client.socket().read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}
