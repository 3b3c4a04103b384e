//! Two results side by side.

use goodput_sweep::{
    BootCounts, Case, Compared, ComparedPoint, Comparison, Gate, Word, more_is_better,
};

use crate::{
    change,
    style::{Ink, Style, wrap},
};

/// Columns of a figure's name.
const NAME: usize = 32;
/// Columns of a label at the head.
const LABEL: usize = 8;

/// Where the reason of a check begins.
const WHY: usize = 17;

/// Two results side by side: what differs, what the rules say, the answers of both, then the loads
/// that both measured.
///
/// Across models tokens are not shown, because vocabularies differ: characters a second rank them.
#[must_use]
pub fn comparison(comparison: &Comparison, style: Style) -> String {
    let mut out = head(comparison, style);
    if let Some(gate) = &comparison.gate {
        out.push('\n');
        out += &checks(gate, comparison.boots, style);
    }
    out.push('\n');
    out += &heading("ANSWERS", style);
    out += &rows(&change::answers(comparison), style);
    if !comparison.tokens_comparable {
        out += &ranking(comparison);
    }
    for point in &comparison.points {
        out.push('\n');
        out += &load(comparison, point, style);
    }
    if comparison.points.is_empty() {
        out += "\nno load was measured in both\n";
    }
    out
}

fn head(comparison: &Comparison, style: Style) -> String {
    let mut out = String::new();
    out += &labelled("base", &comparison.base, style);
    out += &labelled("other", &comparison.other, style);
    for differs in &comparison.mismatches {
        let mark = style.paint(Ink::Alarm, &format!("! {}", differs.what));
        out += &format!("{mark}  {} | {}\n", differs.base, differs.other);
    }
    for differs in &comparison.differs {
        let text = format!("{}: {} | {}", differs.what, differs.base, differs.other);
        out += &labelled("differs", &text, style);
    }
    if let Some(pairs) = change::pairs(comparison) {
        out += &labelled("pairs", &pairs, style);
    }
    let boots = change::boots(comparison.boots);
    if comparison.boots.base == 1 && comparison.boots.other == 1 {
        out += &format!("{}  {boots}\n", style.paint(Ink::Alarm, "! boots"));
    } else {
        out += &labelled("boots", &boots, style);
    }
    for doubt in &comparison.doubts {
        out += &format!("{}  {doubt}\n", style.paint(Ink::Alarm, "! doubt"));
    }
    out
}

fn labelled(label: &str, text: &str, style: Style) -> String {
    let lines = wrap(text, style.width.saturating_sub(LABEL).max(20));
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        let label = if i == 0 { label } else { "" };
        out += &format!("{label:<LABEL$}{line}\n");
    }
    out
}

/// The rules, each with its places.
fn checks(gate: &Gate, boots: BootCounts, style: Style) -> String {
    let mut out = style.paint(Ink::Heading, &format!("GATE  {}", change::gate(gate))) + "\n";
    let mut rule = None;
    for case in &gate.cases {
        if rule != Some(&case.rule) {
            out += &format!("{}\n", case.rule);
            rule = Some(&case.rule);
        }
        out += &check(case, style);
    }
    for line in wrap(&change::confidence(gate, boots), style.width) {
        out += &(style.paint(Ink::Faint, &line) + "\n");
    }
    out
}

fn check(case: &Case, style: Style) -> String {
    let word = format!("{:<13}", change::word(case.word));
    let word = match case.word {
        Word::Pass => style.paint(Ink::Good, &word),
        Word::Fail | Word::NotEvaluable => style.paint(Ink::Alarm, &word),
        Word::NotDecided => style.paint(Ink::Late, &word),
    };
    if case.word == Word::NotEvaluable {
        let mut out = format!("  {word}  {}\n", case.place);
        for line in wrap(&case.why, style.width.saturating_sub(WHY)) {
            out += &format!("{:WHY$}{}\n", "", style.paint(Ink::Faint, &line));
        }
        return out;
    }
    let moved = format!(
        "{} -> {}",
        change::figure(&case.figure, case.base),
        change::figure(&case.figure, case.other)
    );
    format!(
        "  {word}  {:<14} {moved:>18}  {}\n{:WHY$}{}\n",
        case.place,
        change::held(case),
        "",
        style.paint(Ink::Faint, &case.why)
    )
}

fn load(comparison: &Comparison, point: &ComparedPoint, style: Style) -> String {
    let mut out = heading(&point.load, style);
    for why in &point.unusable {
        out += &format!("  {}  {why}\n", style.paint(Ink::Alarm, "! not used"));
    }
    out += &rows(&change::figures(comparison, point), style);
    match point.apart {
        Some(true) => out += "  goodput differs: the 95% intervals are apart\n",
        Some(false) => out += "  goodput: the 95% intervals overlap\n",
        None => {}
    }
    out
}

fn heading(name: &str, style: Style) -> String {
    let line = format!(
        "{name:<NAME$} {:>10} {:>10} {:>9}  {}",
        "base", "other", "change", "95% interval"
    );
    style.paint(Ink::Heading, &line) + "\n"
}

fn rows(figures: &[&Compared], style: Style) -> String {
    figures.iter().map(|f| row(f, style)).collect()
}

fn row(figure: &Compared, style: Style) -> String {
    let text = format!("{:>9}", change::change(figure.change));
    let text = match figure.change {
        Some(c) if c.abs() < 0.005 || !figure.caveats.is_empty() => text,
        Some(c) if (c > 0.0) == more_is_better(&figure.figure) => style.paint(Ink::Good, &text),
        Some(_) => style.paint(Ink::Late, &text),
        None => text,
    };
    let shown = |v| change::figure(&figure.figure, v);
    let line = format!(
        "  {:<name$} {:>10} {:>10} {text}  {}",
        figure.figure,
        shown(figure.base),
        shown(figure.other),
        change::interval_of(figure),
        name = NAME - 2
    );
    let mut out = line.trim_end().to_owned() + "\n";
    for caveat in &figure.caveats {
        let lines = wrap(caveat, style.width.saturating_sub(6).max(30)).join("\n      ");
        out += &format!("    {} {lines}\n", style.paint(Ink::Alarm, "!"));
    }
    out
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
