//! A simulated curve against the measured one that it predicts.

use goodput_sweep::{Contrast, PredictedLoad, Prediction};

use crate::{
    change,
    html::left_out,
    style::{Ink, Style, wrap},
};

/// Columns of a load's name.
const LOAD: usize = 14;
/// Columns of a figure: what was measured, and the error of the prediction.
const FIGURE: usize = 14;

/// The errors of a prediction, a line a load, and their median sizes.
#[must_use]
pub fn prediction(prediction: &Prediction, style: Style) -> String {
    let Some(first) = prediction.loads.first() else {
        return "no load is in both results: nothing can be said of the prediction\n".to_owned();
    };
    let mut head = format!("{:<LOAD$}", "PREDICTION");
    for figure in &first.figures {
        head += &format!("{:>FIGURE$}", short(&figure.compared.figure));
    }
    let mut out = style.paint(Ink::Heading, &head) + "\n";
    for load in &prediction.loads {
        out += &row(load, style);
    }
    let mut medians = format!("{:<LOAD$}", "median error");
    for figure in &first.figures {
        let name = &figure.compared.figure;
        let found = prediction.median_error.iter().find(|m| m.0 == *name);
        let text = found.map_or_else(String::new, |m| change::size_of_error(name, m.1));
        medians += &format!("{text:>FIGURE$}");
    }
    out += &(style.paint(Ink::Heading, &medians) + "\n");
    let note = format!(
        "{}; each figure as measured, then the error of the simulated one: relative, of the share in SLO in \
         points; ~ where it cannot be told from the noise of the two",
        left_out(prediction)
    );
    for line in wrap(&note, style.width) {
        out += &(style.paint(Ink::Faint, &line) + "\n");
    }
    out
}

fn row(load: &PredictedLoad, style: Style) -> String {
    let mut out = format!("{:<LOAD$}", load.load);
    for figure in &load.figures {
        let text = cell(figure);
        let text = format!("{text:>FIGURE$}");
        out += &match figure.distinguishable {
            Some(true) => style.paint(Ink::Late, &text),
            _ => text,
        };
    }
    out.trim_end().to_owned() + "\n"
}

fn cell(figure: &Contrast) -> String {
    let unsure = if figure.distinguishable == Some(false) {
        "~"
    } else {
        ""
    };
    format!(
        "{} {unsure}{}",
        change::figure(&figure.compared.figure, figure.compared.base),
        change::error(figure)
    )
}

/// A figure's name as a heading has it.
fn short(figure: &str) -> String {
    match figure {
        "goodput_tok_s" => "good tok/s".to_owned(),
        "slo_attainment" => "in SLO".to_owned(),
        other => other.replace("_ms", "").replace('_', " "),
    }
}
