//! A plan as a page.

use goodput_planner::{Answer, Assumption, CapacityPlan, Figure};

use super::{
    Html,
    page::Page,
    text::{escape, paragraph, prose},
};
use crate::{
    chart::plan as chart,
    number::percent_short,
    plan::{
        aim, bare, counted, decided, figures, plain_sentences, replica, replicas, shown,
        with_interval,
    },
};

/// A capacity plan: the answer first, then what it rests on, down to where each figure is from.
#[must_use]
pub fn capacity(plan: &CapacityPlan) -> Html {
    let budget = &plan.budget;
    let facts = [
        replica(plan),
        budget.slo.clone(),
        format!("workload {}", budget.workload),
    ];
    let mut page = Page::headed("Capacity plan", &budget.model_id, &facts);
    page.add(&headline(plan));
    page.add(&cards(plan));
    page.add(&first(&plan.findings));
    let sentences = plain_sentences(&plan.plain);
    let sentences: String = sentences.iter().map(|s| paragraph("lead", s)).collect();
    page.section("users", "What users see", "", &sentences);
    sizes(&mut page, plan);
    tails(&mut page, plan);
    foundations(&mut page, &sources(plan), &plan.assumptions);
    page.finish()
}

/// The last two sections of every plan's page: its sources, and what was assumed.
pub(super) fn foundations(page: &mut Page, sources: &str, assumptions: &[Assumption]) {
    page.section(
        "sources",
        "Where each figure is from",
        "Every figure is an input, a load that was looked at, or a formula over others.",
        sources,
    );
    page.section("assumed", "What was assumed", "", &assumed(assumptions));
}

fn headline(plan: &CapacityPlan) -> String {
    let Some(answer) = plan.answers.first() else {
        return String::new();
    };
    let spare = match plan.rule.spare {
        0 => "none may fail",
        1 => "one may fail",
        _ => "some may fail",
    };
    let sentence = format!(
        "Run {} for {} requests a second.",
        replicas(&answer.replicas),
        bare(&answer.demand_req_s)
    );
    let why = format!(
        "{} {} {} of the goodput budget, and {spare}. With the spare gone {} of requests meet the SLO; the objective is {}.",
        shown(&answer.plan, None),
        if answer.plan.value == Some(1.0) {
            "uses"
        } else {
            "use"
        },
        shown(&answer.plan_utilisation, None),
        with_interval(&answer.attainment),
        percent_short(plan.budget.objective),
    );
    format!("<h1>{}</h1>\n{}", escape(&sentence), paragraph("sub", &why))
}

pub(super) fn card(class: &str, name: &str, figure: &str, unit: &str, lines: &[String]) -> String {
    let lines: String = lines
        .iter()
        .map(|line| format!("<p>{}</p>", escape(line)))
        .collect();
    format!(
        "<article class=\"card {class}\"><h3>{name}</h3><p class=\"figure\"><span>{}</span><small>{unit}</small></p>{lines}</article>\n",
        escape(figure)
    )
}

/// The unit of a count of replicas.
pub(super) fn unit(figure: &Figure) -> &'static str {
    if figure.value == Some(1.0) {
        "replica"
    } else {
        "replicas"
    }
}

fn cards(plan: &CapacityPlan) -> String {
    let Some(answer) = plan.answers.first() else {
        return String::new();
    };
    let money = |figure| shown(figure, plan.currency.as_deref());
    let headroom = format!(
        "{} of headroom before the objective breaks.",
        shown(&answer.headroom_req_s, None)
    );
    let cost = match answer.cost.per_hour.value {
        Some(_) => vec![
            format!(
                "{} for a million good tokens at the driving rate.",
                money(&answer.cost.per_million_good_tokens)
            ),
            format!(
                "{} for a good request.",
                money(&answer.cost.per_good_request)
            ),
        ],
        None => vec![answer.cost.per_hour.from.clone()],
    };
    let gpus = match answer.gpus.value {
        Some(_) => counted(&answer.gpus, "GPU"),
        None => String::new(),
    };
    let cards = [
        card(
            "sell",
            "Run",
            &shown(&answer.replicas, None),
            unit(&answer.replicas),
            &[gpus, format!("Decided by {}.", decided(answer))],
        ),
        card(
            "cap",
            "Budget of one",
            &bare(&plan.budget.rate_req_s),
            "req/s",
            &[
                format!("Use {} of it.", aim(plan)),
                "The rate at which the SLO is surely kept.".to_owned(),
            ],
        ),
        card(
            "peak",
            "Cost",
            &money(&answer.cost.per_hour),
            "an hour",
            &cost,
        ),
        card(
            "not",
            "Not this",
            &shown(&answer.lower_bound, None),
            unit(&answer.lower_bound),
            &[
                format!(
                    "{} of the budget: a lower bound.",
                    shown(&answer.lower_bound_utilisation, None)
                ),
                headroom,
            ],
        ),
    ];
    format!("<div class=\"cards\">{}</div>\n", cards.concat())
}

pub(super) fn first(findings: &[String]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let items: String = findings
        .iter()
        .map(|f| format!("<li>{}</li>", prose(f)))
        .collect();
    format!("<div class=\"first\"><h3>Read this first</h3><ul>{items}</ul></div>\n")
}

/// A cell that says on hover where its figure is from.
pub(super) fn cell(figure: &Figure, text: &str) -> String {
    format!("<td title=\"{}\">{}", escape(&figure.from), escape(text))
}

fn sizes(page: &mut Page, plan: &CapacityPlan) {
    let row = |a: &Answer| {
        let used = |count: &Figure, used: &Figure| {
            cell(count, &format!("{} ({})", bare(count), shown(used, None)))
        };
        let money = |figure: &Figure| cell(figure, &shown(figure, plan.currency.as_deref()));
        [
            format!("<tr><th>{}", escape(&a.label)),
            cell(&a.demand_req_s, &bare(&a.demand_req_s)),
            used(&a.lower_bound, &a.lower_bound_utilisation),
            used(&a.plan, &a.plan_utilisation),
            used(&a.replicas, &a.utilisation),
            cell(&a.gpus, &bare(&a.gpus)),
            cell(&a.attainment, &with_interval(&a.attainment)),
            money(&a.cost.per_hour),
            money(&a.cost.per_good_request),
            money(&a.cost.per_million_good_tokens),
            format!("<td class=\"left\">{}</tr>", decided(a)),
        ]
        .concat()
    };
    let rows: String = plan.answers.iter().map(row).collect();
    let table = format!(
        "<div class=\"scroll\"><table><thead><tr><th>Demand<th>req/s<th>lower bound<th>plan<th>run<th>GPUs<th>in SLO\
         <th>an hour<th>good request<th>1M good tokens<th class=\"left\">decided by</tr></thead><tbody>{rows}</tbody></table></div>"
    );
    let figure = chart::replicas(plan).map(|chart| {
        page.figure(
            "replicas",
            chart,
            "Replicas by demand. The lower bound has no headroom: it is no plan.",
        )
    });
    let lead = "In brackets the share of the goodput budget in use. In SLO is seen with the spare replica gone. The driving rate is the peak quarter hour where a trace tells it, never the mean.";
    page.section(
        "sizes",
        "Replicas",
        lead,
        &(figure.unwrap_or_default() + &table),
    );
}

type OfRung = fn(&goodput_planner::Rung) -> &Figure;

fn tails(page: &mut Page, plan: &CapacityPlan) {
    let mut figures = String::new();
    let charts: [(&str, &str, OfRung); 2] = [
        ("ttft", "ttft p99, ms", |rung| &rung.ttft_p99_ms),
        ("tpot", "tpot p99, ms", |rung| &rung.tpot_p99_ms),
    ];
    for (id, name, of) in charts {
        if let Some(chart) = chart::tail(plan, name, of) {
            figures += &page.figure(id, chart, name);
        }
    }
    let row = |rung: &goodput_planner::Rung| {
        let cells = [
            &rung.rate_req_s,
            &rung.attainment,
            &rung.ttft_p99_ms,
            &rung.tpot_p99_ms,
            &rung.e2e_p99_ms,
        ];
        let cells: String = cells.iter().map(|f| cell(f, &with_interval(f))).collect();
        format!("<tr><th>{}{cells}</tr>", percent_short(rung.utilisation))
    };
    let rows: String = plan.ladder.iter().map(row).collect();
    let table = format!(
        "<div class=\"scroll\"><table><thead><tr><th>Use<th>rate<th>in SLO<th>ttft p99<th>tpot p99<th>e2e p99</tr></thead><tbody>{rows}</tbody></table></div>"
    );
    page.section(
        "tails",
        "What more load would do",
        "One replica at other shares of its goodput budget: the tail pays before the mean shows it.",
        &format!("<div class=\"grid\">{figures}</div>{table}"),
    );
}

fn sources(plan: &CapacityPlan) -> String {
    let mut rows = vec![("one replica", "budget", &plan.budget.rate_req_s)];
    for answer in &plan.answers {
        let each = figures(answer).into_iter();
        rows.extend(each.map(|(name, figure)| (answer.label.as_str(), name, figure)));
    }
    traced(rows, plan.currency.as_deref())
}

/// Figures, each with what it was made from: what it is of, its name, itself.
pub(super) fn traced<'a>(
    figures: impl IntoIterator<Item = (impl AsRef<str>, &'static str, &'a Figure)>,
    currency: Option<&str>,
) -> String {
    let rows = figures.into_iter().map(|(of, name, figure)| {
        format!(
            "<tr><th>{}<td class=\"left\">{}<td>{}<td class=\"left\">{}</tr>",
            escape(of.as_ref()),
            escape(name),
            escape(&shown(figure, currency)),
            escape(&figure.from)
        )
    });
    let rows: String = rows.collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>Of<th class=\"left\">figure<th>value<th class=\"left\">from</tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

/// What was taken for granted, as a table.
fn assumed(assumptions: &[Assumption]) -> String {
    let mut rows = String::new();
    for one in assumptions {
        rows += &format!(
            "<tr><th>{}<td class=\"left\">{}<td class=\"left\">{}</tr>",
            escape(&one.name),
            escape(&one.value),
            escape(&one.from)
        );
    }
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>What<th class=\"left\">value<th class=\"left\">from</tr></thead><tbody>{rows}</tbody></table></div>"
    )
}
