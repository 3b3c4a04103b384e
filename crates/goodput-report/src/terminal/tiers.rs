//! The other SLOs of a run: what each says of every load point. The first one decides the answers.

use goodput_ledger::PointRow;
use goodput_sweep::RunResult;

use super::load_words;
use crate::{
    number::{NONE, number, percent},
    style::{Ink, Style},
};

/// One line an SLO and load point; empty where the run has one SLO.
#[must_use]
pub fn tiers(result: &RunResult, style: Style) -> String {
    let others = result.holds_for.slos.iter().enumerate().skip(1);
    let mut out = String::new();
    for (index, slo) in others {
        let heading = format!("TIER {}: {}", slo.name, slo.sentence);
        out += &(style.paint(Ink::Heading, &heading) + "\n");
        for point in result.points.iter().filter(|p| p.valid) {
            out += &line(point, index, slo.objective);
        }
    }
    out
}

fn line(point: &PointRow, index: usize, objective: f64) -> String {
    let said = point.slos.get(index);
    let share = said.and_then(|s| s.attainment);
    let good = said.map_or_else(|| NONE.to_owned(), |s| number(s.goodput_tok_s));
    let kept = match share {
        Some(share) if share >= objective => "keeps",
        Some(_) => "misses",
        None => NONE,
    };
    let load = load_words(point);
    format!(
        "  {load:<16} {:>6}% in SLO  {good:>6} good tok/s  {kept}\n",
        percent(share)
    )
}
