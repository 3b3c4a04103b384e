//! inference-perf's `per_request_lifecycle_metrics.json`: an array of requests with monotonic
//! seconds.
//!
//! Source: kubernetes-sigs/inference-perf, `inference_perf/{apis,reportgen}/base.py`.

use std::{fs, path::Path};

use goodput_record::{TokenCount, nanos_of};
use serde::Deserialize;

use super::{
    Read, Told, ToldLoad, Tool, Trouble,
    python::elements,
    request::{Foreign, Spans, count, failure},
    source::Source,
};

#[derive(Debug, Deserialize)]
struct Entry {
    start_time: f64,
    end_time: f64,
    request: Option<String>,
    info: Option<Info>,
    error: Option<Error>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Info {
    input_tokens: Option<u64>,
    /// Before 0.5 the counts and times of the answer stood here.
    output_tokens: Option<u64>,
    output_token_times: Vec<f64>,
    response_metrics: Option<Response>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Response {
    output_tokens: Option<u64>,
    chunk_times: Vec<f64>,
    output_token_times: Vec<f64>,
    server_usage: Option<ServerUsage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServerUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Error {
    error_type: String,
    error_msg: String,
}

pub(super) fn read(source: &Source) -> Read {
    let text = source.json().map_err(|e| Trouble::unreadable(&e))?;
    let mut told = Told::new(Tool::InferencePerf);
    elements(text, Tool::InferencePerf, |entry: Entry| {
        if told.model.is_none() {
            told.model = model(&entry);
        }
        told.requests.push(request(entry));
    })?;
    Ok(by_stage(told, &stages(source.path())))
}

/// What `stage_N_lifecycle_metrics.json` beside the requests tells of a stage.
#[derive(Debug, Deserialize)]
struct Stage {
    load_summary: Load,
}

#[derive(Debug, Deserialize)]
struct Load {
    count: usize,
    requested_rate: Option<f64>,
    concurrency: Option<u32>,
    schedule_delay: Option<Delay>,
}

#[derive(Debug, Deserialize)]
struct Delay {
    median: f64,
    p99: Option<f64>,
    max: f64,
}

/// The stages of the run whose requests these are.
fn stages(requests: &Path) -> Vec<Load> {
    let stage = |number: u32| {
        let name = format!("stage_{number}_lifecycle_metrics.json");
        let text = fs::read_to_string(requests.with_file_name(name)).ok()?;
        serde_json::from_str::<Stage>(&text).ok()
    };
    (0..).map_while(stage).map(|s| s.load_summary).collect()
}

/// The requests stage by stage: the file has those of all stages and does not say which is whose,
/// but one stage is sent after the other.
fn by_stage(mut all: Told, stages: &[Load]) -> Vec<Told> {
    let counted: usize = stages.iter().map(|stage| stage.count).sum();
    if counted != all.requests.len() {
        if !stages.is_empty() {
            all.warnings.push(format!(
                "the file has {} requests and the stages beside it {counted}: they are not told apart",
                all.requests.len()
            ));
        }
        return vec![all];
    }
    all.requests.sort_by_key(|request| request.sent);
    let mut requests = all.requests.into_iter();
    let point = |stage: &Load| {
        let mut told = Told::new(Tool::InferencePerf);
        told.model.clone_from(&all.model);
        told.requests = requests.by_ref().take(stage.count).collect();
        let users = stage.concurrency.map(ToldLoad::Users);
        told.load = users.or(stage.requested_rate.map(ToldLoad::Rate));
        let delay = stage.schedule_delay.as_ref();
        if let Some(delay) = delay.filter(|d| users.is_none() && d.max > LATE_S) {
            told.warnings.push(format!(
                "requests were sent {:.1} ms (p50) and {:.1} ms ({}) after they were due, by the file of the stage; that of the requests does not tell which: latencies run from the send, and look shorter than users would have felt them",
                delay.median * 1e3,
                delay.p99.unwrap_or(delay.max) * 1e3,
                if delay.p99.is_some() { "p99" } else { "most" }
            ));
        }
        told
    };
    stages.iter().map(point).collect()
}

/// Requests that were sent later than this were not sent on time.
const LATE_S: f64 = 0.01;

/// The model that a request's body asks for.
fn model(entry: &Entry) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(entry.request.as_deref()?).ok()?;
    Some(body.get("model")?.as_str()?.to_owned())
}

fn request(entry: Entry) -> Foreign {
    let info = entry.info.unwrap_or_default();
    let answer = info.response_metrics.unwrap_or_default();
    let usage = answer.server_usage.unwrap_or_default();
    // One entry a chunk; the times of tokens repeat a chunk's time for each of its tokens.
    let times = [
        answer.chunk_times,
        answer.output_token_times,
        info.output_token_times,
    ]
    .into_iter()
    .find(|times| !times.is_empty())
    .unwrap_or_default();
    let mut spans = Spans::default();
    let mut since = |what, at: f64| spans.signed(what, at - entry.start_time);
    let own = answer.output_tokens.or(info.output_tokens).map(count);
    let counted = usage.completion_tokens.map(count);
    let output = counted
        .map(TokenCount::Usage)
        .or(own.map(TokenCount::Tokenizer));
    let first_token = times.first().and_then(|&at| since("TTFT", at));
    let last_token = times.last().and_then(|&at| since("last token", at));
    let lived = since("end", entry.end_time);
    let mut out = match &entry.error {
        None => Foreign::answered(first_token, output),
        Some(error) => {
            let told = format!("{} {}", error.error_type, error.error_msg);
            let (outcome, status) = failure(&told);
            let mut failed = Foreign::of(outcome);
            failed.first_token = first_token;
            failed.end.http_status = status;
            failed
        }
    };
    if out.first_token.is_some() {
        let mut gap = |pair: &[f64]| spans.signed("gap between tokens", pair[1] - pair[0]);
        let gaps = times.windows(2).map(|pair| gap(pair).unwrap_or(0));
        out.gaps = Some(gaps.collect());
        out.last_token = last_token;
    }
    out.sent = Some(nanos_of(entry.start_time));
    out.lived = lived.unwrap_or(0);
    out.end.tokenizer_tokens = own.filter(|_| counted.is_some() && counted != own);
    // 0 stands for a prompt that nobody counted, as where the request failed.
    let input = usage.prompt_tokens.or(info.input_tokens);
    out.end.input_tokens = input.filter(|n| *n > 0).map(count);
    out.end.cached_tokens = usage
        .prompt_tokens_details
        .and_then(|d| d.cached_tokens)
        .map(count);
    out.error = entry.error.map(|e| e.error_msg.into());
    spans.checked(out)
}
