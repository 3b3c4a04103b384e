//! A queue whose speed depends on how many are there.

use crate::{Demand, Profile};

/// The steady state of M/M/1/K with a speed that depends on the number present: births at one rate,
/// deaths at `mu_n`, nobody beyond `K`.
///
/// `p_(n+1) = p_n lambda / mu_(n+1)`, in logarithms, so that thousands of places neither over- nor
/// underflow. It is the model that llm-d's queueing analyser sizes with; being one of means, it is
/// too hopeful near the knee, where lengths vary.
#[derive(Clone, Debug, PartialEq)]
pub struct StateDependent {
    /// The chance that so many are present, from none to `K`.
    pub present: Vec<f64>,
    /// Mean number present.
    pub mean_present: f64,
    /// The chance that a request finds all places taken, and is lost.
    pub blocked: f64,
    /// Requests per second that are served.
    pub throughput_per_s: f64,
    /// Mean seconds in the system of those that are served, by Little's law.
    pub sojourn_s: f64,
}

impl StateDependent {
    /// Arrivals at `rate_per_s`, room for `places`, and `service_rate(n)` departures per second with
    /// `n` present, above 0. `None` where a rate is not a number above 0, or there is no place.
    #[must_use]
    pub fn new(
        rate_per_s: f64,
        places: u32,
        mut service_rate: impl FnMut(u32) -> f64,
    ) -> Option<Self> {
        let sound = |rate: f64| (rate.is_finite() && rate > 0.0).then_some(rate);
        let arrivals = libm::log(sound(rate_per_s)?);
        let mut logs = Vec::with_capacity(places as usize + 1);
        logs.push(0.0);
        let mut log = 0.0;
        for n in 1..=places {
            log += arrivals - libm::log(sound(service_rate(n))?);
            logs.push(log);
        }
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logs.iter().map(|l| libm::exp(l - largest)).collect();
        let sum: f64 = weights.iter().sum();
        let present: Vec<f64> = weights.iter().map(|w| w / sum).collect();
        let blocked = *present.last().filter(|_| places > 0)?;
        let mean = (0..=places).zip(&present).map(|(n, p)| f64::from(n) * p);
        let mean_present = mean.sum::<f64>();
        let throughput_per_s = rate_per_s * (1.0 - blocked);
        Some(Self {
            mean_present,
            blocked,
            throughput_per_s,
            sojourn_s: mean_present / throughput_per_s,
            present,
        })
    }

    /// The same for a replica: `n` requests in it leave at the rate of a closed loop of `n`, those
    /// beyond the sequences and the KV cache waiting.
    #[must_use]
    pub fn of_replica(
        profile: &Profile,
        demand: &Demand,
        rate_per_s: f64,
        places: u32,
    ) -> Option<Self> {
        Self::new(rate_per_s, places, |n| {
            profile.closed_loop(demand, f64::from(n)).rate_req_s
        })
    }
}
