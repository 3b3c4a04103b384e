//! What one load point is to be.

use std::{num::NonZeroU32, time::Duration};

use goodput_workload::{CoursePlan, Load, Settle, Window};

/// One load point.
#[derive(Clone, Debug, PartialEq)]
pub struct PointPlan {
    /// Number within the run.
    pub point: u32,
    /// The load: the one the workload was made with.
    pub load: Load,
    /// Whether all of it only warms the server up: every record says so.
    pub warm_up: bool,
    /// Load before the window.
    pub settle: Settle,
    /// What is measured.
    pub window: Window,
    /// From this length of the window on the observer is asked about once a second whether it has seen
    /// enough ([`crate::Observer::enough`]); `None`: never.
    pub look_from: Option<Duration>,
    /// Whether load is kept up after the window has closed, until the last measured request has
    /// ended; else a counted window sends exactly its count.
    pub hold_load: bool,
    /// How long measured requests may take after the window has closed; then they are cancelled.
    pub drain: Duration,
    /// The same after an interrupt.
    pub grace: Duration,
    /// How many requests may be in flight before the point is given up as saturated.
    /// No arrival is ever skipped: the point ends instead, before memory or descriptors run out.
    pub most_in_flight: u32,
    /// The timer of the arrivals spins this long before each of them; see [`crate::Timer::new`].
    pub busy_tail: Duration,
    /// A 99th percentile of the send lag, or of the load thread's own lag, above this makes the
    /// point invalid.
    pub lag_bound: Duration,
    /// This many requests that fail in a row end the point, or ten times as many that are rejected:
    /// a server that is gone is not measured, it is hammered.
    pub failures_in_a_row: u32,
}

impl PointPlan {
    /// A point measured over `window` with the defaults: settled by its first wave (an open loop:
    /// two seconds), load kept up while a timed window drains for at most two minutes.
    #[must_use]
    pub fn new(point: u32, load: Load, window: Window) -> Self {
        let settle = match load {
            Load::Closed(_) => Settle::FirstWave {
                at_most: Duration::from_secs(10),
            },
            Load::Open { .. } => Settle::Fixed(Duration::from_secs(2)),
        };
        Self {
            point,
            load,
            warm_up: false,
            settle,
            window,
            look_from: None,
            hold_load: matches!(window, Window::Duration(_)),
            drain: Duration::from_mins(2),
            grace: Duration::from_secs(5),
            most_in_flight: 100_000,
            busy_tail: Duration::ZERO,
            lag_bound: Duration::from_millis(10),
            failures_in_a_row: 100,
        }
    }

    /// The rules of its course.
    #[must_use]
    pub const fn course(&self) -> CoursePlan {
        CoursePlan {
            settle: self.settle,
            window: self.window,
            hold_load: self.hold_load,
            drain: self.drain,
            grace: self.grace,
        }
    }

    /// Exactly `requests` requests that only warm the server up.
    #[must_use]
    pub fn warm_up(load: Load, requests: NonZeroU32) -> Self {
        Self {
            warm_up: true,
            settle: Settle::None,
            ..Self::new(0, load, Window::Requests(requests))
        }
    }
}
