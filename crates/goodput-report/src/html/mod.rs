//! `report.html`: one page that opens offline, for people who decide.

mod cards;
mod facts;
mod headline;
mod lessons;
mod overlay;
mod page;
mod plan;
mod point;
mod pools;
mod table;
mod text;
mod trajectory;

use goodput_ledger::Mode;
use goodput_sweep::RunResult;

use crate::chart::{self, Measure, Spread};

pub(crate) use overlay::left_out;
pub use overlay::{overlay, prediction, what_if};
pub use page::Html;
use page::Page;
pub use plan::capacity;
pub use pools::pools;
pub use trajectory::trajectory;

/// The whole page: answers first, then the evidence, then what was tested and what words mean.
///
/// Self-contained: style, script and figures are inside, nothing is fetched. Follows the reader's
/// light or dark setting; prints.
#[must_use]
pub fn report(result: &RunResult) -> Html {
    let mut page = Page::new(result);
    page.add(&headline::headline(result));
    page.add(&cards::cards(result));
    page.add(&facts::read_first(result));
    // Nothing is drawn against load where there is only one.
    let several = result.points.len() > 1;
    if several {
        goodput(&mut page, result);
        promise(&mut page, result);
    }
    page.section("findings", "Findings", "", &facts::findings(result));
    if several {
        latency(&mut page, result);
    }
    clauses(&mut page, result, several);
    page.section("tiers", "Every SLO of this run", "", &table::tiers(result));
    one_point(&mut page, result);
    if several {
        reading_speed(&mut page, result);
    }
    page.section("points", "All load points", "", &table::points(result));
    page.section(
        "lessons",
        "What this data says about the rules of thumb",
        "",
        &lessons::lessons(result),
    );
    page.section("tested", "What was tested", "", &facts::tested(result));
    page.section(
        "words",
        "What the figures mean",
        "",
        &facts::definitions(result),
    );
    page.section("files", "Files", "", &facts::files(result));
    page.finish()
}

fn goodput(page: &mut Page, result: &RunResult) {
    let Some(curve) = chart::curve(result) else {
        return;
    };
    let figure = page.figure("curve", curve, "Goodput counts only tokens of requests that met the SLO. The area between the lines was computed, paid for, and came too late.");
    page.section(
        "curve",
        "Goodput against load",
        headline::curve_sentence(result).as_str(),
        &figure,
    );
}

fn promise(page: &mut Page, result: &RunResult) {
    let Some(by_rate) = chart::by_rate(result) else {
        return;
    };
    let figure = page.figure("by-rate", by_rate, "Arrivals come on their own schedule, whatever the server does: only this shows the queueing that users feel. Bars are 95% intervals that allow for requests that are slow together.");
    page.section(
        "promise",
        "What can be promised",
        "",
        &(figure + &table::rates(result)),
    );
}

fn latency(page: &mut Page, result: &RunResult) {
    let mut figures = String::new();
    for (mode, loop_name) in [(Mode::Closed, "closed loop"), (Mode::Open, "open loop")] {
        for (measure, id, name) in [
            (Measure::Ttft, "ttft", "Time to first token"),
            (Measure::Tpot, "tpot", "Time per output token"),
        ] {
            if let Some(chart) = chart::latency(result, measure, mode) {
                let id = format!(
                    "{id}-{}",
                    if mode == Mode::Closed {
                        "closed"
                    } else {
                        "open"
                    }
                );
                figures += &page.figure(&id, chart, &format!("{name}, {loop_name}"));
            }
        }
    }
    if !figures.is_empty() {
        page.section(
            "latency",
            "Latency against load",
            "Percentiles across requests; the dashed line is the SLO's bound.",
            &format!("<div class=\"grid\">{figures}</div>"),
        );
    }
}

fn clauses(page: &mut Page, result: &RunResult, chart: bool) {
    let table = table::clauses(result);
    let figure = chart::by_clause(result).filter(|_| chart).map(|by_clause| {
        let caption = "Share of requests within each bound; failures are within none.";
        page.figure("by-clause", by_clause, caption)
    });
    let html = figure.unwrap_or_default() + &table;
    page.section("clauses", "Which clause binds", "", &html);
}

fn one_point(page: &mut Page, result: &RunResult) {
    let selector = point::selector(result);
    if selector.is_empty() {
        return;
    }
    let mut spreads = String::new();
    for spread in Spread::ALL {
        if let Some(chart) = chart::distribution(result, spread) {
            let id = format!("spread-{}", spread.metric());
            spreads += &page.spread(&id, chart, spread.heading());
        }
    }
    let mut each = String::new();
    for of_point in &result.charts {
        page.figure_of_point("requests-", of_point.point, chart::requests(of_point));
        page.figure_of_point("tokens-", of_point.point, chart::tokens_over_time(of_point));
    }
    each += &page.per_point("tokens-", "Tokens a second over the window");
    each += &page.per_point(
        "requests-",
        "A sample of its requests: waiting, then streaming",
    );
    let body = format!("{selector}<div class=\"grid\">{spreads}</div>{each}");
    page.section(
        "point",
        "One load point",
        "Faint lines are the other load points.",
        &body,
    );
}

fn reading_speed(page: &mut Page, result: &RunResult) {
    let Some(characters) = chart::characters(result) else {
        return;
    };
    let figure = page.figure("characters", characters, "Tokens of different models are different amounts of text: compare models by this, never by tokens.");
    page.section("characters", "Characters and words a second", "", &figure);
}

#[cfg(test)]
mod tests;
