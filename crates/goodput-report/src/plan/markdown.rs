//! Plans as Markdown.

use goodput_planner::{Answer, Assumption, CapacityPlan, Figure, PoolsPlan, TrajectoryPlan};

use super::{
    aim, bare, decided, figures, layout, plain_sentences, replica, shown, split, two_places,
    with_interval,
};
use crate::{
    markdown::cell,
    number::{number, percent_short},
};

/// A capacity plan.
#[must_use]
pub fn capacity(plan: &CapacityPlan) -> String {
    let budget = &plan.budget;
    let mut out = "# Capacity plan\n\n".to_owned();
    for (name, text) in [
        ("replica", replica(plan)),
        ("SLO", budget.slo.clone()),
        ("workload", budget.workload.clone()),
        (
            "budget of a replica",
            format!(
                "{} ({})",
                with_interval(&budget.rate_req_s),
                budget.rate_req_s.from
            ),
        ),
        ("use", format!("{} of the budget", aim(plan))),
    ] {
        out += &format!("- **{name}**: {}\n", cell(&text));
    }
    out += "\n## Replicas\n\n| demand | req/s | lower bound | plan | run | GPUs | in SLO | an hour | 1M good tokens | decided by |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|---|\n";
    for answer in &plan.answers {
        out += &size(plan, answer);
    }
    out += "\nThe lower bound has no headroom: it is no plan. In SLO is seen with the spare replica gone.\n";
    out += &ladder(plan);
    out += "\n## What users see\n\n";
    for sentence in plain_sentences(&plan.plain) {
        out += &format!("{}\n", cell(&sentence));
    }
    out += &list("Findings", &plan.findings);
    out += &sources(plan);
    out + &assumptions(&plan.assumptions)
}

/// The page of plain words.
#[must_use]
pub fn plain(plan: &CapacityPlan) -> String {
    let mut out = "# What users see\n\n".to_owned();
    for sentence in plain_sentences(&plan.plain) {
        out += &format!("{}\n\n", cell(&sentence));
    }
    out + &format!("Promise: {}\n", cell(&plan.budget.slo))
}

fn size(plan: &CapacityPlan, answer: &Answer) -> String {
    let used = |count: &Figure, used: &Figure| format!("{} ({})", bare(count), shown(used, None));
    let money = |figure: &goodput_planner::Figure| shown(figure, plan.currency.as_deref());
    format!(
        "| {} | {} | {} | {} | **{}** | {} | {} | {} | {} | {} |\n",
        cell(&answer.label),
        bare(&answer.demand_req_s),
        used(&answer.lower_bound, &answer.lower_bound_utilisation),
        used(&answer.plan, &answer.plan_utilisation),
        used(&answer.replicas, &answer.utilisation),
        bare(&answer.gpus),
        with_interval(&answer.attainment),
        cell(&money(&answer.cost.per_hour)),
        cell(&money(&answer.cost.per_million_good_tokens)),
        decided(answer),
    )
}

fn ladder(plan: &CapacityPlan) -> String {
    let mut out = "\n## One replica at other shares of its budget\n\n| use | req/s | in SLO | ttft p99 | tpot p99 | e2e p99 |\n|--:|--:|--:|--:|--:|--:|\n".to_owned();
    for rung in &plan.ladder {
        let cells = [
            &rung.attainment,
            &rung.ttft_p99_ms,
            &rung.tpot_p99_ms,
            &rung.e2e_p99_ms,
        ];
        out += &format!(
            "| {} | {} | {} |\n",
            percent_short(rung.utilisation),
            bare(&rung.rate_req_s),
            cells.map(|figure| shown(figure, None)).join(" | ")
        );
    }
    out
}

/// Every figure with what it was made from.
fn sources(plan: &CapacityPlan) -> String {
    let mut out = "\n## Where each figure is from\n".to_owned();
    for answer in &plan.answers {
        out += &format!(
            "\n**{}**\n\n| figure | value | from |\n|---|--:|---|\n",
            cell(&answer.label)
        );
        for (name, figure) in figures(answer) {
            let value = shown(figure, plan.currency.as_deref());
            out += &format!("| {name} | {} | {} |\n", cell(&value), cell(&figure.from));
        }
    }
    out
}

pub(super) fn list(heading: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines = lines.iter().map(|line| format!("- {}\n", cell(line)));
    format!("\n## {heading}\n\n{}", lines.collect::<String>())
}

pub(super) fn assumptions(all: &[Assumption]) -> String {
    let mut out = "\n## Assumed\n\n| what | value | from |\n|---|---|---|\n".to_owned();
    for one in all {
        out += &format!(
            "| {} | {} | {} |\n",
            cell(&one.name),
            cell(&one.value),
            cell(&one.from)
        );
    }
    out
}

/// Pools side by side.
#[must_use]
pub fn pools(plans: &[PoolsPlan]) -> String {
    let Some(plan) = plans.first() else {
        return String::new();
    };
    let mut out =
        "# Pools\n\n| class | req/s | priority | workload | SLO |\n|---|--:|--:|---|---|\n"
            .to_owned();
    for class in &plan.classes {
        let (name, workload, slo) = (cell(&class.name), cell(&class.workload), cell(&class.slo));
        out += &format!(
            "| {name} | {} | {} | {workload} | {slo} |\n",
            bare(&class.demand_req_s),
            class.priority
        );
    }
    for plan in plans {
        out += &ways(plan, plans.len() > 1);
    }
    out += &budgets(plan);
    out + &list("Findings", &plan.findings) + &assumptions(&plan.assumptions)
}

fn ways(plan: &PoolsPlan, scaled: bool) -> String {
    let mut out = if scaled {
        format!("\n## Demand x {}\n", number(plan.scale))
    } else {
        String::new()
    };
    out += "\n| pools | fractional | whole | one may fail | run | an hour |\n|---|--:|--:|--:|--:|--:|\n";
    for way in &plan.ways {
        out += &format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            layout(way.layout),
            two_places(&way.fractional),
            bare(&way.replicas),
            bare(&way.with_spare),
            bare(&way.planned),
            cell(&shown(&way.cost_per_hour, plan.currency.as_deref()))
        );
    }
    out
}

fn budgets(plan: &PoolsPlan) -> String {
    let mut out =
        "\n| pools | classes | budget, req/s | configuration | from |\n|---|---|--:|---|---|\n"
            .to_owned();
    for way in &plan.ways {
        for pool in &way.pools {
            out += &format!(
                "| {} | {} | {} | {} | {} |\n",
                layout(way.layout),
                cell(&pool.classes.join(", ")),
                bare(&pool.budget_req_s),
                cell(&pool.configuration),
                cell(&pool.budget_req_s.from)
            );
        }
    }
    out
}

/// An agent's deadline, split by every rule.
#[must_use]
pub fn trajectory(plan: &TrajectoryPlan) -> String {
    let money = |figure| cell(&shown(figure, plan.currency.as_deref()));
    let mut out = format!(
        "# Budgets of trajectories\n\n{} s for {} of trajectories; {} trajectories/s a replica keep it, {} each.\n\n\
         | budgets by | steps over | flagged | in time all the same | trajectories/s | each costs |\n|---|--:|--:|--:|--:|--:|\n",
        number(plan.deadline_s),
        percent_short(plan.objective),
        bare(&plan.trajectories_per_s),
        money(&plan.cost)
    );
    for row in &plan.rules {
        out += &format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            split(row.rule),
            with_interval(&row.steps_over),
            with_interval(&row.flagged),
            with_interval(&row.false_alarms),
            bare(&row.trajectories_per_s),
            money(&row.cost)
        );
    }
    out + &list("Findings", &plan.findings) + &assumptions(&plan.assumptions)
}
