//! What the processes of a point say of themselves, as what one would have said.

use std::collections::BTreeMap;

use goodput_ledger::{ClientRow, PointFacts};
use goodput_record::{Timestamp, millis};

use super::{ShardPoint, belong::Share};

/// Wall-clock time from the run's epoch to the beginning of its first point. Every share's clock
/// begins this long before, so that their instants are on one axis.
pub const EPOCH_LEAD_NS: u64 = 300 * 1_000_000_000;

/// Clocks that differ by more than this share of the window moved too much of a load out of it.
const CLOCK_SHARE: f64 = 0.05;
/// Less than this is not told apart: the counters are read once a second.
const CLOCK_SEEN: std::time::Duration = std::time::Duration::from_secs(1);

/// The facts of the whole point from those of its shares. `None`: no share has this point.
///
/// Counts are added up; of what tells how well a process kept up the worst counts. The peak of
/// requests in flight is the sum of the shares' peaks, which need not have come at one instant: at
/// most so many.
pub(super) fn gathered(shares: &[Share], number: u32) -> Option<PointFacts> {
    let points: Vec<(&Share, &ShardPoint)> = shares
        .iter()
        .filter_map(|share| Some((share, share.points.get(&number)?)))
        .collect();
    let (share, first) = points.first()?;
    let all = || points.iter().map(|(_, point)| &point.facts);
    let worst = |of: fn(&PointFacts) -> Option<f64>| all().filter_map(of).reduce(f64::max);
    let (due, sent) = points
        .iter()
        .fold((0, 0), |sum, (_, p)| (sum.0 + p.due, sum.1 + p.sent));
    let mut invalid = why_not(shares, &points, number);
    invalid.extend(said(&points, |facts| &facts.invalid));
    let mut warnings = said(&points, |facts| &facts.warnings);
    warnings.extend(several_servers(shares));
    Some(PointFacts {
        window: window(share, number),
        in_flight_peak: all().map(|f| f.in_flight_peak).sum(),
        in_flight_at_end: all().map(|f| f.in_flight_at_end).sum(),
        sent_share: (due > 0).then(|| sent as f64 / due as f64),
        loop_lag_p99_ns: worst(|f| f.loop_lag_p99_ns),
        client_cpu_share: worst(|f| f.client_cpu_share),
        server_cached_share: first.facts.server_cached_share,
        server_timings: all().fold((0, 0, None), |sum, f| {
            let (told, implausible, ratio) = f.server_timings;
            (sum.0 + told, sum.1 + implausible, ratio.or(sum.2))
        }),
        invalid,
        warnings,
        client: all().map(|f| f.client).reduce(worse).unwrap_or_default(),
        ..first.facts.clone()
    })
}

/// Of two processes at every figure the one that tells worse of the load.
fn worse(a: ClientRow, b: ClientRow) -> ClientRow {
    let most = |of: fn(&ClientRow) -> Option<f64>| max(of(&a), of(&b));
    ClientRow {
        thread_cpu_share: most(|c| c.thread_cpu_share),
        waited_share: most(|c| c.waited_share),
        stolen_share: most(|c| c.stolen_share),
        throttled_share: most(|c| c.throttled_share),
        unread_mean_ms: most(|c| c.unread_mean_ms),
        ttft_p50_moved_ms: most(|c| c.ttft_p50_moved_ms),
        ttft_p99_moved_ms: most(|c| c.ttft_p99_moved_ms),
        tpot_p50_moved_ms: most(|c| c.tpot_p50_moved_ms),
        tpot_p99_moved_ms: most(|c| c.tpot_p99_moved_ms),
        path_bytes_per_s: most(|c| c.path_bytes_per_s.map(|bytes| -bytes)).map(|bytes| -bytes),
        path_is_limit: a
            .path_is_limit
            .into_iter()
            .chain(b.path_is_limit)
            .reduce(|a, b| a || b),
    }
}

fn max(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

/// The window that every share was to have.
fn window(share: &Share, number: u32) -> std::ops::Range<Timestamp> {
    let note = &share.note;
    let from = EPOCH_LEAD_NS + u64::from(number) * note.slot_ns + note.settle_ns;
    Timestamp::from_nanos(from)..Timestamp::from_nanos(from + note.window_ns)
}

/// What only the shares together show.
fn why_not(shares: &[Share], points: &[(&Share, &ShardPoint)], number: u32) -> Vec<String> {
    let mut reasons = Vec::new();
    for share in shares {
        if !share.points.contains_key(&number) {
            reasons.push(format!("{} did not measure it", share.called()));
        }
    }
    reasons.extend(
        shares
            .iter()
            .filter_map(|share| clock_off(share, &shares[0])),
    );
    let load = |f: &PointFacts| (f.mode, f.concurrency, f.rate_req_s.map(f64::to_bits));
    for (share, point) in points {
        if load(&point.facts) != load(&points[0].1.facts) {
            reasons.push(format!("{} put another load on the server", share.called()));
        }
        let (planned, own) = (window(share, number), &point.facts.window);
        if *own != planned {
            let span = |w: &std::ops::Range<Timestamp>| w.end.seconds() - w.start.seconds();
            reasons.push(format!(
                "{} measured {:.1} s of the {:.1} s that all were to measure: it was interrupted, or had no more requests",
                share.called(),
                span(own),
                span(&planned)
            ));
        }
        if point.begun_late_ns > share.note.settle_ns {
            let late = std::time::Duration::from_nanos(point.begun_late_ns);
            reasons.push(format!(
                "{} began {:.0} ms late, after the window had opened: start the shards earlier before --start-at, or check their clocks",
                share.called(),
                millis(late)
            ));
        }
    }
    reasons
}

/// Shares that named the server differently may have loaded two.
fn several_servers(shares: &[Share]) -> Option<String> {
    let url = |share: &Share| share.result.holds_for.server.url.clone();
    let first = shares.first()?;
    let other = shares.iter().find(|share| url(share) != url(first))?;
    Some(format!(
        "{} loaded {} and {} loaded {}: if these are two servers, no figure is of either",
        first.called(),
        url(first),
        other.called(),
        url(other)
    ))
}

/// Where a share's clock was so far off that its part of the load came at another time.
fn clock_off(share: &Share, first: &Share) -> Option<String> {
    let off = std::time::Duration::from_nanos(share.clock_ahead_ns?.unsigned_abs());
    let window = std::time::Duration::from_nanos(share.note.window_ns);
    let way = if share.clock_ahead_ns? > 0 {
        "ahead of"
    } else {
        "behind"
    };
    (off > CLOCK_SEEN.max(window.mul_f64(CLOCK_SHARE))).then(|| {
        format!(
            "by the server's counters, which both read, the clock of {} is {:.1} s {way} that of {}: their loads did not meet for the whole window; keep the clocks together (NTP) and measure again",
            share.called(),
            off.as_secs_f64(),
            first.called()
        )
    })
}

/// Each thing that shares say, once, with those that say it.
fn said(points: &[(&Share, &ShardPoint)], of: impl Fn(&PointFacts) -> &Vec<String>) -> Vec<String> {
    let mut by_text: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (share, point) in points {
        for text in of(&point.facts) {
            by_text.entry(text).or_default().push(share.called());
        }
    }
    by_text
        .into_iter()
        .map(|(text, shards)| match shards.len() {
            n if n == points.len() && n > 1 => format!("every shard: {text}"),
            _ => format!("{}: {text}", shards.join(", ")),
        })
        .collect()
}
