//! What only a terminal gets: a person who is asked to restart the server, and rows drawn anew.

use std::{
    fs::File,
    io::Read,
    os::fd::OwnedFd,
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::program::{Place, Ran, until};

/// The program with its talk on a terminal, and what it drew there so far.
struct Screen {
    child: Option<Child>,
    drawn: Arc<Mutex<String>>,
    /// Kept open: a terminal that is gone ends the program.
    _keys: File,
}

impl Screen {
    fn start(place: &Place, args: &[&str]) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let terminal: OwnedFd = rustix::fs::open(name, flags, Mode::empty()).unwrap();
        let size = Winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).unwrap();
        let child = place
            .command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::from(terminal))
            .spawn()
            .unwrap();
        let keys = File::from(keys);
        let drawn = Arc::new(Mutex::new(String::new()));
        let (mut screen, kept) = (keys.try_clone().unwrap(), Arc::clone(&drawn));
        thread::spawn(move || {
            let mut some = [0; 4096];
            // It ends with an error when the last one who writes to it is gone.
            while let Ok(n @ 1..) = screen.read(&mut some) {
                let text = String::from_utf8_lossy(&some[..n]);
                kept.lock().unwrap().push_str(&text);
            }
        });
        Self {
            child: Some(child),
            drawn,
            _keys: keys,
        }
    }

    fn shows(&self, word: &str) -> bool {
        self.drawn.lock().unwrap().contains(word)
    }

    fn ended(mut self) -> (Ran, String) {
        let child = self.child.take().unwrap();
        let ran = Ran::of(&child.wait_with_output().unwrap());
        let drawn = self.drawn.lock().unwrap().clone();
        (ran, drawn)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A test that failed leaves nobody waiting for a restart.
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// An emulator on this address that can be ended and started again.
struct Emulator(Child);

impl Emulator {
    fn start(place: &Place, address: &str) -> (Self, String) {
        use std::io::{BufRead as _, BufReader};
        let mut child = place.start(&["emulate", "--listen", address]);
        let mut line = String::new();
        let out = child.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("serves ").unwrap().to_owned();
        (Self(child), url)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_person_restarts_the_server_between_boots() {
    let place = Place::new("by-hand");
    let (first, url) = Emulator::start(&place, "127.0.0.1:0");
    let base = ["sweep", "--url", &url, "--out", "out", "--boots", "2"];
    let loads = [
        "--concurrency",
        "1,2",
        "--rate",
        "none",
        "--requests",
        "6",
        "--warmup",
        "0",
    ];
    let screen = Screen::start(&place, &[&base[..], &loads].concat());
    until("the wish for a restart", || {
        screen.shows("restart the server now")
    });
    drop(first);
    until("its end to be seen", || screen.shows("the server is down"));
    let address = url.trim_start_matches("http://").trim_end_matches("/v1");
    let (_second, _) = Emulator::start(&place, address);
    let (ran, drawn) = screen.ended();
    let ran = ran.measured();
    assert!(drawn.contains("boot 2 of 2"), "{drawn}");
    // How far the boots are apart is said where their points are trusted.
    assert!(ran.stdout.contains("  2 boots"), "{ran}");
    let boots = place.result()["boots"].as_array().unwrap().len();
    assert_eq!(boots, 2);
}

/// A full bar stands for the largest throughput of all rows: those before are drawn anew.
#[test]
fn bars_of_earlier_rows_shrink_when_a_later_one_is_larger() {
    let place = Place::new("bars");
    let loads = [
        "--concurrency",
        "1,16",
        "--rate",
        "none",
        "--duration",
        "2s",
    ];
    let screen = Screen::start(&place, &[&["sweep", "--out", "out"][..], &loads].concat());
    let (ran, drawn) = screen.ended();
    ran.measured();
    let of_one = |line: &&str| line.trim_start().starts_with("1  ");
    let rows: Vec<&str> = drawn.lines().filter(of_one).collect();
    let bar = |row: &str| row.matches(['#', '\u{2588}']).count();
    assert!(rows.len() >= 2, "{drawn}");
    let (before, after) = (bar(rows[0]), bar(rows[rows.len() - 1]));
    assert!(before > after && after > 0, "{before} {after}\n{drawn}");
}
