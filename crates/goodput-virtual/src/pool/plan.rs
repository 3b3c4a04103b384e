//! What a pool is made of and what is asked of it.

use std::{sync::Arc, time::Duration};

use goodput_dispatch::{Config, Limits, Policy, Role, TenantId, Terms, Unsound};
use goodput_perf_model::Profile;
use goodput_record::Timestamp;
use goodput_slo::{Metric, Slo};
use goodput_workload::{CoursePlan, Load, Settle, Window, WorkloadSpec};
use thiserror::Error;

use crate::{pace::Pace, point::Detail, pool::work::WorkRule};

/// A replica whose first requests take longer: compilation, cold caches, lazy loading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmUp {
    /// So many requests, probes included, end before it is at its pace.
    pub requests: u32,
    /// Until then every step is this many times as long; at least 1.
    pub factor: f64,
}

/// One replica.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaPlan {
    /// What it is.
    pub profile: Profile,
    /// How its pace changes over time.
    pub pace: Pace,
    /// Its part in the work.
    pub role: Role,
    /// What the dispatcher lets it have in hand.
    pub limits: Limits,
    /// Its speed relative to the others', as the dispatcher reckons.
    pub weight: f64,
    /// When it begins to answer; ordered it is from the start.
    pub up_at: Timestamp,
    /// Its first requests.
    pub warm_up: Option<WarmUp>,
    /// When it begins to drain.
    pub drain_at: Option<Timestamp>,
}

impl ReplicaPlan {
    /// A warm replica that is there from the start. It may have twice as many requests as it has
    /// places for in its batch: enough to keep it busy, few enough for the queue to decide.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        Self {
            profile: profile.clone(),
            pace: Pace::default(),
            role: Role::Whole,
            limits: Limits::in_flight(profile.max_num_seqs.get().saturating_mul(2)),
            weight: 1.0,
            up_at: Timestamp::ZERO,
            warm_up: None,
            drain_at: None,
        }
    }
}

/// Clients that leave on a whim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leaving {
    /// Part of the requests, 0 to 1, whose client may leave.
    pub share: f64,
    /// After an exponential time of this mean; who has the answer by then does not leave.
    pub mean: Duration,
}

/// How long the clients of a stream wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Patience {
    /// For the first token.
    pub first_token: Option<Duration>,
    /// For the whole answer.
    pub total: Option<Duration>,
    /// Who leaves before that.
    pub leaving: Option<Leaving>,
}

/// One stream of requests.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// What is asked.
    pub workload: Arc<WorkloadSpec>,
    /// How much of it.
    pub load: Load,
    /// How it is judged.
    pub slos: Vec<Slo>,
    /// Its place among [`Config::classes`].
    pub class: u8,
    /// Its priority inside the engines, which admit and prefill 0 before 1 and so on.
    pub priority: u8,
    /// Who asks.
    pub tenant: TenantId,
    /// What the dispatcher holds the tenant to, where that is not what it holds all to.
    pub terms: Option<Terms>,
    /// From the origin to when a request is late, for queues by deadline.
    pub deadline: Option<Duration>,
    /// How long clients wait.
    pub patience: Patience,
    /// Output tokens that the dispatcher reckons with; `None`: it knows each request's.
    pub expected_output: Option<u32>,
}

impl StreamPlan {
    /// A stream of the most urgent class of tenant 0, with endless patience.
    #[must_use]
    pub fn new(workload: &Arc<WorkloadSpec>, load: Load, slos: Vec<Slo>) -> Self {
        Self {
            workload: Arc::clone(workload),
            load,
            slos,
            class: 0,
            priority: 0,
            tenant: TenantId(0),
            terms: None,
            deadline: None,
            patience: Patience::default(),
            expected_output: None,
        }
    }
}

/// How KV blocks come from a prefill to a decode replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// Bytes of one token's keys and values, over all layers.
    pub bytes_per_token: f64,
    /// Bytes a second of one transfer.
    pub bytes_per_s: f64,
    /// Before the first byte.
    pub latency: Duration,
}

impl Transfer {
    /// How long a prompt of so many tokens takes.
    #[must_use]
    pub fn time(&self, tokens: u32) -> Duration {
        let seconds = f64::from(tokens) * self.bytes_per_token / self.bytes_per_s;
        self.latency
            .saturating_add(goodput_record::span_of(seconds))
    }
}

/// A pool and its load.
#[derive(Clone, Debug)]
pub struct PoolPlan {
    /// The replicas, at least one that takes whole requests or begins them.
    pub replicas: Vec<ReplicaPlan>,
    /// The dispatcher's rules.
    pub dispatch: Config,
    /// The load, at least one stream.
    pub streams: Vec<StreamPlan>,
    /// Its course, the same for all streams.
    pub course: CoursePlan,
    /// Between prefill and decode replicas.
    pub transfer: Option<Transfer>,
    /// What the dispatcher takes for a request's work; `None`: by the first replica's profile.
    pub work: Option<WorkRule>,
    /// Prompt tokens of a probe.
    pub probe_tokens: u32,
    /// The seed of all streams.
    pub seed: u64,
    /// Width of the books' bins.
    pub bin: Duration,
    /// How much of the tokens' times is kept. With [`Detail::Bins`] the engines are fast-forwarded:
    /// first and last token of an answer are exact, those between are spread evenly over the bins. With
    /// [`Detail::Ends`] all its tokens count where the last one came, and of its gaps the longest is
    /// known; every other figure of a row is kept. A clause that needs single gaps has them, whatever
    /// stands here.
    pub detail: Detail,
    /// Requests open at which the run is given up.
    pub most_open: u32,
}

impl PoolPlan {
    /// A pool without replicas or load. The window of `window` opens after a tenth of it.
    #[must_use]
    pub fn new(policy: Policy, seed: u64, window: Duration) -> Self {
        let settle = Settle::Fixed(window / 10);
        Self {
            replicas: Vec::new(),
            dispatch: Config::new(policy),
            streams: Vec::new(),
            course: CoursePlan::new(settle, Window::Duration(window)),
            transfer: None,
            work: None,
            probe_tokens: 512,
            seed,
            bin: Duration::from_millis(100),
            detail: Detail::Bins,
            most_open: 200_000,
        }
    }

    /// The span of time within which tokens of a stream are told as one event; zero: every token by
    /// itself, as clauses about single gaps need it.
    pub(crate) fn grain(&self, stream: &StreamPlan) -> Duration {
        let per_gap = |metric| {
            matches!(
                metric,
                Metric::TimeToToken(_) | Metric::TpotMedian | Metric::ItlP99 | Metric::Stall
            )
        };
        let mut clauses = stream.slos.iter().flat_map(Slo::clauses);
        let needed = clauses.any(|clause| per_gap(clause.metric));
        if needed || self.detail == Detail::EveryToken {
            Duration::ZERO
        } else {
            self.bin
        }
    }

    /// Says what cannot be run.
    pub(crate) fn check(&self) -> Result<(), PoolFault> {
        if self.streams.is_empty() {
            return Err(PoolFault::NoStream);
        }
        let count = |role| self.replicas.iter().filter(|r| r.role == role).count();
        let (whole, prefill) = (count(Role::Whole), count(Role::Prefill));
        if whole + prefill == 0 {
            return Err(PoolFault::NoReplica);
        }
        if prefill > 0 && (count(Role::Decode) == 0 || self.transfer.is_none()) {
            return Err(PoolFault::NoDecode);
        }
        for (place, replica) in self.replicas.iter().enumerate() {
            let time = &replica.profile.step_time;
            let batch = f64::from(replica.profile.max_num_seqs.get());
            let reads = time.weights_s;
            if replica.role == Role::Decode && batch * time.compute_s > reads {
                return Err(PoolFault::ComputeBound(place));
            }
            let factor = replica.warm_up.map_or(1.0, |w| w.factor);
            for number in [replica.weight, factor] {
                if !(number.is_finite() && number > 0.0) {
                    return Err(PoolFault::Number(place, number));
                }
            }
        }
        Ok(())
    }
}

/// A pool that cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PoolFault {
    /// Nothing is asked.
    #[error("the pool has no stream of requests")]
    NoStream,
    /// Nobody to begin a request.
    #[error("the pool has no replica that takes whole requests or prefills")]
    NoReplica,
    /// Nobody to end it.
    #[error("prefill replicas need a decode replica and a transfer between them")]
    NoDecode,
    /// The arithmetic of a full batch takes longer than reading the weights: the simulation of
    /// decode replicas, which leaves that term out, would be too fast.
    #[error(
        "replica {0} would be bound by compute while it decodes: lower max_num_seqs to where \
         max_num_seqs x compute_us_per_token <= weights_us"
    )]
    ComputeBound(usize),
    /// A weight or factor that is no number above 0.
    #[error("replica {0} has a weight or warm-up factor of {1}: it must be above 0")]
    Number(usize, f64),
    /// More replicas than can be numbered.
    #[error("too many replicas: at most 65,535")]
    TooMany,
    /// The dispatcher's rules.
    #[error(transparent)]
    Dispatch(#[from] Unsound),
}
