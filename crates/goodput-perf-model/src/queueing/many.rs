//! Many equal servers with one queue.

use std::num::NonZeroU32;

use super::{QueueError, exponential_quantile, positive, share, squared_variation};

/// Equal servers, one queue, first come first served, with a steady state. Waits are those before
/// service, in seconds, of all requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ManyServers {
    rate_per_s: f64,
    service_s: f64,
    servers: NonZeroU32,
}

/// The chance that a request finds all `servers` taken and is lost, for `erlangs` of offered load:
/// Erlang's B by the recursion `B_j = A B_(j-1) / (j + A B_(j-1))`, which neither over- nor
/// underflows. Exact for any service times.
#[must_use]
pub fn erlang_b(servers: u32, erlangs: f64) -> f64 {
    let mut blocked = 1.0;
    for servers in 1..=servers {
        blocked = erlangs * blocked / (f64::from(servers) + erlangs * blocked);
    }
    blocked
}

/// The chance that a request of M/M/k must wait: Erlang's C, `B / (1 - rho (1 - B))`. 1 where
/// `erlangs` are not below `servers`.
#[must_use]
pub fn erlang_c(servers: u32, erlangs: f64) -> f64 {
    let rho = erlangs / f64::from(servers);
    if rho >= 1.0 {
        return 1.0;
    }
    let blocked = erlang_b(servers, erlangs);
    blocked / (1.0 - rho * (1.0 - blocked))
}

impl ManyServers {
    /// Requests at `rate_per_s` for `servers`, each served for `service_s` seconds on average.
    pub fn new(rate_per_s: f64, service_s: f64, servers: NonZeroU32) -> Result<Self, QueueError> {
        positive("a rate per second", rate_per_s)?;
        positive("a service time in seconds", service_s)?;
        let load = Self {
            rate_per_s,
            service_s,
            servers,
        };
        let utilization = load.utilization();
        if utilization < 1.0 {
            return Ok(load);
        }
        Err(QueueError::Unstable { utilization })
    }

    /// Requests per second.
    #[must_use]
    pub const fn rate_per_s(&self) -> f64 {
        self.rate_per_s
    }

    /// Mean seconds of service.
    #[must_use]
    pub const fn service_s(&self) -> f64 {
        self.service_s
    }

    /// Servers.
    #[must_use]
    pub const fn servers(&self) -> NonZeroU32 {
        self.servers
    }

    /// Offered load in Erlangs: the mean number of servers that are busy.
    #[must_use]
    pub const fn erlangs(&self) -> f64 {
        self.rate_per_s * self.service_s
    }

    /// Share of time a server is busy, above 0 and below 1.
    #[must_use]
    pub fn utilization(&self) -> f64 {
        self.erlangs() / f64::from(self.servers.get())
    }

    /// The chance that a request of M/M/k must wait.
    #[must_use]
    pub fn delayed(&self) -> f64 {
        erlang_c(self.servers.get(), self.erlangs())
    }

    /// Mean wait of M/M/k: `C / (k mu - lambda)`. Exact.
    #[must_use]
    pub fn mmk_wait_s(&self) -> f64 {
        self.delayed() * self.mean_delayed_s()
    }

    /// The chance that a request of M/M/k waits longer than `time_s`. Exact.
    #[must_use]
    pub fn mmk_wait_above(&self, time_s: f64) -> f64 {
        self.delayed() * libm::exp(-time_s / self.mean_delayed_s())
    }

    /// The wait of M/M/k that a `share_q` of requests does not exceed. Exact.
    pub fn mmk_wait_quantile_s(&self, share_q: f64) -> Result<f64, QueueError> {
        let share_q = share(share_q)?;
        let mean = self.mean_delayed_s();
        Ok(exponential_quantile(self.delayed(), mean, share_q))
    }

    /// The quantile of a wait whose mean is `wait_s`, where as many requests are delayed as in M/M/k
    /// and their wait is taken as exponential. An approximation for M/G/k, and too small for heavy
    /// tails.
    pub fn wait_quantile_s(&self, wait_s: f64, share_q: f64) -> Result<f64, QueueError> {
        let share_q = share(share_q)?;
        let delayed = self.delayed();
        Ok(exponential_quantile(delayed, wait_s / delayed, share_q))
    }

    /// Mean wait of M/D/k by Cosmetatos (1976): `(1 + (1 - rho) (k - 1) (sqrt(4 + 5k) - 2) / (16
    /// rho k)) / 2` of M/M/k's. Exact for one server; made for busy ones, so that below half load with
    /// many servers it is too long (but never longer than M/M/k's, to which it is cut).
    #[must_use]
    pub fn mdk_wait_s(&self) -> f64 {
        let (k, rho) = (f64::from(self.servers.get()), self.utilization());
        let few = (1.0 - rho) * (k - 1.0) * (libm::sqrt(4.0 + 5.0 * k) - 2.0) / (16.0 * rho * k);
        self.mmk_wait_s() * (f64::midpoint(1.0, few)).min(1.0)
    }

    /// Mean wait of M/G/k by Lee and Longton (1959): `(1 + C_s^2) / 2` of M/M/k's. Exact for one
    /// server.
    pub fn lee_longton_wait_s(&self, scv_service: f64) -> Result<f64, QueueError> {
        squared_variation("the SCV of service times", scv_service)?;
        Ok(self.mmk_wait_s() * (1.0 + scv_service) / 2.0)
    }

    /// Mean wait of M/G/k by Kimura (1986): between M/M/k and M/D/k, `(1 + C^2) / (2 C^2 / W_M + (1 -
    /// C^2) / W_D)`. Better than Lee and Longton for a `C^2` of at most 1, for which it is made.
    pub fn kimura_wait_s(&self, scv_service: f64) -> Result<f64, QueueError> {
        squared_variation("the SCV of service times", scv_service)?;
        if scv_service > 1.0 {
            return Err(QueueError::OutOfRange {
                name: "the SCV of service times for Kimura's formula",
                value: scv_service,
                bound: "from 0 to 1",
            });
        }
        let markov = 2.0 * scv_service / self.mmk_wait_s();
        let fixed = (1.0 - scv_service) / self.mdk_wait_s();
        Ok((1.0 + scv_service) / (markov + fixed))
    }

    /// Mean wait of G/G/k by Allen and Cunneen (1978): `(C_a^2 + C_s^2) / 2` of M/M/k's.
    pub fn allen_cunneen_wait_s(
        &self,
        scv_arrivals: f64,
        scv_service: f64,
    ) -> Result<f64, QueueError> {
        squared_variation("the SCV of arrivals", scv_arrivals)?;
        squared_variation("the SCV of service times", scv_service)?;
        Ok(self.mmk_wait_s() * f64::midpoint(scv_arrivals, scv_service))
    }

    /// Mean wait of G/G/k by Sakasegawa (1977): `(C_a^2 + C_s^2) / 2 rho^(sqrt(2 (k + 1)) - 1) / (k
    /// (1 - rho))` service times: without Erlang's C, for the back of an envelope.
    pub fn sakasegawa_wait_s(
        &self,
        scv_arrivals: f64,
        scv_service: f64,
    ) -> Result<f64, QueueError> {
        squared_variation("the SCV of arrivals", scv_arrivals)?;
        squared_variation("the SCV of service times", scv_service)?;
        let (k, rho) = (f64::from(self.servers.get()), self.utilization());
        let power = libm::sqrt(2.0 * (k + 1.0)) - 1.0;
        let markov = libm::pow(rho, power) / (k * (1.0 - rho)) * self.service_s;
        Ok(markov * f64::midpoint(scv_arrivals, scv_service))
    }

    /// Seconds a delayed request of M/M/k waits on average: `1 / (k mu - lambda)`.
    fn mean_delayed_s(&self) -> f64 {
        self.service_s / (f64::from(self.servers.get()) - self.erlangs())
    }
}
