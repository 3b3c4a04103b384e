//! What to know about the answers, and where the evidence lies.

use goodput_sweep::RunResult;

use crate::{
    number::span,
    style::{Ink, Style, wrap},
};

/// Columns before a finding's text, after its first line.
const FINDING: usize = 2;

/// What a reader should know, and below it what to do. Empty if there is nothing.
#[must_use]
pub fn findings(result: &RunResult, style: Style) -> String {
    let width = style.width.saturating_sub(FINDING).max(30);
    let indent = " ".repeat(FINDING);
    let mut out = String::new();
    for finding in &result.findings {
        let ink = if finding.severe {
            Ink::Alarm
        } else {
            Ink::Heading
        };
        let evidence = format!("{}  {}", finding.name, finding.evidence);
        let evidence = wrap(&evidence, width).join(&format!("\n{indent}"));
        let text = evidence.strip_prefix(&finding.name).unwrap_or(&evidence);
        out += &format!(
            "{} {text}\n",
            style.paint(ink, &format!("! {}", finding.name))
        );
        if !finding.advice.is_empty() {
            let advice = wrap(&finding.advice, width - 3).join(&format!("\n{indent}   "));
            out += &format!(
                "{indent}{}\n",
                style.paint(Ink::Faint, &format!("-> {advice}"))
            );
        }
    }
    out
}

/// Where the files of a result are.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// The folder.
    pub folder: &'a str,
    /// Those that were written, by name.
    pub names: &'a [&'a str],
}

/// What the result holds for, where its files are, how long it took, and the exit code.
#[must_use]
pub fn footer(result: &RunResult, files: Option<Files<'_>>, exit: u8, style: Style) -> String {
    let mut out = String::new();
    if !result.complete {
        let why = result
            .incomplete_because
            .as_deref()
            .unwrap_or("it was stopped");
        out += &style.paint(
            Ink::Alarm,
            &format!("INCOMPLETE: {why}. What was measured is kept.\n"),
        );
    }
    if !result.holds_for.boot.is_empty() {
        out += &format!("holds for  {}", result.holds_for.boot);
        if let (true, "sweep", Some(files)) = (result.boots.is_empty(), &*result.kind, files) {
            let folder = files.folder;
            out += &format!(". Other boots: goodput sweep --resume {folder} --boots 3");
        }
        out.push('\n');
    }
    let files = files.map_or_else(String::new, |files| {
        let folder = files.folder.trim_end_matches('/');
        format!("{folder}/  {}", files.names.join("  "))
    });
    let end = format!("{}, exit {exit}", span(result.duration_s));
    let gap = style
        .width
        .saturating_sub(files.chars().count() + end.chars().count())
        .max(2);
    out + &files + &" ".repeat(if files.is_empty() { 0 } else { gap }) + &end + "\n"
}
