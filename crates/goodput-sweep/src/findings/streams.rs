//! Findings on what came back: how streams arrived, what was counted, what was cached.

use goodput_ledger::PointRow;

use super::{called, percent};
use crate::document::{Finding, WorkloadFacts};

/// Share of requests whose server-reported time may disagree with the client's before it is said.
const IMPLAUSIBLE_TIMINGS: f64 = 0.1;
/// Share of answers that may end before the asked length before lengths are not what was asked.
const EARLY_STOPS: f64 = 0.05;
/// Difference between planned and reported cache share, in points of share, that calls for a word.
const CACHE_GAP: f64 = 0.02;

pub(super) fn bursts(points: &[PointRow]) -> Option<Finding> {
    let worst = points.iter().max_by(|a, b| {
        a.burst_share
            .unwrap_or(0.0)
            .total_cmp(&b.burst_share.unwrap_or(0.0))
    })?;
    let share = worst.burst_share.filter(|s| *s > 0.01)?;
    let evidence = format!(
        "at {} {} of streams came in one burst: their TPOT is not known",
        called(worst),
        percent(share)
    );
    Some(Finding {
        severe: share > 0.5,
        ..Finding::new(
            "buffered-streams",
            evidence,
            "something between server and client buffers: a proxy (proxy_buffering), compression, Nagle",
        )
    })
}

pub(super) fn not_streamed(points: &[PointRow]) -> Option<Finding> {
    let n: u64 = points.iter().map(|p| p.not_streamed).sum();
    let all: u64 = points.iter().map(|p| p.requests).sum();
    // Whole answers keep every bound on first and later tokens, for want of them.
    let judged_by_tokens = points.iter().filter_map(PointRow::first_slo).any(|slo| {
        let whole = ["e2e", "trajectory"];
        slo.clauses
            .iter()
            .any(|c| !whole.contains(&c.metric.as_str()))
    });
    (n > 0).then(|| Finding {
        severe: 2 * n > all && judged_by_tokens,
        ..Finding::new(
            "not-streamed",
            format!(
                "{n} of {all} answers came whole, not as a stream: no TTFT, no TPOT, and no bound on them can be missed"
            ),
            "ask for streams and switch streaming on at the server, or judge end-to-end time only",
        )
    })
}

pub(super) fn early_stops(points: &[PointRow], workload: &WorkloadFacts) -> Option<Finding> {
    let worst = points.iter().max_by(|a, b| {
        a.lengths
            .early_stop_share
            .unwrap_or(0.0)
            .total_cmp(&b.lengths.early_stop_share.unwrap_or(0.0))
    })?;
    let share = worst
        .lengths
        .early_stop_share
        .filter(|s| *s > EARLY_STOPS)?;
    let (asked, got) = (worst.lengths.planned_output[0]?, worst.lengths.output[0]?);
    let evidence = format!(
        "at {} {} of answers end before the asked length: median {got:.0} tokens of {asked:.0}",
        called(worst),
        percent(share)
    );
    // The end mark was to be ignored, and was not: another amount of work than the workload's.
    let asked_in_vain = workload.output_policy == "ignore_eos";
    Some(Finding {
        severe: asked_in_vain,
        ..Finding::new(
            "early-stops",
            evidence,
            if asked_in_vain {
                "the server does not take ignore_eos, or something drops it: set the output policy of the workload to max_tokens and read rates as of what came"
            } else {
                "rates are of what came; for equal work set the output policy of the workload to ignore_eos"
            },
        )
    })
}

pub(super) fn lower_bounds(points: &[PointRow]) -> Option<Finding> {
    let share = |p: &PointRow| p.checks.usage_absent as f64 / p.requests.max(1) as f64;
    let without = points.iter().filter(|p| p.checks.usage_absent > 0);
    let worst = without.max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let evidence = format!(
        "at {} the server sent no usage with {} of {} answers: their output tokens are counted by events, a lower bound, or by the tokenizer that was given",
        called(worst),
        worst.checks.usage_absent,
        worst.requests
    );
    Some(Finding::new(
        "no-usage",
        evidence,
        "switch on usage in streams (stream_options.include_usage) if the server can",
    ))
}

pub(super) fn cache_mismatch(points: &[PointRow]) -> Option<Finding> {
    let gap = |p: &PointRow| {
        let planned = p.lengths.planned_cached_share?;
        let seen = p
            .lengths
            .reported_cached_share
            .or(p.lengths.server_cached_share)?;
        Some((planned, seen))
    };
    let seen = points.iter().filter_map(|p| Some((p, gap(p)?)));
    let (point, (planned, seen)) =
        seen.max_by(|a, b| (a.1.0 - a.1.1).abs().total_cmp(&(b.1.0 - b.1.1).abs()))?;
    // Hits where none were meant are a finding of their own.
    if (planned - seen).abs() <= CACHE_GAP || planned <= 0.005 {
        return None;
    }
    let evidence = format!(
        "at {} the workload plans {} of input tokens from cache, the server reports {}",
        called(point),
        percent(planned),
        percent(seen)
    );
    Some(Finding::new(
        "prefix-cache",
        evidence,
        "figures hold for the share seen: check that prefix caching is on, large enough, and that prompts are not repeated",
    ))
}

pub(super) fn stalls(points: &[PointRow]) -> Option<Finding> {
    let hidden = points.iter().find(|p| {
        let (Some(stall), Some(tpot), Some(median)) =
            (p.stall_p99_ms, p.tpot_p99_ms, p.tpot_median_p99_ms)
        else {
            return false;
        };
        stall > 20.0 * median && tpot > 1.5 * median
    })?;
    let evidence = format!(
        "at {} the longest gap is {:.0} ms at p99 where the median gap is {:.0} ms: some streams stand still",
        called(hidden),
        hidden.stall_p99_ms?,
        hidden.tpot_median_p99_ms?
    );
    Some(Finding::new(
        "stalls",
        evidence,
        "a clause on the median gap does not see this (preemption, long prompts): add `stall` or `tpot` to the SLO",
    ))
}

pub(super) fn server_timing(points: &[PointRow]) -> Option<Finding> {
    let share = |p: &PointRow| p.server_timings_implausible as f64 / p.server_timings.max(1) as f64;
    let worst = points.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    if share(worst) <= IMPLAUSIBLE_TIMINGS {
        return None;
    }
    let evidence = format!(
        "at {} the decode time that the server reports is {} times what was measured ({} of {} requests are off by more than a factor of two)",
        called(worst),
        ratio_words(worst.server_timing_ratio?),
        worst.server_timings_implausible,
        worst.server_timings
    );
    Some(Finding::new(
        "server-timing",
        evidence,
        "server_timing_implausible: another unit or another span; no figure here uses the server's own times",
    ))
}

fn ratio_words(ratio: f64) -> String {
    if (0.01..100.0).contains(&ratio) {
        format!("{ratio:.2}")
    } else {
        format!("{ratio:.1e}")
    }
}

pub(super) fn cut_off(points: &[PointRow]) -> Option<Finding> {
    let n: u64 = points.iter().map(|p| p.cut_by_end_of_run).sum();
    (n > 0).then(|| {
        Finding::new(
            "cut-off",
            format!(
                "{n} requests were still in flight at the end: missed where a bound was already broken, else neither met nor missed"
            ),
            "let the run drain",
        )
    })
}
