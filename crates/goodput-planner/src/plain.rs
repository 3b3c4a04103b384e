//! What a product manager needs: the end-to-end time at a stated length, and the two streaming
//! figures.

use serde::Serialize;

use crate::{demand::plain, figure::Figure, replica::LoadFigures};

/// Beyond this wait nobody sits and watches: an answer that takes longer is judged by when it is
/// there, not by how it streams. Ours; half a minute.
const WATCHED_S: f64 = 30.0;

/// By what a class of answers is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JudgedBy {
    /// First token and pace: someone reads along.
    Stream,
    /// When the whole is there.
    Deadline,
}

/// Seconds from the first token to the last of an answer of `tokens` tokens at `tok_s` tokens a
/// second: `(l - 1) / rate`.
#[must_use]
pub fn decode_seconds(tokens: u32, tok_s: f64) -> f64 {
    f64::from(tokens.saturating_sub(1)) / tok_s
}

/// By what an answer of this length at this pace is judged, where the SLO says whether someone
/// watches at all.
#[must_use]
pub fn judged_by(tokens: u32, tok_s: f64, streamed: bool) -> JudgedBy {
    if streamed && decode_seconds(tokens, tok_s) <= WATCHED_S {
        JudgedBy::Stream
    } else {
        JudgedBy::Deadline
    }
}

/// A page of plain words: what a user of the planned service sees.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlainPage {
    /// The stated length of an answer, in tokens.
    pub tokens: u32,
    /// By what such an answer is judged.
    pub judged_by: JudgedBy,
    /// First token for half of the users.
    pub first_token_p50_ms: Figure,
    /// First token for 95 %.
    pub first_token_p95_ms: Figure,
    /// Tokens a second that half of the users get.
    pub stream_p50_tok_s: Figure,
    /// Tokens a second that 95 % get at least.
    pub stream_p95_tok_s: Figure,
    /// The whole answer for half of the users.
    pub e2e_p50_ms: Figure,
    /// The whole answer for 95 %: an upper estimate, a late first token and a slow stream need not
    /// fall together.
    pub e2e_p95_ms: Figure,
}

/// The page for an answer of `tokens` tokens, from what was seen at a load.
#[must_use]
pub fn page(at: &LoadFigures, source: &str, tokens: u32, streamed: bool) -> PlainPage {
    let from = |what: &str| {
        format!(
            "{what} at {} req/s a replica, {source}",
            plain(at.rate_req_s)
        )
    };
    let pace = |tpot_ms: Option<f64>| tpot_ms.filter(|ms| *ms > 0.0).map(|ms| 1e3 / ms);
    let e2e = |ttft: Option<f64>, tpot: Option<f64>| {
        Some(ttft? + tpot? * f64::from(tokens.saturating_sub(1)))
    };
    let whole = |p: &str| format!("ttft {p} + tpot {p} x ({tokens} - 1)");
    PlainPage {
        tokens,
        judged_by: pace(at.tpot_p50_ms)
            .map_or(JudgedBy::Deadline, |rate| judged_by(tokens, rate, streamed)),
        first_token_p50_ms: Figure::known(at.ttft_p50_ms, "ms", from("ttft p50")),
        first_token_p95_ms: Figure::known(at.ttft_p95_ms, "ms", from("ttft p95")),
        stream_p50_tok_s: Figure::known(pace(at.tpot_p50_ms), "tok/s", from("1 / tpot p50")),
        stream_p95_tok_s: Figure::known(pace(at.tpot_p95_ms), "tok/s", from("1 / tpot p95")),
        e2e_p50_ms: Figure::known(
            e2e(at.ttft_p50_ms, at.tpot_p50_ms),
            "ms",
            from(&whole("p50")),
        ),
        e2e_p95_ms: Figure::known(
            e2e(at.ttft_p95_ms, at.tpot_p95_ms),
            "ms",
            from(&whole("p95")),
        ),
    }
}
