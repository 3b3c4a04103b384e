//! From the workload's next request to a request on its way.

use std::{cmp::Reverse, rc::Rc};

use goodput_record::{OpenRequest, Phase, Series, SeriesId, Timestamp, Vantage};
use goodput_workload::PlannedRequest;

use super::{LOOKAHEAD, Run};
use crate::{
    exchange::{Exchange, Wire},
    observer::Observer,
    ready::Ready,
    slip::{Desk, Slip},
};

/// Room is made for this many token events of a request at most (4 kB); longer answers grow it.
const EVENTS_EXPECTED: usize = 1_024;
/// Requests sent in one go. A burst of a thousand takes longer than a token's time: what arrives
/// meanwhile is read and stamped in between.
const SENT_AT_ONCE: usize = 4;

impl<O: Observer + 'static> Run<O> {
    /// Sends the first few of what is due, and writes what will be due soon. Whether more is due.
    pub(super) fn dispatch(self: &Rc<Self>) -> bool {
        let now = self.client.clock().now();
        let sending = self.course.borrow().sending();
        if sending {
            self.fetch(self.relative(now));
        }
        let more = self.launch_due();
        if sending && !more {
            // What is due already goes out before anything is written for later.
            self.fetch(self.relative(now.after(LOOKAHEAD)));
        }
        let mut flights = self.flights.borrow_mut();
        while flights.try_join_next().is_some() {}
        more
    }

    /// Takes what is due by `until` (in the workload's time) and writes it.
    pub(super) fn fetch(&self, until: Timestamp) {
        loop {
            let taken = self.workload.borrow_mut().take(until);
            let Some(planned) = taken else {
                return;
            };
            let id = self.client.number();
            let body = {
                let conversations = self.conversations.borrow();
                self.compose
                    .body(&planned, conversations.replies(planned.session))
            };
            let wire = Wire {
                body,
                id: format!("{}-{id}", self.client.run()),
            };
            let order = self.orders.replace(self.orders.get() + 1);
            let due = self.absolute(planned.due);
            self.ready.borrow_mut().push(Reverse(Ready {
                due,
                order,
                planned,
                wire,
                id,
            }));
        }
    }

    /// Whether more is due after the first few.
    fn launch_due(self: &Rc<Self>) -> bool {
        let now = self.client.clock().now();
        let due =
            |run: &Self| matches!(run.ready.borrow().peek(), Some(Reverse(r)) if r.due <= now);
        for _ in 0..SENT_AT_ONCE {
            if !due(self) {
                return false;
            }
            let next = self.ready.borrow_mut().pop();
            if let Some(Reverse(next)) = next {
                self.launch(next);
            }
        }
        due(self)
    }

    /// Posts the arrival and sets the request off.
    fn launch(self: &Rc<Self>, ready: Ready) {
        let planned = ready.planned;
        let first_of_user =
            planned.step == 0 && self.users.is_some_and(|users| planned.session < users);
        let Some(phase) = self.course.borrow_mut().arrive(ready.due, first_of_user) else {
            return;
        };
        let desk: Rc<dyn Desk> = Rc::clone(self) as Rc<dyn Desk>;
        let slip = Slip::new(desk, phase, ready.due);
        let series = self.series(&planned);
        let arrival = planned.arrival(ready.id, ready.due, series, Vantage::Client);
        self.observer.arrived(&arrival, self.label(phase));
        self.tally.borrow_mut().arrived(phase);
        let mut open = OpenRequest::arrive(Rc::clone(&slip), arrival);
        if self.users.is_some() {
            open.begins_when_sent();
        }
        open.expect_events((planned.output_tokens as usize).min(EVENTS_EXPECTED));
        let last = planned.step + 1 >= planned.steps;
        let replied = !last && self.compose.wants_replies();
        let target = self.client.target();
        let keep = target.keep_text || target.counter.is_some() || replied;
        let exchange = Exchange::new(Rc::clone(&self.client), slip, open, keep);
        let run = Rc::clone(self);
        self.flights.borrow_mut().spawn_local(async move {
            let text = exchange.run(ready.wire).await;
            // An answer that never came ends a conversation as well as its last one.
            let over = !run.workload.borrow().goes_on(planned.session);
            run.conversations
                .borrow_mut()
                .remember(planned.session, planned.step, over, text);
            if run.dispatch() {
                run.changed.notify_one();
            }
        });
    }

    fn series(&self, planned: &PlannedRequest) -> SeriesId {
        let name = |of: &Option<std::sync::Arc<str>>| of.as_deref().unwrap_or_default().to_owned();
        self.client.series().borrow_mut().intern(&Series {
            tenant: name(&planned.tenant),
            class: name(&planned.class),
            model: self.client.target().model.clone(),
            ..Series::default()
        })
    }

    pub(super) fn label(&self, phase: Phase) -> Phase {
        if self.plan.warm_up {
            Phase::Warmup
        } else {
            phase
        }
    }
}
