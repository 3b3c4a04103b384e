//! Percentiles of a latency against load, with the SLO's bound.

use goodput_ledger::{Mode, PointRow};
use goodput_stats::min_samples_for;
use goodput_sweep::RunResult;

use super::{
    Chart, LoadScale, Series, bound_of, by_load_once, ends, hollow, ink, layout, level,
    logarithmic, points_line,
};
use crate::{
    number::{count, span_ms},
    terminal::load_words,
};

/// Which latency.
#[derive(Clone, Copy)]
pub(crate) enum Measure {
    Ttft,
    Tpot,
}

impl Measure {
    /// Median and 99th percentile of one point.
    pub(crate) fn ends(self, p: &PointRow) -> [Option<f64>; 2] {
        match self {
            Self::Ttft => [p.ttft_p50_ms, p.ttft_p99_ms],
            Self::Tpot => [p.tpot_p50_ms, p.tpot_p99_ms],
        }
    }

    pub(crate) fn metric(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Tpot => "tpot",
        }
    }

    /// The clauses whose bound belongs into the chart.
    fn bounds(self) -> &'static [&'static str] {
        match self {
            Self::Ttft => &["ttft", "ttft_answer"],
            Self::Tpot => &["tpot", "tpot_median"],
        }
    }

    /// A percentile of one point: its name, its rank and its value.
    fn percentiles(self, p: &PointRow) -> [(&'static str, f64, Option<f64>); 3] {
        match self {
            Self::Ttft => [
                ("p50", 0.5, p.ttft_p50_ms),
                ("p90", 0.9, p.ttft_p90_ms),
                ("p99", 0.99, p.ttft_p99_ms),
            ],
            Self::Tpot => [
                ("p50", 0.5, p.tpot_p50_ms),
                ("p90", 0.9, p.tpot_p90_ms),
                ("p99", 0.99, p.tpot_p99_ms),
            ],
        }
    }

    fn samples(self, p: &PointRow) -> u64 {
        match self {
            Self::Ttft => p.ttft_n,
            Self::Tpot => p.tpot_n,
        }
    }
}

/// The percentiles of `measure` over the loads of one mode. `None` if there is no such point.
pub(crate) fn latency(result: &RunResult, measure: Measure, mode: Mode) -> Option<Chart> {
    let points = by_load_once(&result.points, mode);
    if points.iter().all(|p| measure.samples(p) == 0) {
        return None;
    }
    let scale = LoadScale(mode);
    let bound = bound_of(result, measure.bounds());
    let values = points
        .iter()
        .flat_map(|p| measure.percentiles(p))
        .filter_map(|p| p.2);
    let (low, high) = ends(values.chain(bound.map(|b| b.1)))?;
    let y = logarithmic(
        &format!("{}, ms", measure.metric().to_uppercase()),
        low,
        high,
    );
    let mut chart = Chart::new(layout(scale.axis(&points), y, 360));
    let colors = [ink::GOOD_LIGHT, ink::GOOD, ink::GOOD_DEEP];
    let mut doubtful: Vec<(f64, Option<f64>, String)> = Vec::new();
    for (which, color) in (0..3).zip(colors) {
        let (mut x, mut values, mut hover) = (Vec::new(), Vec::new(), Vec::new());
        let mut name = "";
        for point in &points {
            let (percentile, rank, value) = measure.percentiles(point)[which];
            name = percentile;
            let at = scale.at(point.load());
            let text = words(point, percentile, value, measure.samples(point));
            let doubt = doubt(point, rank, measure.samples(point));
            if let (Some(why), Some(_)) = (doubt, value) {
                doubtful.push((at, value, format!("{text}<br>{why}")));
            }
            x.push(at);
            values.push(value.filter(|_| doubt.is_none()));
            hover.push(text);
        }
        chart.add(points_line(name, x, values, hover, color, 2.5).connect_gaps(true));
    }
    if !doubtful.is_empty() {
        let x = doubtful.iter().map(|s| s.0).collect();
        let y = doubtful.iter().map(|s| s.1).collect();
        let hover = doubtful.into_iter().map(|s| s.2).collect();
        chart.add(hollow("not to rely on", x, y, hover, ink::ALL));
    }
    if let Some((metric, bound, clause)) = bound {
        if metric != measure.metric() {
            chart.add(judged(&points, scale, metric));
        }
        chart.add(level(clause, &scale.of(&points), bound, ink::LATE));
    }
    Some(chart)
}

/// The p99 of the metric that the SLO judges instead of the one drawn.
fn judged(points: &[&PointRow], scale: LoadScale, metric: &str) -> Series<f64, Option<f64>> {
    let value = |p: &PointRow| match metric {
        "ttft_answer" => p.ttft_answer_p99_ms,
        _ => p.tpot_median_p99_ms,
    };
    let name = format!("p99 {metric}");
    let sure = |p: &&PointRow| doubt(p, 0.99, p.tpot_n).is_none();
    let valid: Vec<&PointRow> = points.iter().copied().filter(sure).collect();
    let y = valid.iter().map(|p| value(p)).collect();
    let hover = valid
        .iter()
        .map(|p| words(p, &name, value(p), p.tpot_n))
        .collect();
    points_line(&name, scale.of(&valid), y, hover, ink::PEAK, 1.5)
}

fn words(point: &PointRow, percentile: &str, value: Option<f64>, samples: u64) -> String {
    let (load, value) = (load_words(point), span_ms(value));
    format!(
        "<b>{load}</b><br>{percentile} {value}<br>n {}",
        count(samples)
    )
}

/// Why a percentile is not to rely on.
fn doubt(point: &PointRow, rank: f64, samples: u64) -> Option<&'static str> {
    if !point.valid {
        return Some("the point is not valid");
    }
    (samples < min_samples_for(rank)).then_some("too few samples: close to the maximum")
}
