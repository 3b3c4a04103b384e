//! How a running emulator is stopped from outside its thread.

use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, Ordering},
    },
};

use mio::{Registry, Token, Waker};

/// Stops an emulator. Clones stop the same one.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    wish: AtomicU8,
    waker: OnceLock<Waker>,
}

/// What is wished of a running emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Run,
    Drain,
    End,
}

impl Stop {
    /// A stop that nobody has asked for yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes no new requests, lets open ones end within the grace period, then ends.
    pub fn drain(&self) {
        self.ask(1);
    }

    /// Ends at once; open streams are cut.
    pub fn end(&self) {
        self.ask(2);
    }

    fn ask(&self, wish: u8) {
        self.0.wish.fetch_max(wish, Ordering::SeqCst);
        self.wake();
    }

    /// Makes the emulator look around.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.0.waker.get() {
            // A poll that cannot be woken looks at its next event.
            let _ = waker.wake();
        }
    }

    pub(crate) fn wish(&self) -> Wish {
        match self.0.wish.load(Ordering::SeqCst) {
            0 => Wish::Run,
            1 => Wish::Drain,
            _ => Wish::End,
        }
    }

    pub(crate) fn listen(&self, registry: &Registry, token: Token) -> io::Result<()> {
        let waker = Waker::new(registry, token)?;
        // A stop serves one emulator; a second one sees the wish at its own events.
        let _ = self.0.waker.set(waker);
        Ok(())
    }
}
