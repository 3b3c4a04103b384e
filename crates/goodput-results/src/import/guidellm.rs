//! GuideLLM's `benchmarks.json`: one benchmark a load, its requests by how they ended, with
//! instants of the wall clock.
//!
//! Source: vllm-project/guidellm, `src/guidellm/schemas/{info,request_stats}.py` and
//! `src/guidellm/benchmark/schemas`.

use goodput_record::{Outcome, TokenCount, nanos_of};
use serde::Deserialize;

use super::{
    Read, Told, ToldLoad, Tool, Trouble,
    python::TextLength,
    request::{Foreign, Spans, count, failure},
    source::Source,
};

#[derive(Debug, Deserialize)]
struct File {
    benchmarks: Vec<Benchmark>,
}

#[derive(Debug, Deserialize)]
struct Benchmark {
    /// `args` before 0.4.
    #[serde(default, alias = "args")]
    config: Config,
    /// Before 0.4 the model stood here.
    #[serde(default)]
    worker: Worker,
    requests: Groups,
    #[serde(default)]
    scheduler_metrics: Scheduler,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Config {
    strategy: Strategy,
    backend: Backend,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Strategy {
    #[serde(alias = "kind")]
    type_: Option<String>,
    streams: Option<u32>,
    max_concurrency: Option<u32>,
    rate: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Backend {
    model: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Worker {
    backend_model: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Scheduler {
    measure_start_time: Option<f64>,
    measure_end_time: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Groups {
    successful: Option<Vec<Request>>,
    incomplete: Option<Vec<Request>>,
    errored: Option<Vec<Request>>,
}

#[derive(Debug, Deserialize)]
struct Request {
    #[serde(rename = "request_id")]
    id: Option<String>,
    output: Option<TextLength>,
    reasoning_output: Option<TextLength>,
    info: Option<Info>,
    /// What stood in place of `info` before 0.4.
    #[serde(default)]
    scheduler_info: Scheduled,
    start_time: Option<f64>,
    end_time: Option<f64>,
    first_token_time: Option<f64>,
    last_token_time: Option<f64>,
    error: Option<String>,
    #[serde(default)]
    input_metrics: Usage,
    #[serde(default)]
    output_metrics: Usage,
    prompt_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Usage {
    text_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    text_words: Option<u64>,
    text_characters: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Scheduled {
    targeted_start_time: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Info {
    timings: Timings,
    error: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Timings {
    targeted_start: Option<f64>,
    resolve_start: Option<f64>,
    request_start: Option<f64>,
    #[serde(alias = "first_iteration")]
    first_token_iteration: Option<f64>,
    first_output_token_iteration: Option<f64>,
    #[serde(alias = "last_iteration")]
    last_token_iteration: Option<f64>,
    #[serde(alias = "iterations")]
    token_iterations: u64,
    request_end: Option<f64>,
    resolve_end: Option<f64>,
}

pub(super) fn read(source: &Source) -> Read {
    let text = source.json().map_err(|e| Trouble::unreadable(&e))?;
    let file: File =
        serde_json::from_reader(text).map_err(|e| Trouble::form(Tool::GuideLlm, &e))?;
    Ok(file.benchmarks.into_iter().map(point).collect())
}

fn point(benchmark: Benchmark) -> Told {
    let strategy = &benchmark.config.strategy;
    let load = match (strategy.type_.as_deref(), strategy.streams, strategy.rate) {
        (Some("synchronous"), ..) => Some(ToldLoad::Users(1)),
        (Some("concurrent"), Some(streams), _) => Some(ToldLoad::Users(streams)),
        (Some("poisson" | "constant"), _, Some(rate)) => Some(ToldLoad::Rate(rate)),
        // As many as it may, each as soon as another has ended.
        (Some("throughput"), ..) => strategy.max_concurrency.map(ToldLoad::Users),
        _ => None,
    };
    let ended = |requests: Option<Vec<Request>>, outcome: Outcome| {
        requests
            .unwrap_or_default()
            .into_iter()
            .map(move |r| request(r, outcome))
    };
    let groups = benchmark.requests;
    let mut requests: Vec<Foreign> = ended(groups.successful, Outcome::Ok)
        .chain(ended(groups.incomplete, Outcome::Cancelled))
        .chain(ended(groups.errored, Outcome::Failed))
        .collect();
    requests.sort_by_key(|r| r.sent.or(r.due));
    let measured = &benchmark.scheduler_metrics;
    Told {
        model: benchmark
            .config
            .backend
            .model
            .or(benchmark.worker.backend_model),
        load,
        requests,
        window: measured
            .measure_start_time
            .zip(measured.measure_end_time)
            .filter(|(from, to)| *from > 0.0 && to > from)
            .map(|(from, to)| (nanos_of(from), nanos_of(to))),
        ..Told::new(Tool::GuideLlm)
    }
}

impl Request {
    /// When what happened, and why it failed, under the names of either time.
    fn info(&mut self) -> Info {
        self.info.take().unwrap_or_else(|| Info {
            timings: Timings {
                targeted_start: self.scheduler_info.targeted_start_time,
                request_start: self.start_time,
                first_token_iteration: self.first_token_time,
                last_token_iteration: self.last_token_time,
                request_end: self.end_time,
                ..Timings::default()
            },
            error: self.error.take(),
        })
    }
}

fn request(mut request: Request, outcome: Outcome) -> Foreign {
    let info = request.info();
    let at = &info.timings;
    let start = at.request_start.or(at.resolve_start);
    let mut spans = Spans::default();
    let mut since = |what, t: Option<f64>| spans.signed(what, t? - start?);
    let output = request.output_tokens.or(request.output_metrics.text_tokens);
    // The server's usage where it sent one, else the number of events; the file does not say which.
    let output = output.map(|n| TokenCount::Tokenizer(count(n)));
    let first_token = since("TTFT", at.first_token_iteration);
    let mut out = if outcome == Outcome::Ok {
        Foreign::answered(first_token, output)
    } else {
        let words = info.error.as_deref().unwrap_or_default();
        let (by_words, status) = failure(words);
        let ended = if outcome == Outcome::Failed {
            by_words
        } else {
            outcome
        };
        let mut cut = Foreign::of(ended);
        cut.end.http_status = status;
        cut.first_token = first_token;
        cut.end.output_tokens = output;
        cut
    };
    if out.first_token.is_some() {
        out.first_answer = since("first output token", at.first_output_token_iteration);
        out.last_token = since("last token", at.last_token_iteration).or(first_token);
        out.events = (at.token_iterations > 0).then(|| count(at.token_iterations));
    }
    out.sent = start.map(nanos_of);
    out.due = at.targeted_start.map(nanos_of);
    out.lived = since("end", at.request_end.or(at.resolve_end)).unwrap_or(0);
    let input = request.prompt_tokens.or(request.input_metrics.text_tokens);
    out.end.input_tokens = input.map(count);
    out.end.cached_tokens = request.input_metrics.cached_tokens.map(count);
    (out.end.characters, out.end.words) = text(&request);
    out.id = request.id.map(Into::into);
    out.error = info.error.map(Into::into);
    spans.checked(out)
}

/// Characters and words of an answer: of its text where it was kept, else as GuideLLM counted.
fn text(request: &Request) -> (u32, u32) {
    let told = &request.output_metrics;
    let sum = [request.reasoning_output, request.output]
        .into_iter()
        .flatten()
        .reduce(|a, b| TextLength {
            characters: a.characters + b.characters,
            words: a.words + b.words,
        })
        .unwrap_or_else(|| TextLength {
            characters: told.text_characters.unwrap_or(0),
            words: told.text_words.unwrap_or(0),
        });
    (count(sum.characters), count(sum.words))
}
