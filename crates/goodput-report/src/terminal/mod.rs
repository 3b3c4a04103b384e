//! A run as terminal text.
//!
//! The pieces can be printed one by one while a sweep runs; [`run`] is all of them.

mod answer;
mod calibration;
mod comparison;
mod findings;
mod head;
mod live;
mod points;
mod prediction;
mod tiers;
mod what_if;

use goodput_sweep::RunResult;

pub use answer::answer;
pub(crate) use answer::{ScaleOut, load_words, not_this};
pub use calibration::calibration;
pub use comparison::comparison;
pub use findings::{Files, findings, footer};
pub(crate) use head::engine;
pub use head::{client, head};
pub use live::{Live, cost};
pub(crate) use points::too_few;
pub use points::{
    Columns, Scale, closed_heading, closed_row, closed_table, open_heading, open_row, open_table,
    other_arrivals, warnings,
};

pub use prediction::prediction;
pub use tiers::tiers;
pub use what_if::what_if;

use crate::style::Style;

/// A whole run: head, tables, answer, findings and where the files are.
#[must_use]
pub fn run(result: &RunResult, files: Option<Files<'_>>, exit: u8, style: Style) -> String {
    let mut parts = vec![head(&result.holds_for, style) + &client(result, style)];
    parts.push(closed_table(result, style));
    parts.push(open_table(result, style));
    parts.push(answer(result, style));
    parts.push(tiers(result, style));
    parts.push(findings(result, style) + &footer(result, files, exit, style));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

#[cfg(test)]
mod tests;
