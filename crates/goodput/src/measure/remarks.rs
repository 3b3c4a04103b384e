//! What a load point says of itself in words.

use std::{ops::Range, time::Duration};

use goodput_ledger::ClientRow;
use goodput_loadgen::{Invalid, PointPlan, PointReport, Window};
use goodput_record::Timestamp;
use goodput_sweep::WORKLOAD_ENDED;
use goodput_workload::Load;

use super::{observer::LiveCounts, outage::is_the_servers, source::BIN};

/// The warning on a point that was broken off.
pub(crate) const INTERRUPTED: &str = "interrupted: a part of the window";

/// What the load generator saw of itself.
pub(super) fn client_row(report: &PointReport) -> ClientRow {
    let moved = |figure: &str| {
        let found = report.moved.iter().find(|moved| moved.figure == figure);
        found.map(|moved| goodput_record::millis(moved.by()))
    };
    let machine = &report.machine;
    ClientRow {
        thread_cpu_share: Some(machine.thread_share),
        waited_share: machine.waited_share,
        stolen_share: machine.stolen_share,
        throttled_share: machine.throttled_share,
        unread_mean_ms: report.unread_for.map(goodput_record::millis),
        ttft_p50_moved_ms: moved("ttft p50"),
        ttft_p99_moved_ms: moved("ttft p99"),
        tpot_p50_moved_ms: moved("tpot p50"),
        tpot_p99_moved_ms: moved("tpot p99"),
        path_bytes_per_s: report.path.map(|path| path.bytes_s),
        path_is_limit: report.path.map(|path| path.is_limit),
    }
}

/// Says that a workload of given rows had fewer requests than the point was to have.
pub(super) fn ran_dry(plan: &PointPlan, report: &PointReport) -> Option<String> {
    // A window may end early for other reasons: a look, a signal, a server that fails.
    if !report.ran_dry {
        return None;
    }
    let seen = report.window_span().unwrap_or_default();
    dry_words(plan.window, report.arrivals_due, seen)
}

/// The same in words: a window that had `due` requests and was open for as long as `seen`. `None` if
/// that is all that was asked for.
pub(crate) fn dry_words(window: Window, due: u64, seen: Duration) -> Option<String> {
    let short = match window {
        Window::Requests(n) if due < u64::from(n.get()) => {
            format!("it had {due} of {n} requests")
        }
        Window::Duration(span) if seen < span => format!(
            "it had {due} requests, which filled {:.1} of the {:.0} s of the window",
            seen.as_secs_f64(),
            span.as_secs_f64()
        ),
        _ => return None,
    };
    Some(format!(
        "{WORKLOAD_ENDED}: {short}; its rows are sent once unless it says `repeat = true`"
    ))
}

/// Why a point is not valid: first what the server did, which explains more than what this machine did.
pub(super) fn reasons(report: &PointReport) -> Vec<String> {
    let of_the_server = |why: &&Invalid| is_the_servers(why);
    let (first, then): (Vec<_>, Vec<_>) = report.invalid.iter().partition(of_the_server);
    first
        .into_iter()
        .chain(then)
        .map(ToString::to_string)
        .collect()
}

/// Why nothing was measured at a point, which had these requests in all.
pub(super) fn nothing_measured(counts: LiveCounts, report: &PointReport) -> String {
    let span = report.span.end.since(report.span.start).unwrap_or_default();
    match (counts.arrived, counts.answered) {
        (0, _) => "no request was measured: none was due".to_owned(),
        (sent, 0) => format!(
            "{sent} requests were sent, and none was answered within the {:.0} s of the point: none was measured; a longer --duration waits for a slow server, --timeout-first-token 30s ends the waiting for one that hangs",
            span.as_secs_f64()
        ),
        (sent, answered) => format!(
            "no request was measured: {answered} of {sent} were answered, and none was due inside the window; lengthen it with --duration"
        ),
    }
}

/// The load in words: `16 in flight`, `4.6 req/s`.
pub(crate) fn load_words(load: Load) -> String {
    match load {
        Load::Closed(users) => format!("{users} in flight"),
        Load::Open { per_second } => format!("{per_second:.3} req/s"),
    }
}

/// The window of a point; a point so short that it has none is taken whole.
pub(super) fn row_window(report: &PointReport) -> Range<Timestamp> {
    match report.window_span() {
        Some(span) if span >= 2 * BIN => report.window.clone(),
        _ => report.span.clone(),
    }
}
