//! What the client promises: no hidden caps, no hidden limits, never blaming the server for its own
//! machine.

use std::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::{
    program::Place,
    server::{Server, Stream, stream},
};

/// Holds every request until this many are in flight at once.
struct Crowd {
    wanted: u32,
    here: Mutex<u32>,
    full: Condvar,
    peak: AtomicU32,
}

impl Crowd {
    fn wait(&self) {
        let mut here = self.here.lock().unwrap();
        *here += 1;
        self.peak.fetch_max(*here, Ordering::Relaxed);
        self.full.notify_all();
        let patience = Duration::from_mins(1);
        let full = |_: &mut u32| self.peak.load(Ordering::Relaxed) < self.wanted;
        let (mut here, _) = self.full.wait_timeout_while(here, patience, full).unwrap();
        *here -= 1;
    }
}

/// Case O-CL-01: no pool below the concurrency asked for.
#[test]
fn as_many_requests_are_in_flight_as_were_asked_for() {
    let crowd: &Crowd = Box::leak(Box::new(Crowd {
        wanted: 256,
        here: Mutex::new(0),
        full: Condvar::new(),
        peak: AtomicU32::new(0),
    }));
    let server = Server::start(|_, socket| {
        crowd.wait();
        stream(socket, 1)
    });
    let place = Place::new("crowd");
    place.write("w.toml", crate::workloads::TINY);
    place
        .bench(
            &server.url,
            &[
                "--concurrency",
                "256",
                "--requests",
                "512",
                "--warmup",
                "0",
                "--workload",
                "w.toml",
            ],
        )
        .measured();
    assert_eq!(crowd.peak.load(Ordering::Relaxed), 256);
    let result = place.result();
    let point = &result["points"][0];
    assert_eq!(
        (&point["concurrency"], &point["in_flight_peak"]),
        (&256.into(), &256.into())
    );
    assert_eq!(point["requests"], 512);
    assert_eq!(server.generations().len(), 512);
    let warnings = point["warnings"].to_string();
    assert!(!warnings.contains("were in flight at most"), "{warnings}");
}

/// Case O-CL-03: a stream that flows is not idle, however long it takes.
#[test]
fn no_hidden_limit_ends_a_slow_answer() {
    let server = Server::start(|_, socket| {
        let mut stream = Stream::begin(socket)?;
        for _ in 0..30 {
            stream.token("x")?;
            thread::sleep(Duration::from_millis(100));
        }
        stream.finish("stop", 8, 30, &Value::Null)
    });
    let place = Place::new("slow");
    place
        .bench(
            &server.url,
            // Less than the answer takes, more than any of its gaps.
            &["--requests", "1", "--warmup", "0", "--timeout-idle", "2s"],
        )
        .measured();
    let row = &place.rows()[0];
    assert_eq!(row["outcome"], "ok");
    assert!(row["e2e_ms"].as_f64().unwrap() > 2000.0);
    let settings = &place.result()["settings"];
    assert_eq!(settings["timeout_idle"], "2s");
    for other in ["timeout_total", "timeout_first_token"] {
        assert_eq!(settings[other], "none");
    }
}

#[test]
fn a_limit_that_strikes_is_named() {
    let server = Server::start(|asked, socket| {
        let mut stream = Stream::begin(socket)?;
        if asked.json()["max_tokens"] != 1 {
            stream.token("x")?;
        }
        thread::sleep(Duration::from_mins(10));
        Ok(())
    });
    for (flag, phase) in [
        ("--timeout-idle", "idle"),
        ("--timeout-total", "total"),
        ("--timeout-first-token", "first_token"),
    ] {
        let place = Place::new("limit");
        let one = crate::workloads::TINY.replace("output.fixed = 4", "output.fixed = 1");
        let tiny = crate::workloads::TINY;
        place.write("w.toml", if phase == "first_token" { &one } else { tiny });
        let flags = [
            "--requests",
            "1",
            "--warmup",
            "0",
            flag,
            "300ms",
            "--workload",
            "w.toml",
        ];
        let ran = place.bench(&server.url, &flags);
        assert!(matches!(ran.code, Some(1 | 3)), "{ran}");
        let row = &place.rows()[0];
        assert_eq!(row["outcome"], "timed_out");
        assert_eq!(row["timeout_phase"], phase);
        assert!(row["error"].as_str().unwrap().contains("300ms"), "{row}");
        // A timeout is a miss, not a hole.
        let point = &place.result()["points"][0];
        assert_eq!(point["slo_attainment"], 0.0);
        assert_eq!(point["outcomes"]["timed_out"], 1);
    }
}

/// Case O-CL-04: too few descriptors are said before anything is sent.
#[test]
fn a_low_limit_on_open_files_is_refused_at_the_start() {
    let server = Server::start(|_, socket| stream(socket, 1));
    let place = Place::new("files");
    let mut args = vec!["bench", "--url", &server.url, "--out", "out"];
    args.extend(["--concurrency", "400", "--requests", "800"]);
    let ran = place.run_under("ulimit -n 256", &args).exits(3).one_error();
    let ran = ran.says(&["464 open files", "400 connections", "256", "ulimit"]);
    assert!(!ran.stderr.contains("server"), "{ran}");
    assert!(server.asked().is_empty(), "something was sent");
    assert!(place.all_files().is_empty());
}

#[test]
fn a_soft_limit_is_raised() {
    let server = Server::start(|_, socket| stream(socket, 1));
    let place = Place::new("files");
    place.write("w.toml", crate::workloads::TINY);
    // 64 of them are kept for everything else: 90 users need more than 100.
    let mut args = vec!["bench", "--url", &server.url, "--out", "out"];
    args.extend(["--workload", "w.toml", "--concurrency", "90"]);
    args.extend(["--requests", "90", "--warmup", "0"]);
    place.run_under("ulimit -Sn 100", &args).measured();
    let point = &place.result()["points"][0];
    assert_eq!(point["outcomes"], serde_json::json!({"ok": 90}));
}

/// The end mark came, the end of the framing never does: the answer is whole all the same.
#[test]
fn an_answer_is_over_at_its_end_mark() {
    let server = Server::start(|_, socket| {
        let mut stream = Stream::begin(socket)?;
        stream.token("x")?;
        let choice = serde_json::json!({"index": 0, "delta": {}, "finish_reason": "stop"});
        stream.event(&serde_json::json!({"choices": [choice]}).to_string())?;
        stream.event("[DONE]")?;
        thread::sleep(Duration::from_mins(10));
        Ok(())
    });
    let place = Place::new("mark");
    place
        .bench(&server.url, &["--requests", "2", "--warmup", "0"])
        .measured();
    for row in place.rows() {
        assert_eq!(row["outcome"], "ok", "{row}");
    }
}
