//! Rules of a gate as they are written: `goodput_tok_s < -3%`, `ttft_p99_ms > 500ms at 16`.

use std::{fmt, ops::Range};

use goodput_config::{Decimal, FromText, Problem, TextError, known_names, suggest};
use goodput_ledger::Mode;
use serde::{Deserialize, Serialize};

use super::figure::{ANSWERS, FIGURES, Unit};

const RULE: &str = "FIGURE < BOUND or FIGURE > BOUND, such as `goodput_tok_s < -3%`, with `at LOAD` where it is meant for one load";

/// Which side of the bound fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sense {
    /// Below it.
    Below,
    /// Above it.
    Above,
}

/// What is held against what.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The relative change from base to other: -0.03 for `-3%`.
    Change(f64),
    /// The difference other minus base, in the figure's unit: `+20ms`.
    Difference(f64),
    /// The other's figure itself, in its unit: `500ms`.
    Level(f64),
}

/// The one load that a rule is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct At {
    /// Closed or open loop.
    pub mode: Mode,
    /// In the unit of the mode.
    pub load: f64,
}

/// One rule: the gate fails where it holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// As written.
    pub text: String,
    /// The figure of a point, or the answer.
    pub figure: String,
    /// Which side of the bound fails.
    pub sense: Sense,
    /// The bound.
    pub bound: Bound,
    /// One load. None: every load that both measured.
    pub at: Option<At>,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromText for Rule {
    fn from_text(text: &str) -> Result<Self, TextError> {
        Self::parse(text).map_err(|problem| TextError {
            message: problem.message,
            expected: problem.expected,
            hint: problem.hint,
        })
    }
}

/// The figures that a rule may name: those of points, then the answers.
#[must_use]
pub fn known_figures() -> Vec<&'static str> {
    let points = FIGURES.iter().map(|f| f.name);
    points.chain(ANSWERS.iter().map(|a| a.0)).collect()
}

fn unit_of(figure: &str) -> Option<Unit> {
    let point = FIGURES.iter().find(|f| f.name == figure).map(|f| f.unit);
    point.or_else(|| ANSWERS.iter().find(|a| a.0 == figure).map(|a| a.1))
}

impl Rule {
    /// Reads a rule. A bound with a sign is a change from base to other, one without is a level of
    /// the other.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let mut rest = Rest { text, at: 0 };
        let (figure, place) = rest.word(|c| c.is_ascii_alphanumeric() || c == '_');
        let unit = unit_of(figure).ok_or_else(|| no_figure(figure, place))?;
        let sense = sense(&mut rest)?;
        let (condition, at) = split_load(&rest)?;
        let bound = bound(condition, unit)?;
        let at = at.map(load).transpose()?;
        if let (Some(_), true) = (at, ANSWERS.iter().any(|a| a.0 == figure)) {
            return Err(
                TextError::new(format!("`{figure}` is an answer of the whole sweep"))
                    .hint("leave `at` out: an answer belongs to no load")
                    .at(0..figure.len()),
            );
        }
        Ok(Self {
            // One line, as it is shown in tables and as the name of a test case.
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            figure: figure.to_owned(),
            sense,
            bound,
            at,
        })
    }

    /// Whether it speaks of an answer of the whole sweep.
    #[must_use]
    pub fn is_of_answer(&self) -> bool {
        ANSWERS.iter().any(|a| a.0 == self.figure)
    }
}

/// What is left of a text, and where it stands.
#[derive(Clone, Copy)]
struct Rest<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Rest<'a> {
    fn skip_spaces(&mut self) {
        let trimmed = self.text.trim_start();
        self.at += self.text.len() - trimmed.len();
        self.text = trimmed;
    }

    /// The characters that come next and are of this kind.
    fn word(&mut self, of: impl Fn(char) -> bool) -> (&'a str, Range<usize>) {
        self.skip_spaces();
        let end = self.text.find(|c| !of(c)).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        let place = self.at..self.at + end;
        *self = Self {
            text: rest,
            at: self.at + end,
        };
        (word, place)
    }

    fn all(&self) -> Range<usize> {
        self.at..self.at + self.text.len().max(1)
    }
}

fn no_figure(word: &str, place: Range<usize>) -> Problem {
    let known = known_figures();
    if word.is_empty() {
        return TextError::new("a rule begins with the name of a figure")
            .expected(RULE)
            .at(place.start..place.start + 1);
    }
    let error = TextError::new(format!("`{word}` is not a figure that is compared"))
        .expected(known_names(&known));
    match suggest(word, &known) {
        Some(name) => error.hint(format!("did you mean `{name}`?")),
        None => error,
    }
    .at(place)
}

fn sense(rest: &mut Rest<'_>) -> Result<Sense, Problem> {
    let (word, place) = rest.word(|c| "<>=!".contains(c));
    match word {
        "<" => Ok(Sense::Below),
        ">" => Ok(Sense::Above),
        "<=" | ">=" => Err(TextError::new(format!("`{word}` is not known in a rule"))
            .expected("`<` or `>`")
            .hint(format!(
                "write `{}`: what lies exactly on a bound does not break it",
                &word[..1]
            ))
            .at(place)),
        _ => Err(TextError::new("the figure is held against nothing")
            .expected("`<` or `>` and a bound")
            .at(place.start..place.end.max(place.start + 1))),
    }
}

/// Takes `at LOAD` off the end.
fn split_load<'a>(rest: &Rest<'a>) -> Result<(Rest<'a>, Option<Rest<'a>>), Problem> {
    let Some(index) = rest.text.find(" at") else {
        return Ok((*rest, None));
    };
    let load = Rest {
        text: &rest.text[index + 3..],
        at: rest.at + index + 3,
    };
    if load.text.trim().is_empty() {
        return Err(TextError::new("`at` names no load")
            .expected(LOAD)
            .at(load.at - 2..load.at));
    }
    let condition = Rest {
        text: &rest.text[..index],
        at: rest.at,
    };
    Ok((condition, Some(load)))
}

const LOAD: &str = "`at 16` (in flight) or `at 5 req/s`";

fn load(mut rest: Rest<'_>) -> Result<At, Problem> {
    rest.skip_spaces();
    let whole = rest.all();
    let (number, _) = rest.word(|c| c.is_ascii_digit() || c == '.' || c == '_');
    let wrong = || {
        TextError::new("this is not a load")
            .expected(LOAD)
            .at(whole.clone())
    };
    let load = Decimal::parse(number).filter(|n| !n.is_zero());
    let load = load.ok_or_else(wrong)?.to_f64();
    let mode = match rest.text.trim() {
        "" | "in flight" if load.fract() == 0.0 => Mode::Closed,
        "req/s" => Mode::Open,
        _ => return Err(wrong()),
    };
    Ok(At { mode, load })
}

fn bound(mut rest: Rest<'_>, unit: Unit) -> Result<Bound, Problem> {
    rest.skip_spaces();
    let whole = rest.all();
    let (sign, _) = rest.word(|c| c == '+' || c == '-');
    let (number, _) = rest.word(|c| c.is_ascii_digit() || c == '.' || c == '_');
    let (word, place) = rest.word(|_| true);
    let word = word.trim_end();
    let value = Decimal::parse(number).filter(|_| sign.len() <= 1);
    let value = value.ok_or_else(|| no_bound(&whole, unit))?.to_f64();
    let signed = if sign == "-" { -value } else { value };
    if word == "%" {
        return percent(sign, signed, unit, whole);
    }
    let factor =
        factor(word, unit).ok_or_else(|| wrong_unit(number, word, unit, &place, &whole))?;
    Ok(if sign.is_empty() {
        Bound::Level(value * factor)
    } else {
        Bound::Difference(signed * factor)
    })
}

fn percent(sign: &str, value: f64, unit: Unit, place: Range<usize>) -> Result<Bound, Problem> {
    let share = value / 100.0;
    match (sign, unit) {
        ("", Unit::Share) => Ok(Bound::Level(share)),
        ("", _) if share != 0.0 => Err(TextError::new(format!("`{value}%` of what?"))
            .expected("a change with its sign, or a level in the figure's unit")
            .hint(format!("write `-{value}%` for less, `+{value}%` for more"))
            .at(place)),
        _ => Ok(Bound::Change(share)),
    }
}

/// What a number with this unit is multiplied by; milliseconds for times.
fn factor(word: &str, unit: Unit) -> Option<f64> {
    match (unit, word) {
        (Unit::Milliseconds, "us") => Some(1e-3),
        (Unit::Milliseconds, "ms") => Some(1.0),
        (Unit::Milliseconds, "s") => Some(1e3),
        (Unit::Milliseconds, "min") => Some(6e4),
        (Unit::Milliseconds, _) => None,
        (_, "") => Some(1.0),
        (unit, word) => (word == unit.word()).then_some(1.0),
    }
}

fn units(unit: Unit) -> &'static str {
    match unit {
        Unit::Milliseconds => "a time with its unit, such as `500ms`, or a change such as `+5%`",
        Unit::Share => "a share such as `0.99` or `99%`, or a change such as `-0.005`",
        Unit::InFlight => "a number such as `16`, or a change such as `-10%`",
        Unit::TokensPerSecond => "a number such as `1200 tok/s`, or a change such as `-3%`",
        Unit::RequestsPerSecond => "a number such as `4.5 req/s`, or a change such as `-3%`",
        Unit::CharactersPerSecond => "a number such as `4000 char/s`, or a change such as `-3%`",
    }
}

fn no_bound(place: &Range<usize>, unit: Unit) -> Problem {
    TextError::new("this is not a bound")
        .expected(units(unit))
        .at(place.clone())
}

fn wrong_unit(
    number: &str,
    word: &str,
    unit: Unit,
    place: &Range<usize>,
    whole: &Range<usize>,
) -> Problem {
    if word.is_empty() {
        return TextError::new(format!("`{number}` has no unit"))
            .expected(units(unit))
            .at(whole.clone());
    }
    TextError::new(format!("`{word}` is not a unit of this figure"))
        .expected(units(unit))
        .at(place.start..place.start + word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn reads(text: &str, sense: Sense, bound: Bound, at: Option<(Mode, f64)>) {
        let rule = Rule::parse(text).unwrap();
        let found = rule.at.map(|at| (at.mode, at.load));
        assert_eq!(
            (rule.sense, rule.bound, found),
            (sense, bound, at),
            "{text}"
        );
        assert_eq!(rule.text, text.trim());
    }

    #[track_caller]
    fn refused(text: &str, marked: &str, words: &[&str]) {
        let problem = Rule::parse(text).unwrap_err();
        let span = problem.span.clone().unwrap();
        assert_eq!(text.get(span).unwrap_or_default(), marked, "{problem:?}");
        let shown = problem.render("--fail-on", text, goodput_config::Severity::Error, false);
        for word in words {
            assert!(shown.contains(word), "no `{word}` in\n{shown}");
        }
    }

    #[test]
    fn a_sign_makes_a_change_and_none_a_level() {
        use {Bound::*, Sense::*};
        reads("goodput_tok_s < -3%", Below, Change(-0.03), None);
        reads("ttft_p99_ms>+5%", Above, Change(0.05), None);
        reads(" ttft_p99_ms > 500ms ", Above, Level(500.0), None);
        reads("ttft_p99_ms > 1.5s", Above, Level(1500.0), None);
        reads("tpot_p99_ms > +2ms", Above, Difference(2.0), None);
        reads("slo_attainment < 0.99", Below, Level(0.99), None);
        reads("slo_attainment < 99%", Below, Level(0.99), None);
        reads("slo_attainment < -0.005", Below, Difference(-0.005), None);
        reads("goodput_tok_s < 1_200 tok/s", Below, Level(1200.0), None);
        reads("goodput_tok_s < 0%", Below, Change(0.0), None);
        reads("sell_req_s < -10%", Below, Change(-0.1), None);
    }

    #[test]
    fn a_rule_is_one_line_however_it_was_written() {
        let rule = Rule::parse(" goodput_tok_s\n <\t-3%  at 16 ").unwrap();
        assert_eq!(rule.text, "goodput_tok_s < -3% at 16");
    }

    #[test]
    fn a_rule_may_name_one_load() {
        use {Bound::*, Mode::*, Sense::*};
        let rule = "goodput_tok_s < -3% at";
        reads(
            &format!("{rule} 16"),
            Below,
            Change(-0.03),
            Some((Closed, 16.0)),
        );
        reads(
            &format!("{rule} 16 in flight"),
            Below,
            Change(-0.03),
            Some((Closed, 16.0)),
        );
        reads(
            &format!("{rule} 4.5 req/s"),
            Below,
            Change(-0.03),
            Some((Open, 4.5)),
        );
    }

    #[test]
    fn what_is_wrong_is_marked_and_told() {
        refused(
            "godput_tok_s < -3%",
            "godput_tok_s",
            &["did you mean `goodput_tok_s`?", "sell_req_s"],
        );
        refused("< -3%", "<", &["begins with the name of a figure"]);
        refused("goodput_tok_s -3%", "-", &["held against nothing"]);
        refused("goodput_tok_s <= -3%", "<=", &["`<` or `>`", "write `<`"]);
        refused(
            "goodput_tok_s < 3%",
            "3%",
            &["write `-3%` for less, `+3%` for more"],
        );
        refused(
            "goodput_tok_s < 500ms",
            "ms",
            &["not a unit of this figure", "tok/s"],
        );
        refused(
            "ttft_p99_ms > 500",
            "500",
            &["`500` has no unit", "`500ms`"],
        );
        refused("goodput_tok_s < fast", "fast", &["not a bound"]);
        refused("goodput_tok_s < --3%", "--3%", &["not a bound"]);
        refused("goodput_tok_s < -3% at", "at", &["names no load"]);
        refused(
            "goodput_tok_s < -3% at noon",
            "noon",
            &["not a load", "at 5 req/s"],
        );
        refused("goodput_tok_s < -3% at 2.5", "2.5", &["not a load"]);
        refused(
            "sell_req_s < -3% at 5 req/s",
            "sell_req_s",
            &["leave `at` out"],
        );
        refused("goodput_tok_s <", "", &["not a bound"]);
    }

    #[test]
    fn every_name_is_known_once() {
        let mut names = known_figures();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
