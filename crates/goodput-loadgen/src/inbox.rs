//! Between read and parse: every connection that is ready is read and stamped before anything is
//! parsed.
//!
//! A connection's task reads, stamps, leaves the bytes here and goes back to wait. The parser's
//! task is woken by the first bytes that are left and so runs behind every task that was ready
//! with it. A stamp waits for other reads, never for parsing; and no task runs twice for a read.

use std::{
    cell::RefCell,
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use tokio::sync::Notify;

use crate::{
    answering::Answering,
    connection::{Buffers, Received},
};

/// Bytes that have been read and not yet parsed.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: RefCell<VecDeque<(Rc<RefCell<Answering>>, Received)>>,
    filled: Notify,
    pub(crate) buffers: Buffers,
}

impl Inbox {
    /// Leaves bytes to be parsed.
    pub(crate) fn leave(&self, answering: &Rc<RefCell<Answering>>, received: Received) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() {
            self.filled.notify_one();
        }
        waiting.push_back((Rc::clone(answering), received));
    }

    /// Parses all that waits, in the order in which it was read.
    pub(crate) fn drain(&self) {
        loop {
            let Some((answering, received)) = self.waiting.borrow_mut().pop_front() else {
                return;
            };
            let parse = || answering.borrow_mut().take(received.at, received.bytes());
            // One answer that trips over a bug of ours must not take the others with it.
            if catch_unwind(AssertUnwindSafe(parse)).is_err() {
                answering.borrow_mut().panicked();
            }
            self.buffers.recycle(received);
        }
    }

    /// The parser's task: never ends by itself.
    pub(crate) async fn parse(self: Rc<Self>) {
        loop {
            self.filled.notified().await;
            self.drain();
        }
    }
}
