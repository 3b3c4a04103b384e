//! Pools side by side as a page.

use goodput_planner::{ClassFacts, Figure, Layout, PoolsPlan, Way};

use super::{
    Html,
    page::Page,
    plan::{card, cell, first, foundations, traced, unit},
    text::{escape, paragraph},
};
use crate::{
    chart::plan as chart,
    number::number,
    plan::{bare, layout, replicas, shown, two_places, with_interval},
};

/// Pools for one demand or several: the answer first, then the ways, then where each figure is from.
#[must_use]
pub fn pools(plans: &[PoolsPlan]) -> Html {
    let Some(plan) = plans.first() else {
        return Page::headed("Pools", "", &[]).finish();
    };
    let names: Vec<&str> = plan
        .classes
        .iter()
        .map(|class| class.name.as_str())
        .collect();
    let names = names.join(" and ");
    let mut page = Page::headed("Pools", &names, &[names.clone(), "simulated".to_owned()]);
    page.add(&headline(plan));
    page.add(&cards(plan));
    page.add(&first(&plan.findings));
    page.section(
        "classes",
        "Classes",
        "What each class asks for, and what it is promised. In a shared pool with priorities, 0 comes before 1.",
        &classes(plan),
    );
    let figure = chart::layouts(plans)
        .map(|chart| page.figure("layouts", chart, "Replicas to run, by demand."))
        .unwrap_or_default();
    let tables: String = plans
        .iter()
        .map(|plan| ways(plan, plans.len() > 1))
        .collect();
    page.section(
        "ways",
        "Ways to lay out the pools",
        "Fractional is demand over budget: it orders the ways. Whole is rounded up per pool and has no headroom: a lower bound. Run has headroom and what may fail in each pool.",
        &(figure + &tables),
    );
    page.section(
        "budgets",
        "One replica of each pool",
        "The budget is the highest rate tried at which every class of the pool surely keeps its SLO; in brackets up to the lowest rate tried that does not.",
        &budgets(plan),
    );
    foundations(
        &mut page,
        &plans.iter().map(sources).collect::<String>(),
        &plan.assumptions,
    );
    page.finish()
}

fn headline(plan: &PoolsPlan) -> String {
    let best = plan.ways.iter().find(|way| Some(way.layout) == plan.best);
    let Some(best) = best else {
        return "<h1>No way keeps every SLO.</h1>\n".to_owned();
    };
    let pools = match best.pools.len() {
        1 if best.layout == Layout::Priority => "One pool with priorities".to_owned(),
        1 => "One pool for all".to_owned(),
        _ => "A pool for each class".to_owned(),
    };
    let others: Vec<String> = plan
        .ways
        .iter()
        .filter(|way| way.layout != best.layout && way.why_not.is_none())
        .map(|way| format!("{}: {}", layout(way.layout), replicas(&way.planned)))
        .collect();
    let at = if (plan.scale - 1.0).abs() < 1e-12 {
        String::new()
    } else {
        format!("For {} times the demand. ", number(plan.scale))
    };
    let why = format!(
        "{at}Headroom and what may fail in each pool are included. Other ways: {}.",
        if others.is_empty() {
            "what cannot be said".to_owned()
        } else {
            others.join(", ")
        }
    );
    format!(
        "<h1>{}</h1>\n{}",
        escape(&format!("{pools}: run {}.", replicas(&best.planned))),
        paragraph("sub", &why)
    )
}

fn cards(plan: &PoolsPlan) -> String {
    let one = |way: &Way| {
        let class = if Some(way.layout) == plan.best {
            "sell"
        } else {
            "cap"
        };
        let lines = match &way.why_not {
            Some(why) => vec![why.clone()],
            None => vec![
                format!(
                    "{} without rounding and headroom.",
                    two_places(&way.fractional)
                ),
                match way.cost_per_hour.value {
                    Some(_) => format!(
                        "{} an hour.",
                        shown(&way.cost_per_hour, plan.currency.as_deref())
                    ),
                    None => way.cost_per_hour.from.clone(),
                },
            ],
        };
        card(
            class,
            heading(way),
            &bare(&way.planned),
            unit(&way.planned),
            &lines,
        )
    };
    let cards: String = plan.ways.iter().map(one).collect();
    format!("<div class=\"cards\">{cards}</div>\n")
}

fn heading(way: &Way) -> &'static str {
    match way.layout {
        Layout::Separate => "Separate",
        Layout::Compromise => "One for all",
        Layout::Priority => "With priorities",
    }
}

fn classes(plan: &PoolsPlan) -> String {
    let row = |class: &ClassFacts| {
        format!(
            "<tr><th>{}{}<td>{}<td class=\"left\">{}<td class=\"left\">{}</tr>",
            escape(&class.name),
            cell(&class.demand_req_s, &bare(&class.demand_req_s)),
            class.priority,
            escape(&class.workload),
            escape(&class.slo)
        )
    };
    let rows: String = plan.classes.iter().map(row).collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>Class<th>req/s<th>priority<th class=\"left\">workload<th class=\"left\">SLO</tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn ways(plan: &PoolsPlan, scaled: bool) -> String {
    let row = |way: &Way| {
        let cost = shown(&way.cost_per_hour, plan.currency.as_deref());
        [
            format!("<tr><th>{}", layout(way.layout)),
            cell(&way.fractional, &two_places(&way.fractional)),
            cell(&way.replicas, &bare(&way.replicas)),
            cell(&way.with_spare, &bare(&way.with_spare)),
            cell(&way.planned, &bare(&way.planned)),
            cell(&way.cost_per_hour, &cost),
            "</tr>".to_owned(),
        ]
        .concat()
    };
    let rows: String = plan.ways.iter().map(row).collect();
    let demand = if scaled {
        format!("Demand x {}", number(plan.scale))
    } else {
        "Pools".to_owned()
    };
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>{demand}<th>fractional<th>whole<th>one may fail<th>run<th>an hour</tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn budgets(plan: &PoolsPlan) -> String {
    let mut rows = String::new();
    for way in &plan.ways {
        for pool in &way.pools {
            rows += &format!(
                "<tr><th>{}<td class=\"left\">{}{}<td class=\"left\">{}</tr>",
                layout(way.layout),
                escape(&pool.classes.join(" + ")),
                cell(&pool.budget_req_s, &with_interval(&pool.budget_req_s)),
                escape(&pool.configuration)
            );
        }
    }
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>Way<th class=\"left\">classes<th>budget<th class=\"left\">best configuration</tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn sources(plan: &PoolsPlan) -> String {
    let mut rows: Vec<(String, &'static str, &Figure)> = Vec::new();
    for class in &plan.classes {
        rows.push((class.name.clone(), "demand", &class.demand_req_s));
    }
    for way in &plan.ways {
        for pool in &way.pools {
            let of = format!("{}: {}", layout(way.layout), pool.classes.join(" + "));
            rows.push((of.clone(), "budget", &pool.budget_req_s));
            rows.push((of.clone(), "fractional", &pool.fractional));
            rows.push((of.clone(), "whole", &pool.replicas));
            rows.push((of.clone(), "one may fail", &pool.with_spare));
            rows.push((of, "run", &pool.planned));
        }
        rows.push((layout(way.layout).to_owned(), "run", &way.planned));
        rows.push((layout(way.layout).to_owned(), "an hour", &way.cost_per_hour));
    }
    traced(rows, plan.currency.as_deref())
}
