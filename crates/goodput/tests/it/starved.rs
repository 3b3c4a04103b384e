//! A client that is starved on purpose marks its points invalid and names the cause: on a core that
//! others keep busy, without open files, behind a pipe of 64 kB/s.
//!
//! None of it depends on how fast the machine is: more starvation is starvation too. That a client
//! which lacks nothing is trusted is shown by `suites/starved.sh`, on a machine that is quiet.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::program::{Place, Ran};

/// A child that does not outlive the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An emulated replica of its own, and its base URL.
fn emulator(place: &Place) -> (Ended, String) {
    let mut child = place
        .command(&["emulate", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let url = line.trim().strip_prefix("serves ").unwrap().to_owned();
    (Ended(child), url)
}

/// The warnings of the only point, which must be marked invalid by an exit code of 3.
#[track_caller]
fn why_invalid(place: &Place, ran: Ran) -> String {
    ran.exits(3);
    let point = &place.result()["points"][0];
    assert_eq!(point["valid"], false, "{point}");
    point["warnings"].to_string()
}

/// Keeps this thread, and what it starts from now on, on one core.
fn stay_on_one_core() {
    let may = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|&core| may.is_set(core)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).unwrap();
}

#[test]
fn on_a_busy_core_points_are_invalid_and_the_core_is_named() {
    let place = Place::new("busy");
    let (_server, url) = emulator(&place);
    let flags = ["--concurrency", "16", "--duration", "4s", "--warmup", "0"];
    let more = ["--workload", "chat-short", "--out", "out"];
    let args = [&["bench", "--url", &url][..], &flags, &more].concat();
    // In a thread of its own: other tests keep their cores.
    let ran = thread::scope(|scope| {
        let starved = scope.spawn(|| {
            stay_on_one_core();
            let spin = |_| {
                let spin = ["-c", "while :; do :; done"];
                Ended(Command::new("sh").args(spin).spawn().unwrap())
            };
            let _busy: Vec<Ended> = (0..6).map(spin).collect();
            place.run(&args)
        });
        starved.join().unwrap()
    });
    let why = why_invalid(&place, ran);
    assert!(why.contains("waited for a core"), "{why}");
    assert!(why.contains("taskset -c"), "a remedy: {why}");
    let client = &place.result()["points"][0]["client"];
    assert!(client["waited_share"].as_f64().unwrap() > 0.0, "{client}");
}

/// Sets the limit on open files, both of it, and runs `bench`.
fn with_files(place: &Place, files: u32, args: &[&str]) -> Ran {
    let bench = [&["bench"], args, &["--warmup", "0", "--out", "out"]].concat();
    place.run_under(&format!("ulimit -n {files}"), &bench)
}

/// Users whose sockets there can never be are refused before anything is sent.
#[test]
fn without_files_for_its_users_a_run_is_refused_and_the_limit_named() {
    let place = Place::new("files");
    let (_server, url) = emulator(&place);
    let users = ["--url", &url, "--concurrency", "128", "--duration", "2s"];
    with_files(&place, 64, &users).exits(3).says(&[
        "192 open files",
        "128 connections",
        "may have 64",
        "ulimit -n 192",
    ]);
}

/// How many sockets an open loop will need nobody knows ahead: the point says what it ran into.
#[test]
fn without_files_for_its_arrivals_a_point_is_invalid_and_the_limit_named() {
    let place = Place::new("files-open");
    let (_server, url) = emulator(&place);
    let rate = ["--url", &url, "--rate", "400", "--duration", "2s"];
    let why = why_invalid(&place, with_files(&place, 64, &rate));
    assert!(
        why.contains("64 open files") && why.contains("ulimit -n"),
        "{why}"
    );
    assert!(why.contains("not the server's doing"), "{why}");
}

/// A pipe of so many bytes a second, each way, for all connections together.
struct Pipe {
    bytes_per_s: f64,
    /// When each direction is free again.
    free: [Mutex<Instant>; 2],
}

impl Pipe {
    /// Stands between its callers and the server at `to`. Returns the base URL to call.
    fn open(bytes_per_s: f64, to: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let server = to
            .trim_start_matches("http://")
            .trim_end_matches("/v1")
            .to_owned();
        let now = Instant::now();
        let pipe = Arc::new(Self {
            bytes_per_s,
            free: [Mutex::new(now), Mutex::new(now)],
        });
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&server)) else {
                    return;
                };
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let ends = [client.try_clone().unwrap(), server.try_clone().unwrap()];
                let (up, down) = (Arc::clone(&pipe), Arc::clone(&pipe));
                let [client_again, server_again] = ends;
                thread::spawn(move || up.carry(client, server, 0));
                thread::spawn(move || down.carry(server_again, client_again, 1));
            }
        });
        url
    }

    fn carry(&self, mut from: TcpStream, mut to: TcpStream, way: usize) {
        let mut bytes = [0; 1024];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            let until = {
                let mut free = self.free[way].lock().unwrap();
                let takes = Duration::from_secs_f64(read as f64 / self.bytes_per_s);
                *free = (*free).max(Instant::now()) + takes;
                *free
            };
            thread::sleep(until.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}

#[test]
fn behind_a_narrow_pipe_points_are_invalid_and_the_pipe_is_named() {
    let place = Place::new("pipe");
    let (_server, url) = emulator(&place);
    let pipe = Pipe::open(64e3, &url);
    let ran = place.bench(
        &pipe,
        &[
            "--concurrency",
            "4",
            "--duration",
            "3s",
            "--warmup",
            "0",
            "--workload",
            "chat-short",
        ],
    );
    let why = why_invalid(&place, ran);
    assert!(why.contains("the way to the server carries"), "{why}");
    assert!(why.contains("bandwidth"), "a remedy: {why}");
    let client = &place.result()["points"][0]["client"];
    assert_eq!(client["path_is_limit"], true, "{client}");
    let carries = client["path_bytes_per_s"].as_f64().unwrap();
    assert!((45e3..70e3).contains(&carries), "{carries}");
}
