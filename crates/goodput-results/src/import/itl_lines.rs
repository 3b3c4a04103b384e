//! JSON lines of `i`, `input_tokens`, `output_tokens`, `ttft_s`, `itls_us`, `ok`: per-request
//! records of vLLM's harness as dstack published them, without instants.

use goodput_record::{Outcome, TokenCount};
use serde::Deserialize;

use super::{
    Read, Told, Tool, Trouble,
    python::lines,
    request::{Foreign, Spans, count},
    source::Source,
};

#[derive(Debug, Deserialize)]
struct Line {
    input_tokens: u64,
    output_tokens: u64,
    ttft_s: f64,
    itls_us: Vec<i64>,
    ok: bool,
}

pub(super) fn read(source: &Source) -> Read {
    let text = source.json().map_err(|e| Trouble::unreadable(&e))?;
    let mut told = Told::new(Tool::ItlLines);
    told.torn = lines(text, Tool::ItlLines, |line: Line| {
        told.requests.push(request(&line));
    })?;
    Ok(vec![told])
}

fn request(line: &Line) -> Foreign {
    let mut spans = Spans::default();
    let first_token = spans.span("TTFT", line.ttft_s);
    let tokens = TokenCount::Tokenizer(count(line.output_tokens));
    let mut request = if line.ok {
        Foreign::answered(first_token, Some(tokens))
    } else {
        Foreign {
            first_token,
            ..Foreign::of(Outcome::Failed)
        }
    };
    if line.ok && first_token.is_none() && line.output_tokens > 0 {
        spans.must_not_be_zero("TTFT");
    }
    if let Some(first) = request.first_token {
        let seconds = |us: &i64| *us as f64 / 1e6;
        let mut gap = |us| spans.signed("gap between tokens", seconds(us)).unwrap_or(0);
        let gaps: Box<[u64]> = line.itls_us.iter().map(&mut gap).collect();
        request.last_token = Some(first + gaps.iter().sum::<u64>());
        request.gaps = Some(gaps);
    }
    request.lived = request.last_token.or(first_token).unwrap_or(0);
    request.end.input_tokens = Some(count(line.input_tokens));
    spans.checked(request)
}
