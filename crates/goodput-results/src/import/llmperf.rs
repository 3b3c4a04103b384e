//! llmperf's individual responses: `*_individual_responses.json`, or a CSV of them with a column
//! `run`. No instant of a request is written down.
//!
//! Source: ray-project/llmperf, and the files of ray-project/llmperf-leaderboard.

use std::{collections::BTreeSet, fs, io::BufRead, path::Path};

use goodput_record::{Outcome, TokenCount};
use serde::Deserialize;

use super::{
    Read, Told, ToldLoad, Tool, Trouble,
    python::elements,
    request::{Foreign, Spans, count, span},
    source::Source,
};

/// One response, under the names of either file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Response {
    ttft_s: f64,
    end_to_end_latency_s: f64,
    number_input_tokens: u64,
    number_output_tokens: u64,
    /// A status, -1 for an error without one, or whatever the server's error object has as its code.
    error_code: serde_json::Value,
    error_msg: serde_json::Value,
}

/// What `*_summary.json` beside the responses tells of the run.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Summary {
    model: Option<String>,
    num_concurrent_requests: Option<u32>,
    results_num_completed_requests: Option<f64>,
    results_num_completed_requests_per_min: Option<f64>,
}

impl Summary {
    /// How long the run took, in ns.
    fn duration(&self) -> Option<u64> {
        let per_minute = self.results_num_completed_requests_per_min?;
        span(60.0 * self.results_num_completed_requests? / per_minute)
    }
}

pub(super) fn read(source: &Source, run: Option<&str>) -> Read {
    let mut told = Told::new(Tool::LlmPerf);
    let mut text = source.json().map_err(|e| Trouble::unreadable(&e))?;
    let first = text.fill_buf().map_err(|e| Trouble::unreadable(&e))?;
    if first.trim_ascii_start().starts_with(b"[") {
        elements(text, Tool::LlmPerf, |one: Response| {
            told.requests.push(request(&one));
        })?;
        let summary = summary(source.path()).unwrap_or_default();
        told.duration = summary.duration();
        told.model = summary.model;
        told.load = summary.num_concurrent_requests.map(ToldLoad::Users);
    } else {
        told.requests = rows(text, run)?;
        told.model = run.map(str::to_owned);
    }
    Ok(vec![told])
}

fn summary(responses: &Path) -> Option<Summary> {
    let name = responses.file_name()?.to_str()?;
    let name = name.strip_suffix("_individual_responses.json")?;
    let beside = responses.with_file_name(format!("{name}_summary.json"));
    serde_json::from_str(&fs::read_to_string(beside).ok()?).ok()
}

fn request(response: &Response) -> Foreign {
    let mut spans = Spans::default();
    let first_token = spans.span("TTFT", response.ttft_s);
    let end = spans.span("end-to-end latency", response.end_to_end_latency_s);
    let code = response.error_code.as_f64();
    let told = match &response.error_msg {
        serde_json::Value::String(message) => message.clone(),
        serde_json::Value::Null => String::new(),
        other => other.to_string(),
    };
    let failed = !(response.error_code.is_null() || code == Some(0.0)) || !told.is_empty();
    let mut request = if failed {
        let outcome = match code {
            Some(429.0 | 503.0) => Outcome::Rejected,
            _ => Outcome::Failed,
        };
        Foreign::of(outcome)
    } else {
        if first_token.is_none() && response.number_output_tokens > 0 {
            spans.must_not_be_zero("TTFT");
        }
        let tokens = TokenCount::Tokenizer(count(response.number_output_tokens));
        Foreign::answered(first_token, Some(tokens))
    };
    if request.first_token.is_some() {
        request.last_token = end;
    }
    request.lived = end.unwrap_or(0);
    request.end.input_tokens = Some(count(response.number_input_tokens));
    request.end.http_status = code.and_then(|code| {
        [429_u16, 500, 503]
            .into_iter()
            .find(|&s| (code - f64::from(s)).abs() < 0.5)
    });
    request.error = (!told.is_empty()).then(|| told.into());
    spans.checked(request)
}

/// The requests of one run of a CSV.
fn rows(text: impl BufRead, run: Option<&str>) -> Result<Vec<Foreign>, Trouble> {
    let mut lines = text.lines();
    let header = lines.next().transpose();
    let header = header.map_err(|e| Trouble::unreadable(&e))?;
    let header = header.unwrap_or_default();
    let columns = Columns::of(&header)?;
    let mut runs = BTreeSet::new();
    let mut requests = Vec::new();
    for (line, number) in lines.zip(2_u32..) {
        let line = line.map_err(|e| Trouble::unreadable(&e))?;
        if line.trim().is_empty() {
            continue;
        }
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let name = columns.run.and_then(|at| cells.get(at));
        let name = name.copied().unwrap_or_default();
        if !runs.contains(name) {
            runs.insert(name.to_owned());
        }
        if run.is_some_and(|run| run != name) {
            continue;
        }
        let response = row(&cells, columns.at).ok_or_else(|| {
            Trouble::new(
                format!("line {number} is not a row of numbers"),
                "every row has ttft_s, e2e_s, input_tokens, output_tokens and error",
            )
        })?;
        requests.push(request(&response));
    }
    let known: Vec<&str> = runs.iter().map(String::as_str).collect();
    let known = known.join(", ");
    match run {
        Some(run) if !runs.contains(run) => Err(Trouble::new(
            format!("there is no run `{run}`"),
            format!("it holds {known}"),
        )),
        None if runs.len() > 1 => Err(Trouble::new(
            format!("the file holds {} runs: {known}", runs.len()),
            "choose one with --run NAME: runs of several servers are several results",
        )),
        _ => Ok(requests),
    }
}

/// Where in a row of a CSV what stands.
struct Columns {
    run: Option<usize>,
    at: [usize; 5],
}

impl Columns {
    fn of(header: &str) -> Result<Self, Trouble> {
        let find = |name: &str| header.split(',').position(|h| h.trim() == name);
        let mut at = [0; 5];
        let names = ["ttft_s", "e2e_s", "input_tokens", "output_tokens", "error"];
        for (at, name) in at.iter_mut().zip(names) {
            *at = find(name).ok_or_else(|| {
                Trouble::new(
                    format!("there is no column `{name}`"),
                    "name the tool that wrote it with --from",
                )
            })?;
        }
        let run = find("run");
        Ok(Self { run, at })
    }
}

fn row(cells: &[&str], at: [usize; 5]) -> Option<Response> {
    let number = |i: usize| cells.get(at[i])?.parse::<f64>().ok();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count that is written as 9 or as 9.0"
    )]
    let whole = |n: f64| n.max(0.0) as u64;
    Some(Response {
        ttft_s: number(0)?,
        end_to_end_latency_s: number(1)?,
        number_input_tokens: whole(number(2)?),
        number_output_tokens: whole(number(3)?),
        error_code: number(4).into(),
        error_msg: cells
            .get(at[4])
            .filter(|cell| !cell.is_empty())
            .map(|cell| format!("error {cell}"))
            .into(),
    })
}
