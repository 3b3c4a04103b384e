//! The answers of two results side by side.

use goodput_ledger::{Between, Mode, PointRow};

use super::{
    Compared,
    evidence::{Evidence, Shared, Side},
    figure::{ANSWERS, FIGURES, Figure, Unit},
};
use crate::{answers::SCALE_OUT_SHARE, document::RunResult};

/// The load that an answer names, and between which loads the truth lies: at least the answer,
/// below the first tested load that surely is too much. No range where no such load was tested.
struct Searched {
    load: Option<f64>,
    range: Option<Between>,
}

impl Searched {
    fn new(load: Option<f64>, too_much: impl Iterator<Item = f64>) -> Self {
        let low = load.unwrap_or(0.0);
        let high = too_much.filter(|l| *l > low).reduce(f64::min);
        Self {
            load,
            range: high.map(|high| Between { low, high }),
        }
    }

    fn sell(result: &RunResult) -> Self {
        let objective = result.holds_for.slos.first().map_or(1.0, |s| s.objective);
        let breaks = |p: &&PointRow| p.attainment_interval.is_some_and(|i| i.high < objective);
        let found = result.operating_point.by_objective.as_ref();
        Self::new(
            found.map(|o| o.rate_req_s),
            valid(result, Mode::Open).filter(breaks).map(PointRow::load),
        )
    }

    fn cap(result: &RunResult) -> Self {
        let found = result.operating_point.by_clauses.as_ref();
        let breaks = |p: &&PointRow| !p.holds_every_clause();
        Self::new(
            // Without a closed loop the last load that holds is a rate, and no cap.
            found.and_then(|row| row.concurrency).map(f64::from),
            valid(result, Mode::Closed)
                .filter(breaks)
                .map(PointRow::load),
        )
    }
}

fn valid(result: &RunResult, mode: Mode) -> impl Iterator<Item = &PointRow> {
    result
        .points
        .iter()
        .filter(move |p| p.valid && p.mode == mode)
}

/// A figure of the point behind an answer, and what it is multiplied by.
type OfRow = (fn(&RunResult) -> Option<&PointRow>, &'static str, f64);

fn peak(result: &RunResult) -> Option<&PointRow> {
    result.operating_point.by_goodput.as_ref().map(|g| &g.row)
}

fn sell(result: &RunResult) -> Option<&PointRow> {
    result.operating_point.by_objective.as_ref().map(|o| &o.row)
}

fn cap(result: &RunResult) -> Option<&PointRow> {
    result.operating_point.by_clauses.as_ref()
}

/// The answers of both, those in tokens only where `tokens` compare.
pub(crate) fn answers(base: &Side<'_>, other: &Side<'_>, tokens: bool) -> Vec<Compared> {
    let one = |&(name, unit): &(&'static str, Unit)| match name {
        "sell_req_s" => searched(name, unit, Searched::sell, base, other),
        "cap_in_flight" => searched(name, unit, Searched::cap, base, other),
        "peak_goodput_tok_s" => of_row(name, (peak, "goodput_tok_s", 1.0), base, other),
        "sell_goodput_tok_s" => of_row(name, (sell, "goodput_tok_s", 1.0), base, other),
        "scale_out_at_tok_s" => of_row(name, (cap, "goodput_tok_s", SCALE_OUT_SHARE), base, other),
        "peak_good_characters_per_s" => {
            of_row(name, (peak, "good_characters_per_s", 1.0), base, other)
        }
        _ => of_row(name, (sell, "good_characters_per_s", 1.0), base, other),
    };
    ANSWERS
        .iter()
        .filter(|(_, unit)| tokens || *unit != Unit::TokensPerSecond)
        .map(one)
        .collect()
}

fn searched(
    name: &str,
    unit: Unit,
    of: fn(&RunResult) -> Searched,
    base: &Side<'_>,
    other: &Side<'_>,
) -> Compared {
    let (a, b) = (of(base.result), of(other.result));
    let evidence = if a.range.is_some() && b.range.is_some() {
        Evidence::TestedLoads
    } else {
        Evidence::Missing
    };
    Compared {
        base_interval: a.range,
        other_interval: b.range,
        ..Compared::bare(name, unit, a.load, b.load)
    }
    .with_intervals(0.0, evidence)
}

fn of_row(name: &str, (row, figure, factor): OfRow, base: &Side<'_>, other: &Side<'_>) -> Compared {
    let figure: &Figure = FIGURES
        .iter()
        .find(|f| f.name == figure)
        .expect("invariant: answers name figures of the table");
    let (a, b) = (row(base.result), row(other.result));
    let of = |p: Option<&PointRow>| p.and_then(figure.of).map(|v| v * factor);
    let bare = Compared::bare(name, figure.unit, of(a), of(b));
    match a.zip(b) {
        None => bare,
        Some((a, b)) => {
            let mut known = Shared::new((base, a), (other, b)).known(figure);
            known.base = known.base.map(|x| x.scaled(factor));
            known.other = known.other.map(|x| x.scaled(factor));
            bare.known(&known)
        }
    }
}
