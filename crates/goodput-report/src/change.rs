//! Changes between two results in words, the same for terminal, Markdown and `JUnit`.

use goodput_ledger::Between;
use goodput_sweep::{
    BootCounts, Bound, Case, Compared, ComparedPoint, Comparison, Contrast, Gate, GateVerdict,
    Word, error as prediction_error, is_shown,
};

use crate::number::{NONE, count, number, number_or_none, percent};

/// The place of what belongs to no load.
pub(crate) const ANSWERS: &str = "answers";

/// A figure in its own unit: shares in percent.
pub(crate) fn figure(name: &str, value: Option<f64>) -> String {
    match value {
        Some(_) if is_share(name) => percent(value) + "%",
        value => number_or_none(value),
    }
}

fn is_share(name: &str) -> bool {
    name.ends_with("attainment")
}

/// A relative change with its sign: `-5.0%`.
pub(crate) fn change(change: Option<f64>) -> String {
    let text = change.map_or_else(|| NONE.to_owned(), |c| format!("{:+.1}%", c * 100.0));
    // A change that rounds to nothing has no sign.
    match text.as_str() {
        "+0.0%" | "-0.0%" => "0.0%".to_owned(),
        _ => text,
    }
}

/// The error of a prediction with its sign: of a share in points, else relative.
pub(crate) fn error(figure: &Contrast) -> String {
    let error = prediction_error(figure);
    if is_share(&figure.compared.figure) {
        return error.map_or_else(|| NONE.to_owned(), |e| format!("{:+.1}", 100.0 * e));
    }
    change(error)
}

/// The size of an error, without a sign.
pub(crate) fn size_of_error(name: &str, size: f64) -> String {
    if is_share(name) {
        format!("{:.1} points", 100.0 * size)
    } else {
        format!("{:.1}%", 100.0 * size)
    }
}

/// `[-6.9% .. -3.1%]`.
pub(crate) fn change_interval(interval: Option<Between>) -> String {
    interval.map_or_else(String::new, |i| {
        format!("[{} .. {}]", change(Some(i.low)), change(Some(i.high)))
    })
}

/// The interval of a figure's change; of its difference where the base may be nothing.
pub(crate) fn interval_of(figure: &Compared) -> String {
    change_interval(figure.change_interval)
}

/// The answers that people are shown: of the two thresholds of scaling out the one that holds, which
/// is by the rate to sell where there is one; characters only where tokens do not compare.
pub(crate) fn answers(comparison: &Comparison) -> Vec<&Compared> {
    let sold = |f: &Compared| f.figure == "sell_req_s" && (f.base.or(f.other)).is_some();
    let second = if comparison.answers.iter().any(sold) {
        "scale_out_at_tok_s"
    } else {
        "scale_out_at_req_s"
    };
    let shown = comparison.answers.iter().filter(|f| f.figure != second);
    shown.filter(|f| compares(comparison, f)).collect()
}

/// The figures of a load that people are shown.
pub(crate) fn figures<'a>(comparison: &Comparison, point: &'a ComparedPoint) -> Vec<&'a Compared> {
    let shown = point.figures.iter().filter(|f| is_shown(&f.figure));
    shown.filter(|f| compares(comparison, f)).collect()
}

/// Characters are for models whose tokens do not compare.
fn compares(comparison: &Comparison, figure: &Compared) -> bool {
    !(comparison.tokens_comparable && figure.figure.contains("characters"))
}

/// What a rule looks at, with its interval: `-5.0% [-6.9% .. -3.1%]`.
pub(crate) fn held(case: &Case) -> String {
    let one = |x: f64| match case.bound {
        Bound::Change(_) => change(Some(x)),
        Bound::Difference(_) if is_share(&case.figure) => format!("{:+.2} points", x * 100.0),
        Bound::Difference(_) if x > 0.0 => format!("+{}", number(x)),
        Bound::Difference(_) => number(x),
        Bound::Level(_) => figure(&case.figure, Some(x)),
    };
    let value = case.value.map_or_else(|| NONE.to_owned(), one);
    match case.interval {
        Some(i) => format!("{value} [{} .. {}]", one(i.low), one(i.high)),
        None => value,
    }
}

/// `FAIL`.
pub(crate) const fn word(word: Word) -> &'static str {
    match word {
        Word::Pass => "PASS",
        Word::Fail => "FAIL",
        Word::NotDecided => "NOT DECIDED",
        Word::NotEvaluable => "NOT EVALUABLE",
    }
}

/// The whole gate in a line: `FAIL: 1 of 6 checks broken, 2 not decided`.
pub(crate) fn gate(gate: &Gate) -> String {
    let verdict = match gate.verdict {
        GateVerdict::Pass => "PASS",
        GateVerdict::Fail => "FAIL",
        GateVerdict::NotEvaluable => "NOT EVALUABLE",
    };
    let all = gate.cases.len();
    let mut parts = vec![match gate.count(Word::Fail) {
        0 => format!("none of {all} checks broken"),
        n => format!("{n} of {all} checks broken"),
    }];
    // A gate that fails with nothing broken fails for what is not decided.
    let decides = gate.verdict == GateVerdict::Fail && gate.count(Word::Fail) == 0;
    let not_decided = if decides {
        "not decided, which was asked to fail"
    } else {
        "not decided"
    };
    for (word, name) in [
        (Word::NotDecided, not_decided),
        (Word::NotEvaluable, "not evaluable"),
    ] {
        match gate.count(word) {
            0 => {}
            n => parts.push(format!("{n} {name}")),
        }
    }
    format!("{verdict}: {}", parts.join(", "))
}

/// What a gate's confidence means, in a sentence. What it promises of equal servers holds for what
/// the intervals hold: with one boot on both sides, for these boots.
pub(crate) fn confidence(gate: &Gate, boots: BootCounts) -> String {
    let equal = match boots {
        BootCounts { base: 1, other: 1 } => "two runs of one boot",
        _ => "two equal servers",
    };
    format!(
        "intervals are at 95%; a check fails where the figure is beyond its bound and surely got worse, at {:.2}%: \
         {equal} fail the gate in at most 1 of 20 runs",
        gate.fail_confidence * 100.0
    )
}

/// What the boots behind a comparison mean for its intervals.
pub(crate) fn boots(boots: BootCounts) -> String {
    match boots {
        BootCounts { base: 1, other: 1 } => {
            "this boot only, on both sides: what a restart alone changes is not known and in no interval"
                .to_owned()
        }
        BootCounts { base: 1, other } => format!(
            "1 boot against {other}: the base is taken as one boot of a server that varies as the other does"
        ),
        BootCounts { base, other: 1 } => format!(
            "{base} boots against 1: the other is taken as one boot of a server that varies as the base does"
        ),
        BootCounts { base, other } => {
            format!("{base} boots against {other}: intervals hold what a restart changes")
        }
    }
}

/// How many requests were compared one by one.
pub(crate) fn pairs(comparison: &Comparison) -> Option<String> {
    let pairs: Vec<u64> = comparison.points.iter().filter_map(|p| p.pairs).collect();
    let requests: u64 = pairs.iter().sum();
    let loads = pairs.len();
    (loads > 0).then(|| {
        format!(
            "{} requests at {loads} {} were sent to both: what they share is taken out of the intervals",
            count(requests),
            if loads == 1 { "load" } else { "loads" }
        )
    })
}

/// A rule at a place in a line, for messages.
pub(crate) fn case(case: &Case) -> String {
    let mut out = format!("{}: {}", word(case.word), case.figure);
    if case.place != ANSWERS {
        out += &format!(" at {}", case.place);
    }
    if case.word == Word::NotEvaluable {
        return format!("{out}: {}", case.why);
    }
    let shown = |value| figure(&case.figure, value);
    let (base, other) = (shown(case.base), shown(case.other));
    format!("{out}: {base} -> {other}, {}: {}", held(case), case.why)
}

#[cfg(test)]
pub(crate) mod tests {
    use goodput_sweep::{Rule, Side, Undecided, compare};

    use super::*;
    use crate::sample::{sample, scaled};

    /// The sample against one that is worse, with rules of every verdict.
    pub(crate) fn gated() -> Comparison {
        let mut base = sample();
        base.findings.clear();
        let mut other = scaled(0.9, 1.4);
        other.findings.clear();
        other.holds_for.server.version = Some("0.33|beta".to_owned());
        other.points[8].warnings = vec!["the client was too slow".to_owned()];
        let mut comparison = compare(&Side::alone(&base), &Side::alone(&other));
        let rules = [
            "goodput_tok_s < -3% at 16",
            "goodput_tok_s < -20% at 8",
            "goodput_tok_s < -3% at 96",
            "ttft_p99_ms > +10% at 16",
            "slo_attainment < 99% at 4.6 req/s",
            "sell_req_s < -50%",
        ];
        let rules = rules.map(|rule| Rule::parse(rule).unwrap());
        comparison.gate = Some(Gate::judge(&comparison, &rules, Undecided::Pass));
        comparison
    }

    #[test]
    fn every_verdict_has_a_word_of_its_own() {
        let gate = gated().gate.unwrap();
        let words: Vec<Word> = gate.cases.iter().map(|c| c.word).collect();
        for wanted in [Word::Pass, Word::Fail, Word::NotDecided, Word::NotEvaluable] {
            assert!(words.contains(&wanted), "{words:?}");
        }
        assert_eq!(gate.verdict, GateVerdict::Fail);
    }

    #[test]
    fn a_gate_that_fails_with_nothing_broken_says_why() {
        let mut gate = gated().gate.unwrap();
        gate.cases.retain(|c| c.word == Word::NotDecided);
        let left = gate.cases.len();
        assert_eq!(
            super::gate(&gate),
            format!(
                "FAIL: none of {left} checks broken, {left} not decided, which was asked to fail"
            )
        );
        gate.verdict = GateVerdict::Pass;
        assert_eq!(
            super::gate(&gate),
            format!("PASS: none of {left} checks broken, {left} not decided")
        );
    }
}
