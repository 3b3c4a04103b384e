//! How many requests met the SLO: by rate, and clause by clause.

use goodput_ledger::{Mode, PointRow};
use goodput_sweep::RunResult;
use plotly::{
    Scatter,
    common::{ErrorData, ErrorType, Marker, MarkerSymbol, Mode as Draw},
};

use super::{
    Chart, LoadScale, axis, by_load, by_load_once, hollow, ink, layout, level, points_line, title,
};
use crate::{
    number::{count, percent, percent_short},
    terminal::load_words,
};

/// What an open-loop rate does to the objective.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Keeps,
    Breaks,
    Open,
    Void,
}

impl Verdict {
    fn of(point: &PointRow, objective: f64) -> Self {
        match point.attainment_interval {
            _ if !point.valid => Self::Void,
            Some(i) if i.low >= objective => Self::Keeps,
            Some(i) if i.high < objective => Self::Breaks,
            _ => Self::Open,
        }
    }

    const fn look(self) -> (&'static str, &'static str) {
        match self {
            Self::Keeps => ("keeps the objective", ink::GOOD),
            Self::Breaks => ("breaks it", ink::LATE),
            Self::Open => ("not decided", ink::WAIT),
            Self::Void => ("not valid: not used", ink::ALL),
        }
    }
}

/// Attainment of the first SLO against the open-loop rate, with 95% intervals and the objective.
pub(crate) fn by_rate(result: &RunResult) -> Option<Chart> {
    let mut points = by_load(&result.points, Mode::Open);
    points.retain(|p| p.other_arrivals.is_none());
    if points.is_empty() {
        return None;
    }
    let objective = result.holds_for.slos.first()?.objective;
    let scale = LoadScale(Mode::Open);
    let lowest = points
        .iter()
        .filter_map(|p| p.attainment_interval)
        .map(|i| i.low * 100.0);
    let floor = lowest.fold(objective * 100.0, f64::min);
    let room = ((100.0 - floor) * 0.15).max(0.1);
    let y = axis()
        .title(title("% of requests in SLO"))
        .range(vec![(floor - room).max(0.0), 100.0 + room / 2.0]);
    let mut chart = Chart::new(layout(scale.axis(&points), y, 360));
    for verdict in [
        Verdict::Keeps,
        Verdict::Open,
        Verdict::Breaks,
        Verdict::Void,
    ] {
        let chosen: Vec<&PointRow> = points
            .iter()
            .copied()
            .filter(|p| Verdict::of(p, objective) == verdict)
            .collect();
        if !chosen.is_empty() {
            chart.add(with_interval(&chosen, scale, verdict));
        }
    }
    let name = format!("objective {}", percent_short(objective));
    chart.add(level(
        &name,
        &scale.of(&points),
        objective * 100.0,
        ink::TEXT,
    ));
    Some(chart)
}

fn with_interval(
    points: &[&PointRow],
    scale: LoadScale,
    verdict: Verdict,
) -> super::Series<f64, Option<f64>> {
    let (name, color) = verdict.look();
    let void = verdict == Verdict::Void;
    let symbol = if void {
        MarkerSymbol::CircleOpen
    } else {
        MarkerSymbol::Circle
    };
    let share = |p: &PointRow| p.slo_attainment.map(|a| a * 100.0);
    let above = |p: &&PointRow| Some((p.attainment_interval?.high * 100.0 - share(p)?).max(0.0));
    let below = |p: &&PointRow| Some((share(p)? - p.attainment_interval?.low * 100.0).max(0.0));
    let text = |p: &&PointRow| {
        format!(
            "<b>{}</b><br>{}% in SLO{}<br>n {}",
            load_words(p),
            percent(p.slo_attainment),
            p.attainment_interval.map_or_else(String::new, |i| format!(
                " [{}..{}]",
                percent(Some(i.low)),
                percent(Some(i.high))
            )),
            count(p.requests),
        )
    };
    Scatter::new(scale.of(points), points.iter().map(|p| share(p)).collect())
        .name(name)
        .mode(Draw::Markers)
        .marker(Marker::new().color(color).size(12).symbol(symbol))
        .error_y(
            ErrorData::new(ErrorType::Data)
                .symmetric(false)
                .array(points.iter().map(|p| above(p).unwrap_or(0.0)).collect())
                .array_minus(points.iter().map(|p| below(p).unwrap_or(0.0)).collect())
                .color(color)
                .thickness(2.0)
                .width(6),
        )
        .hover_text_array(points.iter().map(text).collect())
        .hover_template("%{hovertext}<extra></extra>")
}

/// The share of requests within each clause of the first SLO, and within all of them.
pub(crate) fn by_clause(result: &RunResult) -> Option<Chart> {
    let slo = result.holds_for.slos.first()?;
    let mode = if result.points.iter().any(|p| p.mode == Mode::Closed) {
        Mode::Closed
    } else {
        Mode::Open
    };
    let points = by_load_once(&result.points, mode);
    if points.is_empty() {
        return None;
    }
    let scale = LoadScale(mode);
    let y = axis()
        .title(title("% of requests within"))
        .range(vec![-2.0, 103.0]);
    let mut chart = Chart::new(layout(scale.axis(&points), y, 360));
    let (valid, void): (Vec<&PointRow>, Vec<&PointRow>) = points.iter().partition(|p| p.valid);
    for ((index, clause), color) in slo
        .clauses
        .iter()
        .enumerate()
        .zip(ink::SERIES.iter().cycle())
    {
        let share = move |p: &PointRow| p.first_slo()?.clauses.get(index)?.share;
        let (x, y, hover) = shares(&valid, scale, &clause.clause, &share);
        chart.add(points_line(&clause.clause, x, y, hover, color, 2.0));
    }
    let all = |p: &PointRow| p.slo_attainment;
    let (x, y, hover) = shares(&valid, scale, "all clauses", &all);
    chart.add(points_line("all clauses", x, y, hover, ink::TEXT, 3.0));
    if !void.is_empty() {
        let (x, y, hover) = shares(&void, scale, "all clauses, not valid", &all);
        chart.add(hollow("not valid: not used", x, y, hover, ink::ALL));
    }
    let name = format!("objective {}", percent_short(slo.objective));
    chart.add(level(
        &name,
        &scale.of(&points),
        slo.objective * 100.0,
        ink::ALL,
    ));
    Some(chart)
}

/// Places, shares in percent and hover texts of some points.
fn shares(
    points: &[&PointRow],
    scale: LoadScale,
    name: &str,
    share: &dyn Fn(&PointRow) -> Option<f64>,
) -> (Vec<f64>, Vec<Option<f64>>, Vec<String>) {
    let y = points.iter().map(|p| share(p).map(|s| s * 100.0)).collect();
    let hover = points
        .iter()
        .map(|p| format!("<b>{}</b><br>{name}: {}%", load_words(p), percent(share(p))))
        .collect();
    (scale.of(points), y, hover)
}
