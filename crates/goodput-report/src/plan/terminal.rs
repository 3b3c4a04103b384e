//! Plans as terminal text.

mod pools;

use goodput_planner::{Answer, CapacityPlan, SplitRow, TrajectoryPlan};

pub use pools::pools;

use super::{
    aim, bare, counted, decided, plain_sentences, replica, replicas, shown, split, with_interval,
};
use crate::{
    number::{number, percent_short},
    style::{Ink, Style, wrap},
};

/// Columns of a label at the head, and of an answer's name and figure.
const LABEL: usize = 10;
const FIGURE: usize = 30;

/// A capacity plan: what it holds for, sizes by demand, the tails beside them, the answer, what
/// was taken for granted.
#[must_use]
pub fn capacity(plan: &CapacityPlan, style: Style) -> String {
    let parts = [
        head(plan, style),
        sizes(plan, style),
        ladder(plan, style),
        answers(plan, style),
        findings(&plan.findings, style) + &assumptions(plan, style),
    ];
    parts.join("\n")
}

/// The page of plain words.
#[must_use]
pub fn plain(plan: &CapacityPlan, style: Style) -> String {
    let label = plan.answers.first().map_or("", |a| a.label.as_str());
    let mut out = style.paint(Ink::Heading, &format!("WHAT USERS SEE, at {label}")) + "\n";
    for sentence in plain_sentences(&plan.plain) {
        out += &(wrap(&sentence, style.width).join("\n") + "\n");
    }
    out += &labelled("promise", &plan.budget.slo, style);
    if let Some(answer) = plan.answers.first() {
        let text = format!(
            "{} of requests at the planned load, a replica failed",
            with_interval(&answer.attainment)
        );
        out += &labelled("kept for", &text, style);
        let text = format!(
            "{} an hour, {} for a good request",
            shown(&answer.cost.per_hour, plan.currency.as_deref()),
            shown(&answer.cost.per_good_request, plan.currency.as_deref())
        );
        out += &labelled("costs", &text, style);
    }
    out
}

pub(super) fn labelled(label: &str, text: &str, style: Style) -> String {
    let lines = wrap(text, style.width.saturating_sub(LABEL).max(30));
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        out += &format!("{label:<LABEL$}{line}\n");
    }
    out
}

fn head(plan: &CapacityPlan, style: Style) -> String {
    let budget = &plan.budget;
    let mut out = labelled("replica", &replica(plan), style);
    out += &labelled("slo", &budget.slo, style);
    out += &labelled("workload", &budget.workload, style);
    let kept = budget.at.interval.map_or_else(String::new, |i| {
        format!(", at least {} in SLO", percent_short(i.low))
    });
    let text = format!("{} a replica{kept}", with_interval(&budget.rate_req_s));
    out += &labelled("budget", &text, style);
    out + &labelled("use", &format!("{} of the budget", aim(plan)), style)
}

/// Rows as columns under their heads: the first to the left, the others to the right.
pub(super) fn columns(heads: &[&str], rows: &[Vec<String>], style: Style) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max();
        widest.unwrap_or(0).max(heads[column].chars().count())
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String]| {
        let mut out = String::new();
        for (index, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
            out += &if index == 0 {
                format!("{cell:<width$}")
            } else {
                format!("  {cell:>width$}")
            };
        }
        out.trim_end().to_owned() + "\n"
    };
    let heads: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
    let body: String = rows.iter().map(|row| line(row)).collect();
    style.paint(Ink::Heading, line(&heads).trim_end()) + "\n" + &body
}

fn sizes(plan: &CapacityPlan, style: Style) -> String {
    let heads = [
        "DEMAND",
        "req/s",
        "at least",
        "use %",
        "plan",
        "use %",
        "run",
        "use %",
        "GPUs",
        "in SLO %",
        "an hour",
        "1M good tok",
    ];
    let row = |a: &Answer| {
        vec![
            a.label.clone(),
            bare(&a.demand_req_s),
            bare(&a.lower_bound),
            bare(&a.lower_bound_utilisation),
            bare(&a.plan),
            bare(&a.plan_utilisation),
            bare(&a.replicas),
            bare(&a.utilisation),
            bare(&a.gpus),
            bare(&a.attainment),
            shown(&a.cost.per_hour, plan.currency.as_deref()),
            shown(&a.cost.per_million_good_tokens, plan.currency.as_deref()),
        ]
    };
    let rows: Vec<Vec<String>> = plan.answers.iter().map(row).collect();
    columns(&heads, &rows, style)
}

fn ladder(plan: &CapacityPlan, style: Style) -> String {
    let heads = [
        "ONE REPLICA AT",
        "req/s",
        "in SLO %",
        "ttft p99 ms",
        "tpot p99 ms",
        "e2e p99 ms",
    ];
    let row = |rung: &goodput_planner::Rung| {
        vec![
            format!("{} of budget", percent_short(rung.utilisation)),
            bare(&rung.rate_req_s),
            bare(&rung.attainment),
            bare(&rung.ttft_p99_ms),
            bare(&rung.tpot_p99_ms),
            bare(&rung.e2e_p99_ms),
        ]
    };
    let rows: Vec<Vec<String>> = plan.ladder.iter().map(row).collect();
    columns(&heads, &rows, style)
}

/// One line of an answer: name, figure, what it means.
pub(super) fn line(name: &str, figure: &str, meaning: &str, style: Style) -> String {
    let name = style.paint(Ink::Heading, &format!("{name:<LABEL$}"));
    let before = 3 + LABEL + figure.chars().count().max(FIGURE);
    let meaning = wrap(meaning, style.width.saturating_sub(before).max(30));
    let meaning = meaning.join(&format!("\n{}", " ".repeat(before)));
    format!("  {name}{figure:<FIGURE$} {meaning}")
        .trim_end()
        .to_owned()
        + "\n"
}

/// The answer in full to a single demand; of several the table says enough.
fn answers(plan: &CapacityPlan, style: Style) -> String {
    let [answer] = plan.answers.as_slice() else {
        return users(plan, style);
    };
    let mut out = style.paint(Ink::Heading, &format!("ANSWER, for {}", answer.label)) + "\n";
    let (run, gpus) = (replicas(&answer.replicas), counted(&answer.gpus, "GPU"));
    let run = format!("{run}, {gpus}");
    out += &line("run", &run, &sentence(plan, answer), style);
    let least = replicas(&answer.lower_bound);
    let why = format!(
        "a lower bound, no plan: {} of the budget, nothing left for a burst, a failure or a start",
        shown(&answer.lower_bound_utilisation, None)
    );
    out += &line("not this", &least, &why, style);
    out += &line(
        "in SLO",
        &with_interval(&answer.attainment),
        &answer.attainment.from,
        style,
    );
    out += &line(
        "headroom",
        &shown(&answer.headroom_req_s, None),
        "more than the demand before the objective breaks, all replicas running",
        style,
    );
    out += &peak(answer, style);
    out += &costs(plan, answer, style);
    out + &users(plan, style)
}

fn peak(answer: &Answer, style: Style) -> String {
    let mut out = String::new();
    if let (Some(mean), Some(ratio)) = (&answer.mean_req_s, &answer.peak_over_mean) {
        let figure = format!("{} times the mean", shown(ratio, None));
        let why = format!(
            "{} drives the plan; the mean of {} sizes nothing",
            answer.demand_req_s.from,
            shown(mean, None)
        );
        out += &line("peak", &figure, &why, style);
    }
    if let Some(burst) = &answer.burst {
        out += &line(
            "burst",
            &format!("x {}", shown(burst, None)),
            &burst.from,
            style,
        );
    }
    out
}

fn costs(plan: &CapacityPlan, answer: &Answer, style: Style) -> String {
    let mut out = String::new();
    let money = |figure: &goodput_planner::Figure| shown(figure, plan.currency.as_deref());
    let hour = money(&answer.cost.per_hour);
    out += &line(
        "cost",
        &format!("{hour} an hour"),
        &answer.cost.per_hour.from,
        style,
    );
    let costs = [
        Some((&answer.cost, "at the driving rate")),
        answer
            .cost_at_mean
            .as_ref()
            .map(|c| (c, "at the mean rate")),
    ];
    for (cost, when) in costs.into_iter().flatten() {
        if cost.per_good_request.value.is_some() {
            let figure = format!(
                "{} for 1M good tokens",
                money(&cost.per_million_good_tokens)
            );
            let meaning = format!(
                "{} for a good request, {when}",
                money(&cost.per_good_request)
            );
            out += &line("", &figure, &meaning, style);
        }
    }
    out
}

fn users(plan: &CapacityPlan, style: Style) -> String {
    let mut out = String::new();
    for (index, sentence) in plain_sentences(&plan.plain).iter().enumerate() {
        let name = if index == 0 { "users see" } else { "" };
        let text = wrap(sentence, style.width.saturating_sub(LABEL + 2).max(30));
        let text = text.join(&format!("\n{}", " ".repeat(LABEL + 2)));
        out += &format!(
            "  {}{text}\n",
            style.paint(Ink::Heading, &format!("{name:<LABEL$}"))
        );
    }
    out
}

fn sentence(plan: &CapacityPlan, answer: &Answer) -> String {
    let spare = match plan.rule.spare {
        0 => "none that may fail".to_owned(),
        1 => "one that may fail".to_owned(),
        n => format!("{n} that may fail"),
    };
    format!(
        "{} at {} of the budget, and {spare}; decided by {}",
        shown(&answer.plan, None),
        shown(&answer.plan_utilisation, None),
        decided(answer)
    )
}

pub(super) fn findings(findings: &[String], style: Style) -> String {
    let mut out = String::new();
    for finding in findings {
        let lines = wrap(finding, style.width.saturating_sub(2).max(30));
        out += &(style.paint(Ink::Late, "!") + " " + &lines.join("\n  ") + "\n");
    }
    out
}

fn assumptions(plan: &CapacityPlan, style: Style) -> String {
    let mut out = style.paint(Ink::Faint, "assumed") + "\n";
    for assumption in &plan.assumptions {
        let text = format!(
            "{}: {} ({})",
            assumption.name, assumption.value, assumption.from
        );
        let lines = wrap(&text, style.width.saturating_sub(2).max(30));
        out += &(style.paint(Ink::Faint, &format!("  {}", lines.join("\n    "))) + "\n");
    }
    out
}

/// An agent's deadline, split by every rule.
#[must_use]
pub fn trajectory(plan: &TrajectoryPlan, style: Style) -> String {
    let money = |figure: &goodput_planner::Figure| shown(figure, plan.currency.as_deref());
    let mut out = String::new();
    for one in &plan.assumptions {
        out += &labelled(&one.name, &one.value, style);
    }
    let text = format!(
        "{} s for {} of trajectories",
        number(plan.deadline_s),
        percent_short(plan.objective)
    );
    out += &labelled("deadline", &text, style);
    let text = format!(
        "{} trajectories/s a replica keep it ({} there), {} each",
        bare(&plan.trajectories_per_s),
        with_interval(&plan.kept),
        money(&plan.cost)
    );
    out += &(labelled("load", &text, style) + "\n");
    let heads = [
        "BUDGETS BY",
        "steps over %",
        "flagged %",
        "in time all the same %",
        "trajectories/s",
        "each costs",
    ];
    let row = |row: &SplitRow| {
        vec![
            split(row.rule).to_owned(),
            bare(&row.steps_over),
            bare(&row.flagged),
            bare(&row.false_alarms),
            bare(&row.trajectories_per_s),
            money(&row.cost),
        ]
    };
    let rows: Vec<Vec<String>> = plan.rules.iter().map(row).collect();
    out += &(columns(&heads, &rows, style) + "\n");
    let steps: Vec<String> = (1..=plan.shape.steps).map(|k| k.to_string()).collect();
    let mut heads = vec!["BUDGET, ms, OF STEP"];
    heads.extend(steps.iter().map(String::as_str));
    let rows = plan.rules.iter().map(|row| {
        let budgets = row.budgets_ms.iter().map(|ms| number(ms.round()));
        std::iter::once(split(row.rule).to_owned())
            .chain(budgets)
            .collect()
    });
    out += &columns(&heads, &rows.collect::<Vec<Vec<String>>>(), style);
    out += "the last rule splits what is left anew after each step: these are the budgets it begins with\n";
    out + &findings(&plan.findings, style)
}
