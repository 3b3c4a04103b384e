//! Charts of plans.

use goodput_planner::{CapacityPlan, Figure, PoolsPlan, Rung, TrajectoryPlan};

use super::{Chart, axis, ink, layout, points_line, title};
use crate::{
    number::{number, percent_short},
    plan::{layout as way_name, shown, split},
};

/// Replicas by demand: the lower bound, the plan, what is run. `None` for a single demand.
pub(crate) fn replicas(plan: &CapacityPlan) -> Option<Chart> {
    if plan.answers.len() < 2 {
        return None;
    }
    let x: Vec<f64> = (0..plan.answers.len()).map(|i| i as f64).collect();
    let labels = plan.answers.iter().map(|a| a.label.clone()).collect();
    let across = axis()
        .title(title("demand"))
        .tick_values(x.clone())
        .tick_text(labels)
        .zero_line(false);
    let up = axis().title(title("replicas"));
    let mut chart = Chart::new(layout(across, up, 340));
    for (name, of, color, width) in [
        (
            "lower bound: no plan",
            (|a: &goodput_planner::Answer| a.lower_bound.clone())
                as fn(&goodput_planner::Answer) -> Figure,
            ink::LATE,
            1.5,
        ),
        ("plan", |a| a.plan.clone(), ink::CAP, 2.0),
        (
            "run, with what may fail",
            |a| a.replicas.clone(),
            ink::GOOD,
            3.0,
        ),
    ] {
        let figures: Vec<Figure> = plan.answers.iter().map(of).collect();
        let hover = plan.answers.iter().zip(&figures);
        let hover = hover.map(|(a, f)| format!("<b>{}</b><br>{name}: {}", a.label, shown(f, None)));
        let hover = hover.collect();
        let y = figures.iter().map(|f| f.value).collect();
        chart.add(points_line(name, x.clone(), y, hover, color, width));
    }
    Some(chart)
}

/// What a tail does as the budget is used up.
pub(crate) fn tail(plan: &CapacityPlan, name: &str, of: fn(&Rung) -> &Figure) -> Option<Chart> {
    let y: Vec<Option<f64>> = plan.ladder.iter().map(|rung| of(rung).value).collect();
    if y.iter().all(Option::is_none) {
        return None;
    }
    let x: Vec<f64> = plan
        .ladder
        .iter()
        .map(|rung| 100.0 * rung.utilisation)
        .collect();
    let hover = plan.ladder.iter().map(|rung| {
        let at = percent_short(rung.utilisation);
        format!(
            "<b>{at} of the budget</b><br>{name}: {}",
            number(of(rung).value.unwrap_or(f64::NAN))
        )
    });
    let hover = hover.collect();
    let across = axis()
        .title(title("% of the goodput budget in use"))
        .tick_values(x.clone())
        .zero_line(false);
    let most = y.iter().flatten().copied().fold(0.0, f64::max);
    let up = axis().title(title(name)).range(vec![0.0, most * 1.12]);
    let mut chart = Chart::new(layout(across, up, 300));
    chart.add(points_line(name, x, y, hover, ink::GOOD, 3.0));
    Some(chart)
}

/// Replicas to run for each layout of pools, by demand. `None` for a single demand.
pub(crate) fn layouts(plans: &[PoolsPlan]) -> Option<Chart> {
    let [first, _, ..] = plans else {
        return None;
    };
    let x: Vec<f64> = plans.iter().map(|plan| plan.scale).collect();
    let across = axis().title(title("times the demand")).zero_line(false);
    let up = axis().title(title("replicas to run"));
    let mut chart = Chart::new(layout(across, up, 340));
    for (place, way) in first.ways.iter().enumerate() {
        let name = way_name(way.layout);
        let each = plans.iter().map(|plan| plan.ways.get(place));
        let planned = each.map(|way| way.map(|way| &way.planned));
        let planned: Vec<Option<&Figure>> = planned.collect();
        let hover = planned.iter().zip(&x).map(|(figure, x)| {
            let figure = figure.map_or_else(String::new, |figure| shown(figure, None));
            format!("<b>x {}</b><br>{name}: {figure}", number(*x))
        });
        let hover = hover.collect();
        let y = planned
            .iter()
            .map(|figure| figure.and_then(|f| f.value))
            .collect();
        chart.add(points_line(
            name,
            x.clone(),
            y,
            hover,
            ink::SERIES[place % ink::SERIES.len()],
            2.5,
        ));
    }
    Some(chart)
}

/// The budget of each step, by every rule.
pub(crate) fn budgets(plan: &TrajectoryPlan) -> Chart {
    let x: Vec<f64> = (1..=plan.shape.steps).map(f64::from).collect();
    let across = axis().title(title("step")).zero_line(false);
    let up = axis().title(title("budget, ms"));
    let mut chart = Chart::new(layout(across, up, 340));
    for (row, color) in plan.rules.iter().zip(ink::SERIES) {
        let name = split(row.rule);
        let hover = row.budgets_ms.iter().zip(&x).map(|(ms, step)| {
            format!("<b>step {step:.0}</b><br>{name}: {} ms", number(ms.round()))
        });
        let hover = hover.collect();
        let y = row.budgets_ms.iter().map(|ms| Some(*ms)).collect();
        chart.add(points_line(name, x.clone(), y, hover, color, 2.0));
    }
    chart
}
