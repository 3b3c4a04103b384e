//! Ends of answers, a few at a time: reading comes first.
//!
//! Closing a record costs as much as reading several tokens. Where a thousand streams end together,
//! the last tokens of the others must not wait for the first ones' records: so an end waits for its
//! turn, and between turns whatever has arrived is read and stamped.

use std::{
    cell::RefCell,
    collections::VecDeque,
    future::poll_fn,
    rc::Rc,
    task::{Poll, Waker},
};

use tokio::sync::Notify;

/// Ends dealt with before the sockets are looked at again.
const AT_ONCE: usize = 4;

/// The queue of answers that are over and whose records are not closed yet.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    waiting: RefCell<VecDeque<Waker>>,
    queued: Notify,
}

impl Ends {
    /// Waits for a turn; at once where nobody waits and `busy`, reading in quick succession, is
    /// false.
    pub(crate) async fn turn(&self, busy: bool) {
        if !busy && self.waiting.borrow().is_empty() {
            return;
        }
        let mut queued = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut queued, true) {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push_back(cx.waker().clone());
            self.queued.notify_one();
            Poll::Pending
        })
        .await;
    }

    /// Gives the turns; never ends by itself.
    pub(crate) async fn attend(self: Rc<Self>) {
        loop {
            self.queued.notified().await;
            while !self.waiting.borrow().is_empty() {
                // Back behind everything that is ready to be read.
                tokio::task::yield_now().await;
                let mut waiting = self.waiting.borrow_mut();
                let few = waiting.len().min(AT_ONCE);
                waiting.drain(..few).for_each(Waker::wake);
            }
        }
    }
}
