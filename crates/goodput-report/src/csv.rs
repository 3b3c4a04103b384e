//! CSV: `points.csv`, one load point a line and one figure a column, and two results side by side, one
//! figure or rule a line. Nothing stands where there is no figure.

use goodput_ledger::PointRow;
use goodput_sweep::{Case, Compared, Comparison, Contrast, Prediction, WhatIf};
use serde_json::{Value, json};

use crate::change::ANSWERS;

/// The columns, in order. Names are those of `result.json`; each carries its unit.
pub const COLUMNS: &[&str] = &[
    "point",
    "mode",
    "concurrency",
    "rate_req_s",
    "window_s",
    "requests",
    "completed_req_s",
    "throughput_tok_s",
    "goodput_tok_s",
    "goodput_tok_s_low",
    "goodput_tok_s_high",
    "goodput_req_s",
    "throughput_tok_s_per_gpu",
    "goodput_tok_s_per_gpu",
    "characters_per_s",
    "words_per_s",
    "stream_tok_s",
    "slo_attainment",
    "attainment_low",
    "attainment_high",
    "trajectory_attainment",
    "ttft_p50_ms",
    "ttft_p90_ms",
    "ttft_p95_ms",
    "ttft_p99_ms",
    "ttft_answer_p50_ms",
    "ttft_answer_p99_ms",
    "tpot_p50_ms",
    "tpot_p90_ms",
    "tpot_p95_ms",
    "tpot_p99_ms",
    "tpot_median_p50_ms",
    "tpot_median_p99_ms",
    "stall_p50_ms",
    "stall_p99_ms",
    "e2e_p50_ms",
    "e2e_p90_ms",
    "e2e_p95_ms",
    "e2e_p99_ms",
    "ttft_n",
    "tpot_n",
    "in_flight_mean",
    "in_flight_at_end",
    "send_lag_p50_ms",
    "send_lag_p99_ms",
    "client_cpu_share",
    "outcomes",
    "valid",
    "warnings",
];

/// The points as CSV (RFC 4180) with a heading line.
///
/// # Panics
/// Never: a row has string keys only.
#[must_use]
pub fn points(points: &[PointRow]) -> String {
    let mut out = COLUMNS.join(",") + "\n";
    for point in points {
        let row = serde_json::to_value(point).expect("invariant: a row has string keys only");
        let cells: Vec<String> = COLUMNS
            .iter()
            .map(|name| quoted(cell(field(&row, name))))
            .collect();
        out += &cells.join(",");
        out.push('\n');
    }
    out
}

/// Objects as CSV, one a line, with these of their fields as columns.
#[must_use]
pub fn table(columns: &[&str], rows: &[Value]) -> String {
    let mut out = columns.join(",") + "\n";
    for row in rows {
        let cells: Vec<String> = columns
            .iter()
            .map(|name| quoted(cell(&row[*name])))
            .collect();
        out += &(cells.join(",") + "\n");
    }
    out
}

/// The columns of a comparison. Those from `rule` to `held_high` are of the rows of a gate.
pub const COMPARED: &[&str] = &[
    "load",
    "figure",
    "base",
    "other",
    "change",
    "change_low",
    "change_high",
    "evidence",
    "rule",
    "verdict",
    "held",
    "held_low",
    "held_high",
    "note",
];

/// Two results side by side: the answers, whose load is `answers`, the loads that both measured, then
/// every rule of the gate at every place. A load that is not used has a row without a figure.
#[must_use]
pub fn comparison(comparison: &Comparison) -> String {
    let mut rows: Vec<Value> = Vec::new();
    rows.extend(comparison.answers.iter().map(|f| compared(ANSWERS, f)));
    for point in &comparison.points {
        if !point.unusable.is_empty() {
            rows.push(json!({"load": point.load, "note": point.unusable}));
        }
        rows.extend(point.figures.iter().map(|f| compared(&point.load, f)));
    }
    let cases = comparison.gate.iter().flat_map(|gate| &gate.cases);
    rows.extend(cases.map(checked));
    table(COMPARED, &rows)
}

/// Variants against their base: the answers, whose load is `answers`, then the figures at the base's
/// operating point.
#[must_use]
pub fn what_if(what_if: &WhatIf) -> String {
    let mut rows: Vec<Value> = Vec::new();
    let at = what_if.at.as_deref().unwrap_or_default();
    for variant in &what_if.variants {
        let changes = variant.changes.join("; ");
        let answers = variant.answers.iter().map(|f| (ANSWERS, f));
        let figures = answers.chain(variant.at_base.iter().map(|f| (at, f)));
        rows.extend(figures.map(|(load, f)| contrasted(&changes, load, f)));
    }
    table(CONTRASTED, &rows)
}

/// A prediction against what was measured, load by load.
#[must_use]
pub fn prediction(prediction: &Prediction) -> String {
    let loads = prediction.loads.iter();
    let rows = loads.flat_map(|load| {
        let figures = load.figures.iter();
        figures.map(|f| contrasted("", &load.load, f))
    });
    table(CONTRASTED, &rows.collect::<Vec<_>>())
}

const CONTRASTED: &[&str] = &[
    "what_if",
    "load",
    "figure",
    "base",
    "other",
    "change",
    "change_low",
    "change_high",
    "distinguishable",
];

fn contrasted(changes: &str, load: &str, figure: &Contrast) -> Value {
    let mut row = compared(load, &figure.compared);
    row["what_if"] = json!(changes);
    row["distinguishable"] = json!(figure.distinguishable);
    row
}

fn compared(load: &str, figure: &Compared) -> Value {
    json!({
        "load": load, "figure": figure.figure, "base": figure.base, "other": figure.other,
        "change": figure.change,
        "change_low": figure.change_interval.map(|i| i.low),
        "change_high": figure.change_interval.map(|i| i.high),
        "evidence": figure.evidence, "note": figure.caveats,
    })
}

fn checked(case: &Case) -> Value {
    json!({
        "load": case.place, "figure": case.figure, "base": case.base, "other": case.other,
        "evidence": case.evidence,
        "rule": case.rule, "verdict": case.word,
        "held": case.value,
        "held_low": case.interval.map(|i| i.low),
        "held_high": case.interval.map(|i| i.high),
        "note": case.why,
    })
}

/// The field behind a column: its own name, or an end of an interval.
fn field<'a>(row: &'a Value, column: &str) -> &'a Value {
    match column {
        "goodput_tok_s_low" => &row["goodput_interval"]["low"],
        "goodput_tok_s_high" => &row["goodput_interval"]["high"],
        "attainment_low" => &row["attainment_interval"]["low"],
        "attainment_high" => &row["attainment_interval"]["high"],
        name => &row[name],
    }
}

/// A value as one cell: lists and maps are joined, what is null is empty.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join("; "),
        Value::Object(map) => map
            .iter()
            .map(|(k, v)| format!("{k}={}", cell(v)))
            .collect::<Vec<_>>()
            .join("; "),
        plain => plain.to_string(),
    }
}

fn quoted(cell: String) -> String {
    if cell.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::sample;

    /// The cells of a line without quotes in it.
    fn cells(line: &str) -> Vec<&str> {
        line.split(',').collect()
    }

    #[test]
    fn a_table_has_its_columns_in_order() {
        let rows = [
            serde_json::json!({"figure": "a, b", "base": null, "list": [1, 2]}),
            serde_json::json!({"figure": "c", "base": 0.5, "list": []}),
        ];
        let text = table(&["figure", "base", "list"], &rows);
        assert_eq!(text, "figure,base,list\n\"a, b\",,1; 2\nc,0.5,\n");
    }

    #[test]
    fn what_is_undefined_is_an_empty_cell() {
        let mut row = sample().points.remove(1);
        (row.tpot_p50_ms, row.rate_req_s) = (None, Some(f64::INFINITY));
        let text = points(&[row]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        let (names, values) = (cells(lines[0]), cells(lines[1]));
        assert_eq!((names.len(), values.len()), (COLUMNS.len(), COLUMNS.len()));
        let at = |name| values[names.iter().position(|n| *n == name).unwrap()];
        assert_eq!((at("tpot_p50_ms"), at("rate_req_s")), ("", ""));
        assert_eq!(
            (at("mode"), at("concurrency"), at("ttft_p50_ms")),
            ("closed", "8", "92.0")
        );
        assert_eq!(at("outcomes"), "ok=280");
        assert!(!text.contains("inf") && !text.contains("NaN") && !text.contains("null"));
    }

    #[test]
    fn text_with_commas_and_quotes_stays_one_cell() {
        let mut row = sample().points.remove(0);
        row.warnings = vec!["a \"b\", c".to_owned()];
        assert!(points(&[row]).ends_with(",\"a \"\"b\"\", c\"\n"));
    }

    /// Rules are rows of the same table, so that one reader reads all of it.
    #[test]
    fn a_gate_has_a_row_for_every_check() {
        let gated = crate::change::tests::gated();
        let text = comparison(&gated);
        let at = |line: &str, column| {
            let place = COMPARED.iter().position(|name| *name == column).unwrap();
            cells(line)[place].to_owned()
        };
        let rules: Vec<&str> = text
            .lines()
            .skip(1)
            .filter(|line| !at(line, "rule").is_empty())
            .collect();
        let cases = &gated.gate.as_ref().unwrap().cases;
        assert_eq!(rules.len(), cases.len());
        for (line, case) in rules.iter().zip(cases) {
            assert_eq!(at(line, "rule"), case.rule);
            assert_eq!(at(line, "load"), case.place);
            assert_eq!(at(line, "held"), cell(&json!(case.value)));
            assert_eq!(at(line, "verdict"), cell(&json!(case.word)));
        }
        let void = gated.points.iter().find(|p| !p.unusable.is_empty());
        let void = format!("{},,", void.unwrap().load);
        assert_eq!(text.lines().filter(|l| l.starts_with(&void)).count(), 1);
        // Without rules the table is as wide.
        let mut bare = gated.clone();
        bare.gate = None;
        let bare = comparison(&bare);
        assert_eq!(text.lines().next(), bare.lines().next());
        assert_eq!(text.lines().count(), bare.lines().count() + cases.len());
    }

    #[test]
    fn every_column_is_a_field_of_a_point() {
        let row = serde_json::to_value(sample().points.remove(0)).unwrap();
        for name in COLUMNS {
            let interval = name.ends_with("_low") || name.ends_with("_high");
            assert!(
                row.get(name).is_some() || interval && field(&row, name).is_number(),
                "{name}"
            );
        }
    }
}
