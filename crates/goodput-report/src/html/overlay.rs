//! Several results on one page: their curves on one another, their answers side by side.

use goodput_ledger::Mode;
use goodput_sweep::{RunResult, mismatches};

use super::{Html, page::Page, text::escape};
use crate::{
    chart,
    number::{number, number_or_none, percent},
    terminal::load_words,
};

/// The page of several results, each with the name that it is to have. They must be judged by one
/// SLO; in what else they differ stands on the page.
#[must_use]
pub fn overlay(runs: &[(String, RunResult)]) -> Html {
    let slo = runs.first().and_then(|run| run.1.holds_for.slos.first());
    let mut facts: Vec<String> = runs.iter().map(|run| run.0.clone()).collect();
    let names = facts.join(", ");
    facts.extend(slo.map(|slo| format!("SLO {}: {}", slo.name, slo.sentence)));
    let mut page = Page::headed("Goodput side by side", &names, &facts);
    for (mode, id, heading) in [
        (Mode::Closed, "closed", "Closed loop: capacity"),
        (Mode::Open, "open", "Open loop: latency"),
    ] {
        if let Some(chart) = chart::overlay(runs, mode) {
            let figure = page.figure(
                id,
                chart,
                "Goodput; dashed, throughput. Points that are not valid are left out.",
            );
            page.section(id, heading, "", &figure);
        }
    }
    page.section("answers", "Answers", "", &answers(runs));
    page.section("differ", "In what they differ", "", &differences(runs));
    page.finish()
}

fn answers(runs: &[(String, RunResult)]) -> String {
    let row = |(name, run): &(String, RunResult)| {
        let found = &run.operating_point;
        let peak = found.by_goodput.as_ref().map(|best| &best.row);
        let at = |row: Option<&goodput_ledger::PointRow>| row.map_or_else(String::new, load_words);
        format!(
            "<tr><th>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            escape(name),
            escape(&run.holds_for.model),
            number_or_none(found.by_objective.as_ref().map(|sell| sell.rate_req_s)),
            at(found.by_clauses.as_ref()),
            at(peak),
            peak.map_or_else(String::new, |row| number(row.goodput_tok_s)),
            percent(peak.and_then(|row| row.slo_attainment)),
        )
    };
    let rows: String = runs.iter().map(row).collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>Result<th>Model<th>Sell, req/s<th>Cap<th>Peak at\
         <th>good tok/s there<th>in SLO %</tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

/// In what the others differ from the first.
fn differences(runs: &[(String, RunResult)]) -> String {
    let Some(((first, base), others)) = runs.split_first() else {
        return String::new();
    };
    let mut rows = String::new();
    for (name, run) in others {
        for differ in mismatches(base, run) {
            rows += &format!(
                "<tr><th>{}<td>{}: {}<td>{}: {}</tr>",
                escape(&differ.what),
                escape(first),
                escape(&differ.base),
                escape(name),
                escape(&differ.other)
            );
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!("<div class=\"scroll\"><table><tbody>{rows}</tbody></table></div>")
}
