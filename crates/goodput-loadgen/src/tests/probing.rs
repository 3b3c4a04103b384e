//! Finding out who the server is.

use goodput_protocol::EngineKind;

use super::{server::serve, *};
use crate::{ProbeError, ServerFacts, probe_server, scrape};

type Pages = &'static [(&'static str, &'static str, &'static str, &'static str)];

/// Probes a server that has just these pages: path, status, content type, body.
async fn probe(pages: Pages, url_path: &str, model: &str) -> Result<ServerFacts, ProbeError> {
    let (address, _) = serve(move |mut sock, _, seen| async move {
        let asked = seen
            .last_request
            .borrow()
            .split(' ')
            .nth(1)
            .unwrap()
            .to_owned();
        let page = pages.iter().find(|p| p.0 == asked);
        let (_, status, kind, body) = page.unwrap_or(&(
            "",
            "404 Not Found",
            "application/json",
            r#"{"detail":"Not Found"}"#,
        ));
        sock.whole(status, kind, body).await?;
        Ok(Some(sock))
    })
    .await;
    let endpoint = Endpoint::parse(&format!("http://{address}{url_path}")).unwrap();
    let client = Client::new(Target::new(endpoint, model), Clock::start(), "t")
        .await
        .unwrap();
    probe_server(&client).await
}

const JSON: &str = "application/json";
const VLLM: Pages = &[
    (
        "/v1/models",
        "200 OK",
        JSON,
        r#"{"object":"list","data":[{"id":"qwen","owned_by":"vllm","max_model_len":4096}]}"#,
    ),
    ("/version", "200 OK", JSON, r#"{"version":"0.32.0"}"#),
    (
        "/metrics",
        "200 OK",
        "text/plain",
        "# HELP x\nvllm:num_requests_running{engine=\"0\"} 3.0\n",
    ),
    (
        "/tokenize",
        "200 OK",
        JSON,
        r#"{"count":3,"max_model_len":4096,"tokens":[1,2,3]}"#,
    ),
];

#[test]
fn a_server_tells_who_it_is() {
    let facts = run(probe(VLLM, "/v1", "")).unwrap();
    assert_eq!(
        (facts.identity.engine, facts.identity.version.as_deref()),
        (EngineKind::Vllm, Some("0.32.0"))
    );
    assert_eq!(
        (facts.model.as_str(), facts.identity.context_tokens),
        ("qwen", Some(4096))
    );
    assert!(facts.metrics && facts.tokenize && facts.notes.is_empty());
}

#[track_caller]
fn refused(pages: Pages, url_path: &str, model: &str, says: &[&str]) {
    let error = run(probe(pages, url_path, model)).unwrap_err().to_string();
    for part in says {
        assert!(error.contains(part), "`{part}` in: {error}");
    }
}

#[test]
fn what_cannot_be_measured_is_said_in_one_sentence() {
    refused(VLLM, "/v1", "llama", &["does not serve `llama`", "`qwen`"]);
    refused(VLLM, "", "qwen", &["use http://", "/v1"]);
    refused(&[], "/v1", "", &["http://HOST:PORT/v1", "404"]);
    refused(
        &[("/v1/models", "200 OK", "text/html", "<html>hi</html>")],
        "/v1",
        "",
        &["web page", "HOST:PORT/v1"],
    );
    refused(
        &[(
            "/v1/models",
            "401 Unauthorized",
            JSON,
            r#"{"error":{"message":"no key"}}"#,
        )],
        "/v1",
        "",
        &["401", "no key", "environment variable"],
    );
    refused(
        &[(
            "/v1/models",
            "503 Service Unavailable",
            JSON,
            r#"{"error":{"message":"Loading model"}}"#,
        )],
        "/v1",
        "",
        &["not ready", "Loading model"],
    );
}

#[test]
fn a_proxy_that_lists_no_models_is_taken_at_its_word() {
    let facts = run(probe(&[], "/v1", "m")).unwrap();
    assert_eq!((facts.model.as_str(), facts.notes.len()), ("m", 1));
}

#[test]
fn what_got_no_answer_is_noted_and_what_is_not_there_is_not() {
    let facts = run(async {
        let (address, _) = serve(|mut sock, _, seen| async move {
            let asked = seen.last_request.borrow().clone();
            if asked.starts_with("GET /metrics") {
                return Ok(None);
            }
            if asked.starts_with("GET /v1/models") {
                sock.whole("200 OK", JSON, VLLM[0].3).await?;
            } else {
                sock.whole("404 Not Found", JSON, "{}").await?;
            }
            Ok(Some(sock))
        })
        .await;
        let any = Target {
            model: String::new(),
            ..target(address)
        };
        let client = Client::new(any, Clock::start(), "t").await.unwrap();
        probe_server(&client).await.unwrap()
    });
    assert!(!facts.metrics);
    let [note] = facts.notes.as_slice() else {
        panic!("{:?}", facts.notes)
    };
    assert!(
        note.starts_with("GET /metrics: the connection broke"),
        "{note}"
    );
}

#[test]
fn counters_are_scraped_over_a_connection_of_their_own() {
    run(async {
        let (address, seen) = serve(|mut sock, _, seen| async move {
            let body = format!(
                "vllm:num_requests_running {}\nvllm:time_to_first_token_seconds_bucket{{le=\"1\"}} 4\n",
                seen.requests.get()
            );
            sock.whole("200 OK", "text/plain", &body).await?;
            Ok(Some(sock))
        })
        .await;
        let client = Client::new(target(address), Clock::start(), "t")
            .await
            .unwrap();
        let looks = Rc::new(RefCell::new(Vec::new()));
        let kept = Rc::clone(&looks);
        let scraper = scrape(&client, ms(10), 2, move |look| kept.borrow_mut().push(look));
        while looks.borrow().len() < 3 {
            tokio::time::sleep(ms(5)).await;
        }
        drop(scraper);
        let looks = looks.borrow();
        assert_eq!(looks[1].sample.running, Some(2));
        assert_eq!(looks[1].sample.replica, 2);
        let rows: Vec<_> = looks[0].rows().collect();
        assert_eq!(rows, [("vllm:num_requests_running".to_owned(), 1.0)]);
        assert_eq!(seen.connections.get(), 1);
    });
}
