//! `vllm bench serve --save-result --save-detailed`: columns of equal length, one entry a request.
//!
//! Source: vllm-project/vllm, `vllm/benchmarks/serve.py` and `lib/endpoint_request_func.py`.

use std::mem::take;

use goodput_record::TokenCount;
use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};

use super::{
    Read, Told, ToldLoad, Tool, Trouble,
    python::TextLength,
    request::{Foreign, Spans, count, failure},
    source::Source,
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
    /// Of the whole run, in seconds.
    duration: Option<f64>,
    input_lens: Vec<u64>,
    output_lens: Vec<u64>,
    ttfts: Option<Vec<f64>>,
    itls: Vec<Gaps>,
    start_times: Vec<f64>,
    queue_times: Vec<f64>,
    latencies: Vec<f64>,
    generated_texts: Vec<TextLength>,
    errors: Vec<Option<String>>,
}

/// The gaps of one request, in nanoseconds, and the first that is below zero, in seconds.
#[derive(Debug, Default)]
struct Gaps {
    ns: Vec<u64>,
    below_zero: Option<f64>,
}

impl<'de> Deserialize<'de> for Gaps {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Seconds;
        impl<'de> Visitor<'de> for Seconds {
            type Value = Gaps;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("gaps in seconds")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Gaps, A::Error> {
                let mut gaps = Gaps::default();
                while let Some(seconds) = all.next_element::<f64>()? {
                    gaps.below_zero = gaps.below_zero.or((seconds < 0.0).then_some(seconds));
                    gaps.ns.push(goodput_record::nanos_of(seconds.max(0.0)));
                }
                gaps.ns.shrink_to_fit();
                Ok(gaps)
            }
        }
        from.deserialize_seq(Seconds)
    }
}

/// Reads one document, or several one after the other (`--append-result`).
pub(super) fn read(source: &Source) -> Read {
    let text = source.json().map_err(|e| Trouble::unreadable(&e))?;
    serde_json::Deserializer::from_reader(text)
        .into_iter::<File>()
        .map(|file| point(file.map_err(|e| Trouble::form(Tool::Vllm, &e))?))
        .collect()
}

fn point(mut file: File) -> Result<Told, Trouble> {
    let Some(ttfts) = file.ttfts.take() else {
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
    let mut told = Told::new(Tool::Vllm);
    told.chat = api.map(|api| api.contains("chat"));
    told.load = load(&file, ttfts.len());
    told.model = file.model_id.take();
    told.duration = file.duration.and_then(super::request::span);
    let each = ttfts.iter().enumerate();
    told.requests = each.map(|(i, &ttft)| request(&mut file, ttft, i)).collect();
    Ok(told)
}

/// A finite rate is an open loop, also where a cap held some of it back: that wait is counted.
/// With neither a rate nor a cap all requests are sent at once.
fn load(file: &File, requests: usize) -> Option<ToldLoad> {
    if file.ramp_up_strategy.is_some() {
        return None;
    }
    if let Some(rate) = file.request_rate.as_f64().filter(|rate| *rate > 0.0) {
        return Some(ToldLoad::Rate(rate));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of requests that were in flight"
    )]
    let users = |users: f64| ToldLoad::Users(users as u32);
    if let Some(most) = file.max_concurrency.filter(|most| *most >= 1.0) {
        return Some(users(most));
    }
    (file.request_rate.as_str() == Some("inf")).then(|| users(requests as f64))
}

fn request(file: &mut File, ttft: f64, i: usize) -> Foreign {
    let error = file.errors.get_mut(i).and_then(Option::take);
    let error = error.filter(|e| !e.is_empty());
    let mut spans = Spans::default();
    // What came before the first chunk is written as 0, not left out.
    let first_token = spans.span("TTFT", ttft);
    let tokens = count(file.output_lens[i]);
    let mut request = match &error {
        Some(words) => {
            let (outcome, status) = failure(words);
            let mut failed = Foreign::of(outcome);
            failed.first_token = first_token;
            failed.end.http_status = status;
            failed
        }
        // Counted by the server's usage where it sent one, else by a tokenizer; the file does not
        // say which.
        None => Foreign::answered(first_token, Some(TokenCount::Tokenizer(tokens))),
    };
    let gaps = take(&mut file.itls[i]);
    if let Some(seconds) = gaps.below_zero {
        spans.signed("gap between tokens", seconds);
    }
    if error.is_none() && first_token.is_none() && tokens > 0 {
        spans.must_not_be_zero("TTFT");
    }
    if first_token.is_some() && request.first_token.is_some() {
        request.last_token = first_token.map(|first| first + gaps.ns.iter().sum::<u64>());
        request.gaps = Some(gaps.ns.into());
    }
    let mut of = |what, column: &[f64]| spans.signed(what, *column.get(i)?);
    let latency = of("latency", &file.latencies).filter(|ns| *ns > 0);
    request.lived = latency.or(request.last_token).unwrap_or(0);
    request.sent = of("start time", &file.start_times).filter(|ns| *ns > 0);
    let waited = of("queue time", &file.queue_times).unwrap_or(0);
    request.due = request
        .sent
        .filter(|_| !file.queue_times.is_empty())
        .map(|at| at.saturating_sub(waited));
    request.end.input_tokens = Some(count(file.input_lens[i]));
    if let Some(text) = file.generated_texts.get(i) {
        request.end.characters = count(text.characters);
        request.end.words = count(text.words);
    }
    // A Python traceback: its last line says what happened.
    request.error = error.map(|e| e.trim().lines().last().unwrap_or_default().into());
    spans.checked(request)
}
