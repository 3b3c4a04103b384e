//! From load points to answers.

use goodput_ledger::{Between, Mode, PointRow};

use crate::auto::{FoundRate, saturated};
use crate::document::{ByGoodput, ByObjective, OperatingPoint, Search};
use crate::findings::three_digits;

/// Share of the goodput at the cap, or of the rate to sell, at which to add a replica.
///
/// Source: the essay "Inference SLOs": add replicas when demand exceeds about 70 % of the budget.
pub const SCALE_OUT_SHARE: f64 = 0.7;

/// How the sentence begins that says why there is no rate to sell.
const NO_RATE: &str = "no rate to sell";

/// The rate that seems to keep the objective, and what it would take to be sure.
fn hope(rate: &FoundRate) -> Option<String> {
    let (seems, proof_s) = (rate.seems_to_keep_req_s?, rate.proof_s?);
    // What is spent already would be spent again, and chance wants some room.
    let minutes = ((rate.measured_s + 1.5 * proof_s) / 60.0).ceil().max(1.0);
    Some(format!(
        "{NO_RATE} yet: {} req/s seems to keep the objective, and to be sure of it takes a window of {proof_s:.0} s: --budget {minutes:.0}m",
        three_digits(seems)
    ))
}

/// What the answers are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// The share of requests that must meet the SLO.
    pub objective: f64,
    /// The output length, in tokens, at which end-to-end times are stated.
    pub e2e_at_tokens: u32,
}

/// Derives the answers from the points of a run, in whatever order they ran.
///
/// Points that are not valid decide nothing; if one of them would have mattered, `missing` says
/// so.
#[must_use]
pub fn answers(points: &[PointRow], question: Question) -> OperatingPoint {
    let closed = by_load(points, Mode::Closed);
    let mut open = by_load(points, Mode::Open);
    // What can be sold is what keeps the objective as requests really come.
    open.retain(|p| p.other_arrivals.is_none());
    let curve = if closed.is_empty() { &open } else { &closed };
    let by_goodput = best(curve, |p| p.goodput_tok_s);
    let by_clauses = last_that_holds(curve);
    let by_objective = highest_that_keeps(&open, question);
    let missing = missing(
        by_objective.as_ref(),
        by_clauses,
        by_goodput,
        &open,
        question,
    );
    let run_at = by_clauses.and_then(|p| p.concurrency).map(run_at);
    OperatingPoint {
        scale_out_at_tok_s: by_clauses.map(|p| SCALE_OUT_SHARE * p.goodput_tok_s),
        scale_out_at_req_s: by_objective
            .as_ref()
            .map(|o| SCALE_OUT_SHARE * o.rate_req_s),
        not_worse: by_goodput.map(|b| not_worse(curve, b)).unwrap_or_default(),
        peak_bracketed: by_goodput.is_some_and(|b| bracketed(curve, b)),
        knee: knee(&closed),
        by_throughput: best(curve, |p| p.throughput_tok_s).cloned(),
        by_goodput: by_goodput.map(|row| ByGoodput {
            interval: row.goodput_interval,
            late_share: row.late_share(),
            row: row.clone(),
        }),
        by_clauses: by_clauses.cloned(),
        by_objective,
        run_at,
        missing,
        search: None,
    }
}

impl OperatingPoint {
    /// The same answers where a search decided: the best load is the one that it found over all
    /// points of that load together, with the interval of all of them.
    #[must_use]
    pub fn found_by(mut self, search: &Search, points: &[PointRow]) -> Self {
        self.search = Some(search.clone());
        if let (None, Some(hope)) = (&self.by_objective, search.rate.as_ref().and_then(hope)) {
            let no_rate = self.missing.iter().position(|m| m.starts_with(NO_RATE));
            match no_rate {
                Some(place) => self.missing[place] = hope,
                None => self.missing.push(hope),
            }
        }
        let Some(peak) = &search.peak else {
            return self;
        };
        let at_best = by_load(points, Mode::Closed)
            .into_iter()
            .filter(|p| p.concurrency.is_some() && p.concurrency == peak.best);
        if let Some(row) = at_best.max_by(|a, b| a.window_s.total_cmp(&b.window_s)) {
            self.by_goodput = Some(ByGoodput {
                interval: peak.interval.or(row.goodput_interval),
                late_share: row.late_share(),
                row: row.clone(),
            });
            self.not_worse = peak.not_worse.iter().copied().map(f64::from).collect();
            self.peak_bracketed = peak.bracketed;
        }
        self
    }
}

/// Where to run, given the last concurrency `n` at which every clause holds:
/// `[ceil(2n/3), floor(5n/6)]`, and at least one user.
///
/// Source: the essay "Inference SLOs": "Run at concurrency about 8-10" where 12 is the last point
/// that holds.
#[must_use]
pub fn run_at(n: u32) -> [u32; 2] {
    let low = (2 * u64::from(n)).div_ceil(3);
    let high = 5 * u64::from(n) / 6;
    let whole = |x: u64| u32::try_from(x).unwrap_or(u32::MAX).max(1);
    [whole(low), whole(high.max(low.min(u64::from(n))))]
}

/// The valid points of one mode, by rising load.
fn by_load(points: &[PointRow], mode: Mode) -> Vec<&PointRow> {
    let mut chosen: Vec<&PointRow> = points
        .iter()
        .filter(|p| p.mode == mode && p.valid)
        .collect();
    chosen.sort_by(|a, b| a.load().total_cmp(&b.load()));
    chosen
}

/// The smallest load of the largest value; none if nothing is above zero.
fn best<'a>(curve: &[&'a PointRow], value: impl Fn(&PointRow) -> f64) -> Option<&'a PointRow> {
    let mut best: Option<&PointRow> = None;
    for &point in curve {
        if value(point) > best.map_or(0.0, &value) {
            best = Some(point);
        }
    }
    best
}

/// The last load such that it and every smaller one hold every clause. A load that was measured
/// several times is judged by its longest point, as the search does.
fn last_that_holds<'a>(curve: &[&'a PointRow]) -> Option<&'a PointRow> {
    curve
        .chunk_by(|a, b| a.load().total_cmp(&b.load()).is_eq())
        .filter_map(|points| {
            let points = points.iter().copied();
            points.max_by(|a, b| a.window_s.total_cmp(&b.window_s))
        })
        .take_while(|p| p.holds_every_clause())
        .last()
}

/// The points below the smallest load at which one is `bad`. A load measured again may have two
/// points that disagree: neither is below it.
fn below_the_first<'a, 'b>(
    curve: &'b [&'a PointRow],
    bad: impl Fn(&PointRow) -> bool,
) -> &'b [&'a PointRow] {
    let Some(first) = curve.iter().find(|p| bad(p)) else {
        return curve;
    };
    let below = curve
        .iter()
        .take_while(|p| p.load().total_cmp(&first.load()).is_lt());
    &curve[..below.count()]
}

/// Whether at least nine tenths of the arrivals that a rate stands for lay in the window. A trace or a
/// burst may bring fewer: that point is not proof of its rate. Small windows vary by chance.
fn arrived_as_named(point: &PointRow) -> bool {
    let expected = point.rate_req_s.unwrap_or_default() * point.window_s;
    let missing = expected - point.requests as f64;
    missing <= (0.1 * expected).max(4.0 * expected.sqrt())
}

/// The highest open-loop rate that keeps the objective with its interval's lower end, below the
/// first rate that surely breaks it.
fn highest_that_keeps(open: &[&PointRow], question: Question) -> Option<ByObjective> {
    let keeps = |p: &&PointRow| {
        p.attainment_interval
            .is_some_and(|i| i.low >= question.objective)
    };
    let breaks = |p: &PointRow| {
        p.attainment_interval
            .is_some_and(|i| i.high < question.objective)
    };
    let row = below_the_first(open, breaks)
        .iter()
        .rfind(|p| keeps(p) && arrived_as_named(p) && !saturated(p))?;
    let gaps = f64::from(question.e2e_at_tokens.saturating_sub(1));
    let e2e = |ttft: Option<f64>, tpot: Option<f64>| Some(ttft? + tpot? * gaps);
    Some(ByObjective {
        rate_req_s: row.rate_req_s?,
        attainment: row.slo_attainment?,
        interval: row.attainment_interval?,
        goodput_tok_s: row.goodput_tok_s,
        throughput_tok_s: row.throughput_tok_s,
        stream_tok_s: row.stream_tok_s,
        e2e_at_tokens: question.e2e_at_tokens,
        e2e_p50_ms: e2e(row.ttft_p50_ms, row.tpot_p50_ms),
        e2e_p95_ms: e2e(row.ttft_p95_ms, row.tpot_p95_ms),
        row: (*row).clone(),
    })
}

/// Loads whose goodput is not distinguishably below the best: their intervals reach the best's.
fn not_worse(curve: &[&PointRow], best: &PointRow) -> Vec<f64> {
    let reaches = |p: &PointRow, floor: Between| {
        p.goodput_interval.map_or(p.goodput_tok_s, |i| i.high) >= floor.low
    };
    let floor = best.goodput_interval.unwrap_or(Between {
        low: best.goodput_tok_s,
        high: best.goodput_tok_s,
    });
    curve
        .iter()
        .filter(|p| reaches(p, floor))
        .map(|p| p.load())
        .collect()
}

/// Whether a load below and one above the best were tested.
fn bracketed(curve: &[&PointRow], best: &PointRow) -> bool {
    let inside = |p: &&PointRow| p.point == best.point;
    curve
        .iter()
        .position(inside)
        .is_some_and(|i| i > 0 && i + 1 < curve.len())
}

/// The largest concurrency whose median TPOT is at most twice that of one stream.
fn knee(closed: &[&PointRow]) -> Option<u32> {
    let alone = closed
        .first()
        .filter(|p| p.concurrency == Some(1))?
        .tpot_p50_ms?;
    let within = |p: &&&PointRow| p.tpot_p50_ms.is_some_and(|t| t <= 2.0 * alone);
    closed.iter().take_while(within).last()?.concurrency
}

fn missing(
    by_objective: Option<&ByObjective>,
    by_clauses: Option<&PointRow>,
    by_goodput: Option<&PointRow>,
    open: &[&PointRow],
    question: Question,
) -> Vec<String> {
    let mut missing = Vec::new();
    let percent = question.objective * 100.0;
    if by_objective.is_none() {
        missing.push(if open.is_empty() {
            format!("{NO_RATE}: no valid open-loop point was measured")
        } else {
            format!("{NO_RATE}: at no tested rate is the attainment surely {percent} % or more")
        });
    }
    if by_clauses.is_none() {
        missing.push(
            "no cap: already the smallest load breaks a clause, or none was measured".to_owned(),
        );
    }
    if by_goodput.is_none() {
        missing.push("no peak: no request met the SLO at any load".to_owned());
    }
    missing
}
