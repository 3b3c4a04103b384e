//! Goodput beside throughput, against load, with the answers marked.

use goodput_ledger::{Mode, PointRow};
use goodput_sweep::RunResult;
use plotly::{
    Scatter,
    common::{Anchor, Fill, Mode as Draw},
    layout::{Annotation, Margin, RangeMode, Shape},
};

use super::{
    Chart, LoadScale, axis, by_load_once, hollow, ink, layout, legend, level, line, note,
    points_line, strip, title, upright,
};
use crate::{
    number::{number, number_or_none, percent},
    terminal::{ScaleOut, load_words, not_this},
};

/// The goodput curve of the mode that the answers rest on: closed loop where there is one.
pub(crate) fn curve(result: &RunResult) -> Option<Chart> {
    let mode = main_mode(result)?;
    let points = by_load_once(&result.points, mode);
    let scale = LoadScale(mode);
    let (shapes, notes) = marks(result, scale);
    let layout = layout(
        scale.axis(&points),
        axis()
            .title(title("tokens a second"))
            .range_mode(RangeMode::ToZero)
            .tick_format(",d"),
        480,
    )
    // The answers' names stand between the chart and its legend.
    .margin(Margin::new().left(56).right(16).top(96).bottom(44))
    .legend(legend().y(1.15))
    .shapes(shapes)
    .annotations(notes);
    let mut chart = Chart::new(layout);
    let valid: Vec<&PointRow> = points.iter().copied().filter(|p| p.valid).collect();
    let void: Vec<&PointRow> = points.iter().copied().filter(|p| !p.valid).collect();
    let x = scale.of(&valid);
    add_late_area(&mut chart, &x, &valid);
    add_interval(&mut chart, &x, &valid);
    let all = valid.iter().map(|p| Some(p.throughput_tok_s)).collect();
    let good = valid.iter().map(|p| Some(p.goodput_tok_s)).collect();
    chart.add(points_line(
        "throughput: all tokens",
        x.clone(),
        all,
        hover(&valid),
        ink::ALL,
        2.0,
    ));
    chart.add(points_line(
        "goodput: tokens in time",
        x.clone(),
        good,
        hover(&valid),
        ink::GOOD,
        3.5,
    ));
    if !void.is_empty() {
        let x = scale.of(&void);
        let all = void.iter().map(|p| Some(p.throughput_tok_s)).collect();
        let good = void.iter().map(|p| Some(p.goodput_tok_s)).collect();
        chart.add(hollow(
            "not valid: not used",
            x.clone(),
            all,
            hover(&void),
            ink::ALL,
        ));
        chart
            .add(hollow("not valid, goodput", x, good, hover(&void), ink::GOOD).show_legend(false));
    }
    // A threshold in arrivals has no place on an axis of tokens.
    if let Some(out @ ScaleOut::Tokens(tokens)) = ScaleOut::of(&result.operating_point) {
        let name = format!("scale out at {}", out.figure());
        chart.add(level(&name, &scale.of(&points), tokens, ink::CAP));
    }
    Some(chart)
}

/// Characters a second, good and all: the measure that compares models with different tokenizers.
pub(crate) fn characters(result: &RunResult) -> Option<Chart> {
    let mode = main_mode(result)?;
    let points: Vec<&PointRow> = by_load_once(&result.points, mode)
        .into_iter()
        .filter(|p| p.valid && p.characters_per_s.is_some())
        .collect();
    if points.is_empty() {
        return None;
    }
    let scale = LoadScale(mode);
    let y = axis()
        .title(title("characters a second"))
        .range_mode(RangeMode::ToZero)
        .tick_format(",d");
    let mut chart = Chart::new(layout(scale.axis(&points), y, 340));
    let x = scale.of(&points);
    let hover = |good: bool| -> Vec<String> {
        let figures = |p: &&PointRow| {
            let slo = p.first_slo().filter(|_| good);
            let (characters, words) = slo.map_or((p.characters_per_s, p.words_per_s), |slo| {
                (slo.good_characters_per_s, slo.good_words_per_s)
            });
            let which = if good { "in time" } else { "all" };
            format!(
                "{}<br>{} characters/s {which}<br>{} words/s {which}",
                load_words(p),
                number_or_none(characters),
                number_or_none(words)
            )
        };
        points.iter().map(figures).collect()
    };
    let all = points.iter().map(|p| p.characters_per_s).collect();
    let good = points
        .iter()
        .map(|p| p.first_slo()?.good_characters_per_s)
        .collect();
    chart.add(points_line(
        "all",
        x.clone(),
        all,
        hover(false),
        ink::ALL,
        2.0,
    ));
    chart.add(points_line("in time", x, good, hover(true), ink::GOOD, 3.0));
    Some(chart)
}

fn main_mode(result: &RunResult) -> Option<Mode> {
    let has = |mode| result.points.iter().any(|p| p.mode == mode);
    [Mode::Closed, Mode::Open]
        .into_iter()
        .find(|&mode| has(mode))
}

/// An unseen line that an area ends at.
fn edge(x: &[f64], y: Vec<f64>) -> Box<Scatter<f64, f64>> {
    Scatter::new(x.to_vec(), y)
        .mode(Draw::Lines)
        .line(line(ink::NONE, 0.0))
        .hover_info(plotly::common::HoverInfo::Skip)
}

/// The area between throughput and goodput: what was computed for nobody.
fn add_late_area(chart: &mut Chart, x: &[f64], points: &[&PointRow]) {
    let good = points.iter().map(|p| p.goodput_tok_s).collect();
    let all = points.iter().map(|p| p.throughput_tok_s).collect();
    chart.add(edge(x, good).show_legend(false));
    chart.add(
        edge(x, all)
            .name("late")
            .fill(Fill::ToNextY)
            .fill_color(ink::LATE_BAND),
    );
}

fn add_interval(chart: &mut Chart, x: &[f64], points: &[&PointRow]) {
    let ends: Option<(Vec<f64>, Vec<f64>)> = points
        .iter()
        .map(|p| p.goodput_interval.map(|i| (i.low.max(0.0), i.high)))
        .collect();
    let Some((low, high)) = ends else {
        return;
    };
    chart.add(edge(x, low).show_legend(false));
    let band = edge(x, high).name("95% interval of goodput");
    chart.add(band.fill(Fill::ToNextY).fill_color(ink::GOOD_BAND));
}

/// The answers as upright lines with a word above each.
fn marks(result: &RunResult, scale: LoadScale) -> (Vec<Shape>, Vec<Annotation>) {
    /// One line of text above another, in px.
    const LINE: f64 = 17.0;
    let answers = &result.operating_point;
    let cap = answers.by_clauses.as_ref();
    let peak = answers.by_goodput.as_ref().map(|peak| &peak.row);
    let mut pair: Vec<(&PointRow, &str, &str)> = match (cap, peak) {
        (Some(cap), Some(peak)) if cap.point == peak.point => {
            vec![(cap, "cap, peak", ink::CAP)]
        }
        _ => {
            let cap = cap.map(|row| (row, "cap", ink::CAP));
            let peak = peak.map(|row| (row, "peak", ink::PEAK));
            cap.into_iter().chain(peak).collect()
        }
    };
    pair.sort_by(|a, b| a.0.load().total_cmp(&b.0.load()));
    let last = result.points.iter().filter(|p| p.mode == scale.0);
    let last = last.map(PointRow::load).fold(0.0, f64::max);
    let (mut shapes, mut notes) = (Vec::new(), Vec::new());
    let mut mark = |point: &PointRow, word: &str, color, anchor, lift| {
        let x = scale.at(point.load());
        shapes.push(upright(x, color));
        let text = format!("<b>{word}</b> {}", number(point.load()));
        notes.push(note(x, &text, color, anchor).y_shift(lift));
    };
    let mut lift = 0.0;
    for (place, (point, word, color)) in pair.iter().enumerate() {
        // Two words grow away from each other; at the chart's edge the second has to stand above.
        let anchor = match place {
            _ if pair.len() == 1 => Anchor::Center,
            0 => Anchor::Right,
            _ if point.load() < last => Anchor::Left,
            _ => {
                lift = LINE;
                Anchor::Right
            }
        };
        mark(point, word, *color, anchor, lift);
    }
    if let Some(most) = not_this(answers) {
        // A line higher: on a narrow page it reaches the others.
        mark(most, "not this", ink::LATE, Anchor::Right, lift + LINE);
    }
    if let (Some([from, to]), Mode::Closed) = (answers.run_at, scale.0) {
        let (low, high) = (
            scale.at(f64::from(from) * 0.99),
            scale.at(f64::from(to) * 1.01),
        );
        shapes.push(strip(low, high, ink::CAP_BAND));
        let text = if from < to {
            format!("run at {from} to {to}")
        } else {
            format!("run at {from}")
        };
        let upright = note(f64::midpoint(low, high), &text, ink::CAP, Anchor::Center);
        notes.push(upright.text_angle(-90.0).y(0.02));
    }
    (shapes, notes)
}

fn hover(points: &[&PointRow]) -> Vec<String> {
    let text = |p: &&PointRow| {
        format!(
            "<b>{}</b><br>goodput {} tok/s{}<br>throughput {} tok/s<br>in SLO {}%<br>{} req/s, n {}",
            load_words(p),
            number(p.goodput_tok_s),
            p.goodput_interval.map_or_else(String::new, |i| format!(
                " [{}..{}]",
                number(i.low),
                number(i.high)
            )),
            number(p.throughput_tok_s),
            percent(p.slo_attainment),
            number_or_none(Some(p.completed_req_s)),
            p.requests,
        )
    };
    points.iter().map(text).collect()
}
