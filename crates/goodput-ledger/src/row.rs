//! One load point as a row of figures.

use std::collections::BTreeMap;

use goodput_stats::Interval;
use serde::{Deserialize, Serialize};

use crate::checks::CheckRow;

/// Who decides when the next request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A fixed number of users, each with one request in flight: for capacity.
    Closed,
    /// Arrivals at a given rate, whatever the server does: for latency.
    Open,
}

/// A range that holds the truth with the confidence stated beside it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Between {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl From<Interval> for Between {
    fn from(interval: Interval) -> Self {
        Self {
            low: interval.low,
            high: interval.high,
        }
    }
}

impl From<Between> for Interval {
    fn from(between: Between) -> Self {
        Self {
            low: between.low,
            high: between.high,
        }
    }
}

/// A percentile in which a failure counts as worse than any latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WithFailures {
    /// The value, where enough requests succeeded to have it.
    pub ms: Option<f64>,
    /// Where they did not: the value lies above this, the shortest wait of a failed request.
    pub over_ms: Option<f64>,
}

/// How often one clause of the SLO held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClauseRow {
    /// The clause as in the SLO file: `ttft <= 500ms`.
    pub clause: String,
    /// The metric alone: `ttft`.
    pub metric: String,
    /// Share of judged requests within the bound; failures are outside it. Null without requests.
    pub share: Option<f64>,
    /// The share the SLO asks for: that of a percentile clause, else the objective.
    pub needed: f64,
    /// Whether `share` reaches `needed`. Null without requests.
    pub holds: Option<bool>,
    /// Requests outside the bound.
    pub misses: u64,
}

/// What one SLO says of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SloRow {
    /// The SLO's name.
    pub slo: String,
    /// Share of requests that met every clause: met / (met + missed). Null without requests.
    pub attainment: Option<f64>,
    /// Its 95 % interval, which allows for requests that are slow together.
    pub attainment_interval: Option<Between>,
    /// Requests that met it.
    pub met: u64,
    /// Requests that did not.
    pub missed: u64,
    /// Requests excused by name in the SLO file.
    pub excused: u64,
    /// Missed by their outcome alone: failed, timed out, empty.
    pub outcome_misses: u64,
    /// Tokens a second, inside the window, of requests that met it.
    pub goodput_tok_s: f64,
    /// Its 95 % interval.
    pub goodput_interval: Option<Between>,
    /// Requests that met it, by origin, a second.
    pub goodput_req_s: f64,
    /// Characters a second of requests that met it. Null where nobody counted them.
    pub good_characters_per_s: Option<f64>,
    /// Words a second of requests that met it. Null where nobody counted them.
    pub good_words_per_s: Option<f64>,
    /// Clause by clause.
    pub clauses: Vec<ClauseRow>,
    /// Share of sessions that met the SLO as a whole. Null where none was judged.
    pub trajectory_attainment: Option<f64>,
    /// Sessions judged.
    pub trajectories: u64,
}

/// What was asked of the server and what it served, over measured requests that ended well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LengthRow {
    /// Input tokens as planned: p50, p90, p99.
    pub planned_input: [Option<f64>; 3],
    /// Input tokens by the server's count: p50, p90, p99.
    pub input: [Option<f64>; 3],
    /// Output tokens as planned: p50, p90, p99.
    pub planned_output: [Option<f64>; 3],
    /// Output tokens as counted: p50, p90, p99.
    pub output: [Option<f64>; 3],
    /// Mean output tokens as counted.
    pub output_mean: Option<f64>,
    /// Share of input tokens that an earlier request made reusable, as planned.
    pub planned_cached_share: Option<f64>,
    /// Share of input tokens that the server reported as read from its prefix cache.
    pub reported_cached_share: Option<f64>,
    /// Share of prefix-cache look-ups that hit, in tokens, by the server's own counters.
    pub server_cached_share: Option<f64>,
    /// Share of answers that ended before the asked length.
    pub early_stop_share: Option<f64>,
    /// Share of each finish reason.
    pub finish_reasons: BTreeMap<String, f64>,
    /// Tokens an event, over all token events. Above 1: events are not tokens.
    pub tokens_per_event: Option<f64>,
    /// Characters a token.
    pub characters_per_token: Option<f64>,
}

/// What the load generator saw of itself and of the way to the server. What it could not see is
/// null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ClientRow {
    /// CPU time of its load thread, as a share of one core; of several threads, the busiest.
    pub thread_cpu_share: Option<f64>,
    /// Share of the time in which the load thread was ready to run and had no core.
    pub waited_share: Option<f64>,
    /// CPU time that the hypervisor took, summed over the machine's cores; 1 is one core.
    pub stolen_share: Option<f64>,
    /// Time in which the container's CPU limit held threads back, summed over cores; 1 is one core.
    pub throttled_share: Option<f64>,
    /// How long a received byte lay in its socket before it was read, in the mean.
    pub unread_mean_ms: Option<f64>,
    /// How much of the TTFT median may be the load generator's own lateness.
    pub ttft_p50_moved_ms: Option<f64>,
    /// The same of `ttft_p99_ms`.
    pub ttft_p99_moved_ms: Option<f64>,
    /// The same of `tpot_p50_ms`.
    pub tpot_p50_moved_ms: Option<f64>,
    /// The same of `tpot_p99_ms`.
    pub tpot_p99_moved_ms: Option<f64>,
    /// Bytes a second that the way from the server was seen to carry: at least this, or all it
    /// carries.
    pub path_bytes_per_s: Option<f64>,
    /// Whether that is all it carries.
    pub path_is_limit: Option<bool>,
}

/// What a server's own counters say of a point, beside the client's. Null: it has no such counter, or
/// there were too few looks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WatchRow {
    /// Looks at the counters while the point ran.
    pub looks: u32,
    /// Median over the looks of requests in the server, running and waiting.
    pub in_server_p50: Option<f64>,
    /// Median over the looks of our requests in flight.
    pub ours_p50: Option<f64>,
    /// Requests in the server that are not ours: lower quartile over the looks, 0 or more.
    pub foreign_in_server: Option<f64>,
    /// Requests that ended in the server, by its count.
    pub ended_in_server: Option<u64>,
    /// Of ours, those that ended meanwhile.
    pub ended_ours: Option<u64>,
    /// Share of what the server worked on that was not ours, by the larger of the two signs.
    pub foreign_share: Option<f64>,
    /// Replicas that can be told apart behind the URL. 1: nothing speaks for several.
    pub replicas_seen: u32,
    /// What the answers call their server, where they differ: model and fingerprint.
    pub answered_as: Vec<String>,
    /// Restarts while the point ran.
    pub restarts: u32,
    /// When the server process began, seconds since 1970, by its own account; the last seen.
    pub started_unix_s: Option<f64>,
}

/// One load point. Figures cover its window unless they say otherwise; what is undefined is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PointRow {
    /// Its number within the run.
    pub point: u32,
    /// Closed or open loop.
    pub mode: Mode,
    /// Users of a closed loop.
    pub concurrency: Option<u32>,
    /// Arrivals a second asked of an open loop.
    pub rate_req_s: Option<f64>,
    /// How arrivals came, where not as the workload's own do: `poisson`.
    #[serde(default)]
    pub other_arrivals: Option<String>,
    /// Length of the window.
    pub window_s: f64,
    /// Seconds at its start that were not yet steady: tokens a second and requests in flight, their
    /// intervals too, are counted from there on.
    #[serde(default)]
    pub warm_up_s: f64,
    /// Measured requests: their origin lies in the window.
    pub requests: u64,
    /// Measured requests that ended well, a second.
    pub completed_req_s: f64,
    /// Tokens received inside the window a second, whatever became of the request.
    pub throughput_tok_s: f64,
    /// Its 95 % interval.
    #[serde(default)]
    pub throughput_interval: Option<Between>,
    /// Tokens received inside the window a second, of requests that met the first SLO.
    pub goodput_tok_s: f64,
    /// Its 95 % interval.
    pub goodput_interval: Option<Between>,
    /// Requests that met the first SLO, a second.
    pub goodput_req_s: f64,
    /// Throughput a GPU, with `--gpus`.
    pub throughput_tok_s_per_gpu: Option<f64>,
    /// Goodput a GPU, with `--gpus`.
    pub goodput_tok_s_per_gpu: Option<f64>,
    /// Characters received inside the window a second. Null where nobody counted them.
    pub characters_per_s: Option<f64>,
    /// Words received inside the window a second. Null where nobody counted them.
    pub words_per_s: Option<f64>,
    /// What one stream gets while it runs: 1 / median TPOT.
    pub stream_tok_s: Option<f64>,
    /// Share of requests that met the first SLO.
    pub slo_attainment: Option<f64>,
    /// Its 95 % interval.
    pub attainment_interval: Option<Between>,
    /// Share of sessions that met the first SLO as a whole.
    pub trajectory_attainment: Option<f64>,
    /// Measured requests by outcome; what did not occur is left out.
    pub outcomes: BTreeMap<String, u64>,
    /// Measured requests by HTTP status.
    pub statuses: BTreeMap<String, u64>,
    /// TTFT percentile.
    pub ttft_p50_ms: Option<f64>,
    /// Its 95 % interval, in ms. Null where too few requests were seen for one.
    #[serde(default)]
    pub ttft_p50_interval: Option<Between>,
    /// TTFT percentile.
    pub ttft_p90_ms: Option<f64>,
    /// TTFT percentile.
    pub ttft_p95_ms: Option<f64>,
    /// TTFT percentile.
    pub ttft_p99_ms: Option<f64>,
    /// Its 95 % interval, in ms. Null where too few requests were seen for one.
    #[serde(default)]
    pub ttft_p99_interval: Option<Between>,
    /// TTFT percentile with failures as worse than any latency.
    pub ttft_p95_with_failures: WithFailures,
    /// TTFT percentile with failures as worse than any latency.
    pub ttft_p99_with_failures: WithFailures,
    /// Percentile of the time to the first token that is not reasoning.
    pub ttft_answer_p50_ms: Option<f64>,
    /// Percentile of the time to the first token that is not reasoning.
    pub ttft_answer_p99_ms: Option<f64>,
    /// TPOT percentile across requests.
    pub tpot_p50_ms: Option<f64>,
    /// Its 95 % interval, in ms. Null where too few requests were seen for one.
    #[serde(default)]
    pub tpot_p50_interval: Option<Between>,
    /// TPOT percentile across requests.
    pub tpot_p90_ms: Option<f64>,
    /// TPOT percentile across requests.
    pub tpot_p95_ms: Option<f64>,
    /// TPOT percentile across requests.
    pub tpot_p99_ms: Option<f64>,
    /// Its 95 % interval, in ms. Null where too few requests were seen for one.
    #[serde(default)]
    pub tpot_p99_interval: Option<Between>,
    /// Mean TPOT, every request counting the same.
    pub tpot_mean_ms: Option<f64>,
    /// Mean gap between tokens, every token counting the same.
    pub itl_mean_ms: Option<f64>,
    /// Percentile across requests of the median gap.
    pub tpot_median_p50_ms: Option<f64>,
    /// Percentile across requests of the median gap.
    pub tpot_median_p99_ms: Option<f64>,
    /// Percentile across requests of the longest gap.
    pub stall_p50_ms: Option<f64>,
    /// Percentile across requests of the longest gap.
    pub stall_p99_ms: Option<f64>,
    /// E2E percentile.
    pub e2e_p50_ms: Option<f64>,
    /// E2E percentile.
    pub e2e_p90_ms: Option<f64>,
    /// E2E percentile.
    pub e2e_p95_ms: Option<f64>,
    /// E2E percentile.
    pub e2e_p99_ms: Option<f64>,
    /// Requests with a TTFT: the sample count of its percentiles.
    pub ttft_n: u64,
    /// Requests with a TPOT: the sample count of its percentiles.
    pub tpot_n: u64,
    /// Mean requests in flight, by the area under their lives.
    pub in_flight_mean: f64,
    /// Most requests in flight at once, as the load generator counted.
    pub in_flight_peak: Option<u32>,
    /// In flight when the window opened, whenever they came.
    #[serde(default)]
    pub in_flight_at_start: u64,
    /// In flight when the window closed. They are judged when they end.
    pub in_flight_at_end: u32,
    /// Of these, requests that the end of the run cut off: neither met nor missed.
    pub cut_by_end_of_run: u64,
    /// Arrivals sent, of those that were due inside the window.
    pub sent_share: Option<f64>,
    /// Send lag percentile: from the scheduled instant to the send.
    pub send_lag_p50_ms: Option<f64>,
    /// Send lag percentile.
    pub send_lag_p99_ms: Option<f64>,
    /// Lateness of the load generator's own timer.
    pub loop_lag_p99_ms: Option<f64>,
    /// Share of one core the load generator used.
    pub client_cpu_share: Option<f64>,
    /// What else the load generator saw of itself.
    #[serde(default)]
    pub client: ClientRow,
    /// Median set-up time of new connections.
    pub connect_p50_ms: Option<f64>,
    /// Share of requests that reused a connection.
    pub reused_connections_share: Option<f64>,
    /// Share of streams whose token events all came at one instant.
    pub burst_share: Option<f64>,
    /// Answers that were not streamed although asked to be.
    pub not_streamed: u64,
    /// Requests of which the server told its own decode time and the client measured one.
    #[serde(default)]
    pub server_timings: u64,
    /// Of these, requests where the two differ by more than a factor of two: not used anywhere.
    #[serde(default)]
    pub server_timings_implausible: u64,
    /// The server's time over the client's at the last of these.
    #[serde(default)]
    pub server_timing_ratio: Option<f64>,
    /// Asked and served lengths, cache hits.
    pub lengths: LengthRow,
    /// Figures by which the point is checked.
    #[serde(default)]
    pub checks: CheckRow,
    /// What the server's own counters say beside ours. Null where it shows none.
    #[serde(default)]
    pub server: Option<WatchRow>,
    /// Every SLO of the run, the first one included.
    pub slos: Vec<SloRow>,
    /// Whether the point may be used for an answer.
    pub valid: bool,
    /// Why not, and what else a reader should know.
    pub warnings: Vec<String>,
}

impl PointRow {
    /// Takes out what is said of single gaps between tokens and of the events that brought them, where
    /// they are not known to the token.
    pub fn forget_gaps(&mut self) {
        self.lengths.tokens_per_event = None;
        self.checks.tokens_per_event = None;
        self.checks.bunched_share = None;
        self.checks.events_per_bunch = None;
        self.itl_mean_ms = None;
        self.tpot_median_p50_ms = None;
        self.tpot_median_p99_ms = None;
        self.stall_p50_ms = None;
        self.stall_p99_ms = None;
    }

    /// The load in the unit of its mode: users, or requests a second.
    #[must_use]
    pub fn load(&self) -> f64 {
        match self.mode {
            Mode::Closed => self.concurrency.map_or(0.0, f64::from),
            Mode::Open => self.rate_req_s.unwrap_or_default(),
        }
    }

    /// Takes the point's trust away, for a reason that comes before all others.
    pub fn invalidate(&mut self, reason: String) {
        self.valid = false;
        self.warnings.insert(0, reason);
    }

    /// What the first SLO says.
    #[must_use]
    pub fn first_slo(&self) -> Option<&SloRow> {
        self.slos.first()
    }

    /// Whether every clause of the first SLO holds at its percentile.
    #[must_use]
    pub fn holds_every_clause(&self) -> bool {
        self.first_slo().is_some_and(|slo| {
            !slo.clauses.is_empty() && slo.clauses.iter().all(|c| c.holds == Some(true))
        })
    }

    /// The share of the received tokens that belong to requests that missed the first SLO.
    #[must_use]
    pub fn late_share(&self) -> Option<f64> {
        (self.throughput_tok_s > 0.0).then(|| 1.0 - self.goodput_tok_s / self.throughput_tok_s)
    }
}
