//! What one load point is to be.

use std::{num::NonZeroU32, time::Duration};

use goodput_record::Timestamp;
use goodput_workload::{CoursePlan, Load, Settle, Shard, Window};

use crate::path::PathProbe;

/// One load point.
#[derive(Clone, Debug, PartialEq)]
pub struct PointPlan {
    /// Number within the run.
    pub point: u32,
    /// The whole load: the one the workload was made with.
    pub load: Load,
    /// The share of it that this client carries: the one the workload was made with. A counted
    /// window is shared out too, so windows of equal times need [`Window::Duration`].
    pub shard: Shard,
    /// The first instant of the point, on the client's clock, so that several clients begin at the
    /// same one. `None`: as soon as all is ready. An instant that has passed stands: what was due
    /// since is sent late, and counted as late.
    pub start_at: Option<Timestamp>,
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
    /// This many requests that fail in a row end the point, or ten times as many that are rejected:
    /// a server that is gone is not measured, it is hammered.
    pub failures_in_a_row: u32,
    /// How the way to the server is measured once the load has ended. `None`: not at all.
    pub path_probe: Option<PathProbe>,
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
            shard: Shard::WHOLE,
            start_at: None,
            warm_up: false,
            settle,
            window,
            look_from: None,
            hold_load: matches!(window, Window::Duration(_)),
            drain: Duration::from_mins(2),
            grace: Duration::from_secs(5),
            most_in_flight: 100_000,
            busy_tail: Duration::ZERO,
            failures_in_a_row: 100,
            path_probe: None,
        }
    }

    /// Users of a closed loop that this client's share has; `None` in an open loop.
    #[must_use]
    pub fn own_users(&self) -> Option<u32> {
        match self.load {
            Load::Closed(users) => Some(self.shard.count(users.get())),
            Load::Open { .. } => None,
        }
    }

    /// The plan of this client's share alone.
    pub(crate) fn own(&self) -> Self {
        let own = self.clone();
        let Window::Requests(n) = self.window else {
            return own;
        };
        match NonZeroU32::new(self.shard.count(n.get())) {
            Some(n) => Self {
                window: Window::Requests(n),
                ..own
            },
            // Fewer requests than shares: nothing is left for this one.
            None => Self {
                settle: Settle::None,
                window: Window::Duration(Duration::ZERO),
                hold_load: false,
                ..own
            },
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
