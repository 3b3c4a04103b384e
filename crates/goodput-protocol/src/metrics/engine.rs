//! The engines' names for the same few quantities.

use goodput_record::{EngineSample, Timestamp};

use super::exposition::{Metric, metrics};
use crate::identity::EngineKind;

/// How the series of one quantity are made one number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fold {
    /// Over ranks and reasons.
    Sum,
    /// A share, or an instant: over ranks.
    Mean,
}

/// A quantity of [`EngineSample`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Running,
    Waiting,
    KvUsed,
    Preemptions,
    PrefixQueries,
    /// Tokens looked up and not found; with the hits they make the queries.
    PrefixMisses,
    PrefixHits,
    Ended,
    Started,
}

impl Quantity {
    const COUNT: usize = 9;
}

/// A name, the label it must have (name and value, or empty), and what it says.
type Name = (&'static str, (&'static str, &'static str), Quantity);

const ANY: (&str, &str) = ("", "");

/// Where two names of one engine say the same thing (before and after a renaming), the table has
/// both and the first that is present counts.
const NAMES: &[Name] = &[
    // Of every process that is watched with a Prometheus client.
    ("process_start_time_seconds", ANY, Quantity::Started),
    // vLLM, V1 and before.
    ("vllm:num_requests_running", ANY, Quantity::Running),
    ("vllm:num_requests_waiting", ANY, Quantity::Waiting),
    ("vllm:kv_cache_usage_perc", ANY, Quantity::KvUsed),
    ("vllm:gpu_cache_usage_perc", ANY, Quantity::KvUsed),
    ("vllm:num_preemptions_total", ANY, Quantity::Preemptions),
    (
        "vllm:prefix_cache_queries_total",
        ANY,
        Quantity::PrefixQueries,
    ),
    (
        "vllm:gpu_prefix_cache_queries_total",
        ANY,
        Quantity::PrefixQueries,
    ),
    ("vllm:prefix_cache_hits_total", ANY, Quantity::PrefixHits),
    (
        "vllm:gpu_prefix_cache_hits_total",
        ANY,
        Quantity::PrefixHits,
    ),
    ("vllm:request_success_total", ANY, Quantity::Ended),
    // SGLang: its prompt tokens are all tokens, cached ones included.
    ("sglang:num_running_reqs", ANY, Quantity::Running),
    ("sglang:num_queue_reqs", ANY, Quantity::Waiting),
    ("sglang:token_usage", ANY, Quantity::KvUsed),
    (
        "sglang:num_retracted_requests_total",
        ANY,
        Quantity::Preemptions,
    ),
    (
        "sglang:num_retracted_reqs_total",
        ANY,
        Quantity::Preemptions,
    ),
    ("sglang:prompt_tokens_total", ANY, Quantity::PrefixQueries),
    ("sglang:cached_tokens_total", ANY, Quantity::PrefixHits),
    ("sglang:num_requests_total", ANY, Quantity::Ended),
    // TGI.
    ("tgi_batch_current_size", ANY, Quantity::Running),
    ("tgi_queue_size", ANY, Quantity::Waiting),
    ("tgi_request_success", ANY, Quantity::Ended),
    ("tgi_request_success_total", ANY, Quantity::Ended),
    // llama.cpp: no preemption counter, and no KV gauge in newer builds. Its prompt tokens are
    // those it computed, cached ones left out.
    ("llamacpp:requests_processing", ANY, Quantity::Running),
    ("llamacpp:requests_deferred", ANY, Quantity::Waiting),
    ("llamacpp:kv_cache_usage_ratio", ANY, Quantity::KvUsed),
    ("llamacpp:prompt_tokens_total", ANY, Quantity::PrefixMisses),
    (
        "llamacpp:prompt_tokens_cached_total",
        ANY,
        Quantity::PrefixHits,
    ),
    // TensorRT-LLM: its own server, and behind Triton.
    ("trtllm_num_requests_running", ANY, Quantity::Running),
    ("trtllm_num_requests_waiting", ANY, Quantity::Waiting),
    ("trtllm_kv_cache_utilization", ANY, Quantity::KvUsed),
    ("trtllm_request_success_total", ANY, Quantity::Ended),
    (
        "nv_trt_llm_request_metrics",
        ("request_type", "scheduled"),
        Quantity::Running,
    ),
    (
        "nv_trt_llm_request_metrics",
        ("request_type", "waiting"),
        Quantity::Waiting,
    ),
    (
        "nv_trt_llm_kv_cache_block_metrics",
        ("kv_cache_block_type", "fraction"),
        Quantity::KvUsed,
    ),
];

/// Which engine a scrape is from, by its names; [`EngineKind::Unknown`] if none is known.
#[must_use]
pub fn engine_of(text: &str) -> EngineKind {
    metrics(text)
        .find_map(|metric| kind(metric.name))
        .unwrap_or(EngineKind::Unknown)
}

fn kind(name: &str) -> Option<EngineKind> {
    let prefixes = [
        ("vllm:", EngineKind::Vllm),
        ("sglang:", EngineKind::Sglang),
        ("tgi_", EngineKind::Tgi),
        ("llamacpp:", EngineKind::LlamaCpp),
        ("trtllm_", EngineKind::TensorRtLlm),
        ("nv_trt_llm_", EngineKind::TensorRtLlm),
    ];
    let known = prefixes.iter().find(|(prefix, _)| name.starts_with(prefix));
    known.map(|&(_, kind)| kind)
}

/// Reads an engine's counters from a scrape. What the engine does not count is `None`, never 0;
/// series of several ranks are summed (shares: averaged).
#[must_use]
pub fn engine_sample(text: &str, at: Timestamp, replica: u16) -> EngineSample {
    let mut found = [Found::default(); Quantity::COUNT];
    for metric in metrics(text).filter(|metric| metric.value.is_finite()) {
        for (rank, &(name, label, quantity)) in NAMES.iter().enumerate() {
            if metric.name == name && matches(&metric, label) {
                found[quantity as usize].add(rank, metric.value);
            }
        }
    }
    let get = |quantity: Quantity, fold: Fold| found[quantity as usize].get(fold);
    let count = |quantity| get(quantity, Fold::Sum).map(whole);
    let small = |quantity| count(quantity).and_then(|n| u32::try_from(n).ok());
    let hits = count(Quantity::PrefixHits);
    let queries = count(Quantity::PrefixQueries).or_else(|| {
        let misses = count(Quantity::PrefixMisses)?;
        Some(misses + hits?)
    });
    EngineSample {
        at,
        replica,
        running: small(Quantity::Running),
        waiting: small(Quantity::Waiting),
        kv_used: get(Quantity::KvUsed, Fold::Mean),
        preemptions: count(Quantity::Preemptions),
        prefix_queries: queries.filter(|_| hits.is_some()),
        prefix_hits: hits,
        requests_ended: count(Quantity::Ended),
        started_unix_s: get(Quantity::Started, Fold::Mean),
    }
}

fn matches(metric: &Metric<'_>, (label, value): (&str, &str)) -> bool {
    label.is_empty() || metric.label(label) == Some(value)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a counter; `as` saturates"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// The series of one quantity so far.
#[derive(Clone, Copy, Default)]
struct Found {
    /// The place in [`NAMES`] of the name that counts.
    rank: usize,
    sum: f64,
    series: u32,
}

impl Found {
    fn add(&mut self, rank: usize, value: f64) {
        if self.series > 0 && rank > self.rank {
            return;
        }
        if self.series == 0 || rank < self.rank {
            *self = Self {
                rank,
                ..Self::default()
            };
        }
        self.sum += value;
        self.series += 1;
    }

    fn get(self, fold: Fold) -> Option<f64> {
        (self.series > 0).then(|| match fold {
            Fold::Sum => self.sum,
            Fold::Mean => self.sum / f64::from(self.series),
        })
    }
}
