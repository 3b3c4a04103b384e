//! Waiting lines: the classics, and what they mean for a server of language models.
//!
//! One server or many, Poisson or other arrivals, any spread of service times: how long does a
//! request wait before it is served? [`SingleServer`] and [`ManyServers`] are loads for which a
//! steady state exists, so no formula here ever answers for an overloaded one. [`StateDependent`]
//! has a speed that depends on how many are there. [`variance_lever`] asks whether less variance or a
//! smaller mean shortens the wait more.
//!
//! # What `1/mu` is for a continuous-batching server
//!
//! These formulas know servers that work on one request at a time. An engine with a running batch
//! does not, and what is put in for the service time decides everything:
//!
//! - *The time of a request that is alone* makes a load that the engine carries with ease many times
//!   too much for it: it takes tens of requests at once.
//! - *One over the peak rate of requests* makes the engine one fast server. Its utilisation is right
//!   and so is the order of its wait near saturation; below it the formula queues requests that in
//!   truth find a free place.
//! - *Places in the batch as servers*, each busy for a request's whole stay with all places taken
//!   ([`crate::Profile::closed_loop`]), tells when requests begin to wait for a place: that is where
//!   the knee is. Below it a request waits for no more than the step under way.
//!
//! At a utilisation of 0.89 M/M/1 says eight service times. For one measured replica that is 8 s if
//! they are a request's stay, and 75 ms if they are one over the peak rate; its median TTFT was 44 ms,
//! prefill included. [`views`] computes the three for a profile.
//!
//! # Heavy tails
//!
//! All formulas of two moments (Kingman, Lee-Longton, Allen-Cunneen, Sakasegawa) fail for heavy
//! tails with more than one server: no function of two moments alone is right there (V. Gupta, M.
//! Harchol-Balter, J. G. Dai, B. Zwart, "On the inapproximability of M/G/K", 2010). Answers' lengths
//! have heavy tails. [`heavy_tail_wait_above`] says what the tail does to one server.

mod lever;
mod many;
mod overview;
mod single;
mod state;
#[cfg(test)]
mod tests;
mod views;

use thiserror::Error;

pub use lever::{Change, Held, Lever, LeverBase, LeverRow, variance_lever};
pub use many::{ManyServers, erlang_b, erlang_c};
pub use overview::{Formula, FormulaRow, LadderRow, Overview, Question, overview};
pub use single::{SingleServer, heavy_tail_mean_wait_is_finite, heavy_tail_wait_above};
pub use state::StateDependent;
pub use views::{View, Views, views};

/// Why a formula has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum QueueError {
    /// More comes in than goes out: the queue grows without end, and no wait is its mean.
    #[error("unstable: utilization is {utilization:.3}, and the queue grows without end")]
    Unstable {
        /// Rate times mean service time over the number of servers, 1 or more.
        utilization: f64,
    },
    /// A number that cannot be.
    #[error("{name} of {value} cannot be: it is a number {bound}")]
    OutOfRange {
        /// What it is.
        name: &'static str,
        /// What was given.
        value: f64,
        /// What it would have to be.
        bound: &'static str,
    },
}

/// Asks that `value` be finite and above 0.
fn positive(name: &'static str, value: f64) -> Result<f64, QueueError> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    let bound = "above 0";
    Err(QueueError::OutOfRange { name, value, bound })
}

/// Asks that a squared coefficient of variation be finite and not negative.
fn squared_variation(name: &'static str, value: f64) -> Result<f64, QueueError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    let bound = "of 0 or more";
    Err(QueueError::OutOfRange { name, value, bound })
}

/// Asks that a quantile's share lie between 0 and 1.
fn share(value: f64) -> Result<f64, QueueError> {
    if (0.0..1.0).contains(&value) {
        return Ok(value);
    }
    Err(QueueError::OutOfRange {
        name: "a quantile's share",
        value,
        bound: "from 0 to below 1",
    })
}

/// The quantile of a wait that is none with probability `1 - delayed`, and else exponential with
/// `mean_delayed_s`.
fn exponential_quantile(delayed: f64, mean_delayed_s: f64, share: f64) -> f64 {
    if share <= 1.0 - delayed {
        return 0.0;
    }
    mean_delayed_s * libm::log(delayed / (1.0 - share))
}
