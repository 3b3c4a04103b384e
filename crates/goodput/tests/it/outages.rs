//! A server that is away for a while, hangs, or stays away.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    program::Place,
    server::{Server, stream, whole},
};

/// A server that goes away at its `at`-th request: it closes every connection without an answer, until
/// it was asked for its models so many times.
fn away(at: usize, looks: u32) -> Server {
    away_for(at, looks, Duration::ZERO, 3)
}

/// The same, of which every answer is one token that takes so long that a loaded machine is not seen.
fn away_slowly(at: usize, looks: u32) -> Server {
    away_for(at, looks, Duration::from_millis(200), 1)
}

fn away_for(at: usize, looks: u32, wait: Duration, tokens: u32) -> Server {
    let left = Arc::new(AtomicU32::new(looks));
    Server::raw(move |asked, socket| {
        let is_gone = asked.number >= at && left.load(Ordering::Relaxed) > 0;
        if asked.is_generation() {
            if is_gone {
                return Err(std::io::ErrorKind::ConnectionReset.into());
            }
            thread::sleep(wait);
            return stream(socket, tokens);
        }
        if is_gone {
            left.fetch_sub(1, Ordering::Relaxed);
            return Err(std::io::ErrorKind::ConnectionReset.into());
        }
        match asked.path.as_str() {
            "/v1/models" => whole(socket, 200, &json!({"data": [{"id": "m"}]})),
            _ => whole(socket, 404, &json!({})),
        }
    })
}

const SLO: [&str; 6] = [
    "--slo",
    "ttft=10s,tpot=10s",
    "--warmup",
    "0",
    "--out",
    "out",
];

/// Loads, and whether the server failed their points.
fn points(result: &Value) -> Vec<(f64, bool)> {
    let given_up = |p: &Value| {
        let said = p["warnings"].to_string();
        said.contains("failed in a row") || said.contains("the server was away")
    };
    let load = |p: &Value| {
        p["concurrency"]
            .as_f64()
            .or(p["rate_req_s"].as_f64())
            .unwrap()
    };
    let points = result["points"].as_array().unwrap();
    points.iter().map(|p| (load(p), given_up(p))).collect()
}

#[test]
fn a_short_outage_costs_the_point_and_not_the_sweep() {
    let place = Place::new("outage");
    let server = away(40, 12);
    let loads = [
        "--concurrency",
        "1,2,3",
        "--rate",
        "none",
        "--duration",
        "500ms",
    ];
    let args = [&["sweep", "--url", &server.url][..], &loads, &SLO].concat();
    let ran = place.run(&args).measured();
    let ran = ran.says(&[
        "the server answers again",
        "measured again",
        "failed in a row",
    ]);
    let result = place.result();
    assert_eq!(result["complete"], true, "{ran}");
    let points = points(&result);
    let lost: Vec<_> = points.iter().filter(|p| p.1).collect();
    assert_eq!((points.len(), lost.len()), (4, 1), "{points:?}");
    let kept: Vec<f64> = points.iter().filter(|p| !p.1).map(|p| p.0).collect();
    assert_eq!(kept, [1.0, 2.0, 3.0]);
}

/// Too few requests fall into it to give the point up, and enough to break an objective that the rate
/// would keep.
#[test]
fn a_short_outage_at_a_low_rate_is_no_miss_of_the_rate() {
    let place = Place::new("outage-rate");
    let server = Server::start(|asked, socket| {
        // At 20 requests a second, one second and a half from the third second on.
        if (60..90).contains(&asked.number) {
            return Err(std::io::ErrorKind::ConnectionReset.into());
        }
        stream(socket, 3)
    });
    let loads = ["--concurrency", "none", "--rate", "20", "--duration", "4s"];
    let args = [&["sweep", "--url", &server.url][..], &loads, &SLO].concat();
    let ran = place.run(&args).measured();
    let ran = ran.says(&["the server was away for", "the point is measured again"]);
    let result = place.result();
    assert_eq!(result["complete"], true, "{ran}");
    let points = result["points"].as_array().unwrap();
    assert_eq!(points.len(), 2, "{ran}");
    assert_eq!(points[0]["valid"], false);
    assert_eq!(points[1]["slo_attainment"], 1.0);
}

#[test]
fn a_short_outage_does_not_end_a_search() {
    let place = Place::new("outage-search");
    let server = away(40, 12);
    // As `auto` searches, without its last, long point beyond the best load.
    let loads = [
        "--concurrency",
        "1,2",
        "--refine",
        "--rate",
        "none",
        "--budget",
        "20s",
    ];
    let args = [&["sweep", "--url", &server.url][..], &loads, &SLO].concat();
    let ran = place.run(&args).measured().says(&["measured again"]);
    let result = place.result();
    assert_eq!(result["complete"], true, "{ran}");
    let points = points(&result);
    assert_eq!(points.iter().filter(|p| p.1).count(), 1, "{points:?}");
    assert!(points.iter().any(|p| !p.1), "{points:?}");
}

#[test]
fn a_short_outage_does_not_end_a_search_for_a_rate() {
    let place = Place::new("outage-rates");
    // The closed-loop point takes 40 requests, so it falls into the first rate, and lasts to its end.
    let server = away_slowly(50, 12);
    let loads = ["--concurrency", "4", "--rate", "auto", "--budget", "12s"];
    let base = ["sweep", "--url", &server.url];
    let args = [&base[..], &loads, &["--requests", "40"], &SLO].concat();
    let ran = place
        .run(&args)
        .measured()
        .says(&["the server was away for", "measured again"]);
    let result = place.result();
    assert_eq!(result["complete"], true, "{ran}");
    let points = points(&result);
    assert_eq!(points.iter().filter(|p| p.1).count(), 1, "{points:?}");
    assert!(points[1].1 && !points[2].1, "{points:?}");
    let again = [points[1].0, points[2].0].map(f64::to_bits);
    assert_eq!(again[0], again[1], "the same rate again: {points:?}");
}

#[test]
fn a_server_that_stays_away_ends_the_sweep_and_what_was_measured_is_kept() {
    for rest in [["--concurrency", "1,2,3"], ["--concurrency", "auto"]] {
        let place = Place::new("gone");
        let server = away(250, u32::MAX);
        let more = [
            "--rate",
            "none",
            "--timeout-connect",
            "1s",
            "--requests",
            "200",
        ];
        let args = [&["sweep", "--url", &server.url][..], &rest, &more, &SLO].concat();
        let ran = place.run(&args).exits(3);
        let result = place.result();
        let why = result["incomplete_because"].as_str().unwrap();
        assert!(why.contains("did not come back within"), "{ran}");
        let points = points(&result);
        assert_eq!(points[0], (1.0, false), "{ran}");
        assert_eq!(points.len(), 2, "{points:?}");
    }
}

/// A server that takes every request and answers none.
#[test]
fn a_server_that_never_answers_is_said_to() {
    let place = Place::new("silent");
    let server = Server::start(|_, _| {
        thread::sleep(Duration::from_mins(10));
        Ok(())
    });
    let flags = ["--concurrency", "2", "--duration", "1s", "--warmup", "0"];
    let ran = place.bench(&server.url, &flags).exits(3);
    let ran = ran.says(&[
        "2 requests were sent, and none was answered",
        "--timeout-first-token",
    ]);
    let result = place.result();
    let why = result["incomplete_because"].as_str().unwrap();
    assert!(
        why.starts_with("at 2 in flight: 2 requests were sent"),
        "{ran}"
    );
}
