//! The answers of two results side by side.

use goodput_ledger::{Between, Mode, PointRow};

use super::{
    Compared,
    evidence::{Evidence, Shared, Side},
    figure::{ANSWERS, FIGURES, Figure, Unit},
    load_words,
};
use crate::{answers::SCALE_OUT_SHARE, boots::same_load, document::RunResult};

/// The load that an answer names, and between which loads the truth lies: at least the answer,
/// below the first tested load that surely is too much. No range where no such load was tested.
struct Searched {
    load: Option<f64>,
    range: Option<Between>,
}

impl Searched {
    fn new(answer: Answer, result: &RunResult) -> Self {
        let load = answer.load(result);
        let low = load.unwrap_or(0.0);
        let high = answer.too_much(result);
        Self {
            load,
            range: high.map(|high| Between { low, high }),
        }
    }

    fn scaled(self, factor: f64) -> Self {
        Self {
            load: self.load.map(|load| load * factor),
            range: self.range.map(|range| Between {
                low: range.low * factor,
                high: range.high * factor,
            }),
        }
    }
}

/// What of a result is compared.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    /// The rate to sell.
    Sell,
    /// The last concurrency that holds every clause.
    Cap,
    /// The load of the largest goodput.
    Peak,
}

impl Answer {
    /// The point behind it.
    fn row(self, result: &RunResult) -> Option<&PointRow> {
        let found = &result.operating_point;
        match self {
            Self::Sell => found.by_objective.as_ref().map(|o| &o.row),
            Self::Cap => found.by_clauses.as_ref(),
            Self::Peak => found.by_goodput.as_ref().map(|g| &g.row),
        }
    }

    /// The load, in the unit of the loop in which it was looked for.
    fn load(self, result: &RunResult) -> Option<f64> {
        match self {
            Self::Sell => result
                .operating_point
                .by_objective
                .as_ref()
                .map(|o| o.rate_req_s),
            // Without a closed loop the last load that holds is a rate, and no cap.
            Self::Cap => self.row(result)?.concurrency.map(f64::from),
            Self::Peak => self.row(result).map(PointRow::load),
        }
    }

    /// The points among which it was looked for.
    fn candidates(self, result: &RunResult) -> impl Iterator<Item = &PointRow> {
        let closed = result.points.iter().any(|p| p.mode == Mode::Closed);
        let mode = match self {
            Self::Cap => Mode::Closed,
            Self::Peak if closed => Mode::Closed,
            Self::Sell | Self::Peak => Mode::Open,
        };
        let points = result.points.iter();
        points.filter(move |p| p.mode == mode && p.other_arrivals.is_none())
    }

    /// The smallest valid load above it that surely is too much; for the peak, the next one.
    fn too_much(self, result: &RunResult) -> Option<f64> {
        let objective = result.objective();
        let low = self.load(result).unwrap_or(0.0);
        let breaks = |p: &&PointRow| match self {
            Self::Sell => p.attainment_interval.is_some_and(|i| i.high < objective),
            Self::Cap => !p.holds_every_clause(),
            Self::Peak => true,
        };
        self.candidates(result)
            .filter(|p| p.valid)
            .filter(breaks)
            .map(PointRow::load)
            .filter(|load| *load > low)
            .reduce(f64::min)
    }

    /// Loads that were measured where the answer may lie, and of which no point is valid.
    fn void_loads(self, result: &RunResult) -> Vec<&PointRow> {
        let valid = |load: f64| {
            self.candidates(result)
                .any(|p| p.valid && same_load(p.load(), load))
        };
        let answer = self.load(result).unwrap_or(0.0);
        let below = self.candidates(result).filter(|p| p.valid);
        let low = match self {
            // The peak may lie on either side of where it was seen.
            Self::Peak => below
                .map(PointRow::load)
                .filter(|load| *load < answer)
                .fold(0.0, f64::max),
            Self::Sell | Self::Cap => answer,
        };
        let high = self.too_much(result).unwrap_or(f64::INFINITY);
        let mut void: Vec<&PointRow> = self
            .candidates(result)
            .filter(|p| low < p.load() && p.load() < high && !valid(p.load()))
            .collect();
        void.sort_by(|a, b| a.load().total_cmp(&b.load()));
        void.dedup_by(|a, b| same_load(a.load(), b.load()));
        void
    }

    /// What the loads that are not valid leave open on one side.
    fn caveat(self, side: &str, result: &RunResult) -> Option<String> {
        let void: Vec<String> = self
            .void_loads(result)
            .into_iter()
            .map(load_words)
            .collect();
        let open = match self {
            Self::Sell => "the rate to sell may be higher",
            Self::Cap => "the cap may be higher",
            Self::Peak => "the peak may lie there",
        };
        (!void.is_empty()).then(|| {
            let points = if void.len() == 1 { "point" } else { "points" };
            format!(
                "{side}: no valid {points} at {}: {open}",
                void.join(" and ")
            )
        })
    }
}

/// A figure that an answer gives.
enum Given {
    /// Its load, times a factor.
    Load(f64),
    /// A figure of its point, times a factor.
    Figure(&'static str, f64),
}

/// What an answer's name stands for.
fn meaning(name: &str) -> (Answer, Given) {
    use Answer::{Cap, Peak, Sell};
    use Given::{Figure, Load};
    match name {
        "sell_req_s" => (Sell, Load(1.0)),
        "cap_in_flight" => (Cap, Load(1.0)),
        "peak_goodput_tok_s" => (Peak, Figure("goodput_tok_s", 1.0)),
        "sell_goodput_tok_s" => (Sell, Figure("goodput_tok_s", 1.0)),
        "scale_out_at_req_s" => (Sell, Load(SCALE_OUT_SHARE)),
        "scale_out_at_tok_s" => (Cap, Figure("goodput_tok_s", SCALE_OUT_SHARE)),
        "peak_good_characters_per_s" => (Peak, Figure("good_characters_per_s", 1.0)),
        _ => (Sell, Figure("good_characters_per_s", 1.0)),
    }
}

/// The answers of both, those in tokens only where `tokens` compare.
pub(crate) fn answers(base: &Side<'_>, other: &Side<'_>, tokens: bool) -> Vec<Compared> {
    let one = |&(name, unit): &(&'static str, Unit)| {
        let (answer, given) = meaning(name);
        let compared = match given {
            Given::Load(factor) => searched(name, unit, (answer, factor), base, other),
            Given::Figure(figure, factor) => of_row(name, (answer, figure, factor), base, other),
        };
        let sides = [("base", base.result), ("other", other.result)];
        Compared {
            caveats: sides
                .into_iter()
                .filter_map(|(side, result)| answer.caveat(side, result))
                .collect(),
            ..compared
        }
    };
    ANSWERS
        .iter()
        .filter(|(_, unit)| tokens || *unit != Unit::TokensPerSecond)
        .map(one)
        .collect()
}

fn searched(
    name: &str,
    unit: Unit,
    (answer, factor): (Answer, f64),
    base: &Side<'_>,
    other: &Side<'_>,
) -> Compared {
    let of = |side: &Side<'_>| Searched::new(answer, side.result).scaled(factor);
    let (a, b) = (of(base), of(other));
    let evidence = if a.range.is_some() && b.range.is_some() {
        Evidence::TestedLoads
    } else {
        Evidence::Missing
    };
    Compared {
        base_interval: a.range,
        other_interval: b.range,
        ..Compared::bare(name, unit, a.load, b.load)
    }
    .with_intervals(0.0, evidence)
}

fn of_row(
    name: &str,
    (answer, figure, factor): (Answer, &str, f64),
    base: &Side<'_>,
    other: &Side<'_>,
) -> Compared {
    let figure: &Figure = FIGURES
        .iter()
        .find(|f| f.name == figure)
        .expect("invariant: answers name figures of the table");
    let (a, b) = (answer.row(base.result), answer.row(other.result));
    let of = |p: Option<&PointRow>| p.and_then(figure.of).map(|v| v * factor);
    let bare = Compared::bare(name, figure.unit, of(a), of(b));
    match a.zip(b) {
        None => bare,
        Some((a, b)) => {
            let mut known = Shared::new((base, a), (other, b)).known(figure);
            known.base = known.base.map(|x| x.scaled(factor));
            known.other = known.other.map(|x| x.scaled(factor));
            bare.known(&known)
        }
    }
}
