//! What a load point says of itself, beside its records.

use std::{ops::Range, time::Duration};

use goodput_record::Timestamp;
use goodput_stats::Distribution;
use goodput_workload::WindowRule;

use crate::{
    client::Traffic,
    doubt::{Latencies, Moved, doubts, moved},
    invalid::Invalid,
    lag::SelfSeen,
    machine::Machine,
    path::PathSeen,
    plan::PointPlan,
};

/// How the decode times that a server reports compare with those the client measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerTimings {
    /// Measured requests of which both are known.
    pub told: u64,
    /// Of these, those outside a factor of two: another unit or another span, not to be used.
    pub implausible: u64,
    /// Server's time over client's time at the last of these.
    pub last_ratio: Option<f64>,
}

/// What a load point says of itself, beside its records.
#[derive(Clone, Debug)]
pub struct PointReport {
    /// Origins of the measured requests lie in here; throughput is counted over it.
    pub window: Range<Timestamp>,
    /// How the end of the window was found.
    pub window_rule: WindowRule,
    /// The whole point, from its first due request to its last end.
    pub span: Range<Timestamp>,
    /// How late the load thread turned to each measured request, in ns after it was due;
    /// connecting, where it was needed, comes after and is in the record.
    pub send_lag: Distribution,
    /// The load thread's own ticks and its sockets.
    pub(crate) seen: SelfSeen,
    /// For how long a received byte lay in its socket, in the mean. `None` where none came, or
    /// where sockets were not looked at.
    pub unread_for: Option<Duration>,
    /// What the machine gave the load thread.
    pub machine: Machine,
    /// How much of each watched figure is the client's own lateness.
    pub moved: Vec<Moved>,
    /// What the way to the server carries, where that was asked.
    pub path: Option<PathSeen>,
    /// The most requests in flight at once. Of several load threads: the sum of their own.
    pub peak_in_flight: u32,
    /// What the connections carried.
    pub traffic: Traffic,
    /// Requests that were due inside the window.
    pub arrivals_due: u64,
    /// Of these, requests of which a byte was sent.
    pub arrivals_sent: u64,
    /// Requests of any part that could not be sent for a reason on this machine.
    pub not_sent: u64,
    /// Why the last of these could not, and what to do.
    pub not_sent_because: String,
    /// Measured requests that were in flight when the window closed. They are measured on.
    pub in_flight_at_end: u32,
    /// Of these, requests that were cancelled at the limit of the drain.
    pub cut_at_drain: u32,
    /// What the answerers called themselves: the model, and its configuration where they tell it.
    pub answered_as: Vec<String>,
    /// The server's own times against the client's.
    pub server_timings: ServerTimings,
    /// Whether it was asked to stop before its end.
    pub interrupted: bool,
    /// Whether the workload had no more requests before the window was full.
    pub ran_dry: bool,
    /// Why its figures are not to be trusted; empty if they are.
    pub invalid: Vec<Invalid>,
    pub(crate) latencies: Latencies,
}

impl PointReport {
    /// Length of the window; `None` if it never opened or has none, so that no rate exists.
    #[must_use]
    pub fn window_span(&self) -> Option<Duration> {
        let span = self.window.end.since(self.window.start)?;
        (!span.is_zero()).then_some(span)
    }

    /// How late a tick every 10 ms was, in ns: the load thread's own lag.
    #[must_use]
    pub fn loop_lag(&self) -> &Distribution {
        &self.seen.lag
    }

    /// Whether its figures may be trusted.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.invalid.is_empty()
    }

    /// Looks for what makes the figures doubtful. `known` is what the run itself found.
    pub(crate) fn examine(&mut self, plan: &PointPlan, known: impl IntoIterator<Item = Invalid>) {
        let span = self.span.end.since(self.span.start).unwrap_or_default();
        self.unread_for = self.seen.unread_for(self.traffic.bytes_received, span);
        self.moved = moved(&self.latencies, &self.seen.lag);
        self.invalid = doubts(self, plan);
        for why in known {
            if !self.invalid.iter().any(|found| found.same_kind(&why)) {
                self.invalid.push(why);
            }
        }
    }

    /// What several load threads say of their shares of one point, as one: `plan` is that of the
    /// whole point. What makes a share's figures doubtful makes the whole doubtful. `None` of none.
    #[must_use]
    pub fn merged(shares: impl IntoIterator<Item = Self>, plan: &PointPlan) -> Option<Self> {
        let whole = shares.into_iter().reduce(|mut whole, share| {
            whole.absorb(share);
            whole
        });
        whole.map(|mut whole| {
            let known = std::mem::take(&mut whole.invalid);
            whole.examine(plan, known);
            whole
        })
    }

    fn absorb(&mut self, other: Self) {
        let hull =
            |a: &Range<Timestamp>, b: &Range<Timestamp>| a.start.min(b.start)..a.end.max(b.end);
        self.window = hull(&self.window, &other.window);
        self.span = hull(&self.span, &other.span);
        if self.window_rule != other.window_rule {
            self.window_rule = WindowRule::LastEnd;
        }
        self.send_lag.merge(&other.send_lag);
        self.seen.merge(&other.seen);
        self.machine = self.machine.worst(other.machine);
        self.path = self.path.or(other.path);
        self.peak_in_flight += other.peak_in_flight;
        self.traffic = self.traffic.and(other.traffic);
        self.arrivals_due += other.arrivals_due;
        self.arrivals_sent += other.arrivals_sent;
        self.not_sent += other.not_sent;
        if self.not_sent_because.is_empty() {
            self.not_sent_because = other.not_sent_because;
        }
        self.in_flight_at_end += other.in_flight_at_end;
        self.cut_at_drain += other.cut_at_drain;
        self.server_timings.told += other.server_timings.told;
        self.server_timings.implausible += other.server_timings.implausible;
        self.server_timings.last_ratio = other
            .server_timings
            .last_ratio
            .or(self.server_timings.last_ratio);
        self.interrupted |= other.interrupted;
        self.ran_dry |= other.ran_dry;
        self.latencies.merge(&other.latencies);
        self.invalid.extend(other.invalid);
    }
}
