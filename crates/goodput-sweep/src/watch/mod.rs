//! Watching the server: what its own counters say beside ours, and which points that marks.

#[cfg(test)]
mod tests;
mod together;

use std::ops::Range;

use goodput_ledger::{PointRow, WatchRow};
use goodput_record::{EngineSample, Timestamp};
use goodput_stats::Distribution;
pub use together::watched_together;

/// Looks inside the window from which a lasting difference is told from the jitter of one look.
const LOOKS_MIN: u32 = 4;
/// Foreign requests below this share of ours may be the jitter of counting at two instants.
const FOREIGN_FLOOR: f64 = 0.05;
/// Start times closer than this are of one process, in seconds.
const START_JITTER_S: f64 = 2.0;
/// Streams that break off at once from which it is one event and not several.
const CUT_MIN: u64 = 3;
/// Ended requests that the server may count and we do not: a look lies between the two counts.
const ENDED_SLACK: f64 = 2.0;
/// The same as a share of ours.
const ENDED_SLACK_SHARE: f64 = 0.03;
/// Share of the server's work that may be foreign before a point is not used: as large as the
/// share by which a figure may be moved by anything else.
pub(crate) const FOREIGN_MAX: f64 = 0.05;
/// Change of a stream's speed within a window from which on the point is not used: two halves of
/// it were measured on two servers.
pub(crate) const SHIFT_MAX: f64 = 0.1;

/// One look at the server's counters, with ours at the same instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    /// The server's.
    pub sample: EngineSample,
    /// Our requests in flight.
    pub in_flight: u32,
    /// Our requests ended since the point began, however they ended.
    pub ended: u64,
}

/// What the looks at one point say. They begin with one before its first request and end with one
/// after its last; `window` is where its figures are taken. `None` under two looks.
///
/// `alone`: whether all of the load is ours. Where other processes send their part of it, nothing
/// can be said of who else does.
#[must_use]
pub fn watch(looks: &[Look], window: &Range<Timestamp>, alone: bool) -> Option<WatchRow> {
    let ([first, .., last], false) = (looks, looks.len() < 2) else {
        return None;
    };
    let inside = looks.iter().filter(|l| window.contains(&l.sample.at));
    let pairs: Vec<(u64, u64)> = inside
        .filter_map(|l| Some((in_server(&l.sample)?, u64::from(l.in_flight))))
        .collect();
    let enough = pairs.len() >= LOOKS_MIN as usize;
    let (replicas_seen, restarts) = lives(looks);
    // Counters of several lives say nothing of the whole.
    let steady = replicas_seen == 1 && restarts == 0;
    let ended_in_server = (last.sample.requests_ended)
        .zip(first.sample.requests_ended)
        .and_then(|(after, before)| after.checked_sub(before))
        .filter(|_| steady);
    let mut row = WatchRow {
        looks: u32::try_from(looks.len()).unwrap_or(u32::MAX),
        in_server_p50: median(pairs.iter().map(|p| p.0)).filter(|_| enough),
        ours_p50: median(pairs.iter().map(|p| p.1)).filter(|_| enough && alone),
        foreign_in_server: lasting_excess(&pairs).filter(|_| enough && steady && alone),
        ended_in_server,
        ended_ours: ended_in_server
            .filter(|_| alone)
            .map(|_| last.ended.saturating_sub(first.ended)),
        foreign_share: None,
        replicas_seen,
        answered_as: Vec::new(),
        restarts,
        started_unix_s: looks.iter().rev().find_map(|l| l.sample.started_unix_s),
    };
    row.foreign_share = foreign_share(&row);
    Some(row)
}

fn in_server(sample: &EngineSample) -> Option<u64> {
    Some(u64::from(sample.running?) + u64::from(sample.waiting.unwrap_or(0)))
}

fn median(values: impl Iterator<Item = u64>) -> Option<f64> {
    values.collect::<Distribution>().quantile(0.5)
}

/// Requests in the server above ours, in three of four looks at least; 0 where that may be jitter.
fn lasting_excess(pairs: &[(u64, u64)]) -> Option<f64> {
    let excess = pairs
        .iter()
        .map(|(theirs, ours)| theirs.saturating_sub(*ours));
    let lasting = excess.collect::<Distribution>().quantile(0.25)?;
    let floor = (FOREIGN_FLOOR * median(pairs.iter().map(|p| p.1))?).max(1.0);
    Some(if lasting >= floor { lasting } else { 0.0 })
}

/// The larger of the two signs of foreign work: requests in the server, and requests ended there.
fn foreign_share(row: &WatchRow) -> Option<f64> {
    let present = row
        .foreign_in_server
        .zip(row.in_server_p50)
        .map(|(foreign, all)| foreign / all.max(foreign).max(1.0));
    let ended = row.ended_in_server.zip(row.ended_ours).map(|(all, ours)| {
        let (all, ours) = (all as f64, ours as f64);
        let beyond = all - ours > ENDED_SLACK + ENDED_SLACK_SHARE * ours;
        if beyond { (all - ours) / all } else { 0.0 }
    });
    match (present, ended) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (one, other) => one.or(other),
    }
}

/// How many replicas the looks tell apart, and how often a replica began anew.
///
/// Behind a balancer the start time, or where there is none the counters, jump between a few values
/// and come back to them. After a restart they do not come back.
fn lives(looks: &[Look]) -> (u32, u32) {
    let starts: Vec<f64> = looks
        .iter()
        .filter_map(|l| l.sample.started_unix_s)
        .collect();
    if starts.len() >= 2 {
        return lives_by_start(&starts);
    }
    let counters: [fn(&EngineSample) -> Option<u64>; 3] = [
        |s| s.requests_ended,
        |s| s.prefix_queries,
        |s| s.preemptions,
    ];
    let told = counters
        .iter()
        .map(|of| looks.iter().filter_map(|l| of(&l.sample)).collect())
        .map(|values: Vec<u64>| lives_by_counter(&values));
    told.fold((1, 0), |all, one| (all.0.max(one.0), all.1.max(one.1)))
}

/// Whether two start times are of the same process. Some programs work theirs out anew at every look,
/// from a boot time that follows the clock's corrections.
pub(crate) fn same_start(one: f64, other: f64) -> bool {
    (one - other).abs() < START_JITTER_S
}

fn lives_by_start(starts: &[f64]) -> (u32, u32) {
    let mut distinct: Vec<f64> = starts.first().copied().into_iter().collect();
    let (mut came_back, mut changes) = (false, 0);
    for pair in starts.windows(2).filter(|p| !same_start(p[0], p[1])) {
        changes += 1;
        let known = distinct.iter().any(|&start| same_start(start, pair[1]));
        // An earlier start after a later one is another process, not a new one.
        came_back |= known || pair[1] < pair[0];
        if !known {
            distinct.push(pair[1]);
        }
    }
    if came_back {
        (u32::try_from(distinct.len()).unwrap_or(u32::MAX), 0)
    } else {
        (1, changes)
    }
}

fn lives_by_counter(values: &[u64]) -> (u32, u32) {
    let falls = values.windows(2).filter(|p| p[1] < p[0]).count();
    let Some(fall) = values.windows(2).position(|p| p[1] < p[0]) else {
        return (1, 0);
    };
    // A new process counts from nothing, and does not reach the old count in one step.
    let anew = values[fall + 1] * 2 < values[fall];
    let jumped_back = values[fall + 1..]
        .windows(2)
        .any(|p| p[0] * 2 < values[fall] && p[1] >= values[fall]);
    if falls == 1 && anew && !jumped_back {
        (1, 1)
    } else {
        (2, 0)
    }
}

/// Marks a point by what was watched: not to be used where another load, another process or another
/// speed is in its figures; else a warning.
pub fn mark(row: &mut PointRow) {
    let reasons: Vec<String> = [restarted(row), slowed(row), foreign(row)]
        .into_iter()
        .flatten()
        .collect();
    for reason in reasons {
        row.invalidate(reason);
    }
    row.warnings.extend(replicas(row));
}

/// Whether a point's server was restarted under it.
pub(crate) fn restarted(row: &PointRow) -> Option<String> {
    if row.server.as_ref().is_some_and(|s| s.restarts > 0) {
        return Some(
            "the server was restarted: its figures are of two boots, the second one cold"
                .to_owned(),
        );
    }
    // Streams that break off one by one are a fault of another kind: those of a restart do it at
    // once, and then no more.
    let (together, all) = (row.checks.cut_together, row.checks.cut);
    let enough = together >= CUT_MIN && together as f64 >= row.in_flight_mean / 2.0;
    (enough && 2 * together > all).then(|| {
        format!(
            "{together} streams broke off at once, of {:.0} in flight: the server, or a proxy before it, was restarted",
            row.in_flight_mean
        )
    })
}

/// Whether a stream's speed changed within the point.
pub(crate) fn slowed(row: &PointRow) -> Option<String> {
    let shift = row.checks.speed_shift?;
    let change = shift.change();
    (change.abs() >= SHIFT_MAX).then(|| {
        format!(
            "the server became {:.0}% {} {:.0} s into the window: a stream got {:.1} tok/s, then {:.1}",
            change.abs() * 100.0,
            if change < 0.0 { "slower" } else { "faster" },
            shift.at_s,
            shift.before_tok_s,
            shift.after_tok_s,
        )
    })
}

/// Whether the server worked for others so much that a figure could move.
pub(crate) fn foreign(row: &PointRow) -> Option<String> {
    // Where we gave requests up the server may still be at them: they were ours.
    let given_up = ["timed_out", "cancelled"]
        .iter()
        .any(|name| row.outcomes.contains_key(*name));
    let server = row.server.as_ref().filter(|_| !given_up)?;
    let share = server.foreign_share.filter(|share| *share > FOREIGN_MAX)?;
    let mut signs = Vec::new();
    if let (Some(foreign), Some(all), Some(ours)) = (
        server.foreign_in_server.filter(|n| *n > 0.0),
        server.in_server_p50,
        server.ours_p50,
    ) {
        signs.push(format!(
            "it had {all:.0} requests at a time, ours were {ours:.0}, at least {foreign:.0} more in three of four looks"
        ));
    }
    if let (Some(all), Some(ours)) = (server.ended_in_server, server.ended_ours)
        && all > ours
    {
        signs.push(format!("{all} requests ended in it, {ours} of them ours"));
    }
    Some(format!(
        "the server worked for others too, {:.0}% of its load: {}",
        share * 100.0,
        signs.join("; ")
    ))
}

fn replicas(row: &PointRow) -> Option<String> {
    let server = row.server.as_ref()?;
    if server.replicas_seen > 1 {
        let seen = server.replicas_seen;
        return Some(format!("at least {seen} replicas answer behind the URL"));
    }
    let names = &server.answered_as;
    (names.len() > 1).then(|| format!("answers come from {}", names.join(" and ")))
}

/// What was seen of the server over all points, for the line that names it. `None`: not watched.
#[must_use]
pub fn seen(points: &[PointRow]) -> Option<String> {
    let rows: Vec<&WatchRow> = points.iter().filter_map(|p| p.server.as_ref()).collect();
    let replicas = rows.iter().map(|r| r.replicas_seen).max()?;
    let counted = rows.iter().any(|r| r.foreign_share.is_some());
    let traffic = if points.iter().any(|p| foreign(p).is_some()) {
        "FOREIGN TRAFFIC"
    } else if counted {
        "no foreign traffic"
    } else {
        "foreign traffic not known"
    };
    let replicas = match replicas {
        0 | 1 => "1 replica seen".to_owned(),
        n => format!("at least {n} replicas seen"),
    };
    let restarts: u32 = rows.iter().map(|r| r.restarts).sum();
    let restarts = match restarts {
        0 => String::new(),
        n => format!(" | RESTARTED {n} times"),
    };
    Some(format!("{replicas} | {traffic}{restarts}"))
}
