//! A gate: rules held against a comparison, each with what the evidence says of it.

use goodput_ledger::Between;
use goodput_stats::{
    Bounded, CONFIDENCE, Interval, change_interval, confidence_stretch, difference_interval,
};
use serde::{Deserialize, Serialize};

use super::{
    Compared, ComparedPoint, Comparison,
    evidence::Evidence,
    rule::{Bound, Rule, Sense},
};
use crate::boots::same_load;

/// What the evidence says of a rule at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The whole interval keeps the bound.
    Pass,
    /// The figure breaks the bound, and that it got worse at all is beyond doubt.
    Fail,
    /// The interval holds both.
    NotDecided,
    /// There is no figure that could be used.
    NotEvaluable,
}

/// What becomes of a gate in which a rule is not decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undecided {
    /// It passes, with a warning.
    #[default]
    Pass,
    /// It fails.
    Fail,
}

/// One rule at one load, or of one answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The rule as written.
    pub rule: String,
    /// The figure.
    pub figure: String,
    /// `16 in flight`, `5 req/s` or `answers`.
    pub place: String,
    /// The verdict.
    pub word: Word,
    /// What is held against the bound: the change, the difference or the level. Null where there is
    /// none.
    pub value: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<Between>,
    /// The bound.
    pub bound: Bound,
    /// Which side of it fails.
    pub sense: Sense,
    /// In the base.
    pub base: Option<f64>,
    /// In the other.
    pub other: Option<f64>,
    /// Where the interval comes from.
    pub evidence: Evidence,
    /// Why, in a sentence.
    pub why: String,
}

/// What the whole gate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateVerdict {
    /// No rule is broken, and every one could be evaluated.
    Pass,
    /// A rule is broken, or is not decided and that was asked to fail.
    Fail,
    /// No rule is broken, but at least one could not be evaluated.
    NotEvaluable,
}

/// Rules and what came of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// The verdict of the whole.
    pub verdict: GateVerdict,
    /// What an undecided rule was asked to become.
    pub undecided: Undecided,
    /// Every rule at every place, in the order of the rules.
    pub cases: Vec<Case>,
    /// The confidence at which a case fails: what 95 % leaves is shared out over all cases, so that a
    /// gate on two equal servers fails in at most 1 of 20 runs, however many rules and loads.
    pub fail_confidence: f64,
}

impl Gate {
    /// Holds the rules against a comparison.
    #[must_use]
    pub fn judge(comparison: &Comparison, rules: &[Rule], undecided: Undecided) -> Self {
        let places: Vec<(&Rule, Place<'_>)> = rules
            .iter()
            .flat_map(|rule| places(comparison, rule).into_iter().map(move |p| (rule, p)))
            .collect();
        let tests = places.iter().filter(|(_, p)| p.figure.is_ok()).count();
        let fail_confidence = 1.0 - (1.0 - CONFIDENCE) / tests.max(1) as f64;
        let cases: Vec<Case> = places
            .into_iter()
            .map(|(rule, place)| case(rule, place, fail_confidence))
            .collect();
        let any = |word| cases.iter().any(|c| c.word == word);
        let undecided_fails = undecided == Undecided::Fail && any(Word::NotDecided);
        Self {
            verdict: if any(Word::Fail) || undecided_fails {
                GateVerdict::Fail
            } else if any(Word::NotEvaluable) {
                GateVerdict::NotEvaluable
            } else {
                GateVerdict::Pass
            },
            undecided,
            cases,
            fail_confidence,
        }
    }

    /// How many cases ended like this.
    #[must_use]
    pub fn count(&self, word: Word) -> usize {
        self.cases.iter().filter(|c| c.word == word).count()
    }
}

/// Where a rule is looked at: the figure, or why there is none.
struct Place<'a> {
    name: String,
    figure: Result<&'a Compared, String>,
}

fn places<'a>(comparison: &'a Comparison, rule: &Rule) -> Vec<Place<'a>> {
    if rule.is_of_answer() {
        let figure = find(&comparison.answers, rule).and_then(|f| trusted(comparison, f));
        return vec![Place {
            name: "answers".to_owned(),
            figure,
        }];
    }
    let meant = |p: &&ComparedPoint| {
        rule.at
            .is_none_or(|at| at.mode == p.mode && same_load(at.load, p.at))
    };
    let found: Vec<Place<'a>> = comparison
        .points
        .iter()
        .filter(meant)
        .map(|point| Place {
            name: point.load.clone(),
            figure: at_point(comparison, point, rule),
        })
        .collect();
    if found.is_empty() {
        let why = if rule.at.is_some() {
            "this load was not measured in both"
        } else {
            "no load was measured in both"
        };
        return vec![Place {
            name: "loads".to_owned(),
            figure: Err(why.to_owned()),
        }];
    }
    found
}

fn at_point<'a>(
    comparison: &Comparison,
    point: &'a ComparedPoint,
    rule: &Rule,
) -> Result<&'a Compared, String> {
    if let Some(why) = point.unusable.first() {
        return Err(why.clone());
    }
    find(&point.figures, rule).and_then(|f| trusted(comparison, f))
}

fn find<'a>(figures: &'a [Compared], rule: &Rule) -> Result<&'a Compared, String> {
    let found = figures.iter().find(|f| f.figure == rule.figure);
    found.ok_or_else(|| "tokens of two models do not compare".to_owned())
}

/// A figure of which at least one result is not to be trusted decides nothing.
fn trusted<'a>(comparison: &Comparison, figure: &'a Compared) -> Result<&'a Compared, String> {
    match comparison.doubts.first() {
        Some(doubt) => Err(doubt.clone()),
        None => Ok(figure),
    }
}

fn case(rule: &Rule, place: Place<'_>, fail_confidence: f64) -> Case {
    let bare = Case {
        rule: rule.text.clone(),
        figure: rule.figure.clone(),
        place: place.name,
        word: Word::NotEvaluable,
        value: None,
        interval: None,
        bound: rule.bound,
        sense: rule.sense,
        base: None,
        other: None,
        evidence: Evidence::Missing,
        why: String::new(),
    };
    let figure = match place.figure {
        Ok(figure) => figure,
        Err(why) => return Case { why, ..bare },
    };
    let held = Held::of(figure, rule.bound, 1.0);
    let surely = Held::of(
        figure,
        rule.bound,
        confidence_stretch(fail_confidence).unwrap_or(1.0),
    );
    let (word, why) = match (judge(rule, figure, &held, &surely), figure.caveats.first()) {
        // What is not valid decides nothing: only loads around all of it do.
        ((word, _), Some(caveat))
            if word == Word::NotDecided || figure.evidence != Evidence::TestedLoads =>
        {
            (Word::NotEvaluable, caveat.clone())
        }
        (judged, _) => judged,
    };
    Case {
        word,
        why,
        value: held.value,
        interval: held.interval.map(Between::from),
        base: figure.base,
        other: figure.other,
        evidence: figure.evidence,
        ..bare
    }
}

/// What a rule looks at: a value and its interval.
struct Held {
    value: Option<f64>,
    interval: Option<Interval>,
}

impl Held {
    /// The change, difference or level, with distances `stretch` times those of a 95 % interval.
    fn of(figure: &Compared, bound: Bound, stretch: f64) -> Self {
        // Between tested loads lies a certainty, not a chance: it does not grow with confidence.
        let stretch = if figure.evidence == Evidence::TestedLoads {
            1.0
        } else {
            stretch
        };
        let far = |b: Option<Bounded>| b.map(|b| b.stretched(stretch));
        let (base, other) = (far(figure.base_bounded()), far(figure.other_bounded()));
        let both = base.zip(other);
        let r = figure.correlation;
        match bound {
            Bound::Change(_) => Self {
                value: figure.change,
                interval: both.and_then(|(a, b)| change_interval(a, b, r)),
            },
            Bound::Difference(_) => Self {
                value: figure.other.zip(figure.base).map(|(b, a)| b - a),
                interval: both.map(|(a, b)| difference_interval(a, b, r)),
            },
            Bound::Level(_) => Self {
                value: figure.other,
                interval: other.map(|b| b.interval),
            },
        }
    }
}

fn judge(rule: &Rule, figure: &Compared, held: &Held, surely: &Held) -> (Word, String) {
    // Everything below is written for `<`; for `>` signs turn.
    let turn = match rule.sense {
        Sense::Below => 1.0,
        Sense::Above => -1.0,
    };
    let (bound, no_change) = match rule.bound {
        Bound::Change(x) | Bound::Difference(x) => (turn * x, 0.0_f64),
        Bound::Level(x) => (turn * x, f64::NEG_INFINITY),
    };
    let ends = |i: Interval| match rule.sense {
        Sense::Below => (i.low, i.high),
        Sense::Above => (-i.high, -i.low),
    };
    let (Some((low, _)), Some((_, high))) = (held.interval.map(ends), surely.interval.map(ends))
    else {
        return without_interval(figure);
    };
    // A tolerance is left behind where the figure surely got worse and by more than it as far as
    // one can say; an improvement that is asked for is missing where it surely is.
    let worse_than = bound.max(no_change);
    let Some(value) = held.value.map(|v| turn * v) else {
        return if high < bound {
            (
                Word::Fail,
                "the answer is gone: every load that would do breaks".to_owned(),
            )
        } else {
            (Word::NotEvaluable, gone(figure))
        };
    };
    if value < bound && high < worse_than {
        return (
            Word::Fail,
            format!("broken{}", of_evidence(figure.evidence)),
        );
    }
    if low >= bound {
        return (Word::Pass, format!("kept{}", of_evidence(figure.evidence)));
    }
    let needed = if value < bound {
        (high - value) / (worse_than - value)
    } else {
        (value - low) / (value - bound)
    };
    (Word::NotDecided, undecided(figure, needed))
}

fn of_evidence(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Paired => ", request by request",
        Evidence::Boots => ", over boots",
        Evidence::TestedLoads => ", between tested loads",
        Evidence::Independent | Evidence::Missing => "",
    }
}

fn gone(figure: &Compared) -> String {
    let side = if figure.base.is_none() {
        "base"
    } else {
        "other"
    };
    format!("{side}: there is no {}", figure.figure)
}

fn without_interval(figure: &Compared) -> (Word, String) {
    if figure.base.is_none() || figure.other.is_none() {
        return (Word::NotEvaluable, gone(figure));
    }
    let why = match (figure.evidence, figure.samples) {
        (Evidence::Missing, Some(n)) => {
            format!("{n} requests are too few for an interval of this figure")
        }
        (Evidence::Missing, None)
            if ["cap_in_flight", "sell_req_s", "scale_out_at_req_s"]
                .contains(&figure.figure.as_str()) =>
        {
            "no tested load above the answer surely breaks: test further out".to_owned()
        }
        (Evidence::Missing, None) => {
            "the figure has no interval: its requests.jsonl is not there".to_owned()
        }
        _ => {
            "the base's interval reaches to zero or to twice its value: too few requests".to_owned()
        }
    };
    (Word::NotDecided, why)
}

/// How much more would decide, if the figures are what they seem: distances shrink with the root of
/// the requests.
fn undecided(figure: &Compared, needed: f64) -> String {
    let times = needed * needed;
    match figure.evidence {
        Evidence::TestedLoads => "the tested loads are too far apart to tell".to_owned(),
        Evidence::Boots => "the boots lie too far apart to tell: measure more of them".to_owned(),
        _ if times.is_finite() && times < 200.0 => format!(
            "the interval holds both: about {} times the requests would decide",
            times.ceil().max(2.0)
        ),
        _ => "the interval holds both".to_owned(),
    }
}
