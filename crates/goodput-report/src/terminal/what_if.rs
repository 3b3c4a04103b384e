//! Variants of a simulated replica against their base.

use goodput_sweep::{Contrast, Variant, WhatIf, more_is_better};

use crate::{
    change,
    number::count,
    style::{Ink, Style, wrap},
};

/// Columns of a figure's name.
const NAME: usize = 26;

/// Every variant with its answers and its figures at the base's operating point.
#[must_use]
pub fn what_if(what_if: &WhatIf, style: Style) -> String {
    let parts = what_if.variants.iter();
    let base = missing("base", &what_if.missing, style);
    let base = Some(base).filter(|base| !base.is_empty());
    let parts = parts.map(|variant| one(variant, what_if.at.as_deref(), style));
    base.into_iter().chain(parts).collect::<Vec<_>>().join("\n")
}

/// Why answers are missing.
fn missing(of: &str, why: &[String], style: Style) -> String {
    let lines = why
        .iter()
        .flat_map(|why| wrap(&format!("! {of}: {why}"), style.width));
    lines.map(|line| line + "\n").collect()
}

fn one(variant: &Variant, at: Option<&str>, style: Style) -> String {
    let title = format!("WHAT IF {}", variant.changes.join("; "));
    let mut out = style.paint(Ink::Heading, &title) + "\n";
    out += &heading("answers", style);
    out += &rows(&variant.answers, style);
    if let Some(at) = at.filter(|_| !variant.at_base.is_empty()) {
        let pairs = variant.pairs.map_or_else(String::new, |pairs| {
            format!(", {} requests served by both", count(pairs))
        });
        out += &heading(&format!("at {at}{pairs}"), style);
        out += &rows(&variant.at_base, style);
    }
    out + &missing("what if", &variant.missing, style)
}

fn heading(name: &str, style: Style) -> String {
    if name.chars().count() > NAME {
        let name = style.paint(Ink::Faint, &format!("{name}:"));
        return name + "\n";
    }
    let line = format!(
        "{name:<NAME$} {:>9} {:>9} {:>9}  {}",
        "base", "what if", "change", "95% interval"
    );
    style.paint(Ink::Faint, &line) + "\n"
}

fn rows(figures: &[Contrast], style: Style) -> String {
    figures.iter().map(|figure| row(figure, style)).collect()
}

fn row(figure: &Contrast, style: Style) -> String {
    let compared = &figure.compared;
    let shown = |value| change::figure(&compared.figure, value);
    let text = format!("{:>9}", change::change(compared.change));
    let better = compared
        .change
        .map(|c| (c > 0.0) == more_is_better(&compared.figure));
    let text = match (figure.distinguishable, better) {
        (Some(true), Some(true)) => style.paint(Ink::Good, &text),
        (Some(true), Some(false)) => style.paint(Ink::Late, &text),
        _ => text,
    };
    let line = format!(
        "  {:<name$} {:>9} {:>9} {text}  {}{}",
        compared.figure,
        shown(compared.base),
        shown(compared.other),
        change::interval_of(compared),
        told_apart(figure),
        name = NAME - 2
    );
    line.trim_end().to_owned() + "\n"
}

/// What is to be said of a change that is not sure.
fn told_apart(figure: &Contrast) -> &'static str {
    match figure.distinguishable {
        Some(false) => "  not told apart",
        None if figure.compared.change.is_some() => "no interval",
        _ => "",
    }
}
