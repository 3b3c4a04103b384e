//! What a plan costs.

use crate::{
    demand::{counted, plain},
    figure::Figure,
};

/// The price of an accelerator for an hour.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    /// Of one accelerator, at least 0.
    pub per_gpu_hour: f64,
    /// The currency, as written: `$`.
    pub currency: String,
    /// Who said so.
    pub from: String,
}

/// What replicas cost, by the hour and by what they deliver.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Cost {
    /// An hour of all replicas.
    pub per_hour: Figure,
    /// A request that met the SLO.
    pub per_good_request: Figure,
    /// A million output tokens of requests that met the SLO.
    pub per_million_good_tokens: Figure,
}

/// What goes in beside the price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delivered {
    /// Replicas that are paid for.
    pub replicas: u64,
    /// Accelerators of one; `None` where not told.
    pub gpus: Option<u32>,
    /// Requests per second that meet the SLO, over all replicas; `None` where not known.
    pub good_req_s: Option<f64>,
    /// Output tokens of one of them.
    pub tokens: Option<f64>,
    /// What that rate is: the demand at its peak, or its mean.
    pub when: &'static str,
}

/// The cost of what is delivered. Without a price, or without the number of accelerators, all three are unknown
/// and say so.
#[must_use]
pub fn cost(price: Option<&Price>, delivered: &Delivered) -> Cost {
    let why = match (price, delivered.gpus) {
        (None, _) => Err("no price was told: --price".to_owned()),
        (_, None) => Err("how many GPUs a replica has was not told: --gpus".to_owned()),
        (Some(price), Some(gpus)) => Ok((price, gpus)),
    };
    match why {
        Err(why) => Cost {
            per_hour: Figure::unknown("per hour", why.clone()),
            per_good_request: Figure::unknown("per good request", why.clone()),
            per_million_good_tokens: Figure::unknown("per 1M good tokens", why),
        },
        Ok((price, gpus)) => known(price, gpus, delivered),
    }
}

fn known(price: &Price, gpus: u32, delivered: &Delivered) -> Cost {
    let hour = delivered.replicas as f64 * f64::from(gpus) * price.per_gpu_hour;
    let request = delivered
        .good_req_s
        .filter(|rate| *rate > 0.0)
        .map(|rate| hour / 3600.0 / rate);
    let million = request
        .zip(delivered.tokens.filter(|tokens| *tokens > 0.0))
        .map(|(request, tokens)| 1e6 * request / tokens);
    let when = delivered.when;
    Cost {
        per_hour: Figure::new(
            hour,
            "per hour",
            format!(
                "{} x {} x {}{} an hour ({})",
                counted(delivered.replicas, "replica"),
                counted(gpus.into(), "GPU"),
                price.currency,
                plain(price.per_gpu_hour),
                price.from
            ),
        ),
        per_good_request: Figure::known(
            request,
            "per good request",
            format!("cost an hour / (3600 x good requests a second at the {when})"),
        ),
        per_million_good_tokens: Figure::known(
            million,
            "per 1M good tokens",
            "cost per good request / output tokens of a good request, x 1,000,000",
        ),
    }
}
