//! The rule by which a point is not to be trusted: the client's own doing could move a figure by
//! more than [`MOVED_SHARE`]. `docs/measuring.md` argues it.

use std::time::Duration;

use goodput_record::{RequestSummary, nanos, span_of};
use goodput_stats::{Distribution, quantile_shifts};
use goodput_workload::Load;

use crate::{invalid::Invalid, path::too_narrow, plan::PointPlan, report::PointReport};

/// The share of a figure that may be the client's own doing.
pub const MOVED_SHARE: f64 = 0.05;
/// Less than this of a median TTFT is nobody's concern, whatever share it is.
const TTFT_FLOOR: Duration = Duration::from_millis(1);
/// The same of its 99th percentile, which no point of some hundred requests knows to 2 ms.
const TTFT_P99_FLOOR: Duration = Duration::from_millis(2);
/// The same of a TPOT.
const TPOT_FLOOR: Duration = Duration::from_micros(100);
/// Arrivals closer together than this are not told apart.
pub(crate) const GAP_FLOOR: Duration = Duration::from_millis(1);
/// Shorter waits of users, or of bytes in their socket, are nobody's concern.
const WAIT_FLOOR: Duration = Duration::from_millis(2);
/// The share of one core above which the load thread is too busy to be believed.
const CPU_SHARE_MAX: f64 = 0.9;
/// The load thread may stand still once for this share of a point: a percentile of its lag does not
/// see a machine that was paused.
const STILL_SHARE_MAX: f64 = 0.02;
/// Of a very short point this much is allowed: it is soon measured again.
const STILL_LEAST: Duration = Duration::from_millis(200);
/// Configured and observed peak of requests in flight may differ by this share.
const PEAK_TOLERANCE: f64 = 0.02;

/// The latencies of the measured requests that the rule weighs the client's lateness against.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    ttft: Distribution,
    /// The same without the lateness of each request's own send, where latencies run from the
    /// schedule.
    ttft_from_send: Distribution,
    tpot: Distribution,
    /// Gaps between tokens: a TPOT is moved by the lateness of two reads over these.
    gaps: Distribution,
    /// Sum in ns, and how many.
    e2e: (u128, u64),
}

/// Values of a distribution of the client's own that are kept one by one: of what only serves to
/// find doubts 0.1 % is near enough, and five times 65,536 values would be 2.5 MB.
const KEPT: usize = 4_096;

/// An empty distribution of something of the client's own.
pub(crate) const fn roughly() -> Distribution {
    Distribution::with_limit(KEPT)
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            ttft: roughly(),
            ttft_from_send: roughly(),
            tpot: roughly(),
            gaps: roughly(),
            e2e: (0, 0),
        }
    }
}

impl Latencies {
    /// Takes a measured request that was sent `late` after it was due.
    pub(crate) fn take(&mut self, summary: &RequestSummary, late: Duration) {
        if let Some(ttft) = summary.ttft() {
            self.ttft.record(nanos(ttft));
            let due = summary.origin() == summary.due();
            let own = if due { late } else { Duration::ZERO };
            self.ttft_from_send.record(nanos(ttft.saturating_sub(own)));
        }
        if let (Some(tpot), Some(gaps)) = (summary.tpot(), summary.token_gaps()) {
            self.tpot.record(nanos(tpot));
            self.gaps.record(u64::from(gaps));
        }
        if let Some(e2e) = summary.e2e() {
            self.e2e.0 += e2e.as_nanos();
            self.e2e.1 += 1;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.ttft.merge(&other.ttft);
        self.ttft_from_send.merge(&other.ttft_from_send);
        self.tpot.merge(&other.tpot);
        self.gaps.merge(&other.gaps);
        self.e2e.0 += other.e2e.0;
        self.e2e.1 += other.e2e.1;
    }

    /// Mean E2E in ns.
    fn e2e_mean_ns(&self) -> Option<f64> {
        let (sum, n) = self.e2e;
        (n > 0).then(|| sum as f64 / n as f64)
    }

    /// TTFT at the median.
    pub(crate) fn ttft_p50(&self) -> Option<Duration> {
        self.ttft.quantile(0.5).map(|ns| span_of(ns / 1e9))
    }
}

/// How much of a figure is the client's own lateness.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved {
    /// The figure: `ttft p50`, `ttft p99`, `tpot p50` or `tpot p99`.
    pub figure: &'static str,
    /// As measured.
    pub value: Duration,
    /// Of this, late sends: exact, request by request.
    pub by_sends: Duration,
    /// Of this, late reads: by the load thread's own lag, convolved with the latencies.
    pub by_reads: Duration,
    /// What is allowed: [`MOVED_SHARE`] of the figure, or a floor.
    pub bound: Duration,
}

impl Moved {
    /// How much in all.
    #[must_use]
    pub fn by(&self) -> Duration {
        self.by_sends + self.by_reads
    }

    /// Over 1 it is too much.
    fn excess(&self) -> f64 {
        self.by().as_secs_f64() / self.bound.as_secs_f64().max(1e-9)
    }
}

/// Works out what the load thread's `lag` and the sends did to the figures.
pub(crate) fn moved(latencies: &Latencies, lag: &Distribution) -> Vec<Moved> {
    let gaps = latencies.gaps.quantile(0.5).unwrap_or(1.0).max(1.0);
    let ttft = by_reads(&latencies.ttft, lag, 1.0);
    let tpot = by_reads(&latencies.tpot, lag, 1.0 / gaps);
    let watched = [
        ("ttft p50", &latencies.ttft, 0.5, &ttft, TTFT_FLOOR),
        ("ttft p99", &latencies.ttft, 0.99, &ttft, TTFT_P99_FLOOR),
        ("tpot p50", &latencies.tpot, 0.5, &tpot, TPOT_FLOOR),
        ("tpot p99", &latencies.tpot, 0.99, &tpot, TPOT_FLOOR),
    ];
    let row = |(figure, of, q, reads, floor): (_, &Distribution, f64, &Vec<Shift>, Duration)| {
        let ns = of.quantile(q)?;
        let bare = if std::ptr::eq(of, &raw const latencies.ttft) {
            latencies.ttft_from_send.quantile(q)?
        } else {
            ns
        };
        let value = span_of(ns / 1e9);
        Some(Moved {
            figure,
            value,
            by_sends: span_of((ns - bare) / 1e9),
            by_reads: span_of(most_moved(reads, q).unwrap_or_default() / 1e9),
            bound: value.mul_f64(MOVED_SHARE).max(floor),
        })
    };
    watched.into_iter().filter_map(row).collect()
}

/// A percentile (0 to 1), its value, and how much of that may be late reads, in ns.
type Shift = (f64, f64, f64);

/// What late reads do to percentiles up to the 99th.
fn by_reads(values: &Distribution, lag: &Distribution, scale: f64) -> Vec<Shift> {
    const GRID: [f64; 8] = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99];
    let shifts = quantile_shifts(values, lag, scale, &GRID).unwrap_or_default();
    let seen = GRID.iter().zip(values.quantiles(&GRID)).zip(shifts);
    seen.filter_map(|((q, value), shift)| Some((*q, value?, shift)))
        .collect()
}

/// The most that the `q` percentile can have been moved. True percentiles are in order too: it lies
/// at least where a lower one lay, so it was moved by no more than its distance from that and what
/// that one was moved by. Latencies that lie close together tell that nothing moved them. Nor can it
/// have been below 0.
fn most_moved(shifts: &[Shift], q: f64) -> Option<f64> {
    let value = shifts.iter().find(|s| s.0 >= q)?.1;
    shifts
        .iter()
        .filter(|s| s.0 <= q)
        .map(|s| value - s.1 + s.2)
        .chain([value])
        .min_by(f64::total_cmp)
}

/// Everything that makes a point's figures doubtful, apart from what ended it early.
pub(crate) fn doubts(report: &PointReport, plan: &PointPlan) -> Vec<Invalid> {
    let mut found = Vec::new();
    found.extend(short_of_users(report, plan));
    found.extend(worst_moved(report));
    found.extend(match plan.load {
        Load::Open { .. } => displaced(report),
        Load::Closed(_) => idle(report),
    });
    found.extend(unread(report));
    found.extend(stood_still(report));
    found.extend(too_narrow(report));
    if report.machine.thread_share > CPU_SHARE_MAX {
        found.push(Invalid::Cpu {
            share: report.machine.thread_share,
        });
    }
    if report.not_sent > 0 {
        found.push(Invalid::NotSent {
            requests: report.not_sent,
            cause: report.not_sent_because.clone(),
        });
    }
    found
}

fn short_of_users(report: &PointReport, plan: &PointPlan) -> Option<Invalid> {
    let users = plan.own_users()?;
    // With fewer requests than users the number can never be reached.
    let reachable = report.arrivals_due >= u64::from(users);
    let short = f64::from(report.peak_in_flight) < f64::from(users) * (1.0 - PEAK_TOLERANCE);
    (reachable && short && !report.interrupted).then_some(Invalid::Peak {
        configured: users,
        observed: report.peak_in_flight,
    })
}

/// The figure that is moved too far, if one is; of several the one that is moved furthest.
fn worst_moved(report: &PointReport) -> Option<Invalid> {
    let worst = report
        .moved
        .iter()
        .filter(|moved| moved.by() > moved.bound)
        .max_by(|a, b| a.excess().total_cmp(&b.excess()))?;
    let p99 = |of: &Distribution| of.quantile(0.99).unwrap_or_default() / 1e6;
    let late = if worst.by_sends > worst.by_reads {
        format!("sends were late by {:.1} ms (p99)", p99(&report.send_lag))
    } else {
        format!(
            "the load thread was late by {:.1} ms (p99)",
            p99(report.loop_lag())
        )
    };
    Some(Invalid::Moved {
        figure: worst.figure,
        value: worst.value,
        moved: worst.by(),
        late,
        cause: report.machine.cause(),
    })
}

/// Whether so many sends were late by more than the arrivals are apart that their order and
/// spacing, seen by the server, is another one.
fn displaced(report: &PointReport) -> Option<Invalid> {
    let late = span_of(report.send_lag.quantile(1.0 - MOVED_SHARE)? / 1e9);
    let arrivals = u32::try_from(report.arrivals_due)
        .unwrap_or(u32::MAX)
        .max(1);
    let gap = report.window_span()? / arrivals;
    (late > gap.max(GAP_FLOOR)).then(|| Invalid::Arrivals {
        late,
        gap,
        cause: report.machine.cause(),
    })
}

/// Whether the users of a closed loop spent too much of their time between an answer and the next
/// request: then fewer were in flight than the load says.
fn idle(report: &PointReport) -> Option<Invalid> {
    let (late, served) = (report.send_lag.mean()?, report.latencies.e2e_mean_ns()?);
    let share = late / (late + served).max(1.0);
    (share > MOVED_SHARE && late > nanos(WAIT_FLOOR) as f64).then(|| Invalid::Idle {
        share,
        cause: report.machine.cause(),
    })
}

fn unread(report: &PointReport) -> Option<Invalid> {
    let mean = report.unread_for?;
    let bound = report
        .latencies
        .ttft_p50()?
        .mul_f64(MOVED_SHARE)
        .max(WAIT_FLOOR);
    (mean > bound).then(|| Invalid::Unread {
        mean,
        bound,
        cause: report.machine.cause(),
    })
}

/// The longest lag, where it is too large a part of the point.
fn stood_still(report: &PointReport) -> Option<Invalid> {
    let longest = Duration::from_nanos(report.loop_lag().max()?);
    let whole = report.span.end.since(report.span.start).unwrap_or_default();
    let bound = whole.mul_f64(STILL_SHARE_MAX).max(STILL_LEAST);
    (longest > bound).then_some(Invalid::StoodStill { longest })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// TTFTs spread evenly over a range of milliseconds, from the send on.
    fn ttfts(from_ms: u64, to_ms: u64) -> Latencies {
        let mut all = Latencies::default();
        for us in (from_ms * 1_000..to_ms * 1_000).step_by(50) {
            all.ttft.record(us * 1_000);
            all.ttft_from_send.record(us * 1_000);
        }
        all
    }

    /// Ticks, `late` of a thousand by `ms`, the others on time.
    fn lag(late: usize, ms: u64) -> Distribution {
        (0..1_000)
            .map(|i| if i < late { ms * MS } else { 0 })
            .collect()
    }

    fn too_far(latencies: &Latencies, lag: &Distribution) -> Vec<&'static str> {
        let all = moved(latencies, lag);
        let far = all.iter().filter(|m| m.by() > m.bound);
        far.map(|m| m.figure).collect()
    }

    #[test]
    fn what_is_late_counts_by_the_figure_it_could_move() {
        // Ten milliseconds of lag, always: too much for 30 ms of TTFT, nothing for 3 s.
        let always = lag(1_000, 10);
        assert_eq!(too_far(&ttfts(20, 40), &always), ["ttft p50", "ttft p99"]);
        assert!(too_far(&ttfts(2_000, 4_000), &always).is_empty());
        // At one instant in a hundred: in the tail alone, if at all.
        assert!(too_far(&ttfts(20, 40), &lag(10, 10)).is_empty());
        assert_eq!(too_far(&ttfts(20, 40), &lag(100, 10)), ["ttft p99"]);
    }

    #[test]
    fn a_single_pause_condemns_no_point() {
        assert!(too_far(&ttfts(20, 40), &lag(1, 500)).is_empty());
    }

    #[test]
    fn no_more_can_be_moved_than_there_is() {
        let all = moved(&ttfts(1, 2), &lag(1_000, 10));
        assert!(all.iter().all(|m| m.by() <= m.value), "{all:?}");
    }

    #[test]
    fn below_the_floor_nothing_matters() {
        // A fifth of a millisecond of a TTFT of one.
        let late: Distribution = [200_000; 1_000].into_iter().collect();
        assert!(too_far(&ttfts(0, 2), &late).is_empty());
    }

    /// All latencies lie within 1 ms of each other: whatever the ticks say, no lag of 10 ms is in
    /// one of a hundred of them.
    #[test]
    fn latencies_that_lie_together_were_not_moved_apart() {
        assert!(too_far(&ttfts(100, 101), &lag(100, 10)).is_empty());
        assert_eq!(too_far(&ttfts(100, 140), &lag(150, 30)), ["ttft p99"]);
    }

    #[test]
    fn late_sends_are_known_request_by_request() {
        let mut all = Latencies::default();
        for i in 0..1_000 {
            let ttft = 100 * MS + i * MS / 100;
            // Three in a hundred were sent 40 ms late.
            let late = if i % 100 < 3 { 40 * MS } else { 0 };
            all.ttft.record(ttft + late);
            all.ttft_from_send.record(ttft);
        }
        let all = moved(&all, &lag(0, 0));
        assert!(all[0].by_sends < Duration::from_millis(1), "{:?}", all[0]);
        assert!(all[1].by_sends > Duration::from_millis(30), "{:?}", all[1]);
        assert!(all.iter().all(|m| m.by_reads.is_zero()));
    }

    #[test]
    fn a_tpot_is_moved_by_the_lag_over_its_gaps() {
        let mut all = Latencies::default();
        for _ in 0..100 {
            all.tpot.record(20 * MS);
            all.gaps.record(127);
        }
        let all = moved(&all, &lag(1_000, 12));
        let names: Vec<_> = all.iter().map(|m| m.figure).collect();
        assert_eq!(names, ["tpot p50", "tpot p99"], "no TTFT, no figure of it");
        assert!(all[0].by_reads < Duration::from_micros(100), "{:?}", all[0]);
        assert!(all[0].by_reads > Duration::from_micros(90), "{:?}", all[0]);
    }
}
