//! What a server can do wrong, and what the record then says.

use goodput_record::{Outcome, TimeoutPhase};

use super::{server::serve, *};

/// O-CL-02: connections are opened before the clock; set-up is its own figure.
#[test]
fn connection_set_up_is_apart_from_ttft() {
    run(async {
        let (address, seen) = serve(|mut sock, _, _| async move {
            sock.stream(2, ms(20), ms(5)).await?;
            Ok(Some(sock))
        })
        .await;
        let (report, heard) = drive(target(address), &counted(closed(1), 3), &Stop::new()).await;
        let all = heard.summaries(Phase::Measured);
        assert_eq!(seen.connections.get(), 1);
        assert!(
            all[0].connect().is_some(),
            "the first request opened the connection"
        );
        assert!(
            all[1..].iter().all(|s| s.connect().is_none()),
            "the others reused it"
        );
        assert_eq!(report.traffic.connections_opened, 1);
        assert_eq!((report.traffic.sends, report.traffic.sends_reused), (3, 2));
    });
}

/// O-CL-03: a stream that flows is neither idle nor too long.
#[test]
fn no_hidden_limit_ends_a_long_answer() {
    run(async {
        let (address, _) = serve(|mut sock, _, _| async move {
            sock.stream(15, ms(50), ms(50)).await?;
            Ok(Some(sock))
        })
        .await;
        let mut target = target(address);
        target.limits.idle = Some(ms(600));
        assert_eq!(
            one(target.clone()).await.record.summary.outcome(),
            Outcome::Ok
        );
        target.limits.total = Some(ms(300));
        let ended = one(target).await;
        let end = ended.record.summary.end();
        assert_eq!(
            (end.outcome, end.timeout_phase),
            (Outcome::TimedOut, Some(TimeoutPhase::Total))
        );
        assert!(ended.record.summary.events() > 1, "what came is kept");
    });
}

#[test]
fn each_limit_names_itself() {
    run(async {
        let (address, _) = serve(|mut sock, _, seen| async move {
            if seen.requests.get() == 1 {
                sock.begin_stream().await?;
            } else {
                sock.begin_stream().await?;
                sock.token().await?;
            }
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok(None)
        })
        .await;
        let mut target = target(address);
        target.limits.first_token = Some(ms(100));
        target.limits.idle = Some(ms(100));
        for phase in [TimeoutPhase::FirstToken, TimeoutPhase::Idle] {
            let ended = one(target.clone()).await;
            assert_eq!(ended.record.summary.end().timeout_phase, Some(phase));
            assert!(ended.error.unwrap().contains("100ms"));
        }
    });
}

#[test]
fn an_idle_connection_closed_by_the_server_is_tried_once_more() {
    run(async {
        // Every connection serves one request, says it will stay, and closes on the second.
        let (address, seen) = serve(|mut sock, number, _| async move {
            if number == 1 {
                return Ok(None);
            }
            sock.stream(1, ms(1), ms(0)).await?;
            Ok(Some(sock))
        })
        .await;
        let (report, heard) = drive(target(address), &counted(closed(1), 2), &Stop::new()).await;
        let all = heard.summaries(Phase::Measured);
        assert!(all.iter().all(|s| s.outcome() == Outcome::Ok));
        assert_eq!((all[0].attempts(), all[1].attempts()), (1, 2));
        assert_eq!((report.traffic.retries, seen.requests.get()), (1, 3));
    });
}

#[test]
fn a_fresh_connection_is_never_retried() {
    run(async {
        let (address, seen) = serve(|sock, _, _| async move {
            sock.reset();
            Ok(None)
        })
        .await;
        let ended = one(target(address)).await;
        assert_eq!(ended.record.summary.outcome(), Outcome::Failed);
        assert_eq!(
            (ended.record.summary.attempts(), seen.requests.get()),
            (1, 1)
        );
        assert!(ended.record.summary.ttft().is_none());
    });
}

#[test]
fn a_cut_stream_keeps_what_came() {
    run(async {
        for reset in [false, true] {
            let (address, _) = serve(move |mut sock, _, _| async move {
                sock.begin_stream().await?;
                sock.token().await?;
                tokio::time::sleep(ms(20)).await;
                sock.token().await?;
                tokio::time::sleep(ms(20)).await;
                if reset {
                    sock.reset();
                }
                Ok(None)
            })
            .await;
            let ended = one(target(address)).await;
            let summary = ended.record.summary;
            assert_eq!(summary.outcome(), Outcome::Truncated, "reset: {reset}");
            assert_eq!((summary.events(), summary.output_tokens()), (2, 2));
            assert!(summary.ttft().is_some() && ended.error.is_some());
        }
    });
}

#[track_caller]
fn check(
    status: &'static str,
    content_type: &'static str,
    body: &'static str,
    outcome: Outcome,
    says: &[&str],
) {
    let ended = run(async move {
        let (address, _) = serve(move |mut sock, _, _| async move {
            sock.whole(status, content_type, body).await?;
            Ok(Some(sock))
        })
        .await;
        one(target(address)).await
    });
    assert_eq!(ended.record.summary.outcome(), outcome);
    assert_eq!(ended.record.summary.ttft(), None, "no token, no TTFT");
    let error = ended.error.unwrap();
    for part in says {
        assert!(error.contains(part), "`{part}` in: {error}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let json = "application/json";
    check(
        "401 Unauthorized",
        json,
        r#"{"error":{"message":"bad key"}}"#,
        Outcome::Failed,
        &["401", "bad key", "environment variable"],
    );
    check(
        "404 Not Found",
        json,
        r#"{"error":{"message":"The model `m` does not exist."}}"#,
        Outcome::Failed,
        &["404", "/v1/models"],
    );
    check(
        "404 Not Found",
        "text/html",
        "<html>nginx</html>",
        Outcome::Failed,
        &["404", "HOST:PORT/v1"],
    );
    check(
        "429 Too Many Requests",
        json,
        r#"{"error":{"message":"slow down"}}"#,
        Outcome::Rejected,
        &["429", "slow down"],
    );
    check(
        "503 Service Unavailable",
        json,
        r#"{"error":{"message":"Loading model"}}"#,
        Outcome::Rejected,
        &["503", "Loading model"],
    );
    check(
        "200 OK",
        "text/html",
        "<!doctype html><html>hi</html>",
        Outcome::NotAStream,
        &["HTML"],
    );
}

#[test]
fn an_answer_that_is_not_streamed_is_an_answer() {
    run(async {
        let (address, _) = serve(|mut sock, _, _| async move {
            let body = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"one two"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
            sock.whole("200 OK", "application/json", body).await?;
            Ok(Some(sock))
        })
        .await;
        let mut target = target(address);
        target.keep_text = true;
        let ended = one(target).await;
        let summary = ended.record.summary;
        assert_eq!(
            (summary.outcome(), summary.output_tokens()),
            (Outcome::Ok, 2)
        );
        assert_eq!((summary.ttft(), summary.end().streamed), (None, false));
        assert!(summary.e2e().is_some());
        assert_eq!(ended.text.as_deref(), Some("one two"));
    });
}

#[test]
fn a_server_that_turns_everything_away_is_not_hammered() {
    run(async {
        let (address, seen) = serve(|mut sock, _, _| async move {
            sock.whole("429 Too Many Requests", "application/json", "{}")
                .await?;
            Ok(Some(sock))
        })
        .await;
        let mut plan = PointPlan::new(0, closed(2), Window::Duration(Duration::from_mins(1)));
        plan.failures_in_a_row = 3;
        let (report, _) = drive(target(address), &plan, &Stop::new()).await;
        assert!(
            (30..100).contains(&seen.requests.get()),
            "{}",
            seen.requests.get()
        );
        assert!(report.invalid.iter().any(|i| i.to_string().contains("429")));
    });
}

#[test]
fn no_server_is_a_record_and_ends_the_point() {
    run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let mut plan = PointPlan::new(0, closed(2), Window::Duration(Duration::from_mins(1)));
        plan.failures_in_a_row = 20;
        let (report, heard) = drive(target(address), &plan, &Stop::new()).await;
        let ended = heard.ended.borrow();
        assert!(ended.len() >= 20 && ended.len() < 200, "{}", ended.len());
        assert!(
            ended
                .iter()
                .all(|e| e.record.summary.outcome() == Outcome::Failed)
        );
        assert!(
            ended[0]
                .error
                .as_ref()
                .unwrap()
                .contains("is the server up")
        );
        assert!(
            report
                .invalid
                .iter()
                .any(|i| matches!(i, crate::Invalid::Failing { .. }))
        );
        assert_eq!(report.not_sent, 0);
    });
}

/// What is wrong with an answer without a token is no error of the server's: it has to be named.
#[test]
fn giving_up_on_empty_answers_says_what_is_wrong_with_them() {
    run(async {
        let (address, _) = serve(|mut sock, _, _| async move {
            sock.stream(0, ms(0), ms(0)).await?;
            Ok(Some(sock))
        })
        .await;
        let mut plan = PointPlan::new(0, closed(2), Window::Duration(Duration::from_mins(1)));
        plan.failures_in_a_row = 3;
        let (report, _) = drive(target(address), &plan, &Stop::new()).await;
        let why = report.invalid.iter().map(ToString::to_string);
        let why = why
            .filter(|why| why.contains("failed in a row"))
            .collect::<String>();
        assert!(
            why.contains("the last: the answer ended without a token"),
            "{why}"
        );
    });
}

/// Fewer than a hundred failures do not end a point, but a server that answered nobody for a while is
/// said to have been away; one that fails now and then is not.
#[test]
fn a_server_that_was_away_for_a_while_is_told_from_one_that_fails_now_and_then() {
    let away = |fails: fn(u32) -> bool| {
        run(async {
            let (address, _) = serve(move |mut sock, _, seen| async move {
                if fails(seen.requests.get()) {
                    tokio::time::sleep(ms(100)).await;
                    return Ok(None);
                }
                sock.stream(2, ms(1), ms(1)).await?;
                Ok(Some(sock))
            })
            .await;
            let plan = counted(closed(1), 30);
            let (report, _) = drive(target(address), &plan, &Stop::new()).await;
            report.invalid.into_iter().find_map(|why| match why {
                crate::Invalid::Away { requests, span, .. } => Some((requests, span)),
                _ => None,
            })
        })
    };
    let (requests, span) = away(|n| (10..30).contains(&n)).unwrap();
    assert!(
        (5..=20).contains(&requests) && span >= ms(500),
        "{requests} {span:?}"
    );
    assert_eq!(away(|n| n % 4 == 0), None);
}
