//! `vllm bench serve --save-result --save-detailed`: columns of equal length, one entry a request.
//!
//! Source: vllm-project/vllm, `vllm/benchmarks/serve.py` and `lib/endpoint_request_func.py`.

use goodput_record::{Outcome, TokenCount};
use serde::Deserialize;

use super::{
    Read, Told, ToldLoad, Tool, Trouble,
    request::{Foreign, count, span},
    text::without_nan,
};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    backend: Option<String>,
    endpoint_type: Option<String>,
    model_id: Option<String>,
    /// A number, or `"inf"`.
    request_rate: serde_json::Value,
    max_concurrency: Option<f64>,
    ramp_up_strategy: Option<String>,
    input_lens: Vec<u64>,
    output_lens: Vec<u64>,
    ttfts: Option<Vec<f64>>,
    itls: Vec<Vec<f64>>,
    start_times: Vec<f64>,
    queue_times: Vec<f64>,
    latencies: Vec<f64>,
    generated_texts: Vec<String>,
    errors: Vec<Option<String>>,
}

/// Reads one document, or several one after the other (`--append-result`).
pub(super) fn read(content: &str) -> Read {
    let text = without_nan(content);
    serde_json::Deserializer::from_str(&text)
        .into_iter::<File>()
        .map(|file| point(&file.map_err(|e| Trouble::form(Tool::Vllm, &e))?))
        .collect()
}

fn point(file: &File) -> Result<Told, Trouble> {
    let Some(ttfts) = &file.ttfts else {
        return Err(Trouble::new(
            "the file holds summaries only: percentiles of survivors cannot be judged again",
            Tool::Vllm.keeps_requests_with(),
        ));
    };
    let lengths = [
        file.input_lens.len(),
        file.output_lens.len(),
        file.itls.len(),
    ];
    if lengths.iter().any(|&n| n != ttfts.len()) {
        return Err(Trouble::new(
            format!(
                "its columns differ in length: {} TTFTs, {lengths:?} inputs, outputs, gaps",
                ttfts.len()
            ),
            Tool::Vllm.keeps_requests_with(),
        ));
    }
    let api = file.endpoint_type.as_deref().or(file.backend.as_deref());
    Ok(Told {
        tool: Tool::Vllm,
        model: file.model_id.clone(),
        load: load(file),
        chat: api.map(|api| api.contains("chat")),
        requests: (0..ttfts.len()).map(|i| request(file, ttfts, i)).collect(),
        window: None,
    })
}

/// A finite rate is an open loop, also where a cap held some of it back: that wait is counted.
fn load(file: &File) -> Option<ToldLoad> {
    if file.ramp_up_strategy.is_some() {
        return None;
    }
    if let Some(rate) = file.request_rate.as_f64().filter(|rate| *rate > 0.0) {
        return Some(ToldLoad::Rate(rate));
    }
    let users = file.max_concurrency.filter(|users| *users >= 1.0)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of requests that were in flight"
    )]
    Some(ToldLoad::Users(users as u32))
}

fn request(file: &File, ttfts: &[f64], i: usize) -> Foreign {
    let error = file
        .errors
        .get(i)
        .cloned()
        .flatten()
        .filter(|e| !e.is_empty());
    // What came before the first chunk is written as 0, not left out.
    let first_token = span(ttfts[i]);
    let tokens = count(file.output_lens[i]);
    let mut request = match &error {
        Some(_) => Foreign {
            first_token,
            ..Foreign::of(Outcome::Failed)
        },
        // Counted by the server's usage where it sent one, else by a tokenizer; the file does not
        // say which.
        None => Foreign::answered(first_token, Some(TokenCount::Tokenizer(tokens))),
    };
    if first_token.is_some() && request.first_token.is_some() {
        let gaps: Vec<u64> = file.itls[i].iter().map(|&s| span(s).unwrap_or(0)).collect();
        request.last_token = first_token.map(|first| first + gaps.iter().sum::<u64>());
        request.gaps = Some(gaps);
    }
    let latency = file.latencies.get(i).copied().and_then(span);
    request.lived = latency.or(request.last_token).unwrap_or(0);
    let sent = file.start_times.get(i).copied().and_then(span);
    request.sent = sent;
    let waited = file.queue_times.get(i).copied().and_then(span).unwrap_or(0);
    request.due = sent
        .filter(|_| !file.queue_times.is_empty())
        .map(|at| at.saturating_sub(waited));
    request.end.input_tokens = Some(count(file.input_lens[i]));
    if let Some(text) = file.generated_texts.get(i) {
        request.end.characters = count(text.chars().count() as u64);
        request.end.words = count(text.split_whitespace().count() as u64);
    }
    // A Python traceback: its last line says what happened.
    request.error = error.map(|e| e.trim().lines().last().unwrap_or_default().to_owned());
    request
}
