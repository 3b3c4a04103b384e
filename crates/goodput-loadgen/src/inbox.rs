//! Between read and parse: every connection that is ready is read and stamped before anything is
//! parsed.
//!
//! A connection's task reads, stamps, leaves the bytes here and goes back to wait. The parser's
//! task is woken by the first bytes that are left and so runs behind every task that was ready
//! with it. It parses a few reads at a time and looks at the sockets in between: a stamp waits for
//! other reads, not for more than these few; and no task runs twice for a read.
//!
//! Waking the parser costs about as much as parsing one event. So while reads come one by one,
//! with nobody else waiting, bytes are parsed on the spot; a run of reads in quick succession
//! turns back to reading first.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    time::Duration,
};

use goodput_record::Timestamp;
use tokio::sync::Notify;

use crate::{
    answering::Answering,
    connection::{Buffers, Received},
};

/// Reads closer together than this belong to one run: the runtime did not wait between them.
const RUN_GAP: Duration = Duration::from_micros(10);
/// This many reads in a row make a run.
const RUN_READS: u32 = 3;

/// Reads parsed before the sockets are looked at again.
const PARSED_AT_ONCE: usize = 16;
/// Buffers that may wait hold at most about this many bytes; more are parsed without a look.
const MOST_WAITING: usize = 4 << 20;

/// Bytes that have been read and not yet parsed.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// What the waiting buffers hold of memory.
    held: Cell<usize>,
    waiting: RefCell<VecDeque<(Rc<RefCell<Answering>>, Received)>>,
    filled: Notify,
    /// When the latest read was, and how many came in a row with it.
    latest: Cell<(Timestamp, u32)>,
    pub(crate) buffers: Buffers,
}

impl Inbox {
    /// Takes bytes that were read: they are parsed now, or left for the parser if others are ready
    /// to be read.
    pub(crate) fn leave(&self, answering: &Rc<RefCell<Answering>>, received: Received) {
        let (latest, reads) = self.latest.get();
        let gap = received.at.since(latest).unwrap_or_default();
        let reads = if gap < RUN_GAP {
            reads.saturating_add(1)
        } else {
            1
        };
        self.latest.set((received.at, reads));
        let mut waiting = self.waiting.borrow_mut();
        let alone = waiting.is_empty();
        if alone && reads < RUN_READS {
            drop(waiting);
            self.parse_one(answering, received);
            return;
        }
        if alone {
            self.filled.notify_one();
        }
        self.held.set(self.held.get() + received.room());
        waiting.push_back((Rc::clone(answering), received));
    }

    /// Whether reads follow each other so closely that nothing else should come between them.
    pub(crate) fn is_busy(&self) -> bool {
        self.latest.get().1 >= RUN_READS
    }

    /// Parses all that waits, in the order in which it was read.
    pub(crate) fn drain(&self) {
        while self.parse_next() {}
    }

    /// Parses what has waited longest. Whether there was something.
    fn parse_next(&self) -> bool {
        let Some((answering, received)) = self.waiting.borrow_mut().pop_front() else {
            return false;
        };
        self.held.set(self.held.get() - received.room());
        self.parse_one(&answering, received);
        true
    }

    fn parse_one(&self, answering: &RefCell<Answering>, received: Received) {
        let parse = || answering.borrow_mut().take(received.at, received.bytes());
        // One answer that trips over a bug of ours must not take the others with it.
        if catch_unwind(AssertUnwindSafe(parse)).is_err() {
            answering.borrow_mut().panicked();
        }
        self.buffers.recycle(received);
    }

    /// The parser's task: never ends by itself.
    pub(crate) async fn parse(self: Rc<Self>) {
        loop {
            self.filled.notified().await;
            loop {
                let few = (0..PARSED_AT_ONCE).all(|_| self.parse_next());
                if !few {
                    break;
                }
                if self.held.get() < MOST_WAITING {
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}
