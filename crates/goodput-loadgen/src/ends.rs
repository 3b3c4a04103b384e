//! Ends of answers, a few at a time: reading comes first.
//!
//! Closing a record costs as much as reading several tokens. Where a thousand streams end together,
//! the last tokens of the others must not wait for the first ones' records: so an end waits for its
//! turn, and between turns whatever has arrived is read and stamped.

use std::{
    cell::{Cell, RefCell},
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
    /// How many have had their turn: who came as the nth waits until this is n.
    served: Cell<u64>,
    queued: Notify,
}

impl Ends {
    /// Waits for a turn; at once where nobody waits and `busy`, reading in quick succession, is
    /// false.
    pub(crate) async fn turn(&self, busy: bool) {
        if !busy && self.waiting.borrow().is_empty() {
            return;
        }
        let mut number = None;
        poll_fn(|cx| match number {
            // Its task may be woken for another reason.
            Some(number) if self.served.get() < number => Poll::Pending,
            Some(_) => Poll::Ready(()),
            None => {
                let mut waiting = self.waiting.borrow_mut();
                waiting.push_back(cx.waker().clone());
                number = Some(self.served.get() + waiting.len() as u64);
                self.queued.notify_one();
                Poll::Pending
            }
        })
        .await;
    }

    /// Puts somebody who never minds in the queue.
    #[cfg(test)]
    pub(crate) fn stand(&self) {
        self.waiting.borrow_mut().push_back(Waker::noop().clone());
    }

    /// How many stand in the queue.
    #[cfg(test)]
    pub(crate) fn standing(&self) -> usize {
        self.waiting.borrow().len()
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
                self.served.set(self.served.get() + few as u64);
                waiting.drain(..few).for_each(Waker::wake);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::run;

    #[test]
    fn an_end_that_nobody_stands_before_has_its_turn_at_once() {
        run(async {
            // No attendant: it would wait forever.
            Ends::default().turn(false).await;
        });
    }

    #[test]
    fn of_many_ends_a_few_have_their_turn_between_two_looks_at_the_sockets() {
        run(async {
            let ends = Rc::new(Ends::default());
            let attendant = tokio::task::spawn_local(Rc::clone(&ends).attend());
            let done = Rc::new(Cell::new(0_usize));
            for _ in 0..50 {
                let (ends, done) = (Rc::clone(&ends), Rc::clone(&done));
                tokio::task::spawn_local(async move {
                    ends.turn(true).await;
                    done.set(done.get() + 1);
                });
            }
            let mut most = 0;
            while done.get() < 50 {
                let before = done.get();
                // The runtime looks at the sockets, then everybody who is ready runs.
                tokio::task::yield_now().await;
                most = most.max(done.get() - before);
            }
            assert!((1..=AT_ONCE).contains(&most), "{most} at once");
            attendant.abort();
        });
    }
}
