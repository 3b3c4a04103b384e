//! One load point in detail: a selector, and the facts of the chosen one.

use goodput_ledger::PointRow;
use goodput_sweep::{PointChart, RunResult};

use super::{
    table::remarks,
    text::{escape, pairs},
};
use crate::{
    number::{count, number, number_or_none, percent, span_ms},
    terminal::load_words,
};

/// The selector with the facts of each point; nothing if no point has charts.
pub(super) fn selector(result: &RunResult) -> String {
    let rows: Vec<&PointRow> = result
        .charts
        .iter()
        .filter_map(|chart| row_of(result, chart))
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let answers = &result.operating_point;
    let preferred = answers
        .by_clauses
        .as_ref()
        .or(answers.by_objective.as_ref().map(|sell| &sell.row));
    let chosen = preferred
        .filter(|p| rows.iter().any(|row| row.point == p.point))
        .map_or(rows[0].point, |p| p.point);
    let mut options = String::new();
    let mut facts = String::new();
    for row in rows {
        let selected = if row.point == chosen { " selected" } else { "" };
        let hidden = if row.point == chosen { "" } else { " hidden" };
        options += &format!(
            "<option value=\"{}\"{selected}>{}</option>",
            row.point,
            escape(&load_words(row))
        );
        facts += &format!(
            "<div class=\"of-point\" data-point=\"{}\"{hidden}>{}</div>\n",
            row.point,
            facts_of(row)
        );
    }
    format!(
        "<p class=\"choose\"><label for=\"point\">Load point</label> <select id=\"point\">{options}</select></p>\n{facts}"
    )
}

fn row_of<'a>(result: &'a RunResult, chart: &PointChart) -> Option<&'a PointRow> {
    result.points.iter().find(|row| row.point == chart.point)
}

fn facts_of(row: &PointRow) -> String {
    let outcomes: Vec<String> = row
        .outcomes
        .iter()
        .map(|(name, n)| format!("{} {}", count(*n), name.replace('_', " ")))
        .collect();
    let two =
        |p50: Option<f64>, p99: Option<f64>| format!("p50 {}, p99 {}", span_ms(p50), span_ms(p99));
    let asked = |planned: &[Option<f64>; 3], seen: &[Option<f64>; 3]| {
        let [a, b] = [planned, seen].map(|v| v.map(number_or_none).join(" / "));
        format!("asked {a}, counted {b} (p50 / p90 / p99)")
    };
    let lengths = &row.lengths;
    let cached = format!(
        "planned {}%, reported {}%, by server counters {}%",
        percent(lengths.planned_cached_share),
        percent(lengths.reported_cached_share),
        percent(lengths.server_cached_share),
    );
    let reasons = row.ttft_answer_p50_ms != row.ttft_p50_ms;
    let answer = if reasons {
        two(row.ttft_answer_p50_ms, row.ttft_answer_p99_ms)
    } else {
        String::new()
    };
    pairs([
        (
            "Requests",
            format!(
                "{} in {} s: {}",
                count(row.requests),
                number(row.window_s),
                outcomes.join(", ")
            ),
        ),
        (
            "In flight",
            format!(
                "{} on average, {} when the window closed",
                number(row.in_flight_mean),
                row.in_flight_at_end
            ),
        ),
        ("First token", two(row.ttft_p50_ms, row.ttft_p99_ms)),
        ("First token of the answer", answer),
        ("Each token", two(row.tpot_p50_ms, row.tpot_p99_ms)),
        ("End to end", two(row.e2e_p50_ms, row.e2e_p99_ms)),
        ("Longest gap", two(row.stall_p50_ms, row.stall_p99_ms)),
        (
            "Input tokens",
            asked(&lengths.planned_input, &lengths.input),
        ),
        (
            "Output tokens",
            asked(&lengths.planned_output, &lengths.output),
        ),
        ("Prefix cache", cached),
        ("Send lag", two(row.send_lag_p50_ms, row.send_lag_p99_ms)),
        ("Remarks", remarks(row)),
    ])
}
