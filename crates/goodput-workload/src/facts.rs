//! What a workload amounts to: length percentiles, reuse, steps.

use std::sync::Arc;

use goodput_record::Timestamp;
use goodput_stats::quantile;
use serde::{Deserialize, Serialize};

use crate::{
    arrivals::Arrivals,
    plan::PlannedRequest,
    spec::{WorkloadSpec, mean_think_s},
    workload::Workload,
};

/// Mean and percentiles of a length, in tokens. Percentiles interpolate linearly between order
/// statistics.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// The mean.
    pub mean: f64,
    /// Half are at most this.
    pub p50: f64,
    /// 90% are at most this.
    pub p90: f64,
    /// 99% are at most this.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Percentiles {
    /// Of these values, in any order. `None` without any.
    #[must_use]
    pub fn of(mut values: Vec<u64>) -> Option<Self> {
        values.sort_unstable();
        Some(Self {
            mean: values.iter().sum::<u64>() as f64 / values.len() as f64,
            p50: quantile(&values, 0.5)?,
            p90: quantile(&values, 0.9)?,
            p99: quantile(&values, 0.99)?,
            max: *values.last()? as f64,
        })
    }
}

/// What a workload amounts to, from its first requests (at most 4,000) under a fixed seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadFacts {
    /// Its name.
    pub name: String,
    /// Where its figures come from.
    pub source: String,
    /// How requests arrive in an open loop.
    pub arrivals: String,
    /// How the length of answers is brought about.
    pub output_policy: String,
    /// Requests that were looked at.
    pub requests: u32,
    /// Tokens of prompts.
    pub input_tokens: Percentiles,
    /// Tokens of answers, as asked for.
    pub output_tokens: Percentiles,
    /// Of all input tokens, the share that a cache which never forgets would hold, 0 to 1.
    pub reusable_share: f64,
    /// Mean number of requests in a session.
    pub steps_mean: f64,
    /// Mean think or tool time between steps, in seconds; `None` without sessions.
    pub think_time_mean_s: Option<f64>,
    /// The most tokens a request can need, prompt and answer together.
    pub longest_tokens: u32,
    /// Requests per second as recorded; `None` without a trace.
    pub recorded_rate_req_s: Option<f64>,
}

/// Requests looked at.
const SAMPLE: usize = 4_000;

impl WorkloadSpec {
    /// What the workload amounts to. Costs some milliseconds: it plans its first requests, as if
    /// the server answered in no time.
    #[must_use]
    #[expect(
        clippy::missing_panics_doc,
        reason = "a checked workload has at least one request"
    )]
    pub fn describe(&self) -> WorkloadFacts {
        let requests = self.first_requests();
        let lengths = |length: fn(&PlannedRequest) -> u32| {
            Percentiles::of(requests.iter().map(|r| u64::from(length(r))).collect())
                .expect("invariant: a checked workload has at least one request")
        };
        let sum = |length: fn(&PlannedRequest) -> u32| -> u64 {
            requests.iter().map(|r| u64::from(length(r))).sum()
        };
        WorkloadFacts {
            name: self.name().to_owned(),
            source: self.source().to_owned(),
            arrivals: self.arrivals.describe(),
            output_policy: self.output_policy.name().to_owned(),
            requests: u32::try_from(requests.len()).unwrap_or(u32::MAX),
            input_tokens: lengths(|r| r.input_tokens),
            output_tokens: lengths(|r| r.output_tokens),
            reusable_share: sum(|r| r.cached_tokens) as f64 / sum(|r| r.input_tokens) as f64,
            steps_mean: self.mean_steps(),
            think_time_mean_s: self.sessions.as_ref().map(|s| mean_think_s(&s.think_time)),
            longest_tokens: self.longest(),
            recorded_rate_req_s: self.recorded_rate(),
        }
    }

    /// Its first requests as an open loop would meet them whose server answers in no time.
    fn first_requests(&self) -> Vec<PlannedRequest> {
        let spec = Arc::new(self.clone());
        let mut workload = Workload::from_cold(&spec, 1.0, 0);
        let mut requests = Vec::new();
        while requests.len() < SAMPLE
            && let Some(request) = workload.take(Timestamp::FAR_FUTURE)
        {
            workload.ended(request.session, request.due);
            requests.push(request);
        }
        requests
    }
}

impl Arrivals {
    /// In a few words.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Poisson => "Poisson".to_owned(),
            Self::Gamma { cv } => format!("gamma gaps of CV {cv}"),
            Self::Trace => "times of the trace, scaled".to_owned(),
        }
    }
}
