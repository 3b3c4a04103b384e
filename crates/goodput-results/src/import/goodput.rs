//! Our own `requests.jsonl`, to be judged by another SLO. The loads are taken from the
//! `result.json` beside it.

use std::collections::BTreeMap;

use goodput_ledger::{Mode, PointRow};
use goodput_record::{Outcome, Phase, RequestRow};

use super::{Read, Told, ToldLoad, Tool, Trouble, python::lines, request::Foreign, source::Source};
use crate::folder::read_result;

pub(super) fn read(source: &Source) -> Read {
    let mut points: BTreeMap<u32, Vec<Foreign>> = BTreeMap::new();
    let text = source.bytes().map_err(|e| Trouble::unreadable(&e))?;
    let torn = lines(text, Tool::Goodput, |row: RequestRow| {
        if row.phase != Phase::Warmup {
            points.entry(row.point).or_default().push(request(row));
        }
    })?;
    let result = read_result(&source.path().with_file_name("result.json")).ok();
    let told = |(number, requests): (u32, Vec<Foreign>)| {
        let mut result_points = result.iter().flat_map(|r| &r.points);
        let own = result_points.find(|p| p.point == number);
        Told {
            model: result.as_ref().map(|r| r.holds_for.model.clone()),
            load: own.and_then(load),
            window: window(&requests, own),
            own: own.cloned().map(Box::new),
            torn,
            requests,
            ..Told::new(Tool::Goodput)
        }
    };
    Ok(points.into_iter().map(told).collect())
}

fn request(mut row: RequestRow) -> Foreign {
    // They are of another SLO.
    row.verdicts.clear();
    let why = contradiction(&row);
    if let Some(why) = &why {
        miss(&mut row, why);
    }
    Foreign {
        due: Some(row.origin_ns),
        sent: row.sent_ns,
        lived: row
            .end_ns
            .saturating_sub(row.sent_ns.unwrap_or(row.origin_ns)),
        impossible: why.is_some(),
        error: row.error.clone().map(Into::into),
        row: Some(Box::new(row)),
        ..Foreign::of(Outcome::Ok)
    }
}

/// What cannot be about the instants of a row.
fn contradiction(row: &RequestRow) -> Option<String> {
    let before = |at: Option<u64>, other: Option<u64>| {
        let early = other?.checked_sub(at?).filter(|ns| *ns > 0)?;
        Some(early as f64 / 1e9)
    };
    let ttft = before(row.first_token_ns, Some(row.origin_ns));
    let last = before(row.last_token_ns, row.first_token_ns);
    ttft.map(|seconds| format!("TTFT of -{seconds:.6} s"))
        .or(last.map(|seconds| format!("last token {seconds:.6} s before the first")))
}

/// Makes a row a miss of which no figure is taken.
fn miss(row: &mut RequestRow, why: &str) {
    row.outcome = Outcome::Failed;
    row.error = Some(format!("its times cannot be: {why}"));
    row.first_token_ns = None;
    row.first_answer_ns = None;
    row.last_token_ns = None;
    row.gap_ns = None;
    row.tokens_per_event = None;
    for figure in [
        &mut row.ttft_ms,
        &mut row.ttft_answer_ms,
        &mut row.tpot_ms,
        &mut row.tpot_median_ms,
        &mut row.itl_p99_ms,
        &mut row.stall_ms,
        &mut row.e2e_ms,
    ] {
        *figure = None;
    }
}

fn load(row: &PointRow) -> Option<ToldLoad> {
    match row.mode {
        Mode::Closed => row.concurrency.map(ToldLoad::Users),
        Mode::Open => row.rate_req_s.map(ToldLoad::Rate),
    }
}

/// The window as the run had it. Its length is known; where it began lies between the last request
/// before it and the first in it, and as much before the first one after it. That of a point without
/// a row, whose run was killed, goes from its first measured request to its last.
fn window(requests: &[Foreign], row: Option<&PointRow>) -> Option<(u64, u64)> {
    let of = |is: fn(Phase) -> bool| {
        let rows = requests.iter().filter_map(|r| r.row.as_deref());
        rows.filter(move |row| is(row.phase))
            .map(|row| row.origin_ns)
    };
    let first = of(|phase| phase == Phase::Measured).min()?;
    let last = of(|phase| phase == Phase::Measured).max()?;
    let Some(row) = row else {
        return (first < last).then_some((first, last));
    };
    let length = goodput_record::nanos_of(row.window_s);
    let before = of(|phase| phase < Phase::Measured).max().unwrap_or(first);
    let after = of(|phase| phase > Phase::Measured).min();
    let earliest = before.min(first).max(last.saturating_sub(length));
    let latest = after.map_or(first, |after| first.min(after.saturating_sub(length)));
    let from = if earliest <= latest {
        earliest.midpoint(latest)
    } else {
        first
    };
    Some((from, from + length))
}
