//! `goodput compare`: two results side by side.

use goodput_report::{csv, json, terminal};
use goodput_results::read_result;
use goodput_sweep::{Compared, Comparison, compare as put_side_by_side, mismatches};

use crate::{
    exit::{Exit, Failure},
    flags::{CompareFlags, Format},
    print,
    talk::Voice,
};

/// Compares, or says why that would say nothing.
pub(crate) fn compare(flags: &CompareFlags, voice: Voice) -> Result<Exit, Failure> {
    let (base, other) = (read_result(&flags.base)?, read_result(&flags.other)?);
    let differ = mismatches(&base, &other);
    if !differ.is_empty() && !flags.across {
        let lines: Vec<String> = differ
            .iter()
            .map(|m| format!("  {}: {} | {}", m.what, m.base, m.other))
            .collect();
        return Err(Failure::usage(format!(
            "the two results differ in what they hold for\n{}",
            lines.join("\n")
        ))
        .hint(
            "--across compares them all the same; models are then ranked by characters a second",
        ));
    }
    let comparison = put_side_by_side(&base, &other);
    match flags.format {
        Format::Human => print(&terminal::comparison(&comparison, voice.style_out()))?,
        Format::Json => print(&json::document(&comparison))?,
        Format::Csv => print(&csv::table(
            &["load", "figure", "base", "other", "change"],
            &figures(&comparison),
        ))?,
    }
    Ok(Exit::Yes)
}

/// One figure a row; the answers' load is `answers`.
fn figures(comparison: &Comparison) -> Vec<serde_json::Value> {
    let row = |load: &str, figure: &Compared| {
        serde_json::json!({
            "load": load, "figure": figure.figure, "base": figure.base, "other": figure.other,
            "change": figure.change,
        })
    };
    let answers = comparison.answers.iter().map(|f| row("answers", f));
    let points = comparison
        .points
        .iter()
        .flat_map(|point| point.figures.iter().map(|f| row(&point.load, f)));
    answers.chain(points).collect()
}
