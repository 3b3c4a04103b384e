//! Goodput of several results against load, each a line of its own.

use goodput_ledger::{Mode, PointRow};
use goodput_sweep::RunResult;
use plotly::layout::RangeMode;

use super::{
    Chart, LoadScale, Measure, axis, by_load, by_load_once, dashed, ends, ink, layout, logarithmic,
    points_line, title,
};
use crate::{
    number::{number, number_or_none, percent},
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

/// The median of a latency against load in one mode, with p99 dashed in the same colour. Points that
/// are not valid are left out. `None` where no result has a valid point of this mode.
pub(crate) fn overlay_latency(
    runs: &[(String, RunResult)],
    measure: Measure,
    mode: Mode,
) -> Option<Chart> {
    let scale = LoadScale(mode);
    let lines: Vec<(&str, Vec<&PointRow>)> = runs
        .iter()
        .map(|(name, run)| {
            let points = by_load_once(&run.points, mode).into_iter();
            (name.as_str(), points.filter(|p| p.valid).collect())
        })
        .collect();
    let mut all: Vec<&PointRow> = lines.iter().flat_map(|line| line.1.clone()).collect();
    all.sort_by(|a, b| a.load().total_cmp(&b.load()));
    let (low, high) = ends(all.iter().flat_map(|p| measure.ends(p)).flatten())?;
    let unit = format!("{}, ms", measure.metric().to_uppercase());
    let y = logarithmic(&unit, low, high);
    let mut chart = Chart::new(layout(scale.axis(&all), y, 360));
    for ((name, points), color) in lines.iter().zip(ink::SERIES.iter().cycle()) {
        if points.is_empty() {
            continue;
        }
        let x = scale.of(points);
        for (which, width) in [(1, 1.5), (0, 3.0)] {
            let values: Vec<Option<f64>> = points.iter().map(|p| measure.ends(p)[which]).collect();
            let text = |p: &&PointRow| {
                let [p50, p99] = measure.ends(p).map(number_or_none);
                format!(
                    "<b>{name}</b>, {}<br>p50 {p50} ms<br>p99 {p99} ms",
                    load_words(p)
                )
            };
            let texts = points.iter().map(text).collect();
            let line = points_line(name, x.clone(), values, texts, color, width);
            chart.add(if which == 1 {
                line.line(dashed(color)).show_legend(false)
            } else {
                line
            });
        }
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
