//! The points of several boots as one row a load.

use std::collections::BTreeMap;

use goodput_ledger::{Between, ClauseRow, ClientRow, LengthRow, PointRow, SloRow, WithFailures};
use goodput_stats::{CONFIDENCE, Interval, wilson};

use super::{BootSummary, BootValue, one_a_load, over_boots, same_point, spread};
use crate::{
    answers::{Question, answers},
    document::{Finding, HoldsFor, PointChart, RunResult},
    findings::findings,
};

/// A result over all boots: one row a load, answers from these rows, and what it holds for.
///
/// `first` is the result of the first boot; its facts (server, settings, run) and charts are kept.
#[must_use]
pub fn merge_result(first: RunResult, boots: Vec<BootSummary>, question: Question) -> RunResult {
    if boots.len() < 2 {
        return first;
    }
    let points = merge_points(&boots);
    let operating_point = answers(&points, question);
    let mut result = RunResult {
        findings: findings_of(&boots, &first.holds_for, question),
        operating_point,
        charts: charts(&first, &points),
        points,
        boots,
        ..first
    };
    result.holds_for.boot = holds_for(&result);
    result
}

/// What each boot's own points show, once for all boots that show it. A mean over boots is not looked
/// at: what does not fit together in it may fit on every boot.
fn findings_of(boots: &[BootSummary], holds_for: &HoldsFor, question: Question) -> Vec<Finding> {
    let mut found: Vec<(Finding, Vec<String>)> = Vec::new();
    for boot in boots {
        let of_boot = findings(&boot.points, &answers(&boot.points, question), holds_for);
        for finding in of_boot {
            let number = boot.boot.to_string();
            match found.iter_mut().find(|(f, _)| f.name == finding.name) {
                Some((known, numbers)) => {
                    known.severe |= finding.severe;
                    if !numbers.contains(&number) {
                        numbers.push(number);
                    }
                }
                None => found.push((finding, vec![number])),
            }
        }
    }
    found
        .into_iter()
        .map(|(finding, numbers)| Finding {
            evidence: format!("boot {}: {}", numbers.join(", "), finding.evidence),
            ..finding
        })
        .collect()
}

/// The charts of a boot under the numbers of the merged points; of a load measured again, the last.
fn charts(of: &RunResult, points: &[PointRow]) -> Vec<PointChart> {
    let numbered = |chart: &PointChart| {
        let row = of.points.iter().find(|p| p.point == chart.point)?;
        let point = points.iter().find(|p| same_point(p, row))?.point;
        Some((
            point,
            PointChart {
                point,
                ..chart.clone()
            },
        ))
    };
    let by_point: BTreeMap<u32, PointChart> = of.charts.iter().filter_map(numbered).collect();
    by_point.into_values().collect()
}

/// `3 boots, spread 4.0 %`: how far boots lie apart where goodput is largest.
fn holds_for(result: &RunResult) -> String {
    let count = result.boots.len();
    let best = result.operating_point.by_goodput.as_ref().map(|g| &g.row);
    let seen = best.and_then(|row| {
        let values = result
            .boots
            .iter()
            .filter_map(|b| Some(b.at(row)?.goodput_tok_s));
        spread(&values.collect::<Vec<_>>())
    });
    match seen {
        Some(apart) => format!("{count} boots, spread {:.1} %", apart * 100.0),
        None => format!("{count} boots"),
    }
}

/// One row for each load that any boot measured: means over the boots where it is valid, sums of
/// counts, and intervals that hold what differs between boots.
#[must_use]
pub fn merge_points(boots: &[BootSummary]) -> Vec<PointRow> {
    let loads = one_a_load(boots.iter().flat_map(|b| &b.points));
    let merged = (0..).zip(loads).map(|(number, any)| {
        let each: Vec<(u32, &PointRow)> = boots
            .iter()
            .filter_map(|b| Some((b.boot, b.at(any)?)))
            .collect();
        let mut row = match each.as_slice() {
            [] => any.clone(),
            [(_, only)] => of_one_boot(only),
            _ => merge_row(&Rows(each.iter().map(|e| e.1).collect())),
        };
        row.point = number;
        if row.valid && each.len() < boots.len() {
            row.warnings
                .push(format!("valid on {} of {} boots", each.len(), boots.len()));
        }
        row
    });
    merged.collect()
}

/// A load that is valid on one boot only: its figures stand, its intervals would claim to hold for all
/// boots.
fn of_one_boot(only: &PointRow) -> PointRow {
    let mut row = only.clone();
    (row.goodput_interval, row.attainment_interval) = (None, None);
    row.throughput_interval = None;
    (row.ttft_p50_interval, row.ttft_p99_interval) = (None, None);
    (row.tpot_p50_interval, row.tpot_p99_interval) = (None, None);
    for slo in &mut row.slos {
        (slo.goodput_interval, slo.attainment_interval) = (None, None);
    }
    row
}

/// The rows of one load, one a boot, at least one.
struct Rows<'a>(Vec<&'a PointRow>);

impl Rows<'_> {
    fn mean(&self, of: impl Fn(&PointRow) -> f64) -> f64 {
        self.0.iter().map(|r| of(r)).sum::<f64>() / self.0.len() as f64
    }

    /// The mean where every boot has the figure: a mean of some would compare others than it says.
    fn mean_of_all(&self, of: impl Fn(&PointRow) -> Option<f64>) -> Option<f64> {
        let sum: Option<f64> = self.0.iter().map(|r| of(r)).sum();
        Some(sum? / self.0.len() as f64)
    }

    fn sum(&self, of: impl Fn(&PointRow) -> u64) -> u64 {
        self.0.iter().map(|r| of(r)).sum()
    }

    fn counts(&self, of: impl Fn(&PointRow) -> &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let mut total = BTreeMap::new();
        for (name, n) in self.0.iter().flat_map(|r| of(r)) {
            *total.entry(name.clone()).or_default() += n;
        }
        total
    }

    fn failures(&self, of: impl Fn(&PointRow) -> WithFailures) -> WithFailures {
        // Above the shortest wait on some boot: the mean has no value, and lies above what is known.
        WithFailures {
            ms: self.mean_of_all(|r| of(r).ms),
            over_ms: self.0.iter().filter_map(|r| of(r).over_ms).reduce(f64::min),
        }
    }

    fn three(&self, of: impl Fn(&PointRow) -> [Option<f64>; 3]) -> [Option<f64>; 3] {
        [0, 1, 2].map(|i| self.mean_of_all(|r| of(r)[i]))
    }

    /// The interval over boots of a rate, never below zero.
    fn rate_interval(
        &self,
        of: impl Fn(&PointRow) -> f64,
        stated: impl Fn(&PointRow) -> Option<Between>,
    ) -> Option<Between> {
        let values: Vec<BootValue> = self
            .0
            .iter()
            .map(|r| BootValue {
                value: of(r),
                interval: stated(r).map(Interval::from),
            })
            .collect();
        let seen = over_boots(&values)?.interval(CONFIDENCE)?;
        Some(Between {
            low: seen.low.max(0.0),
            high: seen.high,
        })
    }

    /// The same of a latency, where every boot has it.
    fn ms_interval(
        &self,
        of: impl Fn(&PointRow) -> Option<f64>,
        stated: impl Fn(&PointRow) -> Option<Between>,
    ) -> Option<Between> {
        let all_have_it = self.0.iter().all(|r| of(r).is_some());
        all_have_it.then(|| self.rate_interval(|r| of(r).unwrap_or_default(), stated))?
    }

    fn warnings(&self) -> Vec<String> {
        let mut all: Vec<String> = self.0.iter().flat_map(|r| r.warnings.clone()).collect();
        all.sort();
        all.dedup();
        all
    }
}

#[expect(clippy::too_many_lines, reason = "a table: one line a figure")]
fn merge_row(rows: &Rows<'_>) -> PointRow {
    let first = rows.0[0];
    let latest = rows.0[rows.0.len() - 1];
    let slos: Vec<SloRow> = (0..first.slos.len())
        .filter_map(|i| merge_slo(rows, i))
        .collect();
    let decides = slos.first();
    PointRow {
        // What a point is checked by is one boot's: the latest's.
        checks: latest.checks.clone(),
        server: latest.server.clone(),
        point: first.point,
        mode: first.mode,
        concurrency: first.concurrency,
        rate_req_s: first.rate_req_s,
        other_arrivals: first.other_arrivals.clone(),
        warm_up_s: rows.0.iter().map(|r| r.warm_up_s).sum(),
        throughput_interval: rows.rate_interval(|r| r.throughput_tok_s, |r| r.throughput_interval),
        ttft_p50_interval: rows.ms_interval(|r| r.ttft_p50_ms, |r| r.ttft_p50_interval),
        ttft_p99_interval: rows.ms_interval(|r| r.ttft_p99_ms, |r| r.ttft_p99_interval),
        tpot_p50_interval: rows.ms_interval(|r| r.tpot_p50_ms, |r| r.tpot_p50_interval),
        tpot_p99_interval: rows.ms_interval(|r| r.tpot_p99_ms, |r| r.tpot_p99_interval),
        in_flight_at_start: rows
            .0
            .iter()
            .map(|r| r.in_flight_at_start)
            .max()
            .unwrap_or(0),
        window_s: rows.0.iter().map(|r| r.window_s).sum(),
        requests: rows.sum(|r| r.requests),
        completed_req_s: rows.mean(|r| r.completed_req_s),
        throughput_tok_s: rows.mean(|r| r.throughput_tok_s),
        goodput_tok_s: rows.mean(|r| r.goodput_tok_s),
        goodput_interval: rows.rate_interval(|r| r.goodput_tok_s, |r| r.goodput_interval),
        goodput_req_s: rows.mean(|r| r.goodput_req_s),
        throughput_tok_s_per_gpu: rows.mean_of_all(|r| r.throughput_tok_s_per_gpu),
        goodput_tok_s_per_gpu: rows.mean_of_all(|r| r.goodput_tok_s_per_gpu),
        characters_per_s: rows.mean_of_all(|r| r.characters_per_s),
        words_per_s: rows.mean_of_all(|r| r.words_per_s),
        stream_tok_s: rows.mean_of_all(|r| r.stream_tok_s),
        slo_attainment: decides.and_then(|s| s.attainment),
        attainment_interval: decides.and_then(|s| s.attainment_interval),
        trajectory_attainment: decides.and_then(|s| s.trajectory_attainment),
        outcomes: rows.counts(|r| &r.outcomes),
        statuses: rows.counts(|r| &r.statuses),
        ttft_p50_ms: rows.mean_of_all(|r| r.ttft_p50_ms),
        ttft_p90_ms: rows.mean_of_all(|r| r.ttft_p90_ms),
        ttft_p95_ms: rows.mean_of_all(|r| r.ttft_p95_ms),
        ttft_p99_ms: rows.mean_of_all(|r| r.ttft_p99_ms),
        ttft_p95_with_failures: rows.failures(|r| r.ttft_p95_with_failures),
        ttft_p99_with_failures: rows.failures(|r| r.ttft_p99_with_failures),
        ttft_answer_p50_ms: rows.mean_of_all(|r| r.ttft_answer_p50_ms),
        ttft_answer_p99_ms: rows.mean_of_all(|r| r.ttft_answer_p99_ms),
        tpot_p50_ms: rows.mean_of_all(|r| r.tpot_p50_ms),
        tpot_p90_ms: rows.mean_of_all(|r| r.tpot_p90_ms),
        tpot_p95_ms: rows.mean_of_all(|r| r.tpot_p95_ms),
        tpot_p99_ms: rows.mean_of_all(|r| r.tpot_p99_ms),
        tpot_mean_ms: rows.mean_of_all(|r| r.tpot_mean_ms),
        itl_mean_ms: rows.mean_of_all(|r| r.itl_mean_ms),
        tpot_median_p50_ms: rows.mean_of_all(|r| r.tpot_median_p50_ms),
        tpot_median_p99_ms: rows.mean_of_all(|r| r.tpot_median_p99_ms),
        stall_p50_ms: rows.mean_of_all(|r| r.stall_p50_ms),
        stall_p99_ms: rows.mean_of_all(|r| r.stall_p99_ms),
        e2e_p50_ms: rows.mean_of_all(|r| r.e2e_p50_ms),
        e2e_p90_ms: rows.mean_of_all(|r| r.e2e_p90_ms),
        e2e_p95_ms: rows.mean_of_all(|r| r.e2e_p95_ms),
        e2e_p99_ms: rows.mean_of_all(|r| r.e2e_p99_ms),
        ttft_n: rows.sum(|r| r.ttft_n),
        tpot_n: rows.sum(|r| r.tpot_n),
        in_flight_mean: rows.mean(|r| r.in_flight_mean),
        in_flight_peak: rows.0.iter().filter_map(|r| r.in_flight_peak).max(),
        in_flight_at_end: rows.0.iter().map(|r| r.in_flight_at_end).max().unwrap_or(0),
        cut_by_end_of_run: rows.sum(|r| r.cut_by_end_of_run),
        sent_share: rows.mean_of_all(|r| r.sent_share),
        send_lag_p50_ms: rows.mean_of_all(|r| r.send_lag_p50_ms),
        send_lag_p99_ms: rows.mean_of_all(|r| r.send_lag_p99_ms),
        loop_lag_p99_ms: rows.mean_of_all(|r| r.loop_lag_p99_ms),
        client_cpu_share: rows.mean_of_all(|r| r.client_cpu_share),
        connect_p50_ms: rows.mean_of_all(|r| r.connect_p50_ms),
        reused_connections_share: rows.mean_of_all(|r| r.reused_connections_share),
        burst_share: rows.mean_of_all(|r| r.burst_share),
        not_streamed: rows.sum(|r| r.not_streamed),
        server_timings: rows.sum(|r| r.server_timings),
        server_timings_implausible: rows.sum(|r| r.server_timings_implausible),
        server_timing_ratio: rows.mean_of_all(|r| r.server_timing_ratio),
        client: merge_client(rows),
        lengths: merge_lengths(rows),
        slos,
        valid: true,
        warnings: rows.warnings(),
    }
}

fn merge_client(rows: &Rows<'_>) -> ClientRow {
    let limits: Vec<bool> = rows
        .0
        .iter()
        .filter_map(|r| r.client.path_is_limit)
        .collect();
    ClientRow {
        thread_cpu_share: rows.mean_of_all(|r| r.client.thread_cpu_share),
        waited_share: rows.mean_of_all(|r| r.client.waited_share),
        stolen_share: rows.mean_of_all(|r| r.client.stolen_share),
        throttled_share: rows.mean_of_all(|r| r.client.throttled_share),
        unread_mean_ms: rows.mean_of_all(|r| r.client.unread_mean_ms),
        ttft_p50_moved_ms: rows.mean_of_all(|r| r.client.ttft_p50_moved_ms),
        ttft_p99_moved_ms: rows.mean_of_all(|r| r.client.ttft_p99_moved_ms),
        tpot_p50_moved_ms: rows.mean_of_all(|r| r.client.tpot_p50_moved_ms),
        tpot_p99_moved_ms: rows.mean_of_all(|r| r.client.tpot_p99_moved_ms),
        path_bytes_per_s: rows.mean_of_all(|r| r.client.path_bytes_per_s),
        path_is_limit: (!limits.is_empty()).then(|| limits.contains(&true)),
    }
}

fn merge_lengths(rows: &Rows<'_>) -> LengthRow {
    let reasons: Vec<&String> = rows
        .0
        .iter()
        .flat_map(|r| r.lengths.finish_reasons.keys())
        .collect();
    LengthRow {
        planned_input: rows.three(|r| r.lengths.planned_input),
        input: rows.three(|r| r.lengths.input),
        planned_output: rows.three(|r| r.lengths.planned_output),
        output: rows.three(|r| r.lengths.output),
        output_mean: rows.mean_of_all(|r| r.lengths.output_mean),
        planned_cached_share: rows.mean_of_all(|r| r.lengths.planned_cached_share),
        reported_cached_share: rows.mean_of_all(|r| r.lengths.reported_cached_share),
        server_cached_share: rows.mean_of_all(|r| r.lengths.server_cached_share),
        early_stop_share: rows.mean_of_all(|r| r.lengths.early_stop_share),
        finish_reasons: reasons
            .into_iter()
            .map(|reason| {
                // A reason that a boot does not name did not occur there.
                let share =
                    |r: &PointRow| r.lengths.finish_reasons.get(reason).copied().unwrap_or(0.0);
                (reason.clone(), rows.mean(share))
            })
            .collect(),
        tokens_per_event: rows.mean_of_all(|r| r.lengths.tokens_per_event),
        characters_per_token: rows.mean_of_all(|r| r.lengths.characters_per_token),
    }
}

/// The `index`-th SLO over boots. `None` if a boot does not have it.
fn merge_slo(rows: &Rows<'_>, index: usize) -> Option<SloRow> {
    let each: Option<Vec<&SloRow>> = rows.0.iter().map(|r| r.slos.get(index)).collect();
    let each = each?;
    let sum = |of: fn(&SloRow) -> u64| each.iter().map(|s| of(s)).sum::<u64>();
    let mean = |of: fn(&SloRow) -> f64| each.iter().map(|s| of(s)).sum::<f64>() / each.len() as f64;
    let mean_of_all = |of: fn(&SloRow) -> Option<f64>| -> Option<f64> {
        let sum: Option<f64> = each.iter().map(|s| of(s)).sum();
        Some(sum? / each.len() as f64)
    };
    let (met, missed) = (sum(|s| s.met), sum(|s| s.missed));
    let trajectories = sum(|s| s.trajectories);
    let sessions_met: Option<f64> = each
        .iter()
        .filter(|s| s.trajectories > 0)
        .map(|s| Some(s.trajectory_attainment? * s.trajectories as f64))
        .sum();
    Some(SloRow {
        slo: each[0].slo.clone(),
        attainment: share(met, met + missed),
        attainment_interval: attainment_interval(&each, met, met + missed),
        met,
        missed,
        excused: sum(|s| s.excused),
        outcome_misses: sum(|s| s.outcome_misses),
        goodput_tok_s: mean(|s| s.goodput_tok_s),
        goodput_interval: rows.rate_interval(
            |r| r.slos[index].goodput_tok_s,
            |r| r.slos[index].goodput_interval,
        ),
        goodput_req_s: mean(|s| s.goodput_req_s),
        good_characters_per_s: mean_of_all(|s| s.good_characters_per_s),
        good_words_per_s: mean_of_all(|s| s.good_words_per_s),
        clauses: merge_clauses(&each, met + missed),
        trajectory_attainment: sessions_met
            .filter(|_| trajectories > 0)
            .map(|met| met / trajectories as f64),
        trajectories,
    })
}

fn merge_clauses(each: &[&SloRow], judged: u64) -> Vec<ClauseRow> {
    let clauses = each[0].clauses.iter().enumerate();
    clauses
        .map(|(index, clause)| {
            let of = |s: &&SloRow| s.clauses.get(index).map_or(0, |c| c.misses);
            let misses: u64 = each.iter().map(of).sum();
            let within = share(judged.saturating_sub(misses), judged);
            ClauseRow {
                clause: clause.clause.clone(),
                metric: clause.metric.clone(),
                needed: clause.needed,
                // A share as near to what is needed as floats can tell apart keeps it.
                holds: within.map(|s| s >= clause.needed - 1e-12),
                share: within,
                misses,
            }
        })
        .collect()
}

/// The interval of an attainment over boots: from how far the boots' shares lie apart, and never
/// narrower than that of all requests as if they were of one boot. Boots that all met everything lie
/// at the same share, and are no proof of it.
fn attainment_interval(each: &[&SloRow], met: u64, judged: u64) -> Option<Between> {
    let pooled = wilson(met, judged, CONFIDENCE)?;
    let values: Option<Vec<BootValue>> = each
        .iter()
        .map(|s| {
            Some(BootValue {
                value: s.attainment?,
                interval: s.attainment_interval.map(Interval::from),
            })
        })
        .collect();
    let apart = over_boots(&values?)?.interval(CONFIDENCE)?;
    Some(Between {
        low: apart.low.max(0.0).min(pooled.low),
        high: apart.high.min(1.0).max(pooled.high),
    })
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
