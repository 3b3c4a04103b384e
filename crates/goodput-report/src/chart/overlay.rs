//! Goodput of several results against load, each a line of its own.

use goodput_ledger::{Mode, PointRow};
use goodput_sweep::RunResult;
use plotly::layout::RangeMode;

use super::{Chart, LoadScale, axis, by_load, dashed, ink, layout, points_line, title};
use crate::{
    number::{number, percent},
    terminal::load_words,
};

/// Goodput against load in one mode, with throughput dashed in the same colour. Points that are not
/// valid are left out. `None` where no result has a valid point of this mode.
pub(crate) fn overlay(runs: &[(String, RunResult)], mode: Mode) -> Option<Chart> {
    let scale = LoadScale(mode);
    let valid = |run: &'_ RunResult| -> Vec<PointRow> {
        let points = by_load(&run.points, mode).into_iter();
        points.filter(|p| p.valid).cloned().collect()
    };
    let lines: Vec<(&str, Vec<PointRow>)> = runs
        .iter()
        .map(|(name, run)| (name.as_str(), valid(run)))
        .collect();
    let mut all: Vec<&PointRow> = lines.iter().flat_map(|line| &line.1).collect();
    all.sort_by(|a, b| a.load().total_cmp(&b.load()));
    if all.is_empty() {
        return None;
    }
    let y = axis()
        .title(title("tokens a second"))
        .range_mode(RangeMode::ToZero)
        .tick_format(",d");
    let mut chart = Chart::new(layout(scale.axis(&all), y, 420));
    for ((name, points), color) in lines.iter().zip(ink::SERIES.iter().cycle()) {
        let points: Vec<&PointRow> = points.iter().collect();
        if points.is_empty() {
            continue;
        }
        let x = scale.of(&points);
        let of = |value: fn(&PointRow) -> f64| points.iter().map(|p| Some(value(p))).collect();
        let throughput = points_line(
            &format!("{name}: throughput"),
            x.clone(),
            of(|p| p.throughput_tok_s),
            hover(name, &points),
            color,
            1.5,
        );
        chart.add(throughput.line(dashed(color)).show_legend(false));
        chart.add(points_line(
            name,
            x,
            of(|p| p.goodput_tok_s),
            hover(name, &points),
            color,
            3.0,
        ));
    }
    Some(chart)
}

fn hover(name: &str, points: &[&PointRow]) -> Vec<String> {
    let text = |p: &&PointRow| {
        format!(
            "<b>{name}</b>, {}<br>goodput {} tok/s<br>throughput {} tok/s<br>in SLO {}%, n {}",
            load_words(p),
            number(p.goodput_tok_s),
            number(p.throughput_tok_s),
            percent(p.slo_attainment),
            p.requests,
        )
    };
    points.iter().map(text).collect()
}
