//! One load point: the workload's requests sent when they are due, each ended as a record.

use std::{
    cell::{Cell, RefCell},
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    rc::Rc,
    time::Duration,
};

use goodput_record::{Arrival, GapBuffer, Phase, Timestamp, nanos};
use goodput_workload::{Course, Load, Window, Workload};
use tokio::{sync::Notify, task::JoinSet};

use crate::{
    client::Client,
    descriptors::{make_room, sockets_possible},
    error::LoadError,
    lag::{SelfSeen, watch_self},
    machine::{Machine, Reading},
    observer::{Compose, Observer},
    path,
    plan::PointPlan,
    ready::Ready,
    report::PointReport,
    slip::{Desk, Ended},
    stop::{Stop, Wish},
    tally::Tally,
    timer::Timer,
};

mod launch;

/// Requests are written this long before they are due, so that writing a long prompt delays no
/// send.
const LOOKAHEAD: Duration = Duration::from_millis(25);
/// From the end of the preparation to the first request.
const LEAD: Duration = Duration::from_millis(2);
/// A point whose start is given is prepared this long before: time to open its connections.
const PREPARATION: Duration = Duration::from_secs(2);

/// Ended requests that the observer hears of in one go. Books and rows take tens of microseconds a
/// request: where a thousand streams end together, the last tokens of the others must not wait for them.
const TOLD_AT_ONCE: usize = 4;
/// From one look at a running point to the next.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A load point under way.
struct Run<O> {
    client: Rc<Client>,
    compose: Rc<dyn Compose>,
    observer: Rc<O>,
    /// What this client's share of the point is to be.
    plan: PointPlan,
    /// Users of the whole closed loop.
    users: Option<u32>,
    /// The workload counts from here.
    start: Cell<Timestamp>,
    workload: RefCell<Workload>,
    course: RefCell<Course>,
    ready: RefCell<BinaryHeap<Reverse<Ready>>>,
    orders: Cell<u64>,
    /// When the observer is asked next whether it has seen enough.
    look_at: Cell<Timestamp>,
    flights: RefCell<JoinSet<()>>,
    conversations: RefCell<crate::conversation::Conversations>,
    tally: RefCell<Tally>,
    /// Ended requests the observer has not heard of yet.
    finished: RefCell<VecDeque<Ended>>,
    changed: Notify,
}

/// Drives one load point to its end. Must run inside a [`tokio::runtime::LocalRuntime`] or a
/// [`tokio::task::LocalSet`].
///
/// Whatever happens to a request is a record; an error means that the point could not begin.
pub async fn run_point<O: Observer + 'static>(
    client: &Rc<Client>,
    compose: &Rc<dyn Compose>,
    workload: Workload,
    plan: &PointPlan,
    observer: &Rc<O>,
    stop: &Stop,
) -> Result<PointReport, LoadError> {
    let clock = *client.clock();
    let mut timer = Timer::new(clock, plan.busy_tail).map_err(LoadError::Timer)?;
    if let Some(start) = plan.start_at {
        let ready_by = Timestamp::from_nanos(start.nanos().saturating_sub(nanos(PREPARATION)));
        tokio::select! {
            woken = timer.until(ready_by) => { woken.map_err(LoadError::Timer)?; }
            () = stop.reached(Wish::Drain) => {}
        }
    }
    let plan = plan.own();
    let traffic = client.traffic();
    prepare(client, &plan).await?;
    let run = Rc::new(Run {
        client: Rc::clone(client),
        compose: Rc::clone(compose),
        observer: Rc::clone(observer),
        users: match plan.load {
            Load::Closed(users) => Some(users.get()),
            Load::Open { .. } => None,
        },
        start: Cell::new(Timestamp::ZERO),
        workload: RefCell::new(workload),
        course: RefCell::new(Course::new(
            &plan.course(),
            plan.own_users(),
            Timestamp::ZERO,
        )),
        plan,
        ready: RefCell::default(),
        orders: Cell::new(0),
        look_at: Cell::new(Timestamp::FAR_FUTURE),
        flights: RefCell::default(),
        conversations: RefCell::default(),
        tally: RefCell::default(),
        finished: RefCell::default(),
        changed: Notify::new(),
    });
    run.begin();
    if let Some(start) = run.plan.start_at {
        timer.until(start).await.map_err(LoadError::Timer)?;
    }
    let before = Reading::take(clock.now());
    let seen = Rc::new(RefCell::new(SelfSeen::default()));
    let ticks = tokio::task::spawn_local(watch_self(
        Rc::clone(client),
        Timer::new(clock, Duration::ZERO).map_err(LoadError::Timer)?,
        Rc::clone(&seen),
    ));
    let went = run.drive(&mut timer, stop).await;
    run.cancel().await;
    ticks.abort();
    client.close_idle();
    // Behind the connections: without one file left, nothing could be read.
    let machine = Machine::between(&before, &Reading::take(clock.now()));
    went.map_err(LoadError::Timer)?;
    let mut report = run.report(seen.take(), machine, client.traffic().since(traffic));
    path::look(client, &run.plan, &mut report).await;
    Ok(report)
}

/// Makes room for the sockets that the load needs, and opens those of a closed loop.
async fn prepare(client: &Rc<Client>, plan: &PointPlan) -> Result<(), LoadError> {
    let Some(users) = plan.own_users() else {
        make_room(u64::from(plan.most_in_flight).min(sockets_possible()))?;
        return Ok(());
    };
    make_room(u64::from(users))?;
    let at_once = match plan.window {
        Window::Requests(n) => users.min(n.get()),
        Window::Duration(span) if span.is_zero() => 0,
        Window::Duration(_) => users,
    };
    client.open_connections(at_once as usize).await;
    Ok(())
}

impl<O: Observer + 'static> Run<O> {
    /// Writes the first requests, then starts the point's time.
    fn begin(self: &Rc<Self>) {
        self.fetch(Timestamp::ZERO.after(LOOKAHEAD));
        let soon = self.client.clock().now().after(LEAD);
        // A start that was missed stands: moved, it would hide how late everything is.
        let start = self.plan.start_at.unwrap_or(soon);
        self.start.set(start);
        self.course.replace(Course::new(
            &self.plan.course(),
            self.plan.own_users(),
            start,
        ));
        let mut ready = self.ready.borrow_mut();
        let shifted: Vec<_> = ready.drain().map(|Reverse(r)| r).collect();
        ready.extend(shifted.into_iter().map(|r| {
            let due = start.after(Duration::from_nanos(r.due.nanos()));
            Reverse(Ready { due, ..r })
        }));
    }

    /// The loop: send what is due, tell what has ended, wait for the next.
    async fn drive(self: &Rc<Self>, timer: &mut Timer, stop: &Stop) -> std::io::Result<()> {
        loop {
            let due = self.dispatch();
            let more = self.tell(TOLD_AT_ONCE) || due;
            let now = self.client.clock().now();
            self.look(now);
            if self.is_over(now, stop) {
                return Ok(());
            }
            if more {
                // Whatever is ready to be read is read and stamped before the next few.
                tokio::task::yield_now().await;
                continue;
            }
            let next_wish = match stop.wish() {
                Wish::Run => Wish::Drain,
                Wish::Drain | Wish::Leave => Wish::Leave,
            };
            let wake = self.next_wake();
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                woken = timer.until(wake) => { woken?; }
                () = stop.reached(next_wish) => {}
            }
        }
    }

    /// Asks the observer whether it has seen enough, when it is time to.
    fn look(&self, now: Timestamp) {
        let Some(from) = self.plan.look_from else {
            return;
        };
        let mut course = self.course.borrow_mut();
        course.tick(now);
        let Some(opened) = course.window_start().filter(|_| course.measuring()) else {
            self.look_at.set(Timestamp::FAR_FUTURE);
            return;
        };
        if self.look_at.get() == Timestamp::FAR_FUTURE {
            self.look_at.set(opened.after(from));
        } else if self.look_at.get() <= now {
            if self.observer.enough(opened, now) {
                course.close_early(now);
            }
            self.look_at.set(now.after(LOOK_EVERY));
        }
    }

    fn is_over(&self, now: Timestamp, stop: &Stop) -> bool {
        let mut course = self.course.borrow_mut();
        course.tick(now);
        match stop.wish() {
            Wish::Run => {}
            Wish::Drain if course.interrupted() => {}
            Wish::Drain => course.interrupt(now),
            Wish::Leave => {
                course.interrupt(now);
                return true;
            }
        }
        let mut tally = self.tally.borrow_mut();
        if tally.gives_up(&self.plan) {
            course.give_up(now);
        }
        if self.ready.borrow().is_empty() && self.workload.borrow().next_due().is_none() {
            course.exhausted(now);
        }
        course.over()
    }

    fn next_wake(&self) -> Timestamp {
        let change = self.course.borrow().next_change().min(self.look_at.get());
        if !self.course.borrow().sending() {
            return change;
        }
        let ready = self.ready.borrow().peek().map(|Reverse(r)| r.due);
        let planned = self.workload.borrow().next_due().map(|due| {
            let due = self.absolute(due).nanos();
            Timestamp::from_nanos(due.saturating_sub(nanos(LOOKAHEAD)))
        });
        [ready, planned]
            .into_iter()
            .flatten()
            .fold(change, Timestamp::min)
    }

    fn absolute(&self, due: Timestamp) -> Timestamp {
        self.start.get().after(Duration::from_nanos(due.nanos()))
    }

    fn relative(&self, at: Timestamp) -> Timestamp {
        let since = at.since(self.start.get()).unwrap_or_default();
        Timestamp::ZERO.after(since)
    }

    /// Tells the observer of at most so many requests that have ended, in order. Whether more have.
    fn tell(&self, most: usize) -> bool {
        for _ in 0..most {
            let ended = self.finished.borrow_mut().pop_front();
            let Some(ended) = ended else {
                return false;
            };
            self.observer.ended(ended);
        }
        !self.finished.borrow().is_empty()
    }

    /// Ends what is still in flight, as records.
    async fn cancel(self: &Rc<Self>) {
        self.tally.borrow_mut().cutting = true;
        // What has been read belongs to its answer, parsed or not.
        self.client.inbox.drain();
        let mut flights = std::mem::take(&mut *self.flights.borrow_mut());
        flights.shutdown().await;
        self.tell(usize::MAX);
    }

    fn report(
        &self,
        seen: SelfSeen,
        machine: Machine,
        traffic: crate::client::Traffic,
    ) -> PointReport {
        let course = self.course.borrow();
        let mut tally = self.tally.take();
        let reasons = tally.reasons();
        let answered_as = tally.names();
        let (window, window_rule) = course.window();
        let start = self.start.get();
        let mut report = PointReport {
            window,
            window_rule,
            span: start..tally.last_end.max(start),
            send_lag: tally.send_lag,
            seen,
            unread_for: None,
            machine,
            moved: Vec::new(),
            path: None,
            peak_in_flight: tally.peak_in_flight,
            traffic,
            arrivals_due: tally.due,
            arrivals_sent: tally.sent,
            not_sent: tally.not_sent,
            not_sent_because: tally.not_sent_because,
            in_flight_at_end: course.in_flight_at_end(),
            cut_at_drain: tally.cut,
            answered_as,
            server_timings: tally.server_timings,
            interrupted: course.interrupted(),
            ran_dry: course.ran_dry(),
            invalid: Vec::new(),
            latencies: tally.latencies,
        };
        report.examine(&self.plan, reasons);
        report
    }
}

impl<O: Observer + 'static> Desk for Run<O> {
    fn arrived(&self, _: &Arrival) {}

    fn in_flight(&self) {
        self.tally.borrow_mut().in_flight();
    }

    fn ended(&self, record: goodput_record::RequestRecord, phase: Phase, note: crate::slip::Note) {
        let summary = &record.summary;
        let (at, session) = (summary.ended(), summary.arrival().session);
        self.tally.borrow_mut().ended(summary, phase, &note);
        self.course.borrow_mut().end(phase, at);
        {
            let mut workload = self.workload.borrow_mut();
            let at = self.relative(at);
            if summary.outcome() == goodput_record::Outcome::Ok {
                workload.ended(session, at);
            } else {
                // A conversation does not go on after an answer that never came.
                workload.abandoned(session, at);
            }
        }
        self.finished.borrow_mut().push_back(Ended {
            record,
            phase: self.label(phase),
            text: note.text.filter(|_| self.client.target().keep_text),
            error: note.error,
        });
        self.changed.notify_one();
    }

    fn gap_buffer(&self) -> GapBuffer {
        self.observer.gap_buffer()
    }
}
