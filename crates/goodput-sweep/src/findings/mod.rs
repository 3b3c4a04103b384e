//! What a reader of a result should know, with the evidence for it.

mod load;
mod physics;
#[cfg(test)]
mod published;
mod search;
mod server;
mod streams;
#[cfg(test)]
mod tests;
mod tokens;

use goodput_ledger::{Mode, PointRow};

pub use load::WORKLOAD_ENDED;

use crate::document::{Finding, HoldsFor, OperatingPoint};

/// Below this many samples a 99th percentile is the largest value seen.
const SAMPLES_FOR_P99: u64 = 100;
/// Growth of throughput over one stream below which batching is said to gain nothing.
const BATCHING_GAIN: f64 = 1.25;

/// Every finding that the points of a run carry, given what they hold for.
#[must_use]
pub fn findings(
    points: &[PointRow],
    answers: &OperatingPoint,
    holds_for: &HoldsFor,
) -> Vec<Finding> {
    // Latencies of an invalid point may be this machine's doing; lengths and counts are the server's.
    let used: Vec<PointRow> = points.iter().filter(|p| p.valid).cloned().collect();
    let closed = closed_by_load(&used);
    let of_the_curve = [
        invalid_points(points),
        failures(points),
        batching_gains_nothing(&closed),
        collapse(&closed, answers),
        closed_loop_queue(&closed),
        binding_clause(&used),
        not_bracketed(points, answers),
        search::peak_not_resolved(answers),
        search::rate_not_resolved(answers),
        search::server_changed(answers),
        few_samples(&used),
        other_rate(&used),
    ];
    let of_what_came = [
        streams::bursts(&used),
        streams::not_streamed(points),
        streams::early_stops(points, &holds_for.workload),
        streams::lower_bounds(points),
        streams::cache_mismatch(points),
        streams::stalls(&used),
        streams::server_timing(points),
        streams::cut_off(points),
        tokens::empty_answers(points),
        tokens::events_above_usage(points),
        tokens::usage_not_a_count(points),
        tokens::counts_disagree(points),
        tokens::max_tokens_ignored(points, &holds_for.workload),
        tokens::bunched_events(&used),
        tokens::several_tokens_per_event(points),
        tokens::unmeant_hits(points),
    ];
    let of_the_load = [
        physics::littles_law(&used),
        physics::users_idle(&used),
        physics::under_the_floor(&used, holds_for.hardware.as_ref()),
        physics::not_open(points),
        load::first_wave(&used),
        load::few_per_user(&used),
        load::fixed_lengths(points),
        load::workload_ended(points),
    ];
    let of_the_server = [
        server::foreign_traffic(points),
        server::restarted(points),
        server::speed_changed(points),
        server::two_boots(points, holds_for),
        server::several_replicas(points),
        server::server_sees_less(points),
        server::drift(&used, holds_for, answers.search.is_some()),
    ];
    of_the_curve
        .into_iter()
        .chain(of_what_came)
        .chain(of_the_load)
        .chain(of_the_server)
        .flatten()
        .collect()
}

fn closed_by_load(points: &[PointRow]) -> Vec<&PointRow> {
    let mut closed: Vec<&PointRow> = points.iter().filter(|p| p.mode == Mode::Closed).collect();
    closed.sort_by_key(|p| p.concurrency);
    closed
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
pub(crate) fn three_digits(rate: f64) -> String {
    let decimals = match rate {
        r if r >= 100.0 => 0,
        r if r >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{rate:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Two different figures with as many decimals as it takes to see that they differ: one at least, and
/// three digits of small ones.
fn told_apart(a: f64, b: f64) -> (String, String) {
    let fewest = if a.abs().min(b.abs()) < 9.95 { 2 } else { 1 };
    let both = |decimals: usize| (format!("{a:.decimals$}"), format!("{b:.decimals$}"));
    (fewest..=9)
        .map(both)
        .find(|(a, b)| a != b)
        .unwrap_or_else(|| both(fewest))
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
        ..Finding::new(
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
    Some(Finding::new(
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
    Some(Finding::new(
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
    Some(Finding::new(
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
    Some(Finding::new(
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
    Some(Finding::new(
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
    Some(Finding::new(
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
    Some(Finding::new(
        "few-samples",
        evidence,
        "read the attainment with its interval there, or lengthen the points with --duration",
    ))
}

/// Arrivals in bursts, of a trace or of a rate profile may be fewer or more in a window than the rate
/// by which the point is called. A tenth, and four standard deviations of a Poisson count, are chance.
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
        "at {} the schedule had {} arrivals a second in the window: in bursts, in a trace and in a rate profile one window is not like another",
        called(point),
        three_digits(point.requests as f64 / point.window_s)
    );
    Some(Finding::new(
        "another-rate",
        evidence,
        "what was met there was met at that rate: lengthen the window with --duration or --requests, or choose steadier arrivals",
    ))
}
