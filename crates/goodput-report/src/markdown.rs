//! A comparison as Markdown, for the description or a comment of a pull request: the verdict first,
//! then the checks, everything else folded away.

use goodput_sweep::{BootCounts, Compared, Comparison, Gate, Word};

use crate::change;

/// A comparison as Markdown.
#[must_use]
pub fn comparison(comparison: &Comparison) -> String {
    let mut out = match &comparison.gate {
        Some(gate) => {
            format!("### goodput: {}\n\n", change::gate(gate)) + &checks(gate, comparison.boots)
        }
        None => "### goodput: two results\n".to_owned(),
    };
    out += &notes(comparison);
    if comparison.gate.is_none() {
        out += "\n";
        out += &figures(&change::answers(comparison));
        out += &loads(comparison);
    } else {
        out += "\n<details><summary>All figures</summary>\n\n**Answers**\n\n";
        out += &figures(&change::answers(comparison));
        out += &loads(comparison);
        out += "\n</details>\n";
    }
    out
}

/// One line a check. Broken ones first: a reader of a pull request may read no further.
fn checks(gate: &Gate, boots: BootCounts) -> String {
    let mut out =
        "| | check | at | base | other | change |\n|---|---|---|--:|--:|---|\n".to_owned();
    let order = [Word::Fail, Word::NotEvaluable, Word::NotDecided, Word::Pass];
    for word in order {
        for case in gate.cases.iter().filter(|c| c.word == word) {
            let why = match case.word {
                Word::Pass | Word::Fail => String::new(),
                Word::NotDecided | Word::NotEvaluable => format!("<br>{}", cell(&case.why)),
            };
            out += &format!(
                "| **{}** | {} | {} | {} | {} | {}{why} |\n",
                change::word(word),
                code(&case.rule).replace('|', "\\|"),
                cell(&case.place),
                cell(&change::figure(&case.figure, case.base)),
                cell(&change::figure(&case.figure, case.other)),
                cell(&change::held(case)),
            );
        }
    }
    out + &format!("\n<sub>{}</sub>\n", change::confidence(gate, boots))
}

fn notes(comparison: &Comparison) -> String {
    let mut out = format!(
        "\n- base: {}\n- other: {}\n",
        code(&comparison.base),
        code(&comparison.other)
    );
    let one_boot = comparison.boots.base == 1 && comparison.boots.other == 1;
    let boots = change::boots(comparison.boots);
    out += &if one_boot {
        format!("- **{boots}**\n")
    } else {
        format!("- {boots}\n")
    };
    if let Some(pairs) = change::pairs(comparison) {
        out += &format!("- {pairs}\n");
    }
    for doubt in &comparison.doubts {
        out += &format!("- **not to be trusted**: {}\n", cell(doubt));
    }
    for differs in comparison.mismatches.iter().chain(&comparison.differs) {
        out += &format!(
            "- differs: {}: {} / {}\n",
            cell(&differs.what),
            code(&differs.base),
            code(&differs.other)
        );
    }
    out
}

fn loads(comparison: &Comparison) -> String {
    let mut out = String::new();
    for point in &comparison.points {
        out += &format!("\n**{}**\n\n", cell(&point.load));
        for why in &point.unusable {
            out += &format!("- not used: {}\n", cell(why));
        }
        let shown = change::figures(comparison, point);
        if !shown.is_empty() {
            out += &figures(&shown);
        }
    }
    out
}

fn figures(figures: &[&Compared]) -> String {
    let mut out =
        "| figure | base | other | change | 95% interval |\n|---|--:|--:|--:|---|\n".to_owned();
    for figure in figures {
        let caveats = figure
            .caveats
            .iter()
            .map(|c| format!("<br>**!** {}", cell(c)));
        out += &format!(
            "| {} | {} | {} | {} | {}{} |\n",
            cell(&figure.figure),
            cell(&change::figure(&figure.figure, figure.base)),
            cell(&change::figure(&figure.figure, figure.other)),
            change::change(figure.change),
            change::interval_of(figure),
            caveats.collect::<String>(),
        );
    }
    out
}

/// Text as it may stand in a cell or a list item. What servers say of themselves is in it: it must not
/// leave its cell, look like another thing, or call someone's attention by an `@name`.
pub(crate) fn cell(text: &str) -> String {
    let mut out = String::new();
    let mut before = ' ';
    for c in text.chars() {
        match c {
            c if c.is_control() => out.push(' '),
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '@' if !before.is_alphanumeric() => out += "@&#8203;",
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '#' | '~' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
        before = c;
    }
    out
}

/// Text as code, in which nothing has a meaning: between more backticks than it holds in a row.
fn code(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let runs = text.split(|c| c != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{pad}{text}{pad}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::tests::gated;

    #[test]
    fn the_verdict_is_first_and_details_are_folded() {
        insta::assert_snapshot!(comparison(&gated()));
    }

    #[test]
    fn a_name_cannot_leave_its_cell() {
        assert_eq!(
            cell("a|b\n<img src=x> *c* `d` ~~e~~ $f$"),
            "a\\|b &lt;img src=x&gt; \\*c\\* \\`d\\` \\~\\~e\\~\\~ \\$f\\$"
        );
        assert_eq!(cell("by @ops, m@v1"), "by @&#8203;ops, m@v1");
        assert_eq!(code("a|b\n*c*"), "`a|b *c*`");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`` a"), "``` `` a ```");
    }
}
