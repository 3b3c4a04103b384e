//! Case O-CI-01: a signal keeps what was measured.

use std::{
    io::{BufRead, BufReader, Read},
    process::Child,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    program::{Place, Ran, until},
    server::{Server, Stream},
};

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Reads the talk of a running program up to a line with this word.
fn talk_until(child: &mut Child, word: &str) -> BufReader<impl Read + use<>> {
    let mut talk = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert!(talk.read_line(&mut line).unwrap() > 0, "never said {word}");
    }
    talk
}

/// What comes after the run that a signal stopped is not begun.
#[test]
fn a_signal_ends_a_what_if_and_not_only_its_base() {
    let place = Place::new("interrupt-what-if");
    let child = place.start(&[
        "simulate",
        "--rate",
        "none",
        "--concurrency",
        "8",
        "--duration",
        "1000h",
        "--what-if",
        "max_num_seqs=4,2",
        "--out",
        "out",
    ]);
    let rows = place.path.join("out/base/requests.jsonl");
    until("the first rows", || {
        rows.metadata().is_ok_and(|m| m.len() > 0)
    });
    signal(&child, Signal::INT);
    let ran = Ran::of(&child.wait_with_output().unwrap()).exits(130);
    ran.says(&["stopped: 0 of 2 variants were begun", "out/"]);
    assert!(place.path.join("out/base/result.json").exists());
    assert!(!place.path.join("out/what-if-1").exists());
    assert!(!place.path.join("out/what-if.json").exists());
}

fn keeps_what_was_measured(by: Signal, number: i32) {
    let place = Place::new("interrupt");
    let child = place.start(&[
        "bench",
        "--concurrency",
        "4",
        "--duration",
        "10min",
        "--warmup",
        "0",
        "--out",
        "out",
    ]);
    let rows = place.path.join("out/requests.jsonl");
    until("the first rows", || {
        rows.metadata().is_ok_and(|m| m.len() > 0)
    });
    signal(&child, by);
    let ran = Ran::of(&child.wait_with_output().unwrap());
    let ran = ran
        .exits(128 + number)
        .says(&["stopping: no more requests"]);
    let result = place.result();
    assert_eq!(result["complete"], false);
    let why = result["incomplete_because"].as_str().unwrap();
    assert_eq!(why, format!("stopped by signal {number}"));
    let spent = result["duration_s"].as_f64().unwrap();
    assert!(spent > 0.0 && spent < 600.0, "the real duration: {spent}");
    assert!(!place.rows().is_empty());
    assert!(place.read("out/report.html").contains("incomplete"));
    assert!(place.read("out/points.csv").starts_with("point,"));
    assert!(ran.stdout.contains("INCOMPLETE"), "{ran}");
}

#[test]
fn an_interrupt_leaves_a_report_marked_partial() {
    keeps_what_was_measured(Signal::INT, 2);
}

#[test]
fn a_termination_leaves_a_report_marked_partial() {
    keeps_what_was_measured(Signal::TERM, 15);
}

/// A server that sends a token and waits until it may end its answers.
fn holding(free: &Arc<AtomicBool>) -> Server {
    let free = Arc::clone(free);
    Server::start(move |_, socket| {
        let mut stream = Stream::begin(socket)?;
        stream.token("one")?;
        while !free.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
        }
        stream.token("two")?;
        stream.finish("stop", 8, 2, &Value::Null)
    })
}

fn hold_two(place: &Place, server: &Server) -> Child {
    let child = place.start(&[
        "bench",
        "--url",
        &server.url,
        "--concurrency",
        "2",
        "--requests",
        "50",
        "--warmup",
        "0",
        "--out",
        "out",
    ]);
    until("two requests in flight", || server.generations().len() == 2);
    child
}

#[test]
fn what_is_in_flight_gets_a_grace_and_nothing_more_is_sent() {
    let (place, free) = (Place::new("grace"), Arc::new(AtomicBool::new(false)));
    let server = holding(&free);
    let mut child = hold_two(&place, &server);
    signal(&child, Signal::INT);
    let _talk = talk_until(&mut child, "stopping");
    free.store(true, Ordering::Relaxed);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let rows = place.rows();
    assert_eq!(rows.len(), 2, "{rows:?}");
    for row in &rows {
        assert_eq!(row["outcome"], "ok");
        assert_eq!(row["output_tokens"], 2);
    }
    assert_eq!(server.generations().len(), 2);
}

#[test]
fn a_second_signal_leaves_at_once_without_a_broken_file() {
    let (place, never) = (Place::new("twice"), Arc::new(AtomicBool::new(false)));
    let server = holding(&never);
    let mut child = hold_two(&place, &server);
    signal(&child, Signal::INT);
    let _talk = talk_until(&mut child, "stopping");
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let rows = place.rows();
    assert_eq!(rows.len(), 2, "an arrival without a record");
    for row in &rows {
        assert_eq!(row["outcome"], "cancelled");
    }
    assert_eq!(place.result()["complete"], false);
    let torn = place.all_files();
    let torn = torn.iter().find(|(path, _)| path.ends_with(".part"));
    assert!(torn.is_none(), "{torn:?}");
}

/// Before the first load there is nothing to keep, and nothing to wait for.
#[test]
fn an_interrupt_while_the_server_is_asked_about_itself_leaves_nothing() {
    let server = Server::start(|_, _| {
        thread::sleep(Duration::from_mins(10));
        Ok(())
    });
    let place = Place::new("early");
    let mut child = place.start(&["bench", "--url", &server.url, "--out", "out"]);
    until("the first prompt", || !server.generations().is_empty());
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(place.all_files().is_empty());
}
