//! Which tool wrote a file, seen from its content.

use std::{collections::BTreeSet, fmt, path::Path};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use super::text::without_nan;
use crate::error::{Result, ResultsError};

/// A tool whose files can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `vllm bench serve --save-result --save-detailed`, and its forerunner `benchmark_serving.py`.
    Vllm,
    /// `aiperf profile`: `profile_export.jsonl`.
    AiPerf,
    /// `guidellm`: `benchmarks.json`.
    GuideLlm,
    /// `inference-perf`: `per_request_lifecycle_metrics.json`.
    InferencePerf,
    /// `llmperf`: `*_individual_responses.json`, or one CSV of them.
    LlmPerf,
    /// JSON lines with a TTFT and every gap of a request, as dstack's records were made tidy.
    ItlLines,
    /// `requests.jsonl` of a result folder, judged anew.
    Goodput,
}

impl Tool {
    /// Every tool.
    pub const ALL: [Self; 7] = [
        Self::Vllm,
        Self::AiPerf,
        Self::GuideLlm,
        Self::InferencePerf,
        Self::LlmPerf,
        Self::ItlLines,
        Self::Goodput,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::AiPerf => "aiperf",
            Self::GuideLlm => "guidellm",
            Self::InferencePerf => "inference-perf",
            Self::LlmPerf => "llmperf",
            Self::ItlLines => "dstack",
            Self::Goodput => "goodput",
        }
    }

    /// How to make it keep single requests.
    pub(super) const fn keeps_requests_with(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM keeps requests with --save-result --save-detailed",
            Self::AiPerf => {
                "AIPerf keeps requests in profile_export.jsonl, with --export-level records"
            }
            Self::GuideLlm => {
                "GuideLLM keeps requests in benchmarks.json: write it with --output kind=json,path=benchmarks.json"
            }
            Self::InferencePerf => {
                "inference-perf keeps requests in per_request_lifecycle_metrics.json, with `report: {request_lifecycle: {per_request: true}}` in its configuration"
            }
            Self::LlmPerf => "llmperf keeps requests in *_individual_responses.json",
            Self::ItlLines | Self::Goodput => "name the file with one request a line",
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vllm => "vLLM bench",
            Self::AiPerf => "AIPerf",
            Self::GuideLlm => "GuideLLM",
            Self::InferencePerf => "inference-perf",
            Self::LlmPerf => "llmperf",
            Self::ItlLines => "dstack",
            Self::Goodput => "goodput",
        })
    }
}

/// The names in a JSON object, whatever they stand for.
struct Keys(BTreeSet<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Keys;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Keys, A::Error> {
                let mut names = BTreeSet::new();
                while let Some((name, IgnoredAny)) = map.next_entry()? {
                    names.insert(name);
                }
                Ok(Keys(names))
            }
        }
        from.deserialize_map(Names)
    }
}

/// What was recognised: requests of a tool, or a file of it that keeps none.
enum Seen {
    Requests(Tool),
    Aggregate(Tool),
    Result,
}

/// The tool that wrote this, or why it cannot be used.
pub(super) fn tool(path: &Path, content: &str) -> Result<Tool> {
    match seen(content) {
        Some(Seen::Requests(tool)) => Ok(tool),
        Some(Seen::Aggregate(tool)) => Err(ResultsError::import(
            path,
            format!(
                "this {tool} file holds summaries only: percentiles of survivors cannot be judged again"
            ),
            tool.keeps_requests_with(),
        )),
        Some(Seen::Result) => Err(ResultsError::import(
            path,
            "this is a result already",
            "`goodput report DIR` renders it; --import requests.jsonl judges its requests anew",
        )),
        None => {
            let known: Vec<&str> = Tool::ALL.iter().map(|t| t.flag()).collect();
            Err(ResultsError::import(
                path,
                "no tool is known that writes this",
                format!("name the tool with --from: {}", known.join(", ")),
            ))
        }
    }
}

fn seen(content: &str) -> Option<Seen> {
    let start = content.trim_start();
    let first_line = start.lines().next().unwrap_or_default();
    if start.starts_with('[') {
        let all: Vec<Keys> = serde_json::from_str(&without_nan(start)).ok()?;
        return of_entry(all.first()?);
    }
    if !start.starts_with('{') {
        let has = |name: &str| first_line.split(',').any(|column| column.trim() == name);
        return (has("ttft_s") && has("e2e_s")).then_some(Seen::Requests(Tool::LlmPerf));
    }
    // The first of a line each, or of several documents one after the other.
    let text = without_nan(start);
    let mut documents = serde_json::Deserializer::from_str(&text).into_iter::<Keys>();
    let keys = documents.next()?.ok()?;
    of_object(&keys)
}

/// An entry of an array of requests.
fn of_entry(keys: &Keys) -> Option<Seen> {
    let has = |name: &str| keys.0.contains(name);
    if has("start_time") && has("end_time") && has("info") {
        return Some(Seen::Requests(Tool::InferencePerf));
    }
    has("end_to_end_latency_s").then_some(Seen::Requests(Tool::LlmPerf))
}

/// The first line of JSON lines, or a whole document.
fn of_object(keys: &Keys) -> Option<Seen> {
    let has = |name: &str| keys.0.contains(name);
    let is = |tool, names: &[&str]| names.iter().all(|n| has(n)).then_some(tool);
    is(
        Seen::Requests(Tool::Goodput),
        &["origin_ns", "outcome", "phase"],
    )
    .or(is(Seen::Result, &["schema_version", "points", "holds_for"]))
    .or(is(Seen::Requests(Tool::ItlLines), &["itls_us", "ttft_s"]))
    .or(is(Seen::Requests(Tool::Vllm), &["ttfts", "itls"]))
    .or(is(
        Seen::Aggregate(Tool::Vllm),
        &["request_throughput", "completed"],
    ))
    .or(is(Seen::Requests(Tool::AiPerf), &["metadata", "metrics"]))
    .or(is(
        Seen::Aggregate(Tool::AiPerf),
        &["request_latency", "request_count"],
    ))
    .or(is(Seen::Requests(Tool::GuideLlm), &["benchmarks"]))
    .or(is(
        Seen::Aggregate(Tool::InferencePerf),
        &["load_summary", "successes"],
    ))
    .or(is(Seen::Aggregate(Tool::LlmPerf), &["results_ttft_s_mean"]))
}
