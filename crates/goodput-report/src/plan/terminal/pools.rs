//! Pools side by side as terminal text.

use goodput_planner::{ClassFacts, PoolsPlan, Way};

use super::{bare, columns, findings, line, shown};
use crate::{
    number::{fixed, number},
    plan::layout,
    style::Style,
};

/// Pools for one demand or several: classes, a table for each demand, what a replica of each pool carries.
#[must_use]
pub fn pools(plans: &[PoolsPlan], style: Style) -> String {
    let Some(first) = plans.first() else {
        return String::new();
    };
    let mut out = classes(first, style) + "\n";
    for plan in plans {
        let head = match plans {
            [_] => "POOLS".to_owned(),
            _ => format!("DEMAND x {}", number(plan.scale)),
        };
        out += &(ways(plan, &head, style) + "\n");
    }
    out += &(replicas(first, style) + "\n");
    for plan in plans {
        if let Some(best) = plan.best {
            let name = match plans {
                [_] => "take".to_owned(),
                _ => format!("x {}", number(plan.scale)),
            };
            let text =
                "fewest replicas to run: headroom and one of each pool that may fail included";
            out += &line(&name, layout(best), text, style);
        }
    }
    out + &findings(&first.findings, style)
}

fn classes(plan: &PoolsPlan, style: Style) -> String {
    let heads = ["CLASS", "req/s", "priority", "workload", "slo"];
    let class = |c: &ClassFacts| {
        vec![
            c.name.clone(),
            bare(&c.demand_req_s),
            c.priority.to_string(),
            c.workload.clone(),
            c.slo.clone(),
        ]
    };
    let classes: Vec<Vec<String>> = plan.classes.iter().map(class).collect();
    columns(&heads, &classes, style)
}

fn ways(plan: &PoolsPlan, head: &str, style: Style) -> String {
    let heads = [
        head,
        "fractional",
        "whole",
        "one may fail",
        "run",
        "an hour",
    ];
    let way = |way: &Way| {
        vec![
            layout(way.layout).to_owned(),
            fixed(way.fractional.value, 2),
            bare(&way.replicas),
            bare(&way.with_spare),
            bare(&way.planned),
            shown(&way.cost_per_hour, plan.currency.as_deref()),
        ]
    };
    let ways: Vec<Vec<String>> = plan.ways.iter().map(way).collect();
    columns(&heads, &ways, style)
}

fn replicas(plan: &PoolsPlan, style: Style) -> String {
    let heads = [
        "REPLICA OF",
        "classes",
        "budget req/s",
        "best configuration",
    ];
    let rows = plan.ways.iter().flat_map(|way| {
        way.pools.iter().map(move |pool| {
            vec![
                layout(way.layout).to_owned(),
                pool.classes.join(" + "),
                bare(&pool.budget_req_s),
                pool.configuration.clone(),
            ]
        })
    });
    columns(&heads, &rows.collect::<Vec<_>>(), style)
}
