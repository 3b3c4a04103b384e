//! The course of one load point, without clock or socket: which part a request belongs to, when
//! the window opens and closes, when the point is over.

use std::{num::NonZeroU32, ops::Range, time::Duration};

use goodput_record::{Phase, Timestamp};

#[cfg(test)]
mod tests;

/// How long the load runs before the window opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settle {
    /// Not at all: the first request is measured.
    None,
    /// For this long.
    Fixed(Duration),
    /// Closed loop: until the first request of every user has ended, but no longer than this. The
    /// first wave starts together and measures the herd, not the server.
    FirstWave {
        /// The longest wait.
        at_most: Duration,
    },
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Requests whose origin lies in a span of this length, or shorter if it is closed early.
    Duration(Duration),
    /// This many requests.
    Requests(NonZeroU32),
}

/// The rules of one load point's course, the same for a server on the network and for a simulated
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoursePlan {
    /// Load before the window.
    pub settle: Settle,
    /// What is measured.
    pub window: Window,
    /// Whether load is kept up after the window has closed, until the last measured request has
    /// ended; else a counted window sends exactly its count.
    pub hold_load: bool,
    /// How long measured requests may take after the window has closed; then they are cancelled.
    pub drain: Duration,
    /// The same after an interrupt.
    pub grace: Duration,
}

impl CoursePlan {
    /// Settled as told, load kept up while a timed window drains for at most two minutes.
    #[must_use]
    pub const fn new(settle: Settle, window: Window) -> Self {
        Self {
            settle,
            window,
            hold_load: matches!(window, Window::Duration(_)),
            drain: Duration::from_mins(2),
            grace: Duration::from_secs(5),
        }
    }
}

/// How the end of the window was found. Printed with the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowRule {
    /// A span of time, fixed ahead.
    Fixed,
    /// Until the last request of a counted window was issued: stragglers do not stretch it.
    LastIssue,
    /// Until the last measured request ended: the whole window was in flight at once, or the
    /// answers before the last issue are none.
    LastEnd,
}

/// Where a load point stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Settling,
    Measuring,
    Draining,
    Over,
}

/// Where one load point stands: told of every arrival and every end, it says which part they belong
/// to, when the window opens and closes and when the point is over.
#[derive(Clone, Debug)]
pub struct Course {
    plan: CoursePlan,
    hold_load: bool,
    /// Users of a closed loop; `None` in an open loop.
    users: Option<u32>,
    start: Timestamp,
    stage: Stage,
    users_started: u32,
    open: u32,
    first_wave_open: u32,
    measured_open: u32,
    measured_issued: u32,
    measured_ended: u32,
    last_issue: Timestamp,
    last_end: Timestamp,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    rule: WindowRule,
    in_flight_at_end: u32,
    gives_up: Timestamp,
    interrupted: bool,
    ran_dry: bool,
}

impl Course {
    /// A point that starts at `start`. `users`: of a closed loop, else `None`.
    #[must_use]
    pub fn new(plan: &CoursePlan, users: Option<u32>, start: Timestamp) -> Self {
        let mut course = Self {
            plan: *plan,
            hold_load: plan.hold_load,
            users,
            start,
            stage: Stage::Settling,
            users_started: 0,
            open: 0,
            first_wave_open: 0,
            measured_open: 0,
            measured_issued: 0,
            measured_ended: 0,
            last_issue: start,
            last_end: start,
            from: None,
            to: None,
            rule: WindowRule::Fixed,
            in_flight_at_end: 0,
            gives_up: Timestamp::FAR_FUTURE,
            interrupted: false,
            ran_dry: false,
        };
        if course.plan.settle == Settle::None {
            course.open_window(start);
        }
        course
    }

    /// A request is due at `due`, and it is now. The part it belongs to; `None`: it is not sent.
    /// `first_of_user`: whether it is the first of its user in a closed loop.
    pub fn arrive(&mut self, due: Timestamp, first_of_user: bool) -> Option<Phase> {
        self.tick(due);
        let phase = match self.stage {
            Stage::Over => return None,
            // Late to be sent, but due inside the window: it is measured all the same.
            Stage::Draining if self.is_late_for_window(due) => Phase::Measured,
            Stage::Draining if !self.hold_load || self.interrupted => return None,
            Stage::Draining => Phase::Drain,
            Stage::Settling if first_of_user => Phase::FirstWave,
            Stage::Settling => Phase::Settling,
            Stage::Measuring => Phase::Measured,
        };
        self.users_started += u32::from(first_of_user);
        self.open += 1;
        match phase {
            Phase::FirstWave => self.first_wave_open += 1,
            Phase::Measured => self.issue(due),
            _ => {}
        }
        Some(phase)
    }

    fn is_late_for_window(&self, due: Timestamp) -> bool {
        matches!(self.plan.window, Window::Duration(_))
            && !self.interrupted
            && self.users.is_none()
            && self.from.is_some_and(|from| due >= from)
            && self.to.is_some_and(|to| due < to)
    }

    fn issue(&mut self, at: Timestamp) {
        self.measured_open += 1;
        self.measured_issued += 1;
        self.last_issue = self.last_issue.max(at);
        if let Window::Requests(n) = self.plan.window
            && self.measured_issued >= n.get()
        {
            let steady = self.measured_ended > 0 && Some(self.last_issue) > self.from;
            self.rule = if steady {
                WindowRule::LastIssue
            } else {
                WindowRule::LastEnd
            };
            self.close_window(at, at);
        }
    }

    /// A request that [`Course::arrive`] let in has ended. The point is over at the next
    /// [`Course::tick`] at the earliest, so that what was due before can still be sent.
    pub fn end(&mut self, phase: Phase, at: Timestamp) {
        self.open = self.open.saturating_sub(1);
        match phase {
            Phase::FirstWave => {
                self.first_wave_open = self.first_wave_open.saturating_sub(1);
                self.settle(at);
            }
            Phase::Measured => {
                self.measured_open = self.measured_open.saturating_sub(1);
                self.measured_ended += 1;
                self.last_end = self.last_end.max(at);
            }
            Phase::Warmup | Phase::Settling | Phase::Drain => {}
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Timestamp) {
        self.settle(now);
        if let (Stage::Measuring, Window::Duration(span), Some(from)) =
            (self.stage, self.plan.window, self.from)
            && now >= from.after(span)
        {
            self.close_window(from.after(span), now);
        }
        if self.stage == Stage::Draining && (self.measured_open == 0 || now >= self.gives_up) {
            self.stage = Stage::Over;
        }
    }

    /// Opens the window if the load has settled.
    fn settle(&mut self, now: Timestamp) {
        if self.stage == Stage::Settling && self.settled(now) {
            let from = match self.plan.settle {
                // The planned instant, not the instant at which somebody looked.
                Settle::Fixed(span) => self.start.after(span),
                _ => now,
            };
            self.open_window(from);
        }
    }

    fn settled(&self, now: Timestamp) -> bool {
        match self.plan.settle {
            Settle::None => true,
            Settle::Fixed(span) => now >= self.start.after(span),
            Settle::FirstWave { at_most } => {
                let all_started = self.users.is_none_or(|n| self.users_started >= n);
                (all_started && self.users.is_some() && self.first_wave_open == 0)
                    || now >= self.start.after(at_most)
            }
        }
    }

    fn open_window(&mut self, from: Timestamp) {
        self.stage = Stage::Measuring;
        self.from = Some(from);
    }

    fn close_window(&mut self, to: Timestamp, now: Timestamp) {
        self.stage = Stage::Draining;
        self.to = Some(to);
        self.in_flight_at_end = self.measured_open;
        self.gives_up = now.after(self.plan.drain);
    }

    /// Enough has been seen: the window of a timed point closes now, and the point drains as ever.
    /// Nothing happens unless it is open.
    pub fn close_early(&mut self, now: Timestamp) {
        self.tick(now);
        if self.stage == Stage::Measuring && matches!(self.plan.window, Window::Duration(_)) {
            self.close_window(now, now);
            self.tick(now);
        }
    }

    /// When the window opened; `None` while the load settles.
    #[must_use]
    pub const fn window_start(&self) -> Option<Timestamp> {
        self.from
    }

    /// Whether the window is open.
    #[must_use]
    pub const fn measuring(&self) -> bool {
        matches!(self.stage, Stage::Measuring)
    }

    /// The load cannot be carried further: nothing more is sent, what is in flight is drained.
    pub fn give_up(&mut self, now: Timestamp) {
        self.hold_load = false;
        match self.stage {
            Stage::Settling => self.stage = Stage::Over,
            Stage::Measuring => self.close_window(now, now),
            Stage::Draining | Stage::Over => {}
        }
    }

    /// The user asked to stop: nothing more is sent, what is in flight gets a grace.
    pub fn interrupt(&mut self, now: Timestamp) {
        self.interrupted = true;
        match self.stage {
            Stage::Settling => self.stage = Stage::Over,
            Stage::Measuring => {
                self.close_window(now, now);
                self.gives_up = now.after(self.plan.grace);
            }
            Stage::Draining => self.gives_up = self.gives_up.min(now.after(self.plan.grace)),
            Stage::Over => {}
        }
        self.tick(now);
    }

    /// The source of requests has run dry: nothing more will arrive. A counted window that was not
    /// filled ends here.
    pub fn exhausted(&mut self, now: Timestamp) {
        if self.open == 0 && matches!(self.stage, Stage::Settling | Stage::Measuring) {
            self.ran_dry = true;
            self.rule = WindowRule::LastEnd;
            self.close_window(now, now);
            self.tick(now);
        }
    }

    /// Whether the source of requests ran dry before the window was full.
    #[must_use]
    pub const fn ran_dry(&self) -> bool {
        self.ran_dry
    }

    /// The next instant at which something changes although nothing happens.
    #[must_use]
    pub fn next_change(&self) -> Timestamp {
        match (self.stage, self.plan.settle, self.plan.window) {
            (Stage::Settling, Settle::Fixed(span) | Settle::FirstWave { at_most: span }, _) => {
                self.start.after(span)
            }
            (Stage::Measuring, _, Window::Duration(span)) => {
                self.from.unwrap_or(self.start).after(span)
            }
            (Stage::Draining, ..) => self.gives_up,
            _ => Timestamp::FAR_FUTURE,
        }
    }

    /// Whether requests are still wanted.
    #[must_use]
    pub fn sending(&self) -> bool {
        match self.stage {
            Stage::Settling | Stage::Measuring => true,
            Stage::Draining => self.hold_load && !self.interrupted,
            Stage::Over => false,
        }
    }

    /// Whether the point is over: what is still in flight is to be cancelled.
    #[must_use]
    pub const fn over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Whether it was ended early.
    #[must_use]
    pub const fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// Requests of the window that were in flight when it closed.
    #[must_use]
    pub const fn in_flight_at_end(&self) -> u32 {
        self.in_flight_at_end
    }

    /// The window, once the point is over; empty if it never opened.
    #[must_use]
    pub fn window(&self) -> (Range<Timestamp>, WindowRule) {
        let from = self.from.unwrap_or(self.start);
        let to = match self.rule {
            WindowRule::LastEnd => self.last_end,
            _ => self.to.unwrap_or(from),
        };
        (from..to.max(from), self.rule)
    }
}
