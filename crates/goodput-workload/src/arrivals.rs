//! Arrival processes: an absolute schedule of due times, made ahead from a seed.

#[cfg(test)]
mod tests;

use goodput_record::Timestamp;
use goodput_stats::{
    StreamDraws,
    sampler::{exponential, gamma},
};

use crate::script::stream;

/// How sessions arrive in an open loop.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// A Poisson process: memoryless, gaps of CV 1.
    Poisson,
    /// Gamma-distributed gaps of this coefficient of variation; above 1 they come in bursts.
    Gamma {
        /// Standard deviation of the gaps over their mean; above 0.
        cv: f64,
    },
    /// The times of the trace, stretched or squeezed evenly to the rate asked for.
    Trace,
}

/// A corner of the profile by which the rate changes over a load point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatePoint {
    /// Seconds after the start of the load point.
    pub at_s: f64,
    /// The rate there, as a multiple of the rate asked for; above 0.
    pub factor: f64,
}

/// The due times of one load point: absolute, in order, each fixed by (seed, number) alone.
///
/// Nothing that happens while sending can move one: there is no gap to sleep, only an instant to
/// wait for.
#[derive(Clone, Debug)]
pub struct Schedule {
    process: Process,
    draws: StreamDraws,
    /// Arrivals per second at factor 1.
    rate: f64,
    profile: Vec<RatePoint>,
    /// Seconds before the load point at which it begins.
    lead_s: f64,
    number: u64,
    /// Mean gaps passed up to the next arrival.
    clock: f64,
}

#[derive(Clone, Debug)]
enum Process {
    /// Gaps of mean 1 and this shape; `None` is the exponential.
    Renewal { shape: Option<f64> },
    /// Times in units of their mean gap, and whether they start again at the end.
    Given { times: Vec<f64>, repeat: bool },
}

impl Schedule {
    /// Arrivals with independent gaps: Poisson, or gamma with a CV.
    #[must_use]
    pub fn renewal(cv: Option<f64>, rate: f64, profile: Vec<RatePoint>, seed: u64) -> Self {
        let shape = cv.map(|cv| 1.0 / (cv * cv));
        Self::new(Process::Renewal { shape }, rate, profile, seed)
    }

    /// Arrivals at given times (rising, nanoseconds), brought to `rate` per second on average.
    #[must_use]
    pub fn given(times_ns: &[u64], rate: f64, profile: Vec<RatePoint>, repeat: bool) -> Self {
        let first = times_ns.first().copied().unwrap_or(0);
        let span = times_ns.last().map_or(0, |last| last - first);
        let gaps = times_ns.len().saturating_sub(1).max(1) as f64;
        let unit = (span as f64 / gaps).max(f64::MIN_POSITIVE);
        let times = times_ns.iter().map(|t| (t - first) as f64 / unit);
        let process = Process::Given {
            times: times.collect(),
            repeat,
        };
        Self::new(process, rate, profile, 0)
    }

    fn new(process: Process, rate: f64, profile: Vec<RatePoint>, seed: u64) -> Self {
        let mut schedule = Self {
            process,
            draws: StreamDraws::new(seed, stream::GAP),
            rate,
            profile,
            lead_s: 0.0,
            number: 0,
            clock: 0.0,
        };
        schedule.step();
        schedule
    }

    /// The same process, begun this long before the load point.
    #[must_use]
    pub(crate) fn with_lead(mut self, lead_s: f64) -> Self {
        self.lead_s = lead_s;
        self
    }

    /// Number and due time of the next arrival; `None` when a trace is used up.
    #[must_use]
    pub fn peek(&self) -> Option<(u64, Timestamp)> {
        let (number, seconds) = self.peek_seconds()?;
        Some((number, Timestamp::from_seconds(seconds)))
    }

    /// Number and time of the next arrival in seconds since the start of the load point, below 0
    /// for one before it.
    pub(crate) fn peek_seconds(&self) -> Option<(u64, f64)> {
        if let Process::Given { times, repeat } = &self.process
            && (times.is_empty() || (!repeat && self.number >= times.len() as u64))
        {
            return None;
        }
        let factor = self.profile.first().map_or(1.0, |first| first.factor);
        let work = self.clock / self.rate - self.lead_s * factor;
        let seconds = if work < 0.0 {
            work / factor
        } else {
            warp(work, &self.profile)
        };
        Some((self.number, seconds))
    }

    /// Goes on to the next arrival.
    pub fn advance(&mut self) {
        self.number += 1;
        self.step();
    }

    /// Sets the clock to the arrival with the current number.
    fn step(&mut self) {
        match &self.process {
            Process::Renewal { shape } => {
                let mut draws = self.draws.at(self.number);
                self.clock += match shape {
                    None => exponential(&mut draws),
                    Some(shape) => gamma(&mut draws, *shape, 1.0 / shape),
                };
            }
            Process::Given { times, .. } => {
                let count = times.len().max(1) as u64;
                let place = usize::try_from(self.number % count).unwrap_or(0);
                let within = times.get(place).copied().unwrap_or(0.0);
                // One mean gap lies between the last of a lap and the first of the next.
                self.clock = (self.number / count * count) as f64 + within;
            }
        }
    }
}

/// The instant at which the integral of the rate factor reaches `work` seconds: a steady process
/// seen through this clock has the profile's rate, and stays Poisson if it was.
fn warp(work: f64, profile: &[RatePoint]) -> f64 {
    let Some(first) = profile.first() else {
        return work;
    };
    let lead = first.at_s * first.factor;
    if work <= lead {
        return work / first.factor;
    }
    let mut left = work - lead;
    for pair in profile.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let span = to.at_s - from.at_s;
        let area = span * f64::midpoint(from.factor, to.factor);
        if left <= area {
            return from.at_s + within(left, from.factor, (to.factor - from.factor) / span);
        }
        left -= area;
    }
    let last = profile.last().unwrap_or(first);
    last.at_s + left / last.factor
}

/// Solves `factor x + slope x^2 / 2 = work` for x, in the form that does not cancel.
fn within(work: f64, factor: f64, slope: f64) -> f64 {
    let root = root_of(factor * factor + 2.0 * slope * work);
    2.0 * work / (factor + root)
}

/// The square root is exact by IEEE 754 on every machine; what is below 0 by rounding is 0.
fn root_of(value: f64) -> f64 {
    value.max(0.0).sqrt()
}
