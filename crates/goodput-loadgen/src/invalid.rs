//! Why a point's figures are not to be trusted, in words, with the number and a remedy.

use std::time::Duration;

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
    /// The client's own lateness is in a figure.
    Moved {
        /// The figure that it moves most: `ttft p99`.
        figure: &'static str,
        /// The figure as measured.
        value: Duration,
        /// How much of it is the client's.
        moved: Duration,
        /// What was late, by how much.
        late: String,
        /// Why, and what to do.
        cause: String,
    },
    /// Requests of an open loop did not set out as the schedule says.
    Arrivals {
        /// One send in twenty was later than this.
        late: Duration,
        /// Mean distance of arrivals.
        gap: Duration,
        /// Why, and what to do.
        cause: String,
    },
    /// Users of a closed loop waited for the client, not for the server.
    Idle {
        /// The share of their time.
        share: f64,
        /// Why, and what to do.
        cause: String,
    },
    /// What the server had sent lay unread in the client's sockets.
    Unread {
        /// For how long, in the mean.
        mean: Duration,
        /// What is allowed.
        bound: Duration,
        /// Why, and what to do.
        cause: String,
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
    /// The way between client and server was full.
    Path {
        /// What it carries, in bytes a second.
        bytes_s: f64,
        /// What that does, in words.
        effect: String,
    },
    /// Requests could not be sent for a reason on this machine.
    NotSent {
        /// How many.
        requests: u64,
        /// Why, and what to do.
        cause: String,
    },
    /// The point was given up: too many requests were in flight.
    Saturated {
        /// How many are allowed.
        most: u32,
    },
    /// For a while no request got an answer.
    Away {
        /// How many failed in a row.
        requests: u32,
        /// From the first of these to the next answer, or to the end of the point.
        span: Duration,
        /// What the last one said.
        error: String,
    },
    /// Every one of the last requests failed.
    Failing {
        /// How many in a row.
        requests: u32,
        /// What the last one said.
        error: String,
    },
}

impl Invalid {
    /// Whether `other` says the same of another part of the load.
    pub(crate) fn same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl std::fmt::Display for Invalid {
    #[expect(clippy::too_many_lines, reason = "a table: one sentence a reason")]
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
            Self::Moved {
                figure,
                value,
                moved,
                late,
                cause,
            } => write!(
                f,
                "{:.1} of the {:.1} ms of {figure} may be goodput's own: {late}; {cause}",
                ms(moved),
                ms(value)
            ),
            Self::Arrivals { late, gap, cause } => write!(
                f,
                "one send in twenty was over {:.1} ms late, more than the {:.1} ms between arrivals: not the arrivals asked for; {cause}",
                ms(late),
                ms(gap)
            ),
            Self::Idle { share, cause } => write!(
                f,
                "users waited for goodput for {:.0} % of their time: the load was not the one named; {cause}",
                share * 100.0
            ),
            Self::Unread { mean, bound, cause } => write!(
                f,
                "what the server sent lay unread for {:.1} ms in the mean ({:.1} ms allowed); {cause}",
                ms(mean),
                ms(bound)
            ),
            Self::StoodStill { longest } => write!(
                f,
                "goodput stood still for {:.1} s: the machine was paused, or gave it no time",
                longest.as_secs_f64()
            ),
            Self::Cpu { share } => write!(
                f,
                "goodput used {:.0} % of a core: it measured itself; give it more cores (--threads 2), or ask for less load",
                share * 100.0
            ),
            Self::Path { bytes_s, effect } => write!(
                f,
                "the way to the server carries {:.0} kB/s and no more: {effect}; move nearer to the server, or give it more bandwidth",
                bytes_s / 1e3
            ),
            Self::NotSent { requests, cause } => write!(
                f,
                "{requests} requests could not be sent from this machine, not the server's doing: {cause}"
            ),
            Self::Saturated { most } => write!(
                f,
                "more than {most} requests were in flight: far beyond what the server can serve, given up"
            ),
            Self::Away {
                requests,
                span,
                error,
            } => write!(
                f,
                "the server was away for {:.1} s: {requests} requests in a row got no answer; the last: {error}",
                span.as_secs_f64()
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
