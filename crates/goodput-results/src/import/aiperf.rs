//! AIPerf's `profile_export.jsonl`: one request a line, metrics by name with their unit.
//!
//! Source: ai-dynamo/aiperf, docs/tutorials/working-with-profile-exports.md and the metrics
//! reference.

use std::{collections::BTreeMap, fs, path::Path};

use goodput_record::{Outcome, TokenCount};
use serde::Deserialize;

use super::{
    Read, Told, ToldLoad, Tool, Trouble,
    python::lines,
    request::{Foreign, Spans, count},
    source::Source,
};

#[derive(Debug, Deserialize)]
struct Line {
    metadata: Metadata,
    metrics: Option<BTreeMap<String, Metric>>,
    error: Option<Error>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    x_request_id: Option<String>,
    credit_issued_ns: Option<u64>,
    request_start_ns: Option<u64>,
    request_ack_ns: Option<u64>,
    request_end_ns: Option<u64>,
    benchmark_phase: Option<String>,
    was_cancelled: bool,
}

#[derive(Debug, Deserialize)]
struct Metric {
    value: serde_json::Value,
    #[serde(default)]
    unit: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Error {
    code: Option<i64>,
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<String>,
}

impl Metric {
    /// A unit of time in seconds.
    fn scale(&self) -> f64 {
        match self.unit.as_str() {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "s" | "sec" | "seconds" => 1.0,
            // What AIPerf shows latencies in.
            _ => 1e-3,
        }
    }
}

type Metrics = BTreeMap<String, Metric>;

fn time(metrics: &Metrics, name: &'static str, spans: &mut Spans) -> Option<u64> {
    let metric = metrics.get(name)?;
    spans.span(name, metric.value.as_f64()? * metric.scale())
}

fn times(metrics: &Metrics, name: &'static str, spans: &mut Spans) -> Option<Box<[u64]>> {
    let metric = metrics.get(name)?;
    let values = metric.value.as_array()?;
    let mut gap = |v: &serde_json::Value| {
        let seconds = v.as_f64()? * metric.scale();
        Some(spans.signed(name, seconds).unwrap_or(0))
    };
    values.iter().map(&mut gap).collect()
}

fn tokens(metrics: &Metrics, name: &str) -> Option<u32> {
    let value = &metrics.get(name)?.value;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count that is written as 9 or as 9.0"
    )]
    let whole = |n: f64| n.max(0.0) as u64;
    value.as_u64().or(value.as_f64().map(whole)).map(count)
}

pub(super) fn read(source: &Source) -> Read {
    let text = source.json().map_err(|e| Trouble::unreadable(&e))?;
    let mut told = Told::new(Tool::AiPerf);
    told.torn = lines(text, Tool::AiPerf, |line| told.requests.push(request(line)))?;
    let config = summary(source.path()).unwrap_or_default().input_config;
    let mut phases = config
        .phases
        .into_iter()
        .filter(|p| p.kind.as_deref() != Some("warmup"));
    if let (Some(phase), None) = (phases.next(), phases.next()) {
        let rate = phase.rate.map(ToldLoad::Rate);
        told.load = rate.or(phase.concurrency.map(ToldLoad::Users));
    }
    // As older versions wrote it (0.3).
    let old = config.loadgen;
    let rate = old.request_rate.map(ToldLoad::Rate);
    told.load = told.load.or(rate).or(old.concurrency.map(ToldLoad::Users));
    let models = config.models.items.into_iter().map(|m| m.name);
    told.model = models.chain(config.endpoint.model_names).next();
    told.chat = config.endpoint.kind.map(|kind| kind.contains("chat"));
    Ok(vec![told])
}

/// What is of use in `profile_export_aiperf.json` beside the requests: how the load was made.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Summary {
    input_config: Config,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Config {
    models: Models,
    endpoint: Endpoint,
    phases: Vec<Phase>,
    loadgen: Loadgen,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Loadgen {
    concurrency: Option<u32>,
    request_rate: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Models {
    items: Vec<Model>,
}

#[derive(Debug, Deserialize)]
struct Model {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Endpoint {
    #[serde(rename = "type")]
    kind: Option<String>,
    model_names: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Phase {
    kind: Option<String>,
    concurrency: Option<u32>,
    rate: Option<f64>,
}

/// The summary beside `profile_export.jsonl`, or beside `NAME.jsonl` where the run was given a name.
fn summary(requests: &Path) -> Option<Summary> {
    let name = requests.file_name()?.to_str()?;
    let name = name.trim_end_matches(".gz").strip_suffix(".jsonl")?;
    [format!("{name}_aiperf.json"), format!("{name}.json")]
        .into_iter()
        .find_map(|beside| fs::read_to_string(requests.with_file_name(beside)).ok())
        .and_then(|text| serde_json::from_str(&text).ok())
}

fn request(line: Line) -> Foreign {
    let (about, metrics) = (line.metadata, line.metrics.unwrap_or_default());
    let mut spans = Spans::default();
    let first_token = time(&metrics, "time_to_first_token", &mut spans);
    let usage = tokens(&metrics, "usage_completion_tokens");
    let own = tokens(&metrics, "output_sequence_length");
    let output = usage
        .map(TokenCount::Usage)
        .or(own.map(TokenCount::Tokenizer));
    let mut request = match &line.error {
        None if about.was_cancelled => Foreign::of(Outcome::Cancelled),
        None => Foreign::answered(first_token, output),
        Some(error) => {
            let mut failed = Foreign::of(outcome(error, about.was_cancelled));
            failed.end.http_status = status(error);
            failed
        }
    };
    let latency = time(&metrics, "request_latency", &mut spans);
    if let Some(first) = request.first_token {
        request.gaps = times(&metrics, "inter_chunk_latency", &mut spans);
        let by_gaps = request
            .gaps
            .as_ref()
            .map(|gaps| first + gaps.iter().sum::<u64>());
        request.last_token = by_gaps.or(latency);
        request.first_answer = time(&metrics, "time_to_first_output_token", &mut spans);
    }
    request.sent = about.request_start_ns;
    request.due = about.credit_issued_ns;
    let since_sent = |at: Option<u64>| at.and_then(|at| at.checked_sub(about.request_start_ns?));
    request.first_byte = since_sent(about.request_ack_ns);
    request.lived = since_sent(about.request_end_ns).or(latency).unwrap_or(0);
    request.warm_up = about
        .benchmark_phase
        .is_some_and(|phase| phase != "profiling");
    // The same number may be the server's, under another name (--use-server-token-count).
    request.end.tokenizer_tokens = own.filter(|_| usage.is_some() && usage != own);
    request.end.input_tokens = tokens(&metrics, "usage_prompt_tokens")
        .or(tokens(&metrics, "input_sequence_length"))
        .or(tokens(&metrics, "error_isl"));
    request.end.cached_tokens = tokens(&metrics, "usage_prompt_cache_read_tokens");
    request.end.reasoning_tokens = tokens(&metrics, "reasoning_token_count");
    request.id = about.x_request_id.map(Into::into);
    request.error = line
        .error
        .and_then(|e| e.message.or(e.kind))
        .map(Into::into);
    spans.checked(request)
}

/// A status of HTTP, not AIPerf's own 499 for a request that it gave up.
fn status(error: &Error) -> Option<u16> {
    let code = u16::try_from(error.code?).ok()?;
    (matches!(code, 100..=599) && code != 499).then_some(code)
}

fn outcome(error: &Error, cancelled: bool) -> Outcome {
    match (error.code, error.kind.as_deref().unwrap_or_default()) {
        _ if cancelled => Outcome::Cancelled,
        (Some(429 | 503), _) => Outcome::Rejected,
        (_, kind) if kind.contains("Cancel") => Outcome::Cancelled,
        (_, kind) if kind.contains("Timeout") => Outcome::TimedOut,
        // aiohttp's word for an answer that broke off.
        (_, "ClientPayloadError") => Outcome::Truncated,
        _ => Outcome::Failed,
    }
}
