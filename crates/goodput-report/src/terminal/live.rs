//! What is said while a run goes on.

use crate::{
    number::{count, number, percent, span},
    style::{Ink, Style},
};

/// A point under way, as far as it has got.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// The load with its unit: `40 in flight`.
    pub load: String,
    /// What it does: `settling`, `measuring`, `draining`.
    pub phase: &'static str,
    /// Which point, counted from 1, and of how many, where that is known.
    pub point: (u32, Option<u32>),
    /// Share of the point that is done, 0 to 1.
    pub done: f64,
    /// Measured requests so far.
    pub requests: u64,
    /// Requests in flight now.
    pub in_flight: u64,
    /// Share of the ended requests that met the SLO.
    pub attainment: Option<f64>,
    /// Tokens a second so far.
    pub throughput_tok_s: Option<f64>,
    /// Estimated time left of the whole run.
    pub left_s: Option<f64>,
}

impl Live {
    /// One line, without a line break, no longer than the style is wide.
    #[must_use]
    pub fn line(&self, style: Style) -> String {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to 0..=10"
        )]
        let cells = (self.done.clamp(0.0, 1.0) * 10.0).round() as usize;
        let meter = format!("[{}{}]", "=".repeat(cells), " ".repeat(10 - cells));
        let point = match self.point {
            (point, Some(of)) => format!("{point}/{of}"),
            (point, None) => format!("{point}"),
        };
        let mut facts = vec![
            format!("{point} {meter} {} {}", self.load, self.phase),
            format!("n {}", count(self.requests)),
            format!("{} open", count(self.in_flight)),
        ];
        if self.attainment.is_some() {
            facts.push(format!("{}% in SLO", percent(self.attainment)));
        }
        if let Some(rate) = self.throughput_tok_s {
            facts.push(format!("{} tok/s", number(rate)));
        }
        if let Some(left) = self.left_s {
            facts.push(format!("{} left", span(left)));
        }
        let text: String = facts
            .join(" | ")
            .chars()
            .take(style.width.saturating_sub(1))
            .collect();
        style.paint(Ink::Faint, &text)
    }
}

/// What a run will cost in time, said before it starts.
#[must_use]
pub fn cost(closed: usize, open: usize, seconds: f64, style: Style) -> String {
    let mut parts = Vec::new();
    if closed > 0 {
        parts.push(format!("{closed} closed-loop points"));
    }
    if open > 0 {
        parts.push(format!("up to {open} open-loop points"));
    }
    let text = format!(
        "{}: about {}. Ctrl-C keeps what was measured.",
        parts.join(" and "),
        span(seconds)
    );
    style.paint(Ink::Faint, &text) + "\n"
}
