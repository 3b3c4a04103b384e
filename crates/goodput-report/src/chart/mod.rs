//! Charts as plotly figures.
//!
//! Colours are written as names (`$good`) that the page replaces by those of its theme, so one
//! figure serves the light and the dark page and print.

mod attainment;
mod curve;
mod distribution;
mod latency;
mod overlay;
pub(crate) mod plan;
mod scale;
mod timeline;

use goodput_ledger::{Mode, PointRow};
use goodput_sweep::{RunResult, same_point};
use plotly::{
    Layout, Scatter, Traces,
    common::{
        Anchor, DashType, Font, Line, Marker, MarkerSymbol, Mode as Draw, Orientation, Title,
    },
    layout::{
        Annotation, Axis, Legend, Margin, Shape, ShapeLayer, ShapeLine, ShapeType, TraceOrder,
    },
};
use serde::Serialize;

pub(crate) use attainment::{by_clause, by_rate};
pub(crate) use curve::{characters, curve};
pub(crate) use distribution::{Spread, distribution};
pub(crate) use latency::{Measure, latency};
pub(crate) use overlay::{overlay, overlay_latency};
use scale::{LoadScale, ends, logarithmic};
pub(crate) use timeline::{requests, tokens_over_time};

/// Colour names that the page resolves.
pub(crate) mod ink {
    pub(crate) const GOOD: &str = "$good";
    pub(crate) const GOOD_BAND: &str = "$good-band";
    pub(crate) const GOOD_LIGHT: &str = "$good-light";
    pub(crate) const GOOD_DEEP: &str = "$good-deep";
    pub(crate) const ALL: &str = "$all";
    pub(crate) const LATE: &str = "$late";
    pub(crate) const LATE_BAND: &str = "$late-band";
    pub(crate) const CAP: &str = "$cap";
    pub(crate) const CAP_BAND: &str = "$cap-band";
    pub(crate) const PEAK: &str = "$peak";
    pub(crate) const WAIT: &str = "$wait";
    pub(crate) const TEXT: &str = "$text";
    pub(crate) const GRID: &str = "$grid";
    pub(crate) const NONE: &str = "rgba(0,0,0,0)";
    /// Colours of clauses, told apart with any eye.
    pub(crate) const SERIES: [&str; 6] = ["$good", "$peak", "$cap", "$wait", "$late", "$good-deep"];
}

/// Traces and layout of one figure.
#[derive(Serialize)]
pub(crate) struct Chart {
    data: Traces,
    layout: Layout,
}

type Series<X, Y> = Box<Scatter<X, Y>>;

impl Chart {
    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            data: Traces::new(),
            layout,
        }
    }

    pub(crate) fn add<X, Y>(&mut self, series: Series<X, Y>)
    where
        X: Serialize + Clone + 'static,
        Y: Serialize + Clone + 'static,
    {
        self.data.push(series);
    }
}

/// The points of one mode, by rising load.
pub(crate) fn by_load(points: &[PointRow], mode: Mode) -> Vec<&PointRow> {
    let mut chosen: Vec<&PointRow> = points.iter().filter(|p| p.mode == mode).collect();
    chosen.sort_by(|a, b| a.load().total_cmp(&b.load()));
    chosen
}

/// The same for lines: of a load that was measured more than once, the longest of the valid points.
pub(crate) fn by_load_once(points: &[PointRow], mode: Mode) -> Vec<&PointRow> {
    let mut chosen = by_load(points, mode);
    let better = |p: &PointRow, other: &PointRow| {
        let rank = |p: &PointRow| (p.window_s, p.point);
        other.valid && same_point(p, other) && rank(other) > rank(p)
    };
    chosen.retain(|p| !p.valid || !points.iter().any(|other| better(p, other)));
    chosen
}

fn title(text: &str) -> Title {
    Title::with_text(text).font(Font::new().size(13).color(ink::TEXT))
}

fn axis() -> Axis {
    Axis::new()
        .grid_color(ink::GRID)
        .zero_line_color(ink::GRID)
        .line_color(ink::GRID)
        .tick_font(Font::new().size(12).color(ink::TEXT))
        .auto_margin(true)
        .fixed_range(true)
}

/// A layout of the page's look, with these axes and height. The legend stands above.
fn layout(x: Axis, y: Axis, height: usize) -> Layout {
    Layout::new()
        .x_axis(x)
        .y_axis(y)
        .height(height)
        .margin(Margin::new().left(56).right(16).top(40).bottom(44))
        .paper_background_color(ink::NONE)
        .plot_background_color(ink::NONE)
        .font(Font::new().family("system-ui, sans-serif").color(ink::TEXT))
        .legend(legend())
}

fn legend() -> Legend {
    Legend::new()
        .orientation(Orientation::Horizontal)
        .x(0.0)
        .x_anchor(Anchor::Left)
        .y(1.03)
        .y_anchor(Anchor::Bottom)
        .trace_order(TraceOrder::Normal)
        .font(Font::new().size(13))
}

fn line(color: &'static str, width: f64) -> Line {
    Line::new().color(color).width(width)
}

fn dashed(color: &'static str) -> Line {
    Line::new().color(color).width(1.5).dash(DashType::Dash)
}

/// A line through points, with a dot on each and its text shown on hover.
fn points_line(
    name: &str,
    x: Vec<f64>,
    y: Vec<Option<f64>>,
    hover: Vec<String>,
    color: &'static str,
    width: f64,
) -> Series<f64, Option<f64>> {
    Scatter::new(x, y)
        .name(name)
        .mode(Draw::LinesMarkers)
        .line(line(color, width))
        .marker(Marker::new().color(color).size(7))
        .hover_text_array(hover)
        .hover_template("%{hovertext}<extra></extra>")
}

/// Hollow dots, for points that decide nothing.
fn hollow(
    name: &str,
    x: Vec<f64>,
    y: Vec<Option<f64>>,
    hover: Vec<String>,
    color: &'static str,
) -> Series<f64, Option<f64>> {
    Scatter::new(x, y)
        .name(name)
        .mode(Draw::Markers)
        .marker(
            Marker::new()
                .color(color)
                .size(8)
                .symbol(MarkerSymbol::CircleOpen),
        )
        .hover_text_array(hover)
        .hover_template("%{hovertext}<extra></extra>")
}

/// A level across the whole chart, such as a bound.
fn level(name: &str, x: &[f64], y: f64, color: &'static str) -> Series<f64, f64> {
    let ends = [
        x.first().copied().unwrap_or(0.0),
        x.last().copied().unwrap_or(1.0),
    ];
    let room = ((ends[1] - ends[0]) * 0.04).max(0.05);
    Scatter::new(vec![ends[0] - room, ends[1] + room], vec![y, y])
        .name(name)
        .mode(Draw::Lines)
        .line(dashed(color))
        .hover_template(format!("{name}<extra></extra>"))
}

/// An upright line at `x` over the whole height.
fn upright(x: f64, color: &'static str) -> Shape {
    Shape::new()
        .shape_type(ShapeType::Line)
        .layer(ShapeLayer::Below)
        .x_ref("x")
        .y_ref("paper")
        .x0(x)
        .x1(x)
        .y0(0.0)
        .y1(1.0)
        .line(ShapeLine::new().color(color).width(1.5).dash(DashType::Dot))
}

/// A shaded strip from `x0` to `x1` over the whole height.
fn strip(x0: f64, x1: f64, color: &'static str) -> Shape {
    Shape::new()
        .shape_type(ShapeType::Rect)
        .layer(ShapeLayer::Below)
        .x_ref("x")
        .y_ref("paper")
        .x0(x0)
        .x1(x1)
        .y0(0.0)
        .y1(1.0)
        .fill_color(color)
        .line(ShapeLine::new().width(0.0).color(ink::NONE))
}

/// A short note above the chart at `x`.
fn note(x: f64, text: &str, color: &'static str, anchor: Anchor) -> Annotation {
    Annotation::new()
        .x(x)
        .y(1.0)
        .x_ref("x")
        .y_ref("paper")
        .y_anchor(Anchor::Bottom)
        .x_anchor(anchor)
        .show_arrow(false)
        .text(text)
        .font(Font::new().size(13).color(color))
}

/// The bound of the first SLO on one of these metrics, where it is one number: the metric, the bound
/// in ms and the clause in words. The first metric that has one counts.
fn bound_of<'a>(result: &'a RunResult, metrics: &[&str]) -> Option<(&'a str, f64, &'a str)> {
    let clauses = &result.holds_for.slos.first()?.clauses;
    metrics.iter().find_map(|metric| {
        let clause = clauses
            .iter()
            .find(|c| c.metric == *metric && c.bound_ms.is_some())?;
        Some((
            clause.metric.as_str(),
            clause.bound_ms?,
            clause.clause.as_str(),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::sample;

    #[test]
    fn a_line_passes_each_load_once() {
        let mut points = sample().points;
        let first = points[7].clone();
        let mut again = first.clone();
        (again.point, again.window_s) = (99, 2.0 * first.window_s);
        points.push(again);
        let drawn = |points: &[PointRow]| -> Vec<u32> {
            let all = by_load_once(points, Mode::Closed).into_iter();
            all.filter(|p| p.concurrency == first.concurrency)
                .map(|p| p.point)
                .collect()
        };
        assert_eq!(drawn(&points), [99]);
        // One that is not valid is drawn beside the line, and takes no other's place.
        points.last_mut().unwrap().valid = false;
        assert_eq!(drawn(&points), [first.point, 99]);
    }
}
