//! What a load point says of itself, beside its records.

use std::{ops::Range, time::Duration};

use goodput_record::{Timestamp, nanos};
use goodput_stats::Distribution;
use goodput_workload::{Load, WindowRule};

use crate::{client::Traffic, plan::PointPlan};

/// Above this share of one core the load thread is too busy to be believed.
const CPU_SHARE_MAX: f64 = 0.9;
/// The load thread may stand still once for this share of a point: a percentile of its lag does not
/// see a machine that was paused.
const STILL_SHARE_MAX: f64 = 0.02;
/// Configured and observed peak of requests in flight may differ by this share.
const PEAK_TOLERANCE: f64 = 0.02;

/// Why a point's figures are not to be trusted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Invalid {
    /// A closed loop never reached its number of users.
    Peak {
        /// Users asked for.
        configured: u32,
        /// The most requests seen in flight.
        observed: u32,
    },
    /// Requests were sent too late.
    SendLag {
        /// 99th percentile of the lag.
        p99: Duration,
        /// What is allowed.
        bound: Duration,
    },
    /// The load thread itself was late.
    LoopLag {
        /// 99th percentile of the lag.
        p99: Duration,
        /// What is allowed.
        bound: Duration,
    },
    /// The load thread stood still: the machine was paused, or gave it no time at all.
    StoodStill {
        /// For how long at a time.
        longest: Duration,
    },
    /// The load thread's core was full.
    Cpu {
        /// Share of one core.
        share: f64,
    },
    /// Requests could not be sent for a reason on this machine.
    NotSent {
        /// How many.
        requests: u64,
    },
    /// The point was given up: too many requests were in flight.
    Saturated {
        /// How many are allowed.
        most: u32,
    },
    /// Every one of the last requests failed.
    Failing {
        /// How many in a row.
        requests: u32,
        /// What the last one said.
        error: String,
    },
}

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |d: &Duration| goodput_record::millis(*d);
        match self {
            Self::Peak {
                configured,
                observed,
            } => write!(
                f,
                "{observed} requests were in flight at most, {configured} were asked for: the load was not the one named"
            ),
            Self::SendLag { p99, bound } => write!(
                f,
                "sends were late by {:.1} ms (p99; {:.0} ms allowed): this machine cannot send at that rate",
                ms(p99),
                ms(bound)
            ),
            Self::LoopLag { p99, bound } => write!(
                f,
                "the load thread was late by {:.1} ms (p99; {:.0} ms allowed): give it a core of its own",
                ms(p99),
                ms(bound)
            ),
            Self::StoodStill { longest } => write!(
                f,
                "goodput stood still for {:.1} s: the machine was paused, or gave it no time",
                longest.as_secs_f64()
            ),
            Self::Cpu { share } => write!(
                f,
                "goodput used {:.0} % of a core: it measured itself",
                share * 100.0
            ),
            Self::NotSent { requests } => write!(
                f,
                "{requests} requests could not be sent from this machine: not the server's doing"
            ),
            Self::Saturated { most } => write!(
                f,
                "more than {most} requests were in flight: far beyond what the server can serve, given up"
            ),
            Self::Failing { requests, error } => {
                write!(
                    f,
                    "{requests} requests failed in a row, given up; the last: {error}"
                )
            }
        }
    }
}

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
    /// How late the load thread turned to each measured request, in ns after its origin;
    /// connecting, where it was needed, comes after and is in the record.
    pub send_lag: Distribution,
    /// How late a tick every 10 ms was, in ns: the load thread's own lag.
    pub loop_lag: Distribution,
    /// The most requests in flight at once.
    pub peak_in_flight: u32,
    /// CPU time of this process over wall time, all its threads; 1 is one core.
    pub cpu_share: f64,
    /// What the connections carried.
    pub traffic: Traffic,
    /// Requests that were due inside the window.
    pub arrivals_due: u64,
    /// Of these, requests of which a byte was sent.
    pub arrivals_sent: u64,
    /// Requests of any part that could not be sent for a reason on this machine.
    pub not_sent: u64,
    /// Measured requests that were in flight when the window closed. They are measured on.
    pub in_flight_at_end: u32,
    /// Of these, requests that were cancelled at the limit of the drain.
    pub cut_at_drain: u32,
    /// The server's own times against the client's.
    pub server_timings: ServerTimings,
    /// Whether it was asked to stop before its end.
    pub interrupted: bool,
    /// Why its figures are not to be trusted; empty if they are.
    pub invalid: Vec<Invalid>,
}

impl PointReport {
    /// Length of the window; `None` if it never opened or has none, so that no rate exists.
    #[must_use]
    pub fn window_span(&self) -> Option<Duration> {
        let span = self.window.end.since(self.window.start)?;
        (!span.is_zero()).then_some(span)
    }

    /// Whether its figures may be trusted.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.invalid.is_empty()
    }

    /// Looks for what makes the figures doubtful. `given_up` is known from the run itself.
    pub(crate) fn examine(&mut self, plan: &PointPlan, given_up: Option<Invalid>) {
        let bound = plan.lag_bound;
        let late = |lag: &Distribution| {
            let p99 = goodput_record::span_of(lag.quantile(0.99)? / 1e9);
            (nanos(p99) > nanos(bound)).then_some(p99)
        };
        let mut found = Vec::new();
        if let Load::Closed(users) = plan.load {
            // With fewer requests than users the number can never be reached.
            let reachable = self.arrivals_due >= u64::from(users.get());
            let short = f64::from(users.get()) * (1.0 - PEAK_TOLERANCE);
            if reachable && f64::from(self.peak_in_flight) < short && !self.interrupted {
                found.push(Invalid::Peak {
                    configured: users.get(),
                    observed: self.peak_in_flight,
                });
            }
        }
        found.extend(late(&self.send_lag).map(|p99| Invalid::SendLag { p99, bound }));
        found.extend(late(&self.loop_lag).map(|p99| Invalid::LoopLag { p99, bound }));
        let whole = self.span.end.since(self.span.start).unwrap_or_default();
        // Of a very short point a fifth of a second is allowed: it is soon measured again.
        found.extend(
            stood_still(&self.loop_lag, whole.max(bound * 1_000))
                .map(|longest| Invalid::StoodStill { longest }),
        );
        if self.cpu_share > CPU_SHARE_MAX {
            found.push(Invalid::Cpu {
                share: self.cpu_share,
            });
        }
        if self.not_sent > 0 {
            found.push(Invalid::NotSent {
                requests: self.not_sent,
            });
        }
        found.extend(given_up);
        self.invalid = found;
    }
}

/// The longest lag, where it is too large a part of the point.
fn stood_still(lag: &Distribution, whole: Duration) -> Option<Duration> {
    let longest = Duration::from_nanos(lag.max()?);
    (longest > whole.mul_f64(STILL_SHARE_MAX)).then_some(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_long_pause_among_many_ticks_is_seen() {
        let mut lag = Distribution::default();
        for _ in 0..5_000 {
            lag.record(200_000);
        }
        let whole = Duration::from_secs(50);
        assert_eq!(stood_still(&lag, whole), None);
        lag.record(800_000_000);
        assert_eq!(stood_still(&lag, whole), None);
        lag.record(31_000_000_000);
        assert_eq!(stood_still(&lag, whole), Some(Duration::from_secs(31)));
        // The percentile alone would have let it pass.
        assert!(lag.quantile(0.99).unwrap() < 1e6);
    }
}
