//! How a run is asked to end early.

use tokio::sync::watch;

/// What has been asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// Nothing: carry on.
    #[default]
    Run,
    /// Send nothing more, give what is in flight a short grace, end everything as a record.
    Drain,
    /// End everything now, as records.
    Leave,
}

/// A wish to stop, shared between a signal handler and the run. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Stop {
    sender: watch::Sender<Wish>,
}

impl Default for Stop {
    fn default() -> Self {
        Self {
            sender: watch::Sender::new(Wish::Run),
        }
    }
}

impl Stop {
    /// A wish nobody has had yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks once more: the first time to drain, the second to leave. Returns what is now asked.
    pub fn ask(&self) -> Wish {
        self.sender.send_modify(|wish| {
            *wish = match wish {
                Wish::Run => Wish::Drain,
                Wish::Drain | Wish::Leave => Wish::Leave,
            };
        });
        self.wish()
    }

    /// What is asked.
    #[must_use]
    pub fn wish(&self) -> Wish {
        *self.sender.borrow()
    }

    /// Waits until at least `wish` is asked.
    pub async fn reached(&self, wish: Wish) {
        let mut seen = self.sender.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = seen.wait_for(|now| *now >= wish).await;
    }
}
