//! What happened when: requests as bars, tokens a second over time.

use goodput_sweep::{PointChart, RequestBar};
use plotly::{
    Scatter,
    common::{Fill, Marker, MarkerSymbol, Mode as Draw},
    layout::RangeMode,
};

use super::{Chart, Series, axis, ink, layout, line, title};
use crate::number::{count, span};

/// Requests shown; more would be too thin to tell apart.
const MOST: usize = 120;
/// A send lag below this is not drawn.
const VISIBLE_LAG_S: f64 = 0.001;

/// A sample of a point's requests, one bar each: waiting for the first token, then streaming; late
/// ones in another colour.
pub(crate) fn requests(of_point: &PointChart) -> Option<Chart> {
    let bars = &of_point.requests[..of_point.requests.len().min(MOST)];
    if bars.is_empty() {
        return None;
    }
    let y = axis()
        .show_tick_labels(false)
        .show_grid(false)
        .zero_line(false)
        .title(title("requests, by arrival"));
    let y = y.range(vec![bars.len() as f64, -1.0]);
    let x = axis().title(title("seconds")).zero_line(false);
    let height = 90 + (bars.len() * 6).clamp(120, 720);
    let mut chart = Chart::new(layout(x, y, height));
    let sent = |b: &RequestBar| b.sent_s.unwrap_or(b.end_s);
    let unsent =
        |b: &RequestBar| (sent(b) - b.origin_s > VISIBLE_LAG_S).then(|| (b.origin_s, sent(b)));
    let wait = |b: &RequestBar| Some((sent(b), b.first_token_s.unwrap_or(b.end_s)));
    let stream = |met: bool| {
        move |b: &RequestBar| {
            b.first_token_s
                .filter(|_| b.met == met)
                .map(|first| (first, b.end_s))
        }
    };
    if bars.iter().any(|b| unsent(b).is_some()) {
        chart.add(segments("due, not yet sent", bars, unsent, ink::ALL, 2.5));
    }
    chart.add(segments(
        "waiting for the first token",
        bars,
        wait,
        ink::WAIT,
        3.0,
    ));
    chart.add(segments(
        "streaming, in time",
        bars,
        stream(true),
        ink::GOOD,
        5.0,
    ));
    chart.add(segments(
        "streaming, late",
        bars,
        stream(false),
        ink::LATE,
        5.0,
    ));
    if let Some(failed) = failures(bars) {
        chart.add(failed);
    }
    Some(chart)
}

/// One trace of many separate bars: a null between two of them breaks the line.
fn segments(
    name: &str,
    bars: &[RequestBar],
    ends: impl Fn(&RequestBar) -> Option<(f64, f64)>,
    color: &'static str,
    width: f64,
) -> Series<Option<f64>, Option<usize>> {
    let (mut x, mut y, mut hover) = (Vec::new(), Vec::new(), Vec::new());
    for (row, bar) in bars.iter().enumerate() {
        if let Some((from, to)) = ends(bar) {
            x.extend([Some(from), Some(to), None]);
            y.extend([Some(row), Some(row), None]);
            let text = words(bar);
            hover.extend([text.clone(), text, String::new()]);
        }
    }
    Scatter::new(x, y)
        .name(name)
        .mode(Draw::Lines)
        .line(line(color, width))
        .hover_text_array(hover)
        .hover_template("%{hovertext}<extra></extra>")
}

fn words(bar: &RequestBar) -> String {
    let ttft = bar.first_token_s.map_or_else(
        || "no token".to_owned(),
        |at| format!("TTFT {}", span(at - bar.origin_s)),
    );
    format!(
        "{ttft}<br>end to end {}<br>{} tokens in, {} out<br>{}, {}",
        span(bar.end_s - bar.origin_s),
        count(u64::from(bar.input_tokens)),
        count(u64::from(bar.output_tokens)),
        bar.outcome.replace('_', " "),
        if bar.met { "in SLO" } else { "missed" },
    )
}

/// Requests that did not end well, marked where they ended.
fn failures(bars: &[RequestBar]) -> Option<Series<f64, usize>> {
    let failed: Vec<(f64, usize, String)> = bars
        .iter()
        .enumerate()
        .filter(|(_, bar)| bar.outcome != "ok")
        .map(|(row, bar)| (bar.end_s, row, words(bar)))
        .collect();
    if failed.is_empty() {
        return None;
    }
    let x = failed.iter().map(|f| f.0).collect();
    let y = failed.iter().map(|f| f.1).collect();
    let trace = Scatter::new(x, y)
        .name("failed")
        .mode(Draw::Markers)
        .marker(
            Marker::new()
                .color(ink::TEXT)
                .size(9)
                .symbol(MarkerSymbol::X),
        )
        .hover_text_array(failed.into_iter().map(|f| f.2).collect())
        .hover_template("%{hovertext}<extra></extra>");
    Some(trace)
}

/// Tokens a second while the point ran, all and good.
pub(crate) fn tokens_over_time(of_point: &PointChart) -> Option<Chart> {
    if of_point.timeline.len() < 2 {
        return None;
    }
    let y = axis()
        .title(title("tokens a second"))
        .range_mode(RangeMode::ToZero)
        .tick_format(",d");
    let x = axis()
        .title(title("seconds since the window opened"))
        .zero_line(false);
    let mut chart = Chart::new(layout(x, y, 300));
    let column = |i: usize| -> Vec<f64> { of_point.timeline.iter().map(|row| row[i]).collect() };
    let area = |name: &str, values: Vec<f64>, color: &'static str, fill: &'static str, to: Fill| {
        Scatter::new(column(0), values)
            .name(name)
            .mode(Draw::Lines)
            .line(line(color, 1.5))
            .fill(to)
            .fill_color(fill)
            .hover_template(format!("{name}: %{{y:,.0f}} tok/s<extra></extra>"))
    };
    chart.add(area(
        "good",
        column(2),
        ink::GOOD,
        ink::GOOD_BAND,
        Fill::ToZeroY,
    ));
    chart.add(area(
        "all",
        column(1),
        ink::ALL,
        ink::LATE_BAND,
        Fill::ToNextY,
    ));
    Some(chart)
}
