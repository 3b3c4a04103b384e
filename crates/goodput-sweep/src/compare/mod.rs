//! Two results side by side.
//!
//! Begin at [`compare`]: it takes two [`Side`]s and gives a [`Comparison`], every figure with the
//! interval of its change. [`Gate::judge`] holds rules against it.

mod answers;
mod differences;
mod evidence;
mod figure;
mod gate;
mod rule;
#[cfg(test)]
pub(crate) mod tests;

use goodput_ledger::{Between, Mode, PointRow};
use goodput_stats::{Bounded, change_interval, difference_interval};
use serde::{Deserialize, Serialize};

use crate::{
    boots::{one_a_load, same_point},
    document::RunResult,
};
use evidence::{Known, Shared};
use figure::FIGURES;

pub use differences::{Mismatch, differences, mismatches};
pub use evidence::{Evidence, Side};
pub use figure::{Unit, is_shown, more_is_better};
pub use gate::{Case, Gate, GateVerdict, Undecided, Word};
pub use rule::{At, Bound, Rule, Sense, known_figures};

/// One figure of both results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Its name, with the unit: `goodput_tok_s`.
    pub figure: String,
    /// Its unit as a word, empty where it has none.
    pub unit: String,
    /// In the base.
    pub base: Option<f64>,
    /// In the other.
    pub other: Option<f64>,
    /// Relative change, 0.05 for 5 % more. Null where one is missing or the base is zero.
    pub change: Option<f64>,
    /// The 95 % interval of the base's figure. Of a load that was searched for: from the load found
    /// to the first tested one that is too much.
    pub base_interval: Option<Between>,
    /// The same of the other.
    pub other_interval: Option<Between>,
    /// The 95 % interval of the relative change.
    pub change_interval: Option<Between>,
    /// The 95 % interval of other minus base, in the figure's unit.
    pub difference_interval: Option<Between>,
    /// Correlation of the two estimates, from requests that both sent: 0 where there are none.
    pub correlation: f64,
    /// Where the intervals come from.
    pub evidence: Evidence,
    /// The fewest requests behind one side's figure, where known.
    pub samples: Option<u64>,
    /// Of an answer: loads next to it that were measured and are not valid, side by side with what
    /// they leave open. A change may come from nothing else.
    #[serde(default)]
    pub caveats: Vec<String>,
}

impl Compared {
    fn bare(figure: &str, unit: Unit, base: Option<f64>, other: Option<f64>) -> Self {
        Self {
            figure: figure.to_owned(),
            unit: unit.word().to_owned(),
            base,
            other,
            change: match (base, other) {
                (Some(a), Some(b)) if a != 0.0 => Some(b / a - 1.0),
                _ => None,
            },
            base_interval: None,
            other_interval: None,
            change_interval: None,
            difference_interval: None,
            correlation: 0.0,
            evidence: Evidence::Missing,
            samples: None,
            caveats: Vec::new(),
        }
    }

    fn known(self, known: &Known) -> Self {
        Self {
            base_interval: known.base.map(|b| b.interval.into()),
            other_interval: known.other.map(|b| b.interval.into()),
            samples: known.samples,
            ..self
        }
        .with_intervals(known.correlation, known.evidence)
    }

    fn with_intervals(mut self, correlation: f64, evidence: Evidence) -> Self {
        (self.correlation, self.evidence) = (correlation, evidence);
        if let Some((a, b)) = self.base_bounded().zip(self.other_bounded()) {
            self.change_interval = change_interval(a, b, correlation).map(Between::from);
            self.difference_interval = Some(difference_interval(a, b, correlation).into());
        }
        self
    }

    /// The base with its interval. Where nothing was found but something is known of where it must
    /// lie, the upper end stands for the value.
    fn base_bounded(&self) -> Option<Bounded> {
        bounded(self.base, self.base_interval)
    }

    fn other_bounded(&self) -> Option<Bounded> {
        bounded(self.other, self.other_interval)
    }
}

fn bounded(value: Option<f64>, range: Option<Between>) -> Option<Bounded> {
    range.map(|range| Bounded {
        value: value.unwrap_or(range.high),
        interval: range.into(),
    })
}

/// One load that both results measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedPoint {
    /// `16 in flight` or `5 req/s`.
    pub load: String,
    /// Closed or open loop.
    pub mode: Mode,
    /// The load in the unit of its mode.
    pub at: f64,
    /// Its figures. Empty where one side's point is not valid.
    pub figures: Vec<Compared>,
    /// Requests that both measured and that are compared one by one. Null where there are none.
    pub pairs: Option<u64>,
    /// Why it decides nothing, where it does not.
    pub unusable: Vec<String>,
    /// Whether the 95 % intervals of the goodputs are apart.
    pub apart: Option<bool>,
}

/// How many boots stand behind each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootCounts {
    /// Behind the base.
    pub base: usize,
    /// Behind the other.
    pub other: usize,
}

/// Two results side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What the base holds for, in a line.
    pub base: String,
    /// What the other holds for, in a line.
    pub other: String,
    /// In what they differ that makes their figures incomparable.
    pub mismatches: Vec<Mismatch>,
    /// In what else they differ: what may be the reason of a change, or what was to be compared.
    pub differs: Vec<Mismatch>,
    /// Whether tokens of the two are comparable. Across models they are not: vocabularies differ,
    /// and characters a second rank them.
    pub tokens_comparable: bool,
    /// Boots behind each side. With one boot on both, no interval holds what a restart changes.
    pub boots: BootCounts,
    /// Why one of the results is not to be trusted. Rules are then not evaluated.
    pub doubts: Vec<String>,
    /// The answers of both.
    pub answers: Vec<Compared>,
    /// The loads that both measured.
    pub points: Vec<ComparedPoint>,
    /// What the rules say, where there are rules.
    pub gate: Option<Gate>,
}

/// Puts two results side by side. Whether that is allowed is the caller's to ask of
/// [`mismatches`].
#[must_use]
pub fn compare(base: &Side<'_>, other: &Side<'_>) -> Comparison {
    let mismatches = mismatches(base.result, other.result);
    let tokens_comparable = mismatches.iter().all(|m| m.what != "model");
    Comparison {
        base: headline(base.result),
        other: headline(other.result),
        differs: differences(base.result, other.result),
        boots: BootCounts {
            base: base.result.boots.len().max(1),
            other: other.result.boots.len().max(1),
        },
        doubts: doubts("base", base.result)
            .chain(doubts("other", other.result))
            .collect(),
        answers: answers::answers(base, other, tokens_comparable),
        points: shared_points(base, other, tokens_comparable),
        mismatches,
        tokens_comparable,
        gate: None,
    }
}

fn headline(result: &RunResult) -> String {
    let holds = &result.holds_for;
    let server = [
        holds.server.engine.as_deref(),
        holds.server.version.as_deref(),
    ];
    let server: Vec<&str> = server.into_iter().flatten().collect();
    format!(
        "{} | {} | {}",
        holds.model,
        server.join(" "),
        result.started
    )
}

/// Findings that take trust away. Invalid points are looked at one by one.
fn doubts<'a>(side: &'a str, result: &'a RunResult) -> impl Iterator<Item = String> + 'a {
    let severe = result
        .findings
        .iter()
        .filter(|f| f.severe && f.name != "invalid-points");
    // A run that was broken off has not measured what it was to measure.
    let broken_off = (!result.complete).then(|| {
        let why = result
            .incomplete_because
            .as_deref()
            .unwrap_or("no reason is known");
        format!("{side}: it is not complete: {why}")
    });
    let severe = severe.map(move |f| format!("{side}: {}: {}", f.name, f.evidence));
    broken_off.into_iter().chain(severe)
}

/// The loads that both measured.
fn shared_points(base: &Side<'_>, other: &Side<'_>, tokens: bool) -> Vec<ComparedPoint> {
    let pairs = one_a_load(base.result.points.iter())
        .into_iter()
        .filter_map(|a| {
            let theirs = one_a_load(other.result.points.iter());
            let b = theirs.into_iter().find(|b| same_point(a, b))?;
            Some((a, b))
        });
    pairs
        .map(|(a, b)| compared_point((base, a), (other, b), tokens))
        .collect()
}

fn compared_point<'a>(
    base: (&'a Side<'a>, &'a PointRow),
    other: (&'a Side<'a>, &'a PointRow),
    tokens: bool,
) -> ComparedPoint {
    let shared = Shared::new(base, other);
    let unusable: Vec<String> = [("base", base.1), ("other", other.1)]
        .into_iter()
        .filter(|(_, row)| !row.valid)
        .map(|(side, row)| match row.warnings.first() {
            Some(why) => format!("{side}: not valid: {why}"),
            None => format!("{side}: not valid"),
        })
        .collect();
    let figures = FIGURES
        .iter()
        .filter(|f| unusable.is_empty() && (tokens || !f.tokens))
        .map(|f| {
            Compared::bare(f.name, f.unit, (f.of)(base.1), (f.of)(other.1)).known(&shared.known(f))
        });
    let intervals = base.1.goodput_interval.zip(other.1.goodput_interval);
    ComparedPoint {
        load: load_words(base.1),
        mode: base.1.mode,
        at: base.1.load(),
        figures: figures.collect(),
        pairs: shared.pairs.as_ref().map(goodput_ledger::Pairs::requests),
        apart: intervals
            .filter(|_| tokens && unusable.is_empty())
            .map(|(x, y)| x.high < y.low || y.high < x.low),
        unusable,
    }
}

fn load_words(row: &PointRow) -> String {
    match (row.concurrency, &row.other_arrivals) {
        (Some(users), _) => format!("{users} in flight"),
        (None, None) => format!("{} req/s", (row.load() * 1e3).round() / 1e3),
        (None, Some(arrivals)) => {
            format!("{} req/s, {arrivals}", (row.load() * 1e3).round() / 1e3)
        }
    }
}
