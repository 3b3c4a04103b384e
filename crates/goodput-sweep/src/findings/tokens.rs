//! Findings on tokens: who counted them, whether the counts agree, how they came.

use goodput_ledger::PointRow;

use super::{called, percent};
use crate::document::{Finding, WorkloadFacts};

/// Share of requests that may have a fault before it moves a figure.
const FEW: f64 = 0.05;
/// Two counts of the same tokens may differ by this share: end marks, merged pieces.
const COUNTS_AGREE: f64 = 0.1;
/// Characters a token outside of which a count is none of the text's tokens: Chinese has about one
/// and a half, English four, single words ten.
const CHARACTERS: [f64; 2] = [0.8, 12.0];
/// Share of gaps that are zero from which events come in bunches.
const BUNCHED: f64 = 0.2;
/// Events a bunch that no step of speculative decoding brings.
const BUNCH: f64 = 8.0;
/// Tokens an event above which events are no tokens.
const SEVERAL: f64 = 1.2;
/// Share of input tokens from cache, where none was meant, from which TTFT is that of the cache.
const CACHED_MUCH: f64 = 0.25;
/// The same from which it is said.
const CACHED: f64 = 0.02;

fn share(part: u64, point: &PointRow) -> f64 {
    part as f64 / point.requests.max(1) as f64
}

fn worst(points: &[PointRow], of: impl Fn(&PointRow) -> f64) -> Option<(&PointRow, f64)> {
    points
        .iter()
        .filter(|p| p.requests > 0)
        .map(|p| (p, of(p)))
        .filter(|(_, value)| *value > 0.0)
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

/// An answer without a token is no answer, and cost the server next to nothing.
pub(super) fn empty_answers(points: &[PointRow]) -> Option<Finding> {
    let empty = |p: &PointRow| {
        let of = |name: &str| p.outcomes.get(name).copied().unwrap_or(0);
        of("empty") + of("empty_stream")
    };
    let (point, most) = worst(points, |p| share(empty(p), p))?;
    Some(Finding {
        severe: most > FEW,
        ..Finding::new(
            "empty-answers",
            format!(
                "at {} {} of {} requests ended well without a token: they are misses, and have no TTFT",
                called(point),
                empty(point),
                point.requests
            ),
            "look at why (a refused model name, a template, an overloaded engine); while they come the load is a lighter one than its name, and the others' latencies are flattered",
        )
    })
}

/// More events than tokens: one of the two is counted wrong, and TPOT with it.
pub(super) fn events_above_usage(points: &[PointRow]) -> Option<Finding> {
    let (point, most) = worst(points, |p| share(p.checks.usage_below_events, p))?;
    let ratio = point.checks.events_per_usage_token;
    let twice = match ratio {
        Some(ratio) => format!("{ratio:.2} events a token"),
        None => "a usage of 0 tokens".to_owned(),
    };
    Some(Finding {
        severe: most > FEW && ratio.is_none_or(|r| r > 1.0 + COUNTS_AGREE),
        ..Finding::new(
            "events-above-usage",
            format!(
                "at {} {} of requests had more token events than output tokens by usage: {twice}; their tokens are counted by events",
                called(point),
                percent(most)
            ),
            "if a proxy doubles or splits events, TPOT here is a part of the truth: measure without it, or compare characters a second",
        )
    })
}

/// Numbers that cannot be counts.
pub(super) fn usage_not_a_count(points: &[PointRow]) -> Option<Finding> {
    let (point, most) = worst(points, |p| share(p.checks.usage_not_a_count, p))?;
    Some(Finding::new(
        "usage-not-a-count",
        format!(
            "at {} {} of requests came with a usage that cannot be: a negative or fractional number, one beyond 32 bits, a prompt of 0 tokens, more cached than there were",
            called(point),
            percent(most)
        ),
        "such a number is left out, as if it had not come: mend the server or the proxy that writes it",
    ))
}

/// The server's count against that of a tokenizer, or against the text itself.
pub(super) fn counts_disagree(points: &[PointRow]) -> Option<Finding> {
    let off = |p: &PointRow| {
        p.checks
            .tokenizer_over_usage
            .map_or(0.0, |r| (r - 1.0).abs())
    };
    if let Some((point, _)) = worst(points, off).filter(|(_, off)| *off > COUNTS_AGREE) {
        let ratio = point.checks.tokenizer_over_usage?;
        return Some(Finding::new(
            "token-counts-disagree",
            format!(
                "at {} the tokenizer counts {ratio:.2} tokens for one of usage",
                called(point)
            ),
            "another tokenizer than the model's, or tokens that are not shown (reasoning, tool calls); figures are by usage",
        ));
    }
    let implausible = |p: &&PointRow| {
        let [low, high] = CHARACTERS;
        let by_usage = p.checks.usage_absent * 2 < p.requests;
        let much = p.lengths.output_mean.is_some_and(|n| n >= 8.0);
        let ratio = p.lengths.characters_per_token.filter(|r| *r > 0.0);
        by_usage && much && ratio.is_some_and(|r| !(low..=high).contains(&r))
    };
    let point = points.iter().find(implausible)?;
    Some(Finding::new(
        "token-counts-disagree",
        format!(
            "at {} a token as it was counted is {:.2} characters of text",
            called(point),
            point.lengths.characters_per_token?
        ),
        "the count has what is not shown (hidden reasoning), or counts something else: rank by characters a second, and look at reasoning_tokens in requests.jsonl",
    ))
}

/// Answers longer than asked: another amount of work.
pub(super) fn max_tokens_ignored(points: &[PointRow], workload: &WorkloadFacts) -> Option<Finding> {
    // Without a limit sent along, the planned length is no promise of anyone.
    if workload.output_policy == "natural" {
        return None;
    }
    let (point, most) = worst(points, |p| p.checks.longer_share.unwrap_or(0.0))?;
    let (asked, got) = (point.lengths.planned_output[0]?, point.lengths.output[0]?);
    Some(Finding {
        severe: most > FEW,
        ..Finding::new(
            "max-tokens-ignored",
            format!(
                "at {} {} of answers are longer than the limit that was sent: median {got:.0} tokens, asked were {asked:.0}",
                called(point),
                percent(most)
            ),
            "the work is not the workload's: find out what drops max_tokens (a proxy, --api, a server that calls it otherwise)",
        )
    })
}

/// Several token events of a stream at one instant, again and again, each of one token.
pub(super) fn bunched_events(points: &[PointRow]) -> Option<Finding> {
    let one_by_one = |p: &&PointRow| p.lengths.tokens_per_event.is_none_or(|n| n < SEVERAL);
    let (point, most) = points
        .iter()
        .filter(one_by_one)
        // A stream in one single burst has a finding of its own.
        .filter(|p| p.burst_share.unwrap_or(0.0) < 0.5)
        .filter(|p| !bunched_here(p))
        .filter_map(|p| Some((p, p.checks.bunched_share.filter(|s| *s > BUNCHED)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let bunch = point.checks.events_per_bunch?;
    let buffered = bunch >= BUNCH;
    Some(Finding {
        severe: buffered,
        ..Finding::new(
            "bunched-events",
            format!(
                "at {} {} of token events came at the same instant as the one before, {bunch:.1} at a time, though each carries one token",
                called(point),
                percent(most)
            ),
            if buffered {
                "something between engine and client buffers and lets go in bunches (a proxy, compression): TTFT and stalls are the buffer's; measure past it, or switch its buffering off"
            } else {
                "speculative decoding with an event a token, or something that buffers (a proxy, compression, Nagle): if it is the latter, TTFT and stalls are the buffer's; measure past it once and compare"
            },
        )
    })
}

/// Whether this machine may have bunched the events itself, by turning to its sockets late: then a
/// bunch is as long as that took.
fn bunched_here(point: &PointRow) -> bool {
    let (Some(lag), Some(tpot)) = (point.loop_lag_p99_ms, point.tpot_p50_ms) else {
        return false;
    };
    let bunch = point.checks.events_per_bunch.unwrap_or(1.0);
    bunch <= 1.0 + 2.0 * lag / tpot.max(f64::MIN_POSITIVE)
}

/// Events of several tokens: a fixed number of them, or as many as a guess got right.
pub(super) fn several_tokens_per_event(points: &[PointRow]) -> Option<Finding> {
    let (point, mean) = points
        .iter()
        .filter_map(|p| Some((p, p.lengths.tokens_per_event?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    if mean < SEVERAL {
        return None;
    }
    let evidence = format!("at {} an event carries {mean:.2} tokens", called(point));
    let Some([p10, p50, p90, most]) = point.checks.tokens_per_event else {
        return Some(Finding::new(
            "tokens-per-event",
            evidence,
            EVENTS_ARE_NOT_TOKENS,
        ));
    };
    // Chunks of k tokens give no request more than k an event, and long ones just about that.
    let whole = (most.round() - most).abs() < 0.02 * most && most - p50 < 0.15 * most;
    if whole || p90 - p10 < 0.02 * p50 {
        return Some(Finding::new(
            "tokens-per-event",
            format!(
                "{evidence}, nearly the same in every request: the server sends them in pieces"
            ),
            EVENTS_ARE_NOT_TOKENS,
        ));
    }
    Some(Finding::new(
        "speculative-decoding",
        format!(
            "{evidence}, {p10:.2} to {p90:.2} by request (p10, p90): as many as were guessed right"
        ),
        "speculative decoding, or an engine that merges tokens for a slow reader (then it rises with the load): TPOT counts tokens, not events; it holds for texts as easy to guess as these",
    ))
}

const EVENTS_ARE_NOT_TOKENS: &str =
    "gaps between events are no inter-token times; TPOT counts tokens, not events";

/// Hits in the prefix cache that the workload does not have.
pub(super) fn unmeant_hits(points: &[PointRow]) -> Option<Finding> {
    let seen = |p: &PointRow| {
        let none_meant = p.lengths.planned_cached_share? <= 0.005;
        let seen = p
            .lengths
            .reported_cached_share
            .or(p.lengths.server_cached_share)?;
        (none_meant && seen > CACHED).then_some(seen)
    };
    let (point, most) = points
        .iter()
        .filter_map(|p| Some((p, seen(p)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Finding {
        severe: most > CACHED_MUCH,
        ..Finding::new(
            "unmeant-prefix-hits",
            format!(
                "at {} {} of input tokens came from the prefix cache; the workload repeats none",
                called(point),
                percent(most)
            ),
            "a long template or system prompt, prompts that an earlier run left in the cache (another --seed), or foreign traffic with the same ones: TTFT is partly that of the cache",
        )
    })
}
