//! Which tool wrote a file, seen from its content.

use std::{
    collections::BTreeSet,
    fmt,
    io::{self, BufRead, Read},
};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use super::source::Source;
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
#[derive(Default)]
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
pub(super) fn tool(source: &Source) -> Result<Tool> {
    let path = source.path();
    match seen(source).map_err(|e| ResultsError::io("cannot read", path, e))? {
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

/// The first byte that is no blank.
fn first_byte(source: &Source) -> io::Result<Option<u8>> {
    let mut text = source.bytes()?;
    loop {
        let piece = text.fill_buf()?;
        if let Some(byte) = piece.iter().find(|byte| !byte.is_ascii_whitespace()) {
            return Ok(Some(*byte));
        }
        let length = piece.len();
        if length == 0 {
            return Ok(None);
        }
        text.consume(length);
    }
}

fn seen(source: &Source) -> io::Result<Option<Seen>> {
    Ok(match first_byte(source)? {
        None => None,
        Some(b'[') => of_entry(&first_entry(source)?.unwrap_or_default()),
        Some(b'{') => {
            // The first of a line each, or of several documents one after the other.
            let json = serde_json::Deserializer::from_reader(source.json()?);
            let first = json.into_iter::<Keys>().next();
            first.and_then(|keys| of_object(&keys.ok()?))
        }
        Some(_) => {
            let mut line = Vec::new();
            source.bytes()?.take(HEADER).read_until(b'\n', &mut line)?;
            let line = String::from_utf8_lossy(&line);
            let has = |name: &str| line.split(',').any(|column| column.trim() == name);
            (has("ttft_s") && has("e2e_s")).then_some(Seen::Requests(Tool::LlmPerf))
        }
    })
}

/// The header of a table is no longer than this.
const HEADER: u64 = 1 << 16;

/// The names in the first element of an array.
fn first_entry(source: &Source) -> io::Result<Option<Keys>> {
    struct First<'a>(&'a mut Option<Keys>);
    impl<'de> Visitor<'de> for First<'_> {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> std::result::Result<(), A::Error> {
            *self.0 = all.next_element()?;
            Ok(())
        }
    }
    let mut first = None;
    // The rest of the array is not read: that it does not end here is no matter.
    let _ =
        serde_json::Deserializer::from_reader(source.json()?).deserialize_seq(First(&mut first));
    Ok(first)
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
