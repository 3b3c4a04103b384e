//! inference-perf's `per_request_lifecycle_metrics.json`: an array of requests with monotonic
//! seconds.
//!
//! Source: kubernetes-sigs/inference-perf, `inference_perf/{apis,reportgen}/base.py`.

use goodput_record::{Outcome, TokenCount, nanos_of};
use serde::Deserialize;

use super::{
    Read, Told, Tool, Trouble,
    python::elements,
    request::{Foreign, Spans, count},
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
    Ok(vec![told])
}

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
    let output = usage
        .completion_tokens
        .map(|n| TokenCount::Usage(count(n)))
        .or(answer
            .output_tokens
            .or(info.output_tokens)
            .map(|n| TokenCount::Tokenizer(count(n))));
    let first_token = times.first().and_then(|&at| since("TTFT", at));
    let last_token = times.last().and_then(|&at| since("last token", at));
    let lived = since("end", entry.end_time);
    let mut out = match &entry.error {
        None => Foreign::answered(first_token, output),
        Some(error) => {
            let mut failed = Foreign::of(outcome(error));
            failed.first_token = first_token;
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
    out.end.input_tokens = usage.prompt_tokens.or(info.input_tokens).map(count);
    out.end.cached_tokens = usage
        .prompt_tokens_details
        .and_then(|d| d.cached_tokens)
        .map(count);
    out.error = entry.error.map(|e| e.error_msg);
    spans.checked(out)
}

fn outcome(error: &Error) -> Outcome {
    let told = format!("{} {}", error.error_type, error.error_msg);
    match told.as_str() {
        t if t.contains("429") || t.contains("503") => Outcome::Rejected,
        t if t.contains("Timeout") => Outcome::TimedOut,
        _ => Outcome::Failed,
    }
}
