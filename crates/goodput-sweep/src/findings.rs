//! What a reader of a result should know, with the evidence for it.

use goodput_ledger::{Mode, PointRow};

use crate::document::{Finding, OperatingPoint};

/// Below this many samples a 99th percentile is the largest value seen.
const SAMPLES_FOR_P99: u64 = 100;
/// Share of answers that may end before the asked length before lengths are not what was asked.
const EARLY_STOPS: f64 = 0.05;
/// Difference between planned and reported cache share, in points of share, that calls for a word.
const CACHE_GAP: f64 = 0.02;
/// Share of requests whose server-reported time may disagree with the client's before it is said.
const IMPLAUSIBLE_TIMINGS: f64 = 0.1;
/// Growth of throughput over one stream below which batching is said to gain nothing.
const BATCHING_GAIN: f64 = 1.25;

/// Every finding that the points of a run carry.
#[must_use]
pub fn findings(points: &[PointRow], answers: &OperatingPoint) -> Vec<Finding> {
    // What an invalid point shows may be this machine's doing: it is told, and decides nothing.
    let used: Vec<PointRow> = points.iter().filter(|p| p.valid).cloned().collect();
    let closed = closed_by_load(&used);
    let rules: [Option<Finding>; 18] = [
        invalid_points(points),
        failures(points),
        batching_gains_nothing(&closed),
        collapse(&closed, answers),
        closed_loop_queue(&closed),
        binding_clause(&used),
        not_bracketed(points, answers),
        few_samples(&used),
        other_rate(&used),
        bursts(points),
        not_streamed(points),
        early_stops(&used),
        lower_bounds(points),
        several_tokens_per_event(points),
        cache_mismatch(&used),
        stalls(&used),
        server_timing(points),
        cut_off(points),
    ];
    rules.into_iter().flatten().collect()
}

fn closed_by_load(points: &[PointRow]) -> Vec<&PointRow> {
    let mut closed: Vec<&PointRow> = points.iter().filter(|p| p.mode == Mode::Closed).collect();
    closed.sort_by_key(|p| p.concurrency);
    closed
}

fn finding(name: &str, evidence: String, advice: &str) -> Finding {
    Finding {
        name: name.to_owned(),
        evidence,
        advice: advice.to_owned(),
        severe: false,
    }
}

/// How a point is called in a sentence.
fn called(point: &PointRow) -> String {
    match (point.mode, point.concurrency, point.rate_req_s) {
        (Mode::Closed, Some(users), _) => format!("{users} in flight"),
        (Mode::Open, _, Some(rate)) => format!("{} req/s", three_digits(rate)),
        _ => format!("point {}", point.point),
    }
}

/// A rate with three digits, as the tables beside the findings have it.
fn three_digits(rate: f64) -> String {
    let decimals = match rate {
        r if r >= 100.0 => 0,
        r if r >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{rate:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

fn invalid_points(points: &[PointRow]) -> Option<Finding> {
    let bad: Vec<&PointRow> = points.iter().filter(|p| !p.valid).collect();
    let first = bad.first()?;
    let reason = first.warnings.first().cloned().unwrap_or_default();
    let evidence = format!(
        "{} of {} points are not used; at {}: {reason}",
        bad.len(),
        points.len(),
        called(first)
    );
    Some(Finding {
        severe: true,
        ..finding(
            "invalid-points",
            evidence,
            "remove the cause and measure again; these points decide nothing",
        )
    })
}

fn failures(points: &[PointRow]) -> Option<Finding> {
    // What the end of the run cut off did not fail: `cut_off` tells of it.
    let share = |p: &PointRow| {
        let ok = p.outcomes.get("ok").copied().unwrap_or_default();
        let failed = p.requests.saturating_sub(ok + p.cut_by_end_of_run);
        (p.requests > 0).then(|| failed as f64 / p.requests as f64)
    };
    let worst = points
        .iter()
        .filter_map(|p| Some((p, share(p)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    if worst.1 <= 0.0 {
        return None;
    }
    let kinds: Vec<String> = worst
        .0
        .outcomes
        .iter()
        .filter(|(k, _)| !["ok", "cancelled"].contains(&k.as_str()))
        .map(|(k, n)| format!("{k} {n}"))
        .collect();
    let evidence = format!(
        "at {} {} of requests did not end well ({}); they count as misses, and percentiles are shown over the rest",
        called(worst.0),
        percent(worst.1),
        kinds.join(", ")
    );
    Some(finding(
        "failed-requests",
        evidence,
        "look at `outcome` and `error` in requests.jsonl",
    ))
}

fn batching_gains_nothing(closed: &[&PointRow]) -> Option<Finding> {
    let alone = closed
        .first()
        .filter(|p| p.concurrency == Some(1) && p.throughput_tok_s > 0.0)?;
    let best = closed
        .iter()
        .max_by(|a, b| a.throughput_tok_s.total_cmp(&b.throughput_tok_s))?;
    let gain = best.throughput_tok_s / alone.throughput_tok_s;
    if closed.len() < 3 || gain >= BATCHING_GAIN {
        return None;
    }
    let evidence = format!(
        "throughput is {:.0} tok/s with one stream and at most {:.0} tok/s at {}: {gain:.2} times",
        alone.throughput_tok_s,
        best.throughput_tok_s,
        called(best)
    );
    Some(finding(
        "batching-gains-nothing",
        evidence,
        "more requests in flight only wait longer on this server: add replicas, not concurrency",
    ))
}

fn collapse(closed: &[&PointRow], answers: &OperatingPoint) -> Option<Finding> {
    let peak = &answers.by_goodput.as_ref()?.row;
    let last = closed.last()?;
    if peak.mode != Mode::Closed || last.load() <= peak.load() {
        return None;
    }
    let most = closed
        .iter()
        .map(|p| p.throughput_tok_s)
        .fold(0.0, f64::max);
    let lost = 1.0 - last.goodput_tok_s / peak.goodput_tok_s;
    if lost < 0.3 || most <= 0.0 {
        return None;
    }
    let fell = 1.0 - last.throughput_tok_s / most;
    let evidence = format!(
        "from {} to {} goodput falls by {} while throughput stays within {} of its maximum",
        called(peak),
        called(last),
        percent(lost),
        percent(fell.max(0.0))
    );
    Some(finding(
        "throughput-is-not-capacity",
        evidence,
        "size on goodput: past the limits of slots and KV cache throughput hardly falls, and nearly all of it is late",
    ))
}

fn closed_loop_queue(closed: &[&PointRow]) -> Option<Finding> {
    let first = closed.first()?;
    let grown = closed.iter().find(|p| {
        let (Some(now), Some(alone)) = (p.ttft_p50_ms, first.ttft_p50_ms) else {
            return false;
        };
        let (Some(tpot), Some(tpot_alone)) = (p.tpot_p50_ms, first.tpot_p50_ms) else {
            return false;
        };
        now > 5.0 * alone && now / alone > 3.0 * (tpot / tpot_alone)
    })?;
    let evidence = format!(
        "at {} the median TTFT is {:.0} ms, {:.0} ms with one stream, while TPOT grew far less: requests wait inside the engine, past its admission limit",
        called(grown),
        grown.ttft_p50_ms?,
        first.ttft_p50_ms?
    );
    Some(finding(
        "closed-loop-queue",
        evidence,
        "a closed loop does queue, inside the engine: read its TTFT as queueing, and judge latency in the open loop",
    ))
}

fn binding_clause(points: &[PointRow]) -> Option<Finding> {
    let slos: Vec<_> = points.iter().filter_map(PointRow::first_slo).collect();
    let mut totals: Vec<(String, u64)> = Vec::new();
    for slo in &slos {
        for clause in &slo.clauses {
            // A request that did not end well is outside every bound and says nothing of any.
            let late = clause.misses.saturating_sub(slo.outcome_misses);
            match totals.iter_mut().find(|t| t.0 == clause.clause) {
                Some(total) => total.1 += late,
                None => totals.push((clause.clause.clone(), late)),
            }
        }
    }
    let missed: u64 = slos
        .iter()
        .map(|s| s.missed.saturating_sub(s.outcome_misses))
        .sum();
    let (clause, misses) = totals
        .iter()
        .max_by_key(|t| t.1)
        .filter(|t| t.1 > 0 && totals.len() > 1)?;
    let share = *misses as f64 / missed.max(1) as f64;
    let advice = match clause.as_str() {
        c if c.contains("ttft") => {
            "prompts, queue, cold start or prefill capacity: not the decode batch"
        }
        c if c.contains("tpot") || c.contains("itl") || c.contains("stall") => {
            "decode batch, KV pressure or prefill interference: not the queue"
        }
        _ => "the whole answer is late: look at both queue and decode",
    };
    Some(finding(
        "binding-clause",
        format!(
            "`{clause}` is broken in {} of the misses that ended well ({missed})",
            percent(share.min(1.0))
        ),
        advice,
    ))
}

fn not_bracketed(points: &[PointRow], answers: &OperatingPoint) -> Option<Finding> {
    let peak = answers.by_goodput.as_ref()?;
    // A single load was never meant to have a peak.
    if answers.peak_bracketed || points.len() < 2 {
        return None;
    }
    let evidence = format!(
        "the largest goodput was seen at {}, an end of the tested loads",
        called(&peak.row)
    );
    Some(finding(
        "peak-not-bracketed",
        evidence,
        "test loads beyond it with --concurrency",
    ))
}

fn few_samples(points: &[PointRow]) -> Option<Finding> {
    let few: Vec<&PointRow> = points
        .iter()
        .filter(|p| p.ttft_n > 0 && p.ttft_n < SAMPLES_FOR_P99)
        .collect();
    let least = few.iter().min_by_key(|p| p.ttft_n)?;
    let evidence = format!(
        "{} of {} points have under {SAMPLES_FOR_P99} requests; at {} n = {}: its p99 is the largest value seen",
        few.len(),
        points.len(),
        called(least),
        least.ttft_n
    );
    Some(finding(
        "few-samples",
        evidence,
        "read the attainment with its interval there, or lengthen the points with --duration",
    ))
}

/// Arrivals that follow a trace or a rate profile may be fewer or more in a window than the rate by
/// which the point is called. A tenth, and four standard deviations of a Poisson count, are chance.
fn other_rate(points: &[PointRow]) -> Option<Finding> {
    let open = points.iter().filter_map(|p| Some((p, p.rate_req_s?)));
    let apart = |(p, rate): &(&PointRow, f64)| {
        let expected = rate * p.window_s;
        let off = (p.requests as f64 - expected).abs();
        (off > 0.1 * expected && off > 4.0 * expected.sqrt()).then_some(off / expected)
    };
    let (point, _) = open
        .filter_map(|at| Some((at.0, apart(&at)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let evidence = format!(
        "at {} the schedule had {} arrivals a second in the window: that part of the trace or of the rate profile is not like the whole",
        called(point),
        three_digits(point.requests as f64 / point.window_s)
    );
    Some(Finding {
        severe: true,
        ..finding(
            "another-rate",
            evidence,
            "lengthen the window with --duration or --requests until it covers the whole trace, or use arrivals without its times",
        )
    })
}

fn bursts(points: &[PointRow]) -> Option<Finding> {
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
        ..finding(
            "buffered-streams",
            evidence,
            "something between server and client buffers: a proxy (proxy_buffering), compression, Nagle",
        )
    })
}

fn not_streamed(points: &[PointRow]) -> Option<Finding> {
    let n: u64 = points.iter().map(|p| p.not_streamed).sum();
    (n > 0).then(|| {
        finding(
            "not-streamed",
            format!("{n} requests asked for a stream and got a whole answer: no TTFT, no TPOT"),
            "switch streaming on at the server, or judge end-to-end time only",
        )
    })
}

fn early_stops(points: &[PointRow]) -> Option<Finding> {
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
    Some(finding(
        "early-stops",
        evidence,
        "rates are of what came; for equal work set the output policy of the workload to ignore_eos",
    ))
}

fn lower_bounds(points: &[PointRow]) -> Option<Finding> {
    let without = points.iter().find(|p| {
        p.requests > 0 && p.lengths.input[0].is_none() && p.lengths.output[0].is_some()
    })?;
    let evidence = format!(
        "at {} the server sent no usage: output tokens are counted by events, a lower bound",
        called(without)
    );
    Some(finding(
        "no-usage",
        evidence,
        "switch on usage in streams (stream_options.include_usage) if the server can",
    ))
}

fn several_tokens_per_event(points: &[PointRow]) -> Option<Finding> {
    let most = points
        .iter()
        .filter_map(|p| Some((p, p.lengths.tokens_per_event?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    if most.1 < 1.2 {
        return None;
    }
    let evidence = format!(
        "at {} an event carries {:.2} tokens",
        called(most.0),
        most.1
    );
    Some(finding(
        "tokens-per-event",
        evidence,
        "gaps between events are no inter-token times; TPOT counts tokens by usage",
    ))
}

fn cache_mismatch(points: &[PointRow]) -> Option<Finding> {
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
    if (planned - seen).abs() <= CACHE_GAP {
        return None;
    }
    let evidence = format!(
        "at {} the workload plans {} of input tokens from cache, the server reports {}",
        called(point),
        percent(planned),
        percent(seen)
    );
    Some(finding(
        "prefix-cache",
        evidence,
        "figures hold for the share seen: check that prefix caching is on, large enough, and that prompts are not repeated",
    ))
}

fn stalls(points: &[PointRow]) -> Option<Finding> {
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
    Some(finding(
        "stalls",
        evidence,
        "a clause on the median gap does not see this (preemption, long prompts): add `stall` or `tpot` to the SLO",
    ))
}

fn server_timing(points: &[PointRow]) -> Option<Finding> {
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
    Some(finding(
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

fn cut_off(points: &[PointRow]) -> Option<Finding> {
    let n: u64 = points.iter().map(|p| p.cut_by_end_of_run).sum();
    (n > 0).then(|| {
        finding(
            "cut-off",
            format!(
                "{n} requests were still in flight at the end: missed where a bound was already broken, else neither met nor missed"
            ),
            "let the run drain",
        )
    })
}
