//! `result.json`: everything a run found, as plain values.

use std::collections::BTreeMap;

use goodput_ledger::{Between, PointRow};
use serde::{Deserialize, Serialize};

use crate::{
    auto::{Found, FoundRate},
    boots::BootSummary,
};

/// The version of `result.json`. It rises when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// Everything one run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunResult {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Version of the program.
    pub goodput_version: String,
    /// `sweep` or `bench`; `simulate` for a sweep in virtual time; `shard` for one share of a run, `merged` for all of them together; `import`
    /// for requests that another tool sent.
    pub kind: String,
    /// The run's id: the first part of every request id.
    pub run: String,
    /// Wall-clock start, RFC 3339 in UTC. Of a simulated run, when it was computed.
    pub started: String,
    /// Wall-clock time of the run's epoch, in nanoseconds since 1970-01-01 UTC.
    pub epoch_unix_ns: u64,
    /// How long it took; of a simulated run, in virtual time.
    pub duration_s: f64,
    /// Whether it ran to its end. False after Ctrl-C or a failure: what was measured is kept.
    pub complete: bool,
    /// Why it is not complete.
    pub incomplete_because: Option<String>,
    /// The first load point while it is measured: what a run was at that was killed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_way: Option<UnderWay>,
    /// The seed of schedule, lengths and prompts.
    pub seed: u64,
    /// What the figures hold for.
    pub holds_for: HoldsFor,
    /// The load points, in the order in which they ran. With several boots, one row a load: the
    /// means over boots, with intervals that hold what a restart changes.
    pub points: Vec<PointRow>,
    /// Each boot of the server with its own points. Empty where there is one boot only.
    #[serde(default)]
    pub boots: Vec<BootSummary>,
    /// The answers.
    pub operating_point: OperatingPoint,
    /// What a reader should know.
    pub findings: Vec<Finding>,
    /// What each figure means.
    pub definitions: BTreeMap<String, String>,
    /// Distributions and a sample of requests, for the charts.
    pub charts: Vec<PointChart>,
    /// The settings as given, secrets left out.
    pub settings: BTreeMap<String, String>,
}

impl RunResult {
    /// The share of requests that must meet the SLO that decides.
    #[must_use]
    pub fn objective(&self) -> f64 {
        self.holds_for.slos.first().map_or(1.0, |slo| slo.objective)
    }
}

/// A load point that is being measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnderWay {
    /// Its number.
    pub point: u32,
    /// Users of a closed loop.
    pub concurrency: Option<u32>,
    /// Arrivals a second of an open loop.
    pub rate_req_s: Option<f64>,
}

/// What a result holds for. Another model, SLO or workload has another operating point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HoldsFor {
    /// The served model's id.
    pub model: String,
    /// The SLOs; the first one decides.
    pub slos: Vec<SloFacts>,
    /// The workload.
    pub workload: WorkloadFacts,
    /// The server.
    pub server: ServerFacts,
    /// GPUs behind the endpoint, where told.
    pub gpus: Option<u32>,
    /// The hardware, where named: no decode step is shorter than its reading of the weights.
    #[serde(default)]
    pub hardware: Option<HardwareFacts>,
    /// What a restart could change.
    pub boot: String,
}

/// An SLO, in words and numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SloFacts {
    /// Its name.
    pub name: String,
    /// The whole SLO in a sentence.
    pub sentence: String,
    /// The share of requests that must meet it.
    pub objective: f64,
    /// The window of the objective, in days.
    pub window_days: f64,
    /// Its clauses.
    pub clauses: Vec<ClauseFacts>,
    /// Where its values come from and why.
    pub reason: String,
}

/// One clause of an SLO.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClauseFacts {
    /// The metric: `ttft`, `tpot`, ...
    pub metric: String,
    /// The clause as in the SLO file.
    pub clause: String,
    /// The bound, where it is one number for all requests.
    pub bound_ms: Option<f64>,
    /// The share of requests that must be within it.
    pub needed: f64,
}

/// A workload, in words and numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkloadFacts {
    /// Its name.
    pub name: String,
    /// Where its facts come from.
    pub source: String,
    /// Input tokens: p50, p90, p99.
    pub input: [f64; 3],
    /// Output tokens: p50, p90, p99.
    pub output: [f64; 3],
    /// Share of input tokens that earlier requests make reusable.
    pub cached_share: f64,
    /// How arrivals come in the open loop.
    pub arrivals: String,
    /// When an answer ends: its natural end, a limit, or the limit with the end mark ignored.
    pub output_policy: String,
    /// What the prompts are made of.
    pub prompts: String,
    /// How prompt lengths were counted.
    pub counted_by: String,
}

/// A server, as far as it says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerFacts {
    /// Base URL, without credentials. Empty where there is none: of a simulated replica.
    pub url: String,
    /// `vLLM`, `llama.cpp`, ... where known.
    pub engine: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Flags and limits it told of: `max_model_len`, `num_gpu_blocks`, ...
    pub flags: BTreeMap<String, String>,
    /// Whether it is an emulated replica, started by the run or found at the URL: no figure of it is about
    /// real hardware.
    pub emulated: bool,
    /// What was simulated, where nothing was measured: the replica existed in virtual time only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<SimulatedFacts>,
    /// Faults that the emulated replica was told to have.
    #[serde(default)]
    pub faults: Vec<String>,
    /// What its own counters said of it while it was measured: replicas, foreign traffic.
    #[serde(default)]
    pub seen: Option<String>,
    /// Why its own counters were not watched.
    #[serde(default)]
    pub not_watched: Option<String>,
}

/// What a simulated replica was made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedFacts {
    /// The engine profile's name.
    pub profile: String,
    /// Where the profile's numbers come from.
    pub source: String,
    /// What was changed in the profile or the workload: `key=value`.
    #[serde(default)]
    pub what_if: Vec<String>,
    /// The loads on which the profile was fitted, in words. Null where it was not fitted, or does not
    /// say.
    #[serde(default)]
    pub fitted_on: Option<String>,
}

/// Hardware and model as far as they bound a decode step from below.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HardwareFacts {
    /// The accelerator, as the catalogue has it.
    pub accelerator: String,
    /// How many share the weights.
    pub count: u32,
    /// Bits of a weight: as told, else by the model's name, else 16.
    pub weight_bits: u32,
    /// Whether the bits were told or are in the model's name.
    pub bits_known: bool,
    /// Shortest possible decode step at these bits: active weights / bandwidth of all accelerators.
    pub weight_read_ms: f64,
    /// Where the figures are from.
    pub source: String,
}

/// The answers of a run. Each is null where the run does not carry it, and `missing` says why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OperatingPoint {
    /// The rate to sell: the highest tested open-loop rate at which the lower end of the
    /// attainment's interval keeps the objective.
    pub by_objective: Option<ByObjective>,
    /// The last load such that it and every smaller one hold every clause: the cap to set.
    pub by_clauses: Option<PointRow>,
    /// The load of the largest goodput in tokens a second: not an operating point by itself.
    pub by_goodput: Option<ByGoodput>,
    /// The load of the largest throughput, whatever was late: never an operating point.
    pub by_throughput: Option<PointRow>,
    /// Loads whose goodput is not distinguishably below the best.
    pub not_worse: Vec<f64>,
    /// `[ceil(2n/3), floor(5n/6)]` of the concurrency n of `by_clauses`: where to run.
    pub run_at: Option<[u32; 2]>,
    /// 70 % of the goodput of `by_clauses`: where to add a replica as long as there is no
    /// `scale_out_at_req_s`. A closed loop sends a request only when one has ended: mostly it is the
    /// higher load of the two.
    pub scale_out_at_tok_s: Option<f64>,
    /// 70 % of the rate to sell: where to add a replica.
    pub scale_out_at_req_s: Option<f64>,
    /// Largest concurrency whose per-token time is at most twice that of one stream.
    pub knee: Option<u32>,
    /// Whether the best load lies strictly inside the tested ones. False: test further out.
    pub peak_bracketed: bool,
    /// Why an answer is missing, one sentence each.
    pub missing: Vec<String>,
    /// What the automatic searches found and whether they could settle it. Null where every load was
    /// named.
    #[serde(default)]
    pub search: Option<Search>,
}

/// What the searches of a sweep found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Search {
    /// The closed-loop search for the largest goodput.
    pub peak: Option<Found>,
    /// The open-loop search under the workload's own arrivals.
    pub rate: Option<FoundRate>,
    /// The same under Poisson arrivals, where the workload's own come in bursts.
    pub poisson_rate: Option<FoundRate>,
}

/// The rate to sell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ByObjective {
    /// Arrivals a second.
    pub rate_req_s: f64,
    /// Share of requests that met the SLO there.
    pub attainment: f64,
    /// Its 95 % interval.
    pub interval: Between,
    /// Goodput there.
    pub goodput_tok_s: f64,
    /// Throughput there.
    pub throughput_tok_s: f64,
    /// What one stream gets there.
    pub stream_tok_s: Option<f64>,
    /// The stated output length, in tokens, for the end-to-end time beside it.
    pub e2e_at_tokens: u32,
    /// TTFT p50 + TPOT p50 x (tokens - 1).
    pub e2e_p50_ms: Option<f64>,
    /// TTFT p95 + TPOT p95 x (tokens - 1): an upper estimate, the two need not fall together.
    pub e2e_p95_ms: Option<f64>,
    /// Its row.
    pub row: PointRow,
}

/// The load of the largest goodput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ByGoodput {
    /// Its row.
    pub row: PointRow,
    /// The 95 % interval of its goodput.
    pub interval: Option<Between>,
    /// Share of its tokens that belong to requests that were late.
    pub late_share: Option<f64>,
}

/// Something a reader should know, with what shows it and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// A short stable name: `closed-loop-queue`.
    pub name: String,
    /// What was seen, with figures.
    pub evidence: String,
    /// What to do.
    pub advice: String,
    /// Whether it takes trust away from an answer.
    pub severe: bool,
}

impl Finding {
    /// A finding that informs.
    #[must_use]
    pub fn new(name: &str, evidence: String, advice: &str) -> Self {
        Self {
            name: name.to_owned(),
            evidence,
            advice: advice.to_owned(),
            severe: false,
        }
    }
}

/// What the charts of one point need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PointChart {
    /// The point.
    pub point: u32,
    /// 101 quantiles, 0 % to 100 %, of TTFT in ms. Empty where undefined.
    pub ttft_ms: Vec<f64>,
    /// The same of TPOT.
    pub tpot_ms: Vec<f64>,
    /// The same of E2E.
    pub e2e_ms: Vec<f64>,
    /// The same of the longest gap.
    pub stall_ms: Vec<f64>,
    /// A sample of the point's requests, in order of origin.
    pub requests: Vec<RequestBar>,
    /// Seconds since the window opened and tokens a second: all and good.
    pub timeline: Vec<[f64; 3]>,
}

/// One request of the timeline. Times are seconds since the point's first request shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestBar {
    /// When it was due.
    pub origin_s: f64,
    /// When it was sent.
    pub sent_s: Option<f64>,
    /// First token.
    pub first_token_s: Option<f64>,
    /// End.
    pub end_s: f64,
    /// Whether it met the first SLO.
    pub met: bool,
    /// The outcome.
    pub outcome: String,
    /// Input tokens.
    pub input_tokens: u32,
    /// Output tokens.
    pub output_tokens: u32,
}
