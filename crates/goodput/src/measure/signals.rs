//! Signals: once drains, twice leaves.

use std::{cell::Cell, io, rc::Rc};

use goodput_loadgen::{Stop, Wish};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::talk::Voice;

/// SIGINT and SIGTERM. One value listens all along: a signal between two waits is not lost.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Begins to listen.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The number of the next one.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
        }
    }
}

/// Turns signals into wishes on `stop`; the first one caught is kept.
pub(crate) fn watch(stop: &Stop, voice: Voice) -> Rc<Cell<Option<u8>>> {
    let caught = Rc::new(Cell::new(None));
    let (stop, seen) = (stop.clone(), Rc::clone(&caught));
    tokio::task::spawn_local(async move {
        let Ok(mut signals) = Signals::listen() else {
            return;
        };
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
