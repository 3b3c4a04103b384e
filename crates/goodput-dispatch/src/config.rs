//! What a dispatcher is told once: rules of routing, classes, tenants, readiness.

use std::time::Duration;

use thiserror::Error;

/// How a replica is chosen among those that are ready and below their limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// One after the other.
    RoundRobin,
    /// Any, with equal chances. A yardstick, not a recommendation.
    Random,
    /// The one with the least outstanding work for its weight; of equals, the one not sent to for
    /// the longest.
    LeastWork,
    /// Of two drawn at random, the one with less outstanding work (Mitzenmacher 2001: nearly as good
    /// as looking at all of them, and no herd where views are stale).
    PowerOfTwo,
    /// The one that was sent the longest part of this prompt before, unless the guard says that it
    /// has too much to do; else the one with the least work, which then knows the prompt as well.
    PrefixAffinity(Guard),
}

/// How far affinity may load a replica: its outstanding work, the request itself counted, stays
/// within `factor` times the mean over the ready replicas (consistent hashing with bounded loads;
/// Mirrokni, Thorup and Zadimoghaddam 2018), plus `slack`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guard {
    /// Finite, at least 1.
    pub factor: f64,
    /// Work that does a replica no harm whatever the others have: about that of a batch at which
    /// its steps are still short. Without it affinity ends where there is little to do.
    pub slack: u64,
}

/// In which order requests of one class and tenant leave the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As they came.
    Fifo,
    /// Earliest deadline first; without a deadline, after all that have one.
    Deadline,
    /// Shortest predicted work first, with ageing: a request is overtaken only by those that come
    /// within `ageing` for each unit by which its work is larger. The order of two requests never
    /// changes, so it costs nothing to keep.
    ShortestFirst {
        /// Patience per unit of work.
        ageing: Duration,
    },
}

/// A priority class. Classes are numbered from 0, the most urgent, in the order of
/// [`Config::classes`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Order within a tenant's queue.
    pub order: Order,
    /// Part of the work sent, 0 to 1, that the class gets while it waits, however much more urgent
    /// work there is. 0: strictly after the more urgent classes, for ever if need be.
    pub guaranteed_share: f64,
    /// Longest wait in the queue; then the request has expired.
    pub max_wait: Duration,
    /// Requests of the class that may wait.
    pub queue_limit: u32,
    /// Part of the fleet's concurrency limits, 0 to 1, that the class may hold: what is left stays
    /// free for others. At least one request.
    pub in_flight_share: f64,
}

impl Class {
    /// First come, first served; up to 10,000 wait, each at most 30 s; no share is guaranteed and
    /// none held back.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            order: Order::Fifo,
            guaranteed_share: 0.0,
            max_wait: Duration::from_secs(30),
            queue_limit: 10_000,
            in_flight_share: 1.0,
        }
    }
}

impl Default for Class {
    fn default() -> Self {
        Self::new()
    }
}

/// When a new replica is given requests: after `probes` warm-up requests in a row whose TTFT was
/// within `within` times the fleet's median. While no other replica has served, the fastest probe
/// of the replica itself stands for the median. TTFT grows with the prompt: probes should be of the
/// traffic's typical length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// Probes in a row, at least 1. At least 3, where the first replica of a fleet is to be told
    /// warm from equally cold.
    pub probes: u32,
    /// Finite, at least 1.
    pub within: f64,
    /// From a probe that failed to the next.
    pub retry_after: Duration,
}

impl Gate {
    /// Three probes within 1.2 times the median.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            probes: 3,
            within: 1.2,
            retry_after: Duration::from_secs(1),
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// When a failing replica is left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ejection {
    /// Failures in a row, at least 1.
    pub failures: u32,
    /// How long it is left out, doubled with every time in a row.
    pub pause: Duration,
    /// The longest pause, also for one that a refusing replica asks for.
    pub longest_pause: Duration,
    /// Part of the ready replicas, 0 to 1, that may be out at once: when all fail, it is not the
    /// replicas.
    pub at_most: f64,
}

impl Ejection {
    /// Five failures, 10 s, at most a minute, at most half of the replicas.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            failures: 5,
            pause: Duration::from_secs(10),
            longest_pause: Duration::from_mins(1),
            at_most: 0.5,
        }
    }
}

impl Default for Ejection {
    fn default() -> Self {
        Self::new()
    }
}

/// A rate with room for bursts: a token bucket, full at first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Units a second; finite and above 0.
    pub per_second: f64,
    /// Units that may come at once; finite and above 0.
    pub burst: f64,
}

/// What a tenant may ask for, and its part where several wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Its part relative to the others', at least 1.
    pub weight: u32,
    /// Requests a second.
    pub requests: Option<Rate>,
    /// Work a second. Reserved as predicted, settled as it came.
    pub work: Option<Rate>,
    /// Requests open at once, waiting ones included.
    pub open: Option<u32>,
}

impl Terms {
    /// No limit, weight 1.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            weight: 1,
            requests: None,
            work: None,
            open: None,
        }
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self::new()
    }
}

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How a replica is chosen.
    pub policy: Policy,
    /// Whether a session stays with its replica, while that is ready and within the guard.
    pub sticky_sessions: Option<Guard>,
    /// The priority classes, the most urgent first; 1 to 16 of them.
    pub classes: Vec<Class>,
    /// Requests that may wait, over all classes.
    pub queue_limit: u32,
    /// Whether tenants of a class are served by their weights (by virtual counters of the work sent;
    /// Sheng et al., OSDI 2024) or all in one order.
    pub fair_tenants: bool,
    /// Tenants that are told apart; the others share one place.
    pub tenants: u32,
    /// Terms of a tenant that was not given any.
    pub terms: Terms,
    /// Readiness; `None`: a replica is ready when it is up.
    pub gate: Option<Gate>,
    /// Requests that a replica which has just become ready may have in flight; one more with each
    /// answer. `None`: its limits at once.
    pub slow_start: Option<u32>,
    /// Failing replicas; `None`: they go on being sent to.
    pub ejection: Option<Ejection>,
    /// Times that a request may be sent, at least 1.
    pub attempts: u8,
    /// Prefixes and sessions that are remembered, at most.
    pub remembered: u32,
    /// Seed of what is drawn.
    pub seed: u64,
}

impl Config {
    /// Least outstanding work, one class, fair tenants without limits, up to 10,000 requests wait,
    /// no gate, ejection after five failures, two attempts.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            sticky_sessions: None,
            classes: vec![Class::new()],
            queue_limit: 10_000,
            fair_tenants: true,
            tenants: 10_000,
            terms: Terms::new(),
            gate: None,
            slow_start: None,
            ejection: Some(Ejection::new()),
            attempts: 2,
            remembered: 65_536,
            seed: 0,
        }
    }

    /// Says what cannot be.
    pub(crate) fn check(&self) -> Result<(), Unsound> {
        let count = self.classes.len();
        if !(1..=MOST_CLASSES).contains(&count) {
            return Err(Unsound::Classes(count));
        }
        for (number, class) in self.classes.iter().enumerate() {
            for share in [class.guaranteed_share, class.in_flight_share] {
                if !(0.0..=1.0).contains(&share) {
                    return Err(Unsound::Share(number, share));
                }
            }
        }
        let given: f64 = self.classes.iter().map(|c| c.guaranteed_share).sum();
        if given > 1.0 {
            return Err(Unsound::Shares(given));
        }
        let guard = match self.policy {
            Policy::PrefixAffinity(guard) => Some(guard),
            _ => None,
        };
        let factors = [
            ("a guard's factor", guard.map(|g| g.factor)),
            ("a guard's factor", self.sticky_sessions.map(|g| g.factor)),
            ("a gate", self.gate.map(|g| g.within)),
        ];
        for (what, factor) in factors {
            let factor = factor.unwrap_or(1.0);
            if !(factor.is_finite() && factor >= 1.0) {
                return Err(Unsound::Factor(what, factor));
            }
        }
        if self.attempts == 0 {
            return Err(Unsound::NoAttempt);
        }
        check_terms(&self.terms)
    }
}

/// Says what terms cannot be kept.
pub(crate) fn check_terms(terms: &Terms) -> Result<(), Unsound> {
    if terms.weight == 0 {
        return Err(Unsound::Weight);
    }
    for rate in [terms.requests, terms.work].into_iter().flatten() {
        for value in [rate.per_second, rate.burst] {
            if !(value.is_finite() && value > 0.0) {
                return Err(Unsound::Rate(value));
            }
        }
    }
    Ok(())
}

/// Priority classes there can be.
pub const MOST_CLASSES: usize = 16;

/// A configuration that cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum Unsound {
    /// Too few or too many classes.
    #[error("{0} classes: there must be 1 to {MOST_CLASSES}")]
    Classes(usize),
    /// A share outside 0 to 1.
    #[error("class {0} has a share of {1}: it must lie from 0 to 1")]
    Share(usize, f64),
    /// More is guaranteed than there is.
    #[error("the guaranteed shares add up to {0}: at most 1 can be given")]
    Shares(f64),
    /// A factor below 1.
    #[error("{0} of {1}: it must be a number of 1 or more")]
    Factor(&'static str, f64),
    /// A request could never be sent.
    #[error("0 attempts: at least 1 is needed")]
    NoAttempt,
    /// A tenant without a part.
    #[error("a tenant's weight of 0: it must be at least 1")]
    Weight,
    /// A rate or burst that is not above 0.
    #[error("a tenant's rate or burst of {0}: it must be above 0; leave it out for no limit")]
    Rate(f64),
}
