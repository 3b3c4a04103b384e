//! Several results on one page: their curves on one another, their answers side by side.

use goodput_ledger::Mode;
use goodput_sweep::{Contrast, PredictedLoad, Prediction, RunResult, Variant, WhatIf, mismatches};

use super::{Html, page::Page, text::escape};
use crate::{
    change,
    chart::{self, Measure},
    number::{number, number_or_none, percent},
    terminal::load_words,
};

/// The page of several results, each with the name that it is to have. They must be judged by one
/// SLO; in what else they differ stands on the page.
#[must_use]
pub fn overlay(runs: &[(String, RunResult)]) -> Html {
    let mut page = headed("Goodput side by side", runs);
    curves(&mut page, runs);
    page.section("answers", "Answers", "", &answers(runs));
    page.section("differ", "In what they differ", "", &differences(runs));
    page.finish()
}

/// The page of a simulated base, the first of the runs, and its variants.
#[must_use]
pub fn what_if(what_if: &WhatIf, runs: &[(String, RunResult)]) -> Html {
    let mut page = headed("What if", runs);
    page.section(
        "changes",
        "What changes",
        NOTHING_MEASURED,
        &variants(what_if),
    );
    curves(&mut page, runs);
    latencies(&mut page, runs);
    page.section("answers", "Answers", "", &answers(runs));
    page.finish()
}

/// The page of a measured result, the first of the two, and the simulated one that predicts it.
#[must_use]
pub fn prediction(prediction: &Prediction, runs: &[(String, RunResult)]) -> Html {
    let mut page = headed("Measured and simulated", runs);
    let lead = format!("{}. {ERROR}", left_out(prediction));
    page.section(
        "errors",
        "Error of the prediction",
        &lead,
        &errors(prediction),
    );
    curves(&mut page, runs);
    latencies(&mut page, runs);
    page.section("answers", "Answers", "", &answers(runs));
    page.section("differ", "In what they differ", "", &differences(runs));
    page.finish()
}

const NOTHING_MEASURED: &str = "Nothing was measured: base and variants were computed in virtual time, under the same arrivals \
     and lengths. A change that is not told apart from nought is faint.";

const ERROR: &str = "Measured → simulated, and below it the error is relative to what was measured, of the share in SLO it is \
     in points. Faint where it cannot be told from the noise of the two.";

fn headed(what: &str, runs: &[(String, RunResult)]) -> Page {
    let slo = runs.first().and_then(|run| run.1.holds_for.slos.first());
    let mut facts: Vec<String> = runs.iter().map(|run| run.0.clone()).collect();
    let names = facts.join(", ");
    facts.extend(slo.map(|slo| format!("SLO {}: {}", slo.name, slo.sentence)));
    Page::headed(what, &names, &facts)
}

const MODES: [(Mode, &str, &str); 2] = [
    (Mode::Closed, "closed", "Closed loop: capacity"),
    (Mode::Open, "open", "Open loop: latency"),
];

fn curves(page: &mut Page, runs: &[(String, RunResult)]) {
    for (mode, id, heading) in MODES {
        if let Some(chart) = chart::overlay(runs, mode) {
            let figure = page.figure(
                id,
                chart,
                "Goodput; dashed, throughput. Points that are not valid are left out.",
            );
            page.section(id, heading, "", &figure);
        }
    }
}

/// TTFT and TPOT of all runs against load.
fn latencies(page: &mut Page, runs: &[(String, RunResult)]) {
    let mut figures = String::new();
    for (mode, loop_id, loop_name) in [
        (Mode::Closed, "closed", "closed loop"),
        (Mode::Open, "open", "open loop"),
    ] {
        for (measure, id, name) in [
            (Measure::Ttft, "ttft", "Time to first token"),
            (Measure::Tpot, "tpot", "Time per output token"),
        ] {
            if let Some(chart) = chart::overlay_latency(runs, measure, mode) {
                let caption = format!("{name}, {loop_name}: median; dashed, p99");
                figures += &page.figure(&format!("{id}-{loop_id}"), chart, &caption);
            }
        }
    }
    if !figures.is_empty() {
        let grid = format!("<div class=\"grid\">{figures}</div>");
        page.section("latency", "Latency against load", "", &grid);
    }
}

fn variants(what_if: &WhatIf) -> String {
    let Some(first) = what_if.variants.first() else {
        return String::new();
    };
    let names: String = what_if
        .variants
        .iter()
        .map(|variant| format!("<th>{}", escape(&variant.changes.join("; "))))
        .collect();
    let block = |of: fn(&Variant) -> &[Contrast]| -> String {
        let figures = of(first).iter().map(|figure| {
            let (name, base) = (&figure.compared.figure, figure.compared.base);
            let same = |variant| of(variant).iter().find(|f| f.compared.figure == *name);
            let cells: String = what_if
                .variants
                .iter()
                .map(|variant| same(variant).map_or_else(|| "<td>".to_owned(), cell))
                .collect();
            let base = change::figure(name, base);
            format!("<tr><th>{}<td>{base}{cells}</tr>", escape(&words(name)))
        });
        figures.collect()
    };
    let below = block(|variant| &variant.at_base);
    let columns = what_if.variants.len() + 2;
    let at = what_if.at.as_deref().filter(|_| !below.is_empty());
    let heading = at.map_or_else(String::new, |at| {
        format!(
            "<tr><th colspan=\"{columns}\">At {}, where the base was found to operate</tr>",
            escape(at)
        )
    });
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>What if<th>base{names}</tr></thead><tbody>{}{heading}{below}</tbody></table></div>",
        block(|variant| &variant.answers),
    )
}

/// The value of the other side with its change.
fn cell(figure: &Contrast) -> String {
    let compared = &figure.compared;
    let class = match figure.distinguishable {
        Some(true) => "",
        _ => " class=\"faint\"",
    };
    format!(
        "<td>{}<br><span{class}>{}</span>",
        change::figure(&compared.figure, compared.other),
        change::change(compared.change)
    )
}

fn errors(prediction: &Prediction) -> String {
    let names: Vec<&str> = prediction.loads.first().map_or_else(Vec::new, |load| {
        load.figures
            .iter()
            .map(|f| f.compared.figure.as_str())
            .collect()
    });
    let head: String = names
        .iter()
        .map(|name| format!("<th>{}", escape(&words(name))))
        .collect();
    let cell = |f: &Contrast| {
        let shown = |value| change::figure(&f.compared.figure, value);
        let class = if f.distinguishable == Some(true) {
            ""
        } else {
            " class=\"faint\""
        };
        format!(
            "<td>{} → {}<br><span{class}>{}</span>",
            shown(f.compared.base),
            shown(f.compared.other),
            change::error(f)
        )
    };
    let row = |load: &PredictedLoad| {
        let cells: String = load.figures.iter().map(cell).collect();
        format!("<tr><th>{}{cells}</tr>", escape(&load.load))
    };
    let rows: String = prediction.loads.iter().map(row).collect();
    let median = |name: &&str| {
        let found = prediction.median_error.iter().find(|m| m.0 == **name);
        let text = found.map_or_else(String::new, |m| change::size_of_error(name, m.1));
        format!("<td><b>{text}</b>")
    };
    let medians: String = names.iter().map(median).collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>Load{head}</tr></thead><tbody>{rows}\
         <tr><th>median size{medians}</tr></tbody></table></div>"
    )
}

/// `ttft_p50_ms` as `TTFT p50, ms`.
fn words(figure: &str) -> String {
    match figure {
        "sell_req_s" => "sell, req/s".to_owned(),
        "cap_in_flight" => "cap, in flight".to_owned(),
        "peak_goodput_tok_s" => "peak, good tok/s".to_owned(),
        "goodput_tok_s" => "goodput, tok/s".to_owned(),
        "slo_attainment" => "in SLO".to_owned(),
        other => {
            let mut parts = other.split('_');
            let metric = parts.next().unwrap_or_default().to_uppercase();
            let rest: Vec<&str> = parts.filter(|part| *part != "ms").collect();
            format!("{metric} {}, ms", rest.join(" "))
        }
    }
}

/// How many loads are compared and how many cannot be.
pub(crate) fn left_out(prediction: &Prediction) -> String {
    let all = prediction.loads.len();
    let loads = if all == 1 { "load" } else { "loads" };
    match prediction.left_out {
        0 => format!("{all} {loads} in both"),
        more => format!("{all} {loads} in both, {more} in one only or not valid"),
    }
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
