//! Signals: once drains, twice leaves.

use std::{cell::Cell, io, rc::Rc};

use goodput_loadgen::{Stop, Wish};
use rustix::process::Signal as Raw;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::talk::Voice;

/// SIGINT, SIGTERM and SIGHUP. One value listens all along: a signal between two waits is not lost.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal is gone. `None` where that is to be outlived, as under `nohup`.
    hang_up: Option<Signal>,
    /// Caught, never waited for: a file that may not grow is then an error of the write, like a
    /// full disk, and not the end of the process.
    _file_too_large: Signal,
}

impl Signals {
    /// Begins to listen.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: if hang_up_is_ignored() {
                None
            } else {
                Some(signal(SignalKind::hangup())?)
            },
            _file_too_large: signal(SignalKind::from_raw(Raw::XFSZ.as_raw()))?,
        })
    }

    /// The number of the next one.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
            () = heard(&mut self.hang_up) => 1,
        }
    }
}

async fn heard(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Whether SIGHUP was ignored from the start, by the mask that Linux shows.
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}

/// Turns signals into wishes on `stop`; the first one caught is kept.
pub(crate) fn watch(stop: &Stop, voice: Voice) -> Rc<Cell<Option<u8>>> {
    let caught = Rc::new(Cell::new(None));
    let (stop, seen) = (stop.clone(), Rc::clone(&caught));
    let Ok(mut signals) = Signals::listen() else {
        return caught;
    };
    tokio::task::spawn_local(async move {
        loop {
            let number = signals.next().await;
            if seen.get().is_none() {
                seen.set(Some(number));
            }
            match stop.ask() {
                Wish::Leave => voice.say("leaving at once; what was measured is kept"),
                Wish::Run | Wish::Drain => voice.say(
                    "stopping: no more requests, those in flight get 5 s; once more leaves at once",
                ),
            }
        }
    });
    caught
}
