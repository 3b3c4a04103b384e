//! One server.

use super::{QueueError, exponential_quantile, positive, share, squared_variation};

/// One server, first come first served, with a steady state. Waits are those before service, in
/// seconds, of all requests: of those that need not wait, too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SingleServer {
    rate_per_s: f64,
    service_s: f64,
}

impl SingleServer {
    /// Requests at `rate_per_s`, each served for `service_s` seconds on average.
    pub fn new(rate_per_s: f64, service_s: f64) -> Result<Self, QueueError> {
        positive("a rate per second", rate_per_s)?;
        positive("a service time in seconds", service_s)?;
        let utilization = rate_per_s * service_s;
        if utilization < 1.0 {
            return Ok(Self {
                rate_per_s,
                service_s,
            });
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

    /// Share of time the server is busy, above 0 and below 1.
    #[must_use]
    pub const fn utilization(&self) -> f64 {
        self.rate_per_s * self.service_s
    }

    /// Mean wait of M/M/1: Poisson arrivals, exponential service. `rho / (1 - rho)` service times.
    #[must_use]
    pub const fn mm1_wait_s(&self) -> f64 {
        let rho = self.utilization();
        rho / (1.0 - rho) * self.service_s
    }

    /// The chance that a request of M/M/1 waits longer than `time_s`: `rho e^(-(mu - lambda) t)`.
    #[must_use]
    pub fn mm1_wait_above(&self, time_s: f64) -> f64 {
        let pace = 1.0 / self.service_s - self.rate_per_s;
        self.utilization() * libm::exp(-pace * time_s)
    }

    /// The wait of M/M/1 that a `share` of requests does not exceed: `ln(rho / (1 - q)) / (mu -
    /// lambda)`, and 0 up to `q = 1 - rho`. Exact.
    pub fn mm1_wait_quantile_s(&self, share_q: f64) -> Result<f64, QueueError> {
        self.mg1_wait_quantile_s(1.0, share_q)
    }

    /// Mean wait of M/D/1: Poisson arrivals, all services equally long. Half of M/M/1's.
    #[must_use]
    pub const fn md1_wait_s(&self) -> f64 {
        self.mm1_wait_s() / 2.0
    }

    /// Mean wait of M/G/1 by Pollaczek and Khinchine: `rho E[S] (1 + C^2) / (2 (1 - rho))`, for a
    /// squared coefficient of variation of the service times of `scv_service` (variance over squared
    /// mean). Exact.
    pub fn mg1_wait_s(&self, scv_service: f64) -> Result<f64, QueueError> {
        squared_variation("the SCV of service times", scv_service)?;
        Ok(self.mm1_wait_s() * (1.0 + scv_service) / 2.0)
    }

    /// The second moment of M/G/1's wait, in squared seconds: `2 W^2 + lambda E[S^3] / (3 (1 -
    /// rho))`, `third_moment` being `E[S^3]` in cubic seconds. Exact (Takacs 1962). The wait's
    /// variance is this less the squared mean.
    pub fn mg1_wait_second_moment(
        &self,
        scv_service: f64,
        third_moment: f64,
    ) -> Result<f64, QueueError> {
        positive("the third moment of service times", third_moment)?;
        let mean = self.mg1_wait_s(scv_service)?;
        let idle = 1.0 - self.utilization();
        Ok(2.0 * mean * mean + self.rate_per_s * third_moment / (3.0 * idle))
    }

    /// The wait of M/G/1 that a `share_q` of requests does not exceed, where a delayed request's wait
    /// is taken as exponential. Exact for M/M/1, right in heavy traffic (Kingman 1962), too small
    /// for heavy tails.
    pub fn mg1_wait_quantile_s(&self, scv_service: f64, share_q: f64) -> Result<f64, QueueError> {
        let share_q = share(share_q)?;
        let rho = self.utilization();
        let mean = self.mg1_wait_s(scv_service)?;
        Ok(exponential_quantile(rho, mean / rho, share_q))
    }

    /// Mean wait of G/G/1 by Kingman: `rho / (1 - rho) (C_a^2 + C_s^2) / 2 E[S]`. An upper bound
    /// in heavy traffic's spirit, exact for Poisson arrivals.
    pub fn gg1_wait_s(&self, scv_arrivals: f64, scv_service: f64) -> Result<f64, QueueError> {
        squared_variation("the SCV of arrivals", scv_arrivals)?;
        squared_variation("the SCV of service times", scv_service)?;
        Ok(self.mm1_wait_s() * f64::midpoint(scv_arrivals, scv_service))
    }

    /// Mean number that wait, by Little's law, for a mean wait of `wait_s`.
    #[must_use]
    pub const fn waiting(&self, wait_s: f64) -> f64 {
        self.rate_per_s * wait_s
    }
}

/// Whether the mean wait of M/G/1 exists where service times have a tail `x^-alpha`: it takes a
/// finite variance, `alpha > 2`.
#[must_use]
pub const fn heavy_tail_mean_wait_is_finite(alpha: f64) -> bool {
    alpha > 2.0
}

/// The chance that a request of M/G/1 waits longer than `time_s`, for Pareto service times with tail
/// `(x_m / x)^alpha` and mean `load.service_s()`.
///
/// In the limit of long times it is `rho / (1 - rho)` times the chance that a service under way goes
/// on for so long, `(x_m / t)^(alpha - 1) / alpha` (Pakes 1975): one power heavier than the service
/// times themselves.
///
/// Only for times beyond the shortest service `x_m = E[S] (alpha - 1) / alpha`; `None` below, and
/// where `alpha <= 1` (no mean).
#[must_use]
pub fn heavy_tail_wait_above(load: &SingleServer, alpha: f64, time_s: f64) -> Option<f64> {
    if alpha <= 1.0 || !alpha.is_finite() {
        return None;
    }
    let shortest = load.service_s * (alpha - 1.0) / alpha;
    if time_s <= shortest {
        return None;
    }
    let rho = load.utilization();
    let residual = libm::pow(shortest / time_s, alpha - 1.0) / alpha;
    Some((rho / (1.0 - rho) * residual).min(1.0))
}
