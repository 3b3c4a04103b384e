//! The engine as the single server of queueing theory: one request at a time, no answer beyond the
//! first token.

use std::num::NonZeroU32;

use goodput_perf_model::{Profile, StepTime};
use goodput_record::{Outcome, Timestamp, nanos};
use goodput_sim::{Engine, EngineEvents, EngineRequest};
use goodput_stats::{
    Draws, Stream, quantile,
    sampler::{exponential, gamma},
    whole_u32,
};

const ARRIVAL: Stream = Stream(0x5353_0001);
const SERVICE: Stream = Stream(0x5353_0002);
/// Prompt tokens of a mean service: what a service lasts is whole tokens.
const MEAN_TOKENS: f64 = 20_000.0;
/// Of the requests, one in so many at the start is not looked at: the queue has to form.
const SETTLING: usize = 10;

/// Requests for a single server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SingleServer {
    /// Poisson arrivals per second.
    pub rate_per_s: f64,
    /// Mean seconds of service.
    pub service_s: f64,
    /// Squared coefficient of variation of the service times, which are gamma-distributed: 1 for
    /// exponential, 0 for equal ones.
    pub scv_service: f64,
    /// Seed of arrivals and service times.
    pub seed: u64,
}

/// Collects waits.
struct Waits {
    due: Vec<Timestamp>,
    seconds: Vec<f64>,
}

impl EngineEvents for Waits {
    fn admitted(&mut self, at: Timestamp, index: u64, _cached: u32) {
        let due = usize::try_from(index).ok().and_then(|i| self.due.get(i));
        let wait = due.and_then(|&due| at.since(due)).map(nanos);
        self.seconds.extend(wait.map(|ns| ns as f64 / 1e9));
    }
    fn tokens(&mut self, _at: Timestamp, _index: u64, _count: u32) {}
    fn ended(&mut self, _at: Timestamp, _index: u64, _outcome: Outcome) {}
}

impl SingleServer {
    /// The wait that 99 % do not exceed, in seconds, over `requests` of them through the engine.
    /// `None` where a queue would grow without end, or with numbers that are none.
    #[must_use]
    pub fn wait_p99_s(&self, requests: u32) -> Option<f64> {
        let load = self.rate_per_s * self.service_s;
        let sound = self.scv_service.is_finite() && self.scv_service >= 0.0;
        if !(load > 0.0 && load < 1.0 && self.service_s > 0.0 && sound) {
            return None;
        }
        let mut engine = Engine::new(&self.profile()?).fast_forward();
        let mut waits = Waits {
            due: Vec::new(),
            seconds: Vec::new(),
        };
        let mut clock = 0.0;
        for index in 0..u64::from(requests) {
            clock += exponential(&mut Draws::new(self.seed, ARRIVAL, index)) / self.rate_per_s;
            let due = Timestamp::from_seconds(clock);
            engine.advance(due, &mut waits);
            waits.due.push(due);
            let tokens = whole_u32(self.relative_service(index) * MEAN_TOKENS).max(1);
            engine
                .submit(due, EngineRequest::new(index, tokens, 1))
                .ok()?;
        }
        engine.advance(Timestamp::FAR_FUTURE, &mut waits);
        let mut seconds = waits.seconds.split_off(waits.seconds.len() / SETTLING);
        seconds.sort_by(f64::total_cmp);
        quantile(&seconds, 0.99)
    }

    /// A service time, of mean 1.
    fn relative_service(&self, index: u64) -> f64 {
        if self.scv_service <= 0.0 {
            return 1.0;
        }
        let shape = 1.0 / self.scv_service;
        gamma(
            &mut Draws::new(self.seed, SERVICE, index),
            shape,
            self.scv_service,
        )
    }

    /// An engine that serves one prompt at a time, whole, in no time but its own.
    fn profile(&self) -> Option<Profile> {
        let most = NonZeroU32::new(u32::MAX / 4)?;
        Some(Profile {
            step_time: StepTime {
                prefill_s: self.service_s / MEAN_TOKENS,
                ..StepTime::default()
            },
            max_num_seqs: NonZeroU32::MIN,
            max_batched_tokens: most,
            chunked_prefill: false,
            prefix_cache: false,
            kv_blocks: most.get() / 16,
            block_tokens: NonZeroU32::new(16)?,
            context_limit: most.get(),
            ..Profile::builtin("laptop")?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p99(load: f64, scv_service: f64) -> f64 {
        let server = SingleServer {
            rate_per_s: load,
            service_s: 1.0,
            scv_service,
            seed: 5,
        };
        server.wait_p99_s(200_000).unwrap()
    }

    #[test]
    fn exponential_service_waits_as_the_formula_of_m_m_1_says() {
        for load in [0.5, 0.7, 0.8] {
            // ln(rho / 0.01) / (mu - lambda)
            let exact = libm::log(load / 0.01) / (1.0 - load);
            let seen = p99(load, 1.0);
            assert!((seen / exact - 1.0).abs() < 0.05, "{load}: {seen} {exact}");
        }
    }

    #[test]
    fn less_variance_waits_less_and_overload_has_no_wait() {
        assert!(p99(0.8, 0.0) < 0.6 * p99(0.8, 1.0));
        let full = SingleServer {
            rate_per_s: 1.0,
            service_s: 1.0,
            scv_service: 1.0,
            seed: 5,
        };
        assert_eq!(full.wait_p99_s(1_000), None);
    }
}
