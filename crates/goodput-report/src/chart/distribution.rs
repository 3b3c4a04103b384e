//! Distributions of a latency, one line a load point.

use goodput_ledger::PointRow;
use goodput_sweep::{PointChart, RunResult};
use plotly::{Scatter, common::Mode as Draw};

use super::{Chart, axis, bound_of, dashed, ends, ink, layout, line, logarithmic, title};
use crate::terminal::load_words;

/// Which distribution.
#[derive(Clone, Copy)]
pub(crate) enum Spread {
    Ttft,
    Tpot,
    E2e,
    Stall,
}

impl Spread {
    pub(crate) const ALL: [Self; 4] = [Self::Ttft, Self::Tpot, Self::E2e, Self::Stall];

    pub(crate) const fn metric(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Tpot => "tpot",
            Self::E2e => "e2e",
            Self::Stall => "stall",
        }
    }

    /// The clauses whose bound belongs into the chart.
    const fn bounds(self) -> &'static [&'static str] {
        match self {
            Self::Ttft => &["ttft", "ttft_answer"],
            Self::Tpot => &["tpot", "tpot_median"],
            Self::E2e => &["e2e"],
            Self::Stall => &["stall"],
        }
    }

    pub(crate) const fn heading(self) -> &'static str {
        match self {
            Self::Ttft => "Time to first token",
            Self::Tpot => "Time per output token",
            Self::E2e => "End to end",
            Self::Stall => "Longest gap in a stream",
        }
    }

    const fn axis(self) -> &'static str {
        match self {
            Self::Ttft => "TTFT",
            Self::Tpot => "TPOT",
            Self::E2e => "end to end",
            Self::Stall => "longest gap",
        }
    }

    fn quantiles(self, chart: &PointChart) -> &[f64] {
        match self {
            Self::Ttft => &chart.ttft_ms,
            Self::Tpot => &chart.tpot_ms,
            Self::E2e => &chart.e2e_ms,
            Self::Stall => &chart.stall_ms,
        }
    }
}

/// The distribution functions of every point, faint; the page brings out the chosen one, which it
/// finds by `meta`.
pub(crate) fn distribution(result: &RunResult, spread: Spread) -> Option<Chart> {
    // The fastest few of a point may be far off, as a gap of nearly nothing: they set no scale.
    let most = result
        .charts
        .iter()
        .flat_map(|c| spread.quantiles(c).get(5..).unwrap_or_default());
    let (low, high) = ends(most.copied())?;
    let x = logarithmic(&format!("{}, ms", spread.axis()), low, high);
    let y = axis().title(title("% of requests")).range(vec![0.0, 102.0]);
    let mut chart = Chart::new(layout(x, y, 300).show_legend(false));
    let mut any = false;
    for of_point in &result.charts {
        let values: Vec<f64> = spread
            .quantiles(of_point)
            .iter()
            .map(|&ms| ms.max(0.001))
            .collect();
        let row = result.points.iter().find(|p| p.point == of_point.point);
        let (Some(row), true) = (row, values.len() > 1) else {
            continue;
        };
        any = true;
        chart.add(one(row, values));
    }
    if let Some((_, bound, clause)) = bound_of(result, spread.bounds()) {
        let bound = Scatter::new(vec![bound, bound], vec![0.0, 100.0])
            .mode(Draw::Lines)
            .line(dashed(ink::LATE))
            .name(clause)
            .hover_template(format!("{clause}<extra></extra>"));
        chart.add(bound);
    }
    any.then_some(chart)
}

fn one(row: &PointRow, values: Vec<f64>) -> super::Series<f64, f64> {
    let steps = values.len() - 1;
    let shares = (0..=steps)
        .map(|i| 100.0 * i as f64 / steps as f64)
        .collect();
    let name = load_words(row);
    Scatter::new(values, shares)
        .mode(Draw::Lines)
        .line(line(ink::GOOD, 1.0))
        .opacity(0.28)
        .meta(row.point)
        .hover_template(format!(
            "<b>{name}</b><br>%{{y:.0f}}% within %{{x:,.3~r}} ms<extra></extra>"
        ))
        .name(name)
}
