//! Findings on the load itself: how it began, how long it lasted, what its requests were like.

use goodput_ledger::{Mode, PointRow};

use super::called;
use crate::document::Finding;

/// The first wave is a herd if its TTFT is so many times the median of all.
const HERD: f64 = 3.0;
/// Requests a user, with the first wave measured, below which that wave sets the tail: one in twenty
/// is above p95. Source: essay findings on published sweeps of five requests a user.
const PER_USER: f64 = 20.0;
/// Requests a user below which no user was ever in a steady state, whatever was left out.
const PER_USER_LEAST: f64 = 3.0;
/// Requests from which equal lengths are no chance.
const ALIKE_FROM: u64 = 20;

/// How the warning on a point begins whose workload had fewer requests than the point was to have.
pub const WORKLOAD_ENDED: &str = "the workload ended early";

/// Points that are shorter than they were to be, because a recorded workload was sent to its end.
pub(super) fn workload_ended(points: &[PointRow]) -> Option<Finding> {
    let said = |p: &PointRow| {
        p.warnings
            .iter()
            .find(|w| w.starts_with(WORKLOAD_ENDED))
            .cloned()
    };
    let short: Vec<(&PointRow, String)> =
        points.iter().filter_map(|p| Some((p, said(p)?))).collect();
    let (first, why) = short.first()?;
    Some(Finding::new(
        "workload-ended",
        format!(
            "{} of {} points; at {}: {why}",
            short.len(),
            points.len(),
            called(first)
        ),
        "name a longer recording, or let its rows repeat: prompts that were sent before may then be in the server's cache",
    ))
}

/// All users start at once; where these first requests are measured, they measure the start.
pub(super) fn first_wave(points: &[PointRow]) -> Option<Finding> {
    let herd = |p: &PointRow| {
        let ratio = p.checks.first_wave_ttft_p50_ms? / p.ttft_p50_ms?;
        // It decides the p99 if at least half of what lies there is of the first wave.
        let tail = (p.ttft_n as f64 * 0.01).max(1.0);
        let sets_p99 = p.checks.first_wave_in_tail as f64 >= tail / 2.0 && p.ttft_n > 1;
        let is_herd = p.checks.first_wave_measured > 1 && ratio >= HERD && sets_p99;
        is_herd.then_some(ratio)
    };
    let (point, _) = points
        .iter()
        .filter_map(|p| Some((p, herd(p)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let evidence = format!(
        "at {} the first request of each of {} users had a median TTFT of {:.0} ms, all requests {:.0} ms; {} of them are at or above the p99",
        called(point),
        point.checks.first_wave_measured,
        point.checks.first_wave_ttft_p50_ms?,
        point.ttft_p50_ms?,
        point.checks.first_wave_in_tail
    );
    Some(Finding {
        severe: true,
        ..Finding::new(
            "first-wave-herd",
            evidence,
            "the tail of TTFT is that of a start: leave the first wave out (a --warmup above 0 does)",
        )
    })
}

/// Too few requests a user for a steady state.
pub(super) fn few_per_user(points: &[PointRow]) -> Option<Finding> {
    let per_user = |p: &PointRow| {
        let users = f64::from(p.concurrency.filter(|u| *u > 1 && p.mode == Mode::Closed)?);
        let each = p.requests as f64 / users;
        let needed = if p.checks.first_wave_measured > 0 {
            PER_USER
        } else {
            PER_USER_LEAST
        };
        (p.requests > 0 && each < needed).then_some(each)
    };
    let (point, each) = points
        .iter()
        .filter_map(|p| Some((p, per_user(p)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    let wave = if point.checks.first_wave_measured > 0 {
        ", the first one of each, sent together, included"
    } else {
        ""
    };
    Some(Finding::new(
        "few-requests-per-user",
        format!(
            "at {} every user had {each:.1} requests in the window{wave}",
            called(point)
        ),
        "the point is mostly start and end: lengthen it with --duration or --requests (20 a user)",
    ))
}

/// Requests that are all alike hide what lengths do to queues and batches.
pub(super) fn fixed_lengths(points: &[PointRow]) -> Option<Finding> {
    let told: Vec<&PointRow> = points.iter().filter(|p| p.requests > 0).collect();
    let requests: u64 = told.iter().map(|p| p.requests).sum();
    if requests < ALIKE_FROM {
        return None;
    }
    let one = |of: fn(&PointRow) -> Option<[u32; 2]>| {
        let ranges: Option<Vec<[u32; 2]>> = told.iter().map(|p| of(p)).collect();
        let ranges = ranges?;
        let low = ranges.iter().map(|r| r[0]).min()?;
        let high = ranges.iter().map(|r| r[1]).max()?;
        (low == high && low > 0).then_some(low)
    };
    let alike: Vec<String> = [
        ("inputs", one(|p| p.checks.planned_input_range)),
        ("outputs", one(|p| p.checks.planned_output_range)),
    ]
    .into_iter()
    .filter_map(|(name, tokens)| Some(format!("all {name} have {} tokens", tokens?)))
    .collect();
    (!alike.is_empty()).then(|| {
        Finding::new(
            "fixed-lengths",
            format!("{} ({requests} requests)", alike.join(", ")),
            "real lengths vary, and tails of lengths make tails of latency: use a workload with their distribution (a trace, a preset)",
        )
    })
}
