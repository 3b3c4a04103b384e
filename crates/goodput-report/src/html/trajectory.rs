//! Budgets of trajectories as a page.

use goodput_planner::{Figure, SplitRow, TrajectoryPlan};

use super::{
    Html,
    page::Page,
    plan::{card, cell, first, foundations, traced},
    text::{escape, paragraph},
};
use crate::{
    chart::plan as chart,
    number::{count, number, percent_short},
    plan::{bare, shown, split, with_interval},
};

/// An agent's deadline split by every rule: what a replica carries first, then what each rule does.
#[must_use]
pub fn trajectory(plan: &TrajectoryPlan) -> Html {
    let facts = [
        format!("{} steps", plan.shape.steps),
        format!("{} s", number(plan.deadline_s)),
        "simulated".to_owned(),
    ];
    let mut page = Page::headed("Trajectories", "an agent's deadline", &facts);
    page.add(&headline(plan));
    page.add(&cards(plan));
    page.add(&first(&plan.findings));
    page.section(
        "rules",
        "What each rule of budgets does",
        "All at the load that the deadline itself allows. A trajectory is flagged if a step outlasts its budget; in time all the same are false alarms. The last two columns: the load at which every budget would be kept often enough, and what a trajectory costs there.",
        &rules(plan),
    );
    let figure = page.figure("budgets", chart::budgets(plan), "Budget of each step, ms.");
    page.section(
        "budgets",
        "How the deadline is split",
        "The rule that splits what is left does so anew after each step: shown is what it begins with.",
        &(figure + &budgets(plan)),
    );
    foundations(&mut page, &sources(plan), &plan.assumptions);
    page.finish()
}

fn headline(plan: &TrajectoryPlan) -> String {
    let sentence = format!(
        "A replica carries {} trajectories a second within {} s.",
        bare(&plan.trajectories_per_s),
        number(plan.deadline_s)
    );
    let why = format!(
        "There {} of them keep the deadline; {} must.",
        with_interval(&plan.kept),
        percent_short(plan.objective)
    );
    format!("<h1>{}</h1>\n{}", escape(&sentence), paragraph("sub", &why))
}

/// The rule that alarms least where the trajectory is in time.
fn calmest(plan: &TrajectoryPlan) -> Option<&SplitRow> {
    let known = plan
        .rules
        .iter()
        .filter(|row| row.false_alarms.value.is_some());
    known.min_by(|a, b| {
        let of = |row: &SplitRow| row.false_alarms.value.unwrap_or(f64::INFINITY);
        of(a).total_cmp(&of(b))
    })
}

fn cards(plan: &TrajectoryPlan) -> String {
    let cost = match plan.cost.value {
        Some(_) => "One replica, fully used, no headroom.".to_owned(),
        None => plan.cost.from.clone(),
    };
    let mut all = card(
        "sell",
        "Load of one replica",
        &bare(&plan.trajectories_per_s),
        "a second",
        &[format!(
            "{} keep the deadline there.",
            with_interval(&plan.kept)
        )],
    );
    all += &card(
        "peak",
        "Cost",
        &shown(&plan.cost, plan.currency.as_deref()),
        "each",
        &[cost],
    );
    if let Some(row) = calmest(plan) {
        all += &card(
            "cap",
            "Fewest false alarms",
            &shown(&row.false_alarms, None),
            "of trajectories",
            &[
                format!("Budgets by {}.", split(row.rule)),
                format!(
                    "{} of trajectories are flagged.",
                    with_interval(&row.flagged)
                ),
            ],
        );
    }
    format!("<div class=\"cards\">{all}</div>\n")
}

fn rules(plan: &TrajectoryPlan) -> String {
    let row = |row: &SplitRow| {
        let share = |figure: &Figure| cell(figure, &with_interval(figure));
        [
            format!("<tr><th>{}", split(row.rule)),
            share(&row.steps_over),
            share(&row.flagged),
            share(&row.false_alarms),
            cell(&row.trajectories_per_s, &bare(&row.trajectories_per_s)),
            cell(&row.cost, &shown(&row.cost, plan.currency.as_deref())),
            "</tr>".to_owned(),
        ]
        .concat()
    };
    let rows: String = plan.rules.iter().map(row).collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>Budgets by<th>steps over<th>flagged<th>in time all the same<th>trajectories/s<th>each costs</tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn budgets(plan: &TrajectoryPlan) -> String {
    let heads: String = (1..=plan.shape.steps)
        .map(|step| format!("<th>{}", count(step.into())))
        .collect();
    let row = |row: &SplitRow| {
        let cells = row.budgets_ms.iter();
        let cells: String = cells
            .map(|ms| format!("<td>{}", number(ms.round())))
            .collect();
        format!("<tr><th>{}{cells}</tr>", split(row.rule))
    };
    let rows: String = plan.rules.iter().map(row).collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>Budget of step, ms{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn sources(plan: &TrajectoryPlan) -> String {
    let mut rows: Vec<(&str, &'static str, &Figure)> = vec![
        ("the deadline", "trajectories/s", &plan.trajectories_per_s),
        ("the deadline", "kept there", &plan.kept),
        ("the deadline", "cost of each", &plan.cost),
    ];
    for row in &plan.rules {
        let of = split(row.rule);
        rows.push((of, "steps over", &row.steps_over));
        rows.push((of, "flagged", &row.flagged));
        rows.push((of, "in time all the same", &row.false_alarms));
        rows.push((of, "trajectories/s", &row.trajectories_per_s));
        rows.push((of, "cost of each", &row.cost));
    }
    traced(rows, plan.currency.as_deref())
}
