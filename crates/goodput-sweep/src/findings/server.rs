//! Findings on what became of the server while it was measured.

use goodput_ledger::PointRow;

use super::{called, percent};
use crate::{
    document::{Finding, HoldsFor},
    watch,
};

/// Requests in flight from which a server that shows fewer is called so.
const OURS_MIN: f64 = 4.0;
/// The share of ours that it shows at most then.
const SHOWN_MAX: f64 = 0.75;
/// What a result of one boot holds for.
const THIS_BOOT: &str = "this boot only";
/// Change of TPOT between two measurements of one load that is a drift.
const DRIFT: f64 = 0.08;

/// The finding on points that are not used for a reason of the server's, with the first one's.
fn not_used(
    points: &[PointRow],
    name: &str,
    reason: fn(&PointRow) -> Option<String>,
    advice: &str,
) -> Option<Finding> {
    let known = points.iter().filter_map(|p| Some((p, reason(p)?)));
    let bad: Vec<(&PointRow, String)> = known.collect();
    let (first, why) = bad.first()?;
    let evidence = format!(
        "{} of {} points are not used for it; at {}: {why}",
        bad.len(),
        points.len(),
        called(first)
    );
    Some(Finding::new(name, evidence, advice))
}

pub(super) fn foreign_traffic(points: &[PointRow]) -> Option<Finding> {
    let advice = "take other clients off the server, or measure another replica: the figures are of a larger load than its name";
    not_used(points, "foreign-traffic", watch::foreign, advice)
}

pub(super) fn restarted(points: &[PointRow]) -> Option<Finding> {
    let advice =
        "find out why (out of memory, a failed liveness probe, a rollout) and measure again";
    not_used(points, "server-restarted", watch::restarted, advice)
}

pub(super) fn speed_changed(points: &[PointRow]) -> Option<Finding> {
    let advice = "power or heat limits, a neighbour on the same machine, a server that was still warming up: settle it and measure again";
    not_used(points, "clock", watch::slowed, advice)
}

/// A point of one boot beside a point of another one.
pub(super) fn two_boots(points: &[PointRow], holds_for: &HoldsFor) -> Option<Finding> {
    let several_replicas = |p: &PointRow| p.server.as_ref().is_some_and(|s| s.replicas_seen > 1);
    // Where boots are counted, that is what they are for.
    if points.iter().any(several_replicas) || holds_for.boot != THIS_BOOT {
        return None;
    }
    let begun = |p: &PointRow| p.server.as_ref()?.started_unix_s;
    let known: Vec<(&PointRow, f64)> = points.iter().filter_map(|p| Some((p, begun(p)?))).collect();
    let changed = known
        .windows(2)
        .find(|pair| !watch::same_start(pair[0].1, pair[1].1))?;
    Some(Finding {
        severe: true,
        ..Finding::new(
            "two-boots",
            format!(
                "the server that was measured at {} had been restarted since {}",
                called(changed[1].0),
                called(changed[0].0)
            ),
            "the points are of two boots, which differ: measure again, or count boots with --resume --boots",
        )
    })
}

pub(super) fn several_replicas(points: &[PointRow]) -> Option<Finding> {
    let watched = points.iter().filter_map(|p| Some((p, p.server.as_ref()?)));
    let (point, server) = watched.max_by_key(|(_, s)| (s.replicas_seen, s.answered_as.len()))?;
    let what = if server.replicas_seen > 1 {
        format!(
            "the server's counters jump between at least {} processes",
            server.replicas_seen
        )
    } else if server.answered_as.len() > 1 {
        format!("answers come from {}", server.answered_as.join(" and "))
    } else {
        return None;
    };
    Some(Finding::new(
        "several-replicas",
        format!("at {} {what}", called(point)),
        "the figures are of all replicas behind the URL together and of the balancer before them: name one replica to size by replica; divide neither rate nor cap by their number",
    ))
}

/// The server shows fewer requests than we have in flight.
pub(super) fn server_sees_less(points: &[PointRow]) -> Option<Finding> {
    let shown = |p: &PointRow| {
        let server = p.server.as_ref().filter(|s| s.replicas_seen <= 1)?;
        let ours = server.ours_p50.filter(|ours| *ours >= OURS_MIN)?;
        let share = server.in_server_p50? / ours;
        (share < SHOWN_MAX).then_some(share)
    };
    let (point, share) = points
        .iter()
        .filter_map(|p| Some((p, shown(p)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    let server = point.server.as_ref()?;
    Some(Finding::new(
        "server-sees-less",
        format!(
            "at {} the server has {:.0} requests, running and waiting, where {:.0} of ours are in flight: {}",
            called(point),
            server.in_server_p50?,
            server.ours_p50?,
            percent(share)
        ),
        "another replica behind the URL takes the rest, something queues in front of the engine (a gateway, the tokenizer), or answers are late on their way to this machine",
    ))
}

/// One load, measured more than once in one boot: what changed meanwhile is the server. A search
/// that measures again by itself has its own rule for what it may still use.
pub(super) fn drift(points: &[PointRow], holds_for: &HoldsFor, searched: bool) -> Option<Finding> {
    let begun = |p: &PointRow| p.server.as_ref().and_then(|s| s.started_unix_s);
    let one_boot = holds_for.boot == THIS_BOOT;
    let mut worst: Option<(&PointRow, f64)> = None;
    for (i, first) in points.iter().enumerate() {
        let again = points[i + 1..].iter().filter(|p| {
            p.mode == first.mode
                && (p.load() - first.load()).abs() <= f64::EPSILON * p.load()
                && match (begun(first), begun(p)) {
                    (Some(one), Some(other)) => watch::same_start(one, other),
                    _ => one_boot,
                }
        });
        for later in again {
            let (Some(before), Some(after)) = (first.tpot_p50_ms, later.tpot_p50_ms) else {
                continue;
            };
            let change = after / before - 1.0;
            if change.abs() > DRIFT && worst.is_none_or(|w| change.abs() > w.1.abs()) {
                worst = Some((later, change));
            }
        }
    }
    let (point, change) = worst?;
    Some(Finding {
        severe: !searched,
        ..Finding::new(
            "drift",
            format!(
                "{} was measured more than once: TPOT p50 became {} {}",
                called(point),
                percent(change.abs()),
                if change > 0.0 { "longer" } else { "shorter" }
            ),
            "the server is not the one it was (clock, heat, a neighbour, its own warm-up): points before and after are not of one curve",
        )
    })
}
