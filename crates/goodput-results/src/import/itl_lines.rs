//! JSON lines of `i`, `input_tokens`, `output_tokens`, `ttft_s`, `itls_us`, `ok`: per-request
//! records of vLLM's harness as dstack published them, without instants.

use goodput_record::{Outcome, TokenCount};
use serde::Deserialize;

use super::{
    Read, Told, Tool, Trouble,
    request::{Foreign, count, span},
};

#[derive(Debug, Deserialize)]
struct Line {
    input_tokens: u64,
    output_tokens: u64,
    ttft_s: f64,
    itls_us: Vec<u64>,
    ok: bool,
}

pub(super) fn read(content: &str) -> Read {
    let lines = content.lines().filter(|line| !line.trim().is_empty());
    let requests: Result<Vec<Foreign>, Trouble> = lines
        .map(|line| {
            serde_json::from_str(line)
                .map(|line| request(&line))
                .map_err(|e| Trouble::form(Tool::ItlLines, &e))
        })
        .collect();
    Ok(vec![Told {
        tool: Tool::ItlLines,
        model: None,
        load: None,
        chat: None,
        requests: requests?,
        window: None,
    }])
}

fn request(line: &Line) -> Foreign {
    let first_token = span(line.ttft_s);
    let tokens = TokenCount::Tokenizer(count(line.output_tokens));
    let mut request = if line.ok {
        Foreign::answered(first_token, Some(tokens))
    } else {
        Foreign {
            first_token,
            ..Foreign::of(Outcome::Failed)
        }
    };
    if let Some(first) = request.first_token {
        let gaps: Vec<u64> = line.itls_us.iter().map(|us| us * 1000).collect();
        request.last_token = Some(first + gaps.iter().sum::<u64>());
        request.gaps = Some(gaps);
    }
    request.lived = request.last_token.or(first_token).unwrap_or(0);
    request.end.input_tokens = Some(count(line.input_tokens));
    request
}
