//! Findings on figures that cannot be true together, or not at all.

use goodput_ledger::{Mode, PointRow};

use super::{called, percent, told_apart};
use crate::document::{Finding, HardwareFacts};

/// Little's law may be off by this share for want of exactness alone: ramps, pauses between requests.
const LITTLE_SLACK: f64 = 0.03;
/// Requests that reach over the window's edges may be so large a share that the law says nothing.
const LITTLE_EDGES_MAX: f64 = 0.3;
/// Requests from which means are means.
const LITTLE_REQUESTS: u64 = 30;
/// TPOT may be this share below the reading of the weights: bandwidths are rounded.
const FLOOR_SLACK: f64 = 0.95;
/// Bits of a weight below which no served model is known.
const FEWEST_BITS: f64 = 4.0;
/// Share of the arrivals of an open loop that must have been sent.
const SENT_MIN: f64 = 0.98;

/// N = X W (Little 1961): the mean number in flight is the rate times the mean time in flight.
///
/// X is the rate of origins in the window, W the mean E2E. Requests in flight at the edges of the
/// window are in N with a part of their time and in X or not; they are what the law may be off by.
pub(super) fn littles_law(points: &[PointRow]) -> Option<Finding> {
    let (point, off) = points
        .iter()
        .filter_map(|p| Some((p, littles_gap(p)?)))
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    let rate = point.requests as f64 / point.window_s;
    let seconds = point.checks.e2e_mean_ms? / 1e3;
    let (law, held) = told_apart(rate * seconds, point.in_flight_mean);
    let sums = format!(
        "at {} {rate:.2} requests a second x {seconds:.3} s of mean E2E are {law} in flight by Little's law; {held} were, {} {}",
        called(point),
        percent(off.abs()),
        if off > 0.0 { "more" } else { "fewer" },
    );
    // More in flight than the law gives: time that is not in E2E. Fewer: figures that contradict.
    Some(if off > 0.0 {
        Finding::new(
            "littles-law",
            sums,
            "requests stay open after their last token, by the difference: usage that comes late, an end of stream that is held back; users wait for it, E2E does not have it",
        )
    } else {
        Finding {
            severe: true,
            ..Finding::new(
                "littles-law",
                sums,
                "rate, E2E and number in flight contradict each other: one of them is not what it is called (latencies from the send and not from the schedule, a window that is not the requests', several counts of one request)",
            )
        }
    })
}

/// By how much N is off X W, as a share of X W, beyond what the edges explain.
fn littles_gap(point: &PointRow) -> Option<f64> {
    let ok = point.outcomes.get("ok").copied().unwrap_or_default();
    // What failed has time in flight and no E2E.
    if point.requests < LITTLE_REQUESTS || ok * 50 < point.requests * 49 || point.window_s <= 0.0 {
        return None;
    }
    let held = point.in_flight_mean;
    let law = point.requests as f64 / point.window_s * point.checks.e2e_mean_ms? / 1e3;
    if law <= 0.0 || held <= 0.0 {
        return None;
    }
    // In an open loop the number at an edge varies about its mean, as a Poisson count does.
    let chance = match point.mode {
        Mode::Closed => 1.0,
        Mode::Open => 1.0 + 2.0 / libm::sqrt(held),
    };
    let crowd = (f64::from(point.in_flight_at_end) / held).max(chance);
    let edges = crowd * point.e2e_p95_ms? / 1e3 / point.window_s;
    let off = held / law - 1.0;
    (edges <= LITTLE_EDGES_MAX && off.abs() > LITTLE_SLACK + edges).then_some(off)
}

/// In a closed loop every user has a request in flight, or the load is a smaller one than its name.
pub(super) fn users_idle(points: &[PointRow]) -> Option<Finding> {
    let share = |p: &PointRow| {
        let users = f64::from(p.concurrency.filter(|_| p.mode == Mode::Closed)?);
        let told = p.requests >= LITTLE_REQUESTS && p.in_flight_mean > 0.0;
        told.then_some(p.in_flight_mean / users)
    };
    let (point, share) = points
        .iter()
        .filter_map(|p| Some((p, share(p).filter(|s| *s < 0.9)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Finding::new(
        "users-idle",
        format!(
            "at {} only {:.1} were in flight on average, {} of the users: the others waited between requests",
            called(point),
            point.in_flight_mean,
            percent(share)
        ),
        "read the point as the smaller load: pauses of the workload's sessions, a new connection for every request, a client that was slow",
    ))
}

/// No decode step is shorter than the reading of the weights that it needs.
///
/// Source: the memory roofline, T >= W / B; of a mixture of experts W is what one token wakes. Events
/// of several tokens are allowed for: one step may bring several (speculative decoding).
pub(super) fn under_the_floor(
    points: &[PointRow],
    hardware: Option<&HardwareFacts>,
) -> Option<Finding> {
    let hardware = hardware.filter(|h| h.weight_read_ms > 0.0)?;
    let step = |p: &PointRow| {
        let tokens = p.lengths.tokens_per_event.unwrap_or(1.0).max(1.0);
        Some(p.tpot_p50_ms? * tokens)
    };
    let (point, step) = points
        .iter()
        .filter_map(|p| Some((p, step(p)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    let floor = hardware.weight_read_ms;
    if step >= FLOOR_SLACK * floor {
        return None;
    }
    // Narrower weights than were assumed are the likelier error, as far as there are such.
    let narrowest = floor * FEWEST_BITS / f64::from(hardware.weight_bits.max(1));
    let impossible = hardware.bits_known || step < FLOOR_SLACK * narrowest;
    let (taken, read) = told_apart(step, floor);
    Some(Finding {
        severe: impossible,
        ..Finding::new(
            "tpot-under-floor",
            format!(
                "at {} a step takes {taken} ms (TPOT p50), reading the weights once {read} ms ({} x {}, {} bits{}; {})",
                called(point),
                hardware.count,
                hardware.accelerator,
                hardware.weight_bits,
                if hardware.bits_known { "" } else { " assumed" },
                hardware.source,
            ),
            if impossible {
                "impossible: two events counted for one token, usage above what came, another model or more hardware than was named"
            } else {
                "the weights are narrower than assumed (say --weight-bits), or tokens are counted twice"
            },
        )
    })
}

/// An open loop that did not send what was due is a closed one.
pub(super) fn not_open(points: &[PointRow]) -> Option<Finding> {
    let (point, sent) = points
        .iter()
        .filter(|p| p.mode == Mode::Open)
        .filter_map(|p| Some((p, p.sent_share.filter(|s| *s < SENT_MIN)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Finding {
        severe: true,
        ..Finding::new(
            "open-loop-not-open",
            format!(
                "at {} {} of the arrivals that were due were sent",
                called(point),
                percent(sent)
            ),
            "what was not sent did not wait: the latencies are of a lighter load; raise the limits of the load generator (descriptors, a cap on requests in flight) or lower the rate",
        )
    })
}
