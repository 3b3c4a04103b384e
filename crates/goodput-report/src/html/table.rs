//! Tables of load points.

use goodput_ledger::{Mode, PointRow};
use goodput_sweep::RunResult;

use super::text::escape;
use crate::{
    chart::by_load,
    number::{NONE, count, fixed, millis, number, number_or_none, percent},
    terminal::{load_words, too_few},
};

/// Every load point with its main figures.
pub(super) fn points(result: &RunResult) -> String {
    let mut rows = String::new();
    let (mut few, mut void) = (false, false);
    for mode in [Mode::Closed, Mode::Open] {
        for point in by_load(&result.points, mode) {
            few |= too_few(point.ttft_n) || too_few(point.tpot_n);
            void |= !point.valid;
            rows += &row(point);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut notes = String::new();
    if few {
        notes += "<p class=\"note\">* Under 100 samples: the figure is close to the maximum and says nothing of the tail.</p>";
    }
    if void {
        notes += "<p class=\"note\">Struck-out loads are not valid; no answer rests on them.</p>";
    }
    let head = "<tr><th rowspan=2>Load<th rowspan=2>req/s<th colspan=2>TTFT ms<th colspan=2>TPOT ms<th>Gap ms<th colspan=2>E2E ms\
        <th rowspan=2>in SLO %<th colspan=2>tok/s<th rowspan=2>char/s<th rowspan=2>words/s<th rowspan=2>n</tr>\
        <tr><th>p50<th>p99<th>p50<th>p99<th>p99<th>p50<th>p99<th>good<th>all</tr>";
    format!(
        "<div class=\"scroll\"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>\n{notes}"
    )
}

fn row(point: &PointRow) -> String {
    let p99 = |value: Option<f64>, n: u64| {
        let star = if value.is_some() && too_few(n) {
            "*"
        } else {
            ""
        };
        millis(value) + star
    };
    let ttft_p99 = match point.ttft_p99_with_failures.over_ms {
        Some(over) => format!("over {}", millis(Some(over))),
        None => p99(
            point.ttft_p99_with_failures.ms.or(point.ttft_p99_ms),
            point.ttft_n,
        ),
    };
    let cells = [
        fixed(Some(point.completed_req_s), 2),
        millis(point.ttft_p50_ms),
        ttft_p99,
        millis(point.tpot_p50_ms),
        p99(point.tpot_p99_ms, point.tpot_n),
        p99(point.stall_p99_ms, point.tpot_n),
        millis(point.e2e_p50_ms),
        p99(point.e2e_p99_ms, point.ttft_n),
        percent(point.slo_attainment),
        number(point.goodput_tok_s),
        number(point.throughput_tok_s),
        number_or_none(point.characters_per_s),
        number_or_none(point.words_per_s),
        count(point.requests),
    ];
    let cells: Vec<String> = cells
        .iter()
        .map(|cell| format!("<td>{}", escape(cell)))
        .collect();
    let class = if point.valid { "" } else { " class=\"void\"" };
    let load = escape(&load_words(point));
    let remarks = remarks(point);
    let remarks = if remarks.is_empty() {
        String::new()
    } else {
        format!(
            "<tr class=\"remark\"><td colspan=15>{}</tr>\n",
            escape(&remarks)
        )
    };
    format!(
        "<tr{class}><th scope=\"row\">{load}{}</tr>\n{remarks}",
        cells.concat()
    )
}

/// What did not end well, and what a reader should know.
pub(super) fn remarks(point: &PointRow) -> String {
    let failed = point
        .outcomes
        .iter()
        .filter(|(name, n)| name.as_str() != "ok" && **n > 0);
    let failed = failed.map(|(name, n)| format!("{} {}", count(*n), name.replace('_', " ")));
    let sessions = point
        .trajectory_attainment
        .map(|s| format!("{}% of sessions in SLO", percent(Some(s))));
    failed
        .chain(sessions)
        .chain(point.warnings.iter().cloned())
        .collect::<Vec<_>>()
        .join("; ")
}

/// The open-loop rates and what each means for the objective.
pub(super) fn rates(result: &RunResult) -> String {
    let objective = result.objective();
    let mut rows = String::new();
    for point in by_load(&result.points, Mode::Open) {
        let (verdict, class) = match point.attainment_interval {
            _ if !point.valid => ("not valid, not used", "void"),
            Some(i) if i.low >= objective => ("keeps the objective", "keeps"),
            Some(i) if i.high < objective => ("breaks the objective", "breaks"),
            Some(_) => ("not decided", ""),
            None => ("no request was judged", ""),
        };
        let interval = point.attainment_interval.map_or_else(
            || NONE.to_owned(),
            |i| format!("{} to {}", percent(Some(i.low)), percent(Some(i.high))),
        );
        rows += &format!(
            "<tr class=\"{class}\"><th scope=\"row\">{}<td>{}<td>{}<td>{interval}<td>{}<td class=\"left\">{verdict}</tr>\n",
            escape(&load_words(point)),
            count(point.requests),
            percent(point.slo_attainment),
            number(point.goodput_tok_s),
        );
    }
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>Rate<th>n<th>in SLO %<th>95% interval<th>good tok/s<th class=\"left\">Objective</tr></thead><tbody>{rows}</tbody></table></div>\n"
    )
}

/// Clause by clause at the loads that matter.
pub(super) fn clauses(result: &RunResult) -> String {
    let answers = &result.operating_point;
    let mut shown: Vec<(&str, &PointRow)> = Vec::new();
    shown.extend(
        answers
            .by_objective
            .as_ref()
            .map(|sell| ("sell", &sell.row)),
    );
    shown.extend(answers.by_clauses.as_ref().map(|cap| ("cap", cap)));
    shown.extend(answers.by_goodput.as_ref().map(|peak| ("peak", &peak.row)));
    if shown.is_empty() {
        shown.extend(result.points.first().map(|only| ("", only)));
    }
    let mut rows = String::new();
    for (name, point) in shown {
        for clause in point.first_slo().map_or(&[][..], |slo| &slo.clauses) {
            let holds = match clause.holds {
                Some(true) => ("holds", "keeps"),
                Some(false) => ("does not hold", "breaks"),
                None => ("not judged", ""),
            };
            let at = if name.is_empty() {
                load_words(point)
            } else {
                format!("{name}: {}", load_words(point))
            };
            rows += &format!(
                "<tr class=\"{}\"><th scope=\"row\">{}<td class=\"left\">{}<td>{}<td>{}<td>{}<td class=\"left\">{}</tr>\n",
                holds.1,
                escape(&at),
                escape(&clause.clause),
                percent(clause.share),
                percent(Some(clause.needed)),
                count(clause.misses),
                holds.0,
            );
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>At<th class=\"left\">Clause<th>within %<th>needed %<th>missed<th class=\"left\">Verdict</tr></thead><tbody>{rows}</tbody></table></div>\n"
    )
}

/// Attainment and goodput by each SLO of the run; nothing if there is only one.
pub(super) fn tiers(result: &RunResult) -> String {
    let slos = &result.holds_for.slos;
    if slos.len() < 2 {
        return String::new();
    }
    let names: Vec<String> = slos
        .iter()
        .map(|slo| format!("<th colspan=2>{}", escape(&slo.name)))
        .collect();
    let under = "<th>in SLO %<th>good tok/s".repeat(slos.len());
    let mut rows = String::new();
    for mode in [Mode::Closed, Mode::Open] {
        for point in by_load(&result.points, mode) {
            let cells: Vec<String> = slos
                .iter()
                .map(|facts| {
                    let slo = point.slos.iter().find(|slo| slo.slo == facts.name);
                    let good = slo.map_or_else(|| NONE.to_owned(), |slo| number(slo.goodput_tok_s));
                    format!(
                        "<td>{}<td>{good}",
                        percent(slo.and_then(|slo| slo.attainment))
                    )
                })
                .collect();
            rows += &format!(
                "<tr><th scope=\"row\">{}{}</tr>\n",
                escape(&load_words(point)),
                cells.concat()
            );
        }
    }
    format!(
        "<div class=\"scroll\"><table><thead><tr><th rowspan=2>Load{}</tr><tr>{under}</tr></thead><tbody>{rows}</tbody></table></div>\n<p class=\"note\">Every answer on this page is by the first SLO, {}.</p>\n",
        names.concat(),
        escape(&slos[0].name),
    )
}
