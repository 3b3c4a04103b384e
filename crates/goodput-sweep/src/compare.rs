//! Two results side by side.

use goodput_ledger::PointRow;
use serde::{Deserialize, Serialize};

use crate::document::RunResult;

/// Something in which two results differ that makes their figures incomparable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// `model`, `slo`, `workload`.
    pub what: String,
    /// In the base.
    pub base: String,
    /// In the other.
    pub other: String,
}

/// One figure of both results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Its name, with the unit: `goodput_tok_s`.
    pub figure: String,
    /// In the base.
    pub base: Option<f64>,
    /// In the other.
    pub other: Option<f64>,
    /// Relative change, 0.05 for 5 % more. Null where one is missing or the base is zero.
    pub change: Option<f64>,
}

/// One load that both results measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedPoint {
    /// `16 in flight` or `5 req/s`.
    pub load: String,
    /// Its figures.
    pub figures: Vec<Compared>,
    /// Whether the 95 % intervals of the goodputs are apart.
    pub apart: Option<bool>,
}

/// Two results side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What the base holds for, in a line.
    pub base: String,
    /// What the other holds for, in a line.
    pub other: String,
    /// In what they differ.
    pub mismatches: Vec<Mismatch>,
    /// Whether tokens of the two are comparable. Across models they are not: vocabularies differ,
    /// and characters a second rank them.
    pub tokens_comparable: bool,
    /// The answers of both.
    pub answers: Vec<Compared>,
    /// The loads that both measured.
    pub points: Vec<ComparedPoint>,
}

/// In what two results differ that makes their figures incomparable.
#[must_use]
pub fn mismatches(base: &RunResult, other: &RunResult) -> Vec<Mismatch> {
    let slo = |r: &RunResult| {
        r.holds_for
            .slos
            .first()
            .map(|s| s.sentence.clone())
            .unwrap_or_default()
    };
    let workload = |r: &RunResult| {
        let w = &r.holds_for.workload;
        format!(
            "{} (in {:?}, out {:?}, cached {:.2})",
            w.name, w.input, w.output, w.cached_share
        )
    };
    let pairs = [
        (
            "model",
            base.holds_for.model.clone(),
            other.holds_for.model.clone(),
        ),
        ("slo", slo(base), slo(other)),
        ("workload", workload(base), workload(other)),
    ];
    let differ = pairs.into_iter().filter(|(_, a, b)| a != b);
    differ
        .map(|(what, base, other)| Mismatch {
            what: what.to_owned(),
            base,
            other,
        })
        .collect()
}

/// Puts two results side by side. Whether that is allowed is the caller's to ask of
/// [`mismatches`].
#[must_use]
pub fn compare(base: &RunResult, other: &RunResult) -> Comparison {
    let mismatches = mismatches(base, other);
    let tokens_comparable = mismatches.iter().all(|m| m.what != "model");
    Comparison {
        base: headline(base),
        other: headline(other),
        answers: answers(base, other, tokens_comparable),
        points: shared_points(base, other, tokens_comparable),
        mismatches,
        tokens_comparable,
    }
}

fn headline(result: &RunResult) -> String {
    let holds = &result.holds_for;
    let server = [
        holds.server.engine.as_deref(),
        holds.server.version.as_deref(),
    ];
    let server: Vec<&str> = server.into_iter().flatten().collect();
    format!(
        "{} | {} | {}",
        holds.model,
        server.join(" "),
        result.started
    )
}

fn compared(figure: &str, base: Option<f64>, other: Option<f64>) -> Compared {
    let change = match (base, other) {
        (Some(a), Some(b)) if a != 0.0 => Some(b / a - 1.0),
        _ => None,
    };
    Compared {
        figure: figure.to_owned(),
        base,
        other,
        change,
    }
}

fn answers(base: &RunResult, other: &RunResult, tokens: bool) -> Vec<Compared> {
    let of = |figure: &str, get: &dyn Fn(&RunResult) -> Option<f64>| {
        compared(figure, get(base), get(other))
    };
    let good_characters = |row: &PointRow| row.first_slo().map(|s| s.good_characters_per_s);
    let mut rows = vec![
        of("sell_req_s", &|r| {
            r.operating_point
                .by_objective
                .as_ref()
                .map(|o| o.rate_req_s)
        }),
        of("cap_in_flight", &|r| {
            r.operating_point.by_clauses.as_ref().map(PointRow::load)
        }),
        of("peak_good_characters_per_s", &|r| {
            r.operating_point
                .by_goodput
                .as_ref()
                .and_then(|g| good_characters(&g.row))
        }),
        of("sell_good_characters_per_s", &|r| {
            r.operating_point
                .by_objective
                .as_ref()
                .and_then(|o| good_characters(&o.row))
        }),
    ];
    if tokens {
        rows.push(of("peak_goodput_tok_s", &|r| {
            r.operating_point
                .by_goodput
                .as_ref()
                .map(|g| g.row.goodput_tok_s)
        }));
        rows.push(of("sell_goodput_tok_s", &|r| {
            r.operating_point
                .by_objective
                .as_ref()
                .map(|o| o.goodput_tok_s)
        }));
        rows.push(of("scale_out_at_tok_s", &|r| {
            r.operating_point.scale_out_at_tok_s
        }));
    }
    rows
}

fn shared_points(base: &RunResult, other: &RunResult, tokens: bool) -> Vec<ComparedPoint> {
    let same = |a: &PointRow, b: &PointRow| {
        a.mode == b.mode && (a.load() - b.load()).abs() <= 1e-9 * a.load().max(1.0)
    };
    let usable = |r: &RunResult| {
        r.points
            .iter()
            .filter(|p| p.valid)
            .cloned()
            .collect::<Vec<_>>()
    };
    let others = usable(other);
    let pairs = usable(base).into_iter().filter_map(|a| {
        let b = others.iter().find(|b| same(&a, b))?.clone();
        Some((a, b))
    });
    pairs.map(|(a, b)| compared_point(&a, &b, tokens)).collect()
}

fn compared_point(a: &PointRow, b: &PointRow, tokens: bool) -> ComparedPoint {
    let mut figures = vec![
        compared("slo_attainment", a.slo_attainment, b.slo_attainment),
        compared("ttft_p50_ms", a.ttft_p50_ms, b.ttft_p50_ms),
        compared("ttft_p99_ms", a.ttft_p99_ms, b.ttft_p99_ms),
    ];
    if tokens {
        figures.insert(
            0,
            compared(
                "goodput_tok_s",
                Some(a.goodput_tok_s),
                Some(b.goodput_tok_s),
            ),
        );
        figures.insert(
            1,
            compared(
                "throughput_tok_s",
                Some(a.throughput_tok_s),
                Some(b.throughput_tok_s),
            ),
        );
        figures.push(compared("tpot_p50_ms", a.tpot_p50_ms, b.tpot_p50_ms));
        figures.push(compared("tpot_p99_ms", a.tpot_p99_ms, b.tpot_p99_ms));
    } else {
        let good = |p: &PointRow| p.first_slo().map(|s| s.good_characters_per_s);
        figures.insert(0, compared("good_characters_per_s", good(a), good(b)));
        figures.insert(
            1,
            compared(
                "characters_per_s",
                Some(a.characters_per_s),
                Some(b.characters_per_s),
            ),
        );
    }
    let intervals = a
        .goodput_interval
        .zip(b.goodput_interval)
        .filter(|_| tokens);
    ComparedPoint {
        load: match a.concurrency {
            Some(users) => format!("{users} in flight"),
            None => format!("{:.3} req/s", a.load()),
        },
        apart: intervals.map(|(x, y)| x.high < y.low || y.high < x.low),
        figures,
    }
}
