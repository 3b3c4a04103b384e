//! Two results side by side.

use goodput_sweep::{Compared, Comparison};

use crate::{
    number::{NONE, number_or_none, percent},
    style::{Ink, Style},
};

/// Columns of a figure's name.
const NAME: usize = 32;

/// Two results side by side: what differs, the answers of both, then the loads that both measured.
///
/// Across models tokens are not shown, because vocabularies differ: characters a second rank them.
#[must_use]
pub fn comparison(comparison: &Comparison, style: Style) -> String {
    let mut out = format!("base   {}\nother  {}\n", comparison.base, comparison.other);
    for differs in &comparison.mismatches {
        let mark = style.paint(Ink::Alarm, &format!("! {}", differs.what));
        out += &format!("{mark}  {} | {}\n", differs.base, differs.other);
    }
    out.push('\n');
    out += &heading("ANSWERS", style);
    out += &rows(&comparison.answers, style);
    if !comparison.tokens_comparable {
        out += &ranking(comparison);
    }
    for point in &comparison.points {
        let apart = match point.apart {
            Some(true) => "goodput differs: the 95% intervals are apart",
            Some(false) => "goodput: the 95% intervals overlap",
            None => "",
        };
        out.push('\n');
        out += &heading(&point.load, style);
        out += &rows(&point.figures, style);
        if !apart.is_empty() {
            out += &format!("  {apart}\n");
        }
    }
    if comparison.points.is_empty() {
        out += "\nno load was measured in both\n";
    }
    out
}

fn heading(name: &str, style: Style) -> String {
    style.paint(
        Ink::Heading,
        &format!(
            "{name:<NAME$} {:>10} {:>10} {:>9}",
            "base", "other", "change"
        ),
    ) + "\n"
}

fn rows(figures: &[Compared], style: Style) -> String {
    let row = |figure: &Compared| {
        let change = figure
            .change
            .map_or_else(|| NONE.to_owned(), |c| format!("{:+.1}%", c * 100.0));
        let change = format!("{change:>9}");
        let change = match figure.change {
            Some(c) if c.abs() < 0.005 => change,
            Some(c) if (c > 0.0) == more_is_better(&figure.figure) => {
                style.paint(Ink::Good, &change)
            }
            Some(_) => style.paint(Ink::Late, &change),
            None => change,
        };
        let share = figure.figure.ends_with("attainment");
        let shown = |v: Option<f64>| match v {
            Some(_) if share => percent(v) + "%",
            v => number_or_none(v),
        };
        let (base, other) = (shown(figure.base), shown(figure.other));
        format!(
            "  {:<name$} {base:>10} {other:>10} {change}\n",
            figure.figure,
            name = NAME - 2
        )
    };
    figures.iter().map(row).collect::<Vec<_>>().concat()
}

/// Latencies are better the smaller they are; every other figure the larger.
fn more_is_better(figure: &str) -> bool {
    !figure.ends_with("_ms")
}

/// Which of two models gives users more text, by characters a second: at the rate to sell where
/// both have one, else at the peak.
fn ranking(comparison: &Comparison) -> String {
    let find = |name: &str| {
        let figure = comparison
            .answers
            .iter()
            .find(|figure| figure.figure == name)?;
        Some((figure.base?, figure.other?, figure.change?))
    };
    let at_sell = find("sell_good_characters_per_s").map(|found| ("at the rate to sell", found));
    let at_peak = find("peak_good_characters_per_s").map(|found| ("at the peak", found));
    let Some((place, (base, other, change))) = at_sell.or(at_peak) else {
        return "the two models cannot be ranked: one has no good text\n".to_owned();
    };
    let which = if base < other {
        "other gives more"
    } else {
        "base gives more"
    };
    format!(
        "{which} good text, {place}: {:+.1}% characters a second (tokens of two models do not compare)\n",
        change * 100.0
    )
}
