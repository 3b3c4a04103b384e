//! Signals: once drains, twice leaves.

use std::{cell::Cell, rc::Rc};

use goodput_loadgen::Stop;
use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGINT or SIGTERM and gives its number. `None` if signals cannot be had.
pub(crate) async fn next_signal() -> Option<u8> {
    let mut interrupt = signal(SignalKind::interrupt()).ok()?;
    let mut terminate = signal(SignalKind::terminate()).ok()?;
    tokio::select! {
        _ = interrupt.recv() => Some(2),
        _ = terminate.recv() => Some(15),
    }
}

/// Turns signals into wishes on `stop`; the first one caught is kept.
pub(crate) fn watch(stop: &Stop) -> Rc<Cell<Option<u8>>> {
    let caught = Rc::new(Cell::new(None));
    let (stop, seen) = (stop.clone(), Rc::clone(&caught));
    tokio::task::spawn_local(async move {
        while let Some(number) = next_signal().await {
            if seen.get().is_none() {
                seen.set(Some(number));
            }
            stop.ask();
        }
    });
    caught
}
