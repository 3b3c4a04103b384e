//! A gate as a `JUnit` file, as continuous integration servers read it: one test case a rule.

use goodput_sweep::{Case, Comparison, Gate, Undecided, Word};

use crate::change;

/// What a rule is in the words of `JUnit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// Could not be evaluated.
    Error,
    /// Not decided, and that was not asked to fail.
    Skipped,
}

/// The gate of a comparison as `JUnit` XML. Without rules there is a suite without cases.
///
/// A rule fails where it fails at any load. One that is not decided is skipped, or fails where that
/// was asked for.
#[must_use]
pub fn suite(comparison: &Comparison) -> String {
    let none = Vec::new();
    let (cases, undecided) = match &comparison.gate {
        Some(Gate {
            cases, undecided, ..
        }) => (cases, *undecided),
        None => (&none, Undecided::Pass),
    };
    let rules = by_rule(cases);
    let outcomes: Vec<Outcome> = rules.iter().map(|r| outcome(r, undecided)).collect();
    let count = |wanted| outcomes.iter().filter(|o| **o == wanted).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\"",
        rules.len(),
        count(Outcome::Failed),
        count(Outcome::Error),
    );
    // The names stay the same from run to run, so that servers can follow a rule through them.
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"goodput compare\" {counts}>\n\
         \x20 <testsuite name=\"gate\" {counts} skipped=\"{}\">\n    <properties>\n",
        count(Outcome::Skipped)
    );
    for (side, held) in [("base", &comparison.base), ("other", &comparison.other)] {
        let value = attribute(held);
        out += &format!("      <property name=\"{side}\" value=\"{value}\"/>\n");
    }
    out += "    </properties>\n";
    for (rule, outcome) in rules.iter().zip(outcomes) {
        out += &test_case(rule, outcome);
    }
    out + "  </testsuite>\n</testsuites>\n"
}

/// Cases of one rule together. They stand together already.
fn by_rule(cases: &[Case]) -> Vec<&[Case]> {
    cases.chunk_by(|a, b| a.rule == b.rule).collect()
}

fn outcome(rule: &[Case], undecided: Undecided) -> Outcome {
    let any = |word| rule.iter().any(|c| c.word == word);
    let open = any(Word::NotDecided);
    if any(Word::Fail) || (open && undecided == Undecided::Fail) {
        Outcome::Failed
    } else if any(Word::NotEvaluable) {
        Outcome::Error
    } else if open {
        Outcome::Skipped
    } else {
        Outcome::Passed
    }
}

fn test_case(rule: &[Case], outcome: Outcome) -> String {
    let (name, figure) = (attribute(&rule[0].rule), attribute(&rule[0].figure));
    let lines: Vec<String> = rule.iter().map(change::case).collect();
    let decisive = rule.iter().find(|c| is_decisive(c, outcome));
    let message = attribute(&decisive.map(change::case).unwrap_or_default());
    let body = escaped(&lines.join("\n"));
    let told = match outcome {
        Outcome::Passed => String::new(),
        Outcome::Failed => {
            format!("      <failure type=\"gate\" message=\"{message}\">{body}</failure>\n")
        }
        Outcome::Error => {
            format!("      <error type=\"not-evaluable\" message=\"{message}\">{body}</error>\n")
        }
        Outcome::Skipped => format!("      <skipped message=\"{message}\"/>\n"),
    };
    format!(
        "    <testcase classname=\"goodput.{figure}\" name=\"{name}\" time=\"0\">\n{told}      <system-out>{body}</system-out>\n    </testcase>\n"
    )
}

/// Whether a case made its rule end like this.
fn is_decisive(case: &Case, outcome: Outcome) -> bool {
    match outcome {
        Outcome::Passed => false,
        Outcome::Failed => matches!(case.word, Word::Fail | Word::NotDecided),
        Outcome::Error => case.word == Word::NotEvaluable,
        Outcome::Skipped => case.word == Word::NotDecided,
    }
}

/// Text of an attribute: a line break written as such would be read as a space.
fn attribute(text: &str) -> String {
    escaped(text).replace('\n', "&#10;").replace('\t', "&#9;")
}

/// Text as XML 1.0 may hold it. Characters that it may not hold at all are left out.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&apos;",
            '\n' | '\t' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c < ' ' || ('\u{7f}'..='\u{9f}').contains(&c) => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::tests::gated;

    #[test]
    fn one_test_case_a_rule() {
        insta::assert_snapshot!(suite(&gated()));
    }

    #[test]
    fn an_undecided_rule_fails_where_it_was_asked_to() {
        let mut comparison = gated();
        let failures = |c: &Comparison| suite(c).matches("<failure").count();
        let before = failures(&comparison);
        let gate = comparison.gate.as_mut().unwrap();
        let open = by_rule(&gate.cases)
            .iter()
            .filter(|r| outcome(r, Undecided::Pass) == Outcome::Skipped)
            .count();
        gate.undecided = Undecided::Fail;
        assert!(open > 0);
        assert_eq!(failures(&comparison), before + open);
    }

    #[test]
    fn whatever_a_name_holds_the_file_stays_xml() {
        assert_eq!(
            escaped("a<b>&\"c'\u{0}\u{8}\n"),
            "a&lt;b&gt;&amp;&quot;c&apos;\n"
        );
        assert_eq!(attribute("a\n\"b\"\t"), "a&#10;&quot;b&quot;&#9;");
    }

    #[test]
    fn a_comparison_without_rules_is_an_empty_suite() {
        let mut comparison = gated();
        comparison.gate = None;
        assert!(suite(&comparison).contains("tests=\"0\""));
    }
}
