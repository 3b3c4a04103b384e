//! `goodput compare`: two results side by side, and rules on their difference.

use std::{collections::BTreeMap, path::Path};

use goodput_config::{ConfigError, Spanned, Typed, parse};
use goodput_ledger::{MeasuredPoint, MeasuredRequest};
use goodput_report::{csv, json, junit, markdown, terminal};
use goodput_results::{Folder, each_request, read_result, write_whole};
use goodput_sweep::{
    Comparison, Gate, GateVerdict, Rule, RunResult, Side, Undecided, Word,
    compare as put_side_by_side, mismatches,
};
use serde::Deserialize;

use crate::{
    exit::{Exit, Failure},
    flags::{self, CompareFlags, CompareFormat},
    print,
    talk::Voice,
    text::read_text,
};

/// Compares, or says why that would say nothing.
pub(crate) fn compare(flags: &CompareFlags, voice: Voice) -> Result<Exit, Failure> {
    let rules = Rules::of(flags, voice)?;
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
    let mut comparison = put_side_by_side(&side(&base, &flags.base)?, &side(&other, &flags.other)?);
    let exit = rules.hold_against(&mut comparison, voice);
    if let Some(file) = &flags.junit {
        write_whole(file, |out| {
            out.write_all(junit::suite(&comparison).as_bytes())
        })?;
    }
    show(&comparison, flags.format, voice)?;
    Ok(exit)
}

fn show(comparison: &Comparison, format: CompareFormat, voice: Voice) -> Result<(), Failure> {
    match format {
        CompareFormat::Human => print(&terminal::comparison(comparison, voice.style_out())),
        CompareFormat::Json => print(&json::document(comparison)),
        CompareFormat::Csv => print(&csv::comparison(comparison)),
        CompareFormat::Markdown => print(&markdown::comparison(comparison)),
    }
}

/// A result with its requests, where they lie beside it.
pub(crate) fn side<'a>(result: &'a RunResult, path: &Path) -> Result<Side<'a>, Failure> {
    let file = Folder::open(path).file("requests.jsonl");
    let mut measured: BTreeMap<u32, Vec<MeasuredRequest>> = BTreeMap::new();
    let slo = result.holds_for.slos.first().map(|s| s.name.clone());
    // Rows of several boots would mix points that have a number in common: boots speak for them.
    if let Some(slo) = slo.filter(|_| file.exists() && result.boots.len() < 2) {
        each_request(&file, |row| {
            if let Some(request) = MeasuredRequest::of(&row, &slo) {
                measured.entry(row.point).or_default().push(request);
            }
        })?;
    }
    Ok(Side {
        result,
        measured: measured
            .into_iter()
            .map(|(point, requests)| (point, MeasuredPoint::from_iter(requests)))
            .collect(),
    })
}

/// The rules asked for, and what an undecided one comes to.
struct Rules {
    rules: Vec<Rule>,
    undecided: Undecided,
}

const RULES_HINT: &str = "write fail_on = [\"goodput_tok_s < -3%\"] into it, or leave --rules out";

/// A file of rules.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    #[serde(default)]
    fail_on: Vec<Spanned<Typed<Rule>>>,
    undecided: Option<Undecided>,
}

impl Rules {
    fn of(flags: &CompareFlags, voice: Voice) -> Result<Self, Failure> {
        let mut rules = Vec::new();
        for text in &flags.fail_on {
            let rule = Rule::parse(text).map_err(|problem| {
                let error = ConfigError::of("--fail-on", problem);
                Failure::usage(error.render("--fail-on", text, voice.color_err))
            })?;
            rules.push(rule);
        }
        let mut undecided = None;
        if let Some(path) = &flags.rules {
            let file = read_rules(path, voice)?;
            if file.fail_on.is_empty() {
                // A gate that holds nothing against anything would always pass.
                let message = format!("there is no rule in {}", path.display());
                return Err(Failure::usage(message).hint(RULES_HINT));
            }
            undecided = file.undecided;
            rules.extend(file.fail_on.into_iter().map(|rule| rule.into_inner().0));
        }
        if rules.is_empty() && (flags.junit.is_some() || flags.undecided.is_some()) {
            return Err(
                Failure::usage("there is no rule to hold against the results")
                    .hint("add --fail-on 'goodput_tok_s < -3%' or --rules FILE"),
            );
        }
        let asked = flags.undecided.map(|undecided| match undecided {
            flags::Undecided::Pass => Undecided::Pass,
            flags::Undecided::Fail => Undecided::Fail,
        });
        Ok(Self {
            rules,
            undecided: asked.or(undecided).unwrap_or_default(),
        })
    }

    /// Judges, warns of what is open, and says how the program ends.
    fn hold_against(&self, comparison: &mut Comparison, voice: Voice) -> Exit {
        if self.rules.is_empty() {
            return Exit::Yes;
        }
        let gate = Gate::judge(comparison, &self.rules, self.undecided);
        let open = gate.count(Word::NotDecided);
        if open > 0 && self.undecided == Undecided::Pass {
            voice.say(&format!(
                "warning: {open} of {} checks are not decided and pass; --undecided fail makes them fail",
                gate.cases.len()
            ));
        }
        let exit = match gate.verdict {
            GateVerdict::Pass => Exit::Yes,
            GateVerdict::Fail => Exit::No,
            GateVerdict::NotEvaluable => Exit::Untrusted,
        };
        comparison.gate = Some(gate);
        exit
    }
}

fn read_rules(path: &Path, voice: Voice) -> Result<RulesFile, Failure> {
    let name = path.display().to_string();
    let text = read_text("the rules file", path)?;
    parse(&name, &text).map_err(|e| Failure::usage(e.render(&name, &text, voice.color_err)))
}
