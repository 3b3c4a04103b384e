//! Where loads and latencies stand on their axes.

use goodput_ledger::{Mode, PointRow};
use plotly::layout::{Axis, AxisType};

use super::{axis, title};
use crate::number::number;

/// How the load is laid out: users on a doubling scale, rates on a plain one.
///
/// The doubling scale is computed here, not by the chart library, whose shapes and notes disagree
/// about units on its logarithmic axes.
#[derive(Clone, Copy)]
pub(super) struct LoadScale(pub(super) Mode);

impl LoadScale {
    pub(super) fn at(self, load: f64) -> f64 {
        match self.0 {
            Mode::Closed => libm::log2(load.max(0.5)),
            Mode::Open => load,
        }
    }

    pub(super) fn of(self, points: &[&PointRow]) -> Vec<f64> {
        points.iter().map(|p| self.at(p.load())).collect()
    }

    pub(super) fn axis(self, points: &[&PointRow]) -> Axis {
        let places = self.of(points);
        let ends = (places.first(), places.last());
        let (first, last) = (
            ends.0.copied().unwrap_or(0.0),
            ends.1.copied().unwrap_or(1.0),
        );
        let room = ((last - first) * 0.04).max(0.05);
        let labels: Vec<(f64, String)> = places
            .iter()
            .zip(points)
            .map(|(&place, point)| (place, number(point.load())))
            .collect();
        let (at, text) = apart(labels, (last - first) / 18.0);
        let name = match self.0 {
            Mode::Open => "arrivals a second",
            Mode::Closed => "requests in flight",
        };
        axis()
            .range(vec![first - room, last + room])
            .zero_line(false)
            .title(title(name))
            .tick_values(at)
            .tick_text(text)
    }
}

/// Labels without those that would run into the one before.
fn apart(labels: Vec<(f64, String)>, by: f64) -> (Vec<f64>, Vec<String>) {
    let mut kept: Vec<(f64, String)> = Vec::new();
    for label in labels {
        if kept.last().is_none_or(|before| label.0 - before.0 >= by) {
            kept.push(label);
        }
    }
    kept.into_iter().unzip()
}

/// A logarithmic axis that shows `low` to `high`, with as many labels as it has room for.
pub(super) fn logarithmic(name: &str, low: f64, high: f64) -> Axis {
    let ratio = high / low;
    let steps: &[f64] = match ratio {
        r if r > 300.0 => &[1.0, 3.0],
        r if r > 12.0 => &[1.0, 2.0, 5.0],
        r if r > 4.0 => &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
        _ => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0],
    };
    let decades = (-3..7).map(|power| libm::pow(10.0, f64::from(power)));
    let at: Vec<f64> = decades
        .flat_map(|decade| steps.iter().map(move |step| step * decade))
        .collect();
    let text = at.iter().map(|value| number(*value)).collect();
    let (from, to) = (libm::log10(low), libm::log10(high));
    let room = ((to - from) * 0.06).max(0.04);
    axis()
        .title(title(name))
        .type_(AxisType::Log)
        .range(vec![from - room, to + room])
        .tick_values(at)
        .tick_text(text)
}

/// The smallest and largest of the values that are above zero.
pub(super) fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|v| *v > 0.0).fold(None, |ends, v| {
        let (low, high) = ends.unwrap_or((v, v));
        Some((f64::min(low, v), f64::max(high, v)))
    })
}
