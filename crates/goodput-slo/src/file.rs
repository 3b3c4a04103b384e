//! The SLO file.

use std::ops::Range;

use goodput_config::{
    ConfigError, Percent, Problem, Reading, Spanned, TextError, Tokens, Typed, read,
};
use serde::Deserialize;

use crate::{
    checks::{Findings, Placed, check},
    clause::Clause,
    excuse::Excuse,
    metric::{Metric, NAMES},
    objective::Objective,
    slo::Slo,
    workload::{LengthPercentiles, WorkloadStatement},
};

/// A checked SLO file: one SLO or several tiers.
#[derive(Clone, Debug, PartialEq)]
pub struct SloFile {
    /// The SLOs in the order of the file; at least one.
    pub slos: Vec<Slo>,
    /// What is odd, though allowed.
    pub warnings: Vec<Problem>,
}

impl SloFile {
    /// Reads the SLOs of a file, or says everything that is wrong with it.
    pub fn parse(name: &str, text: &str) -> Result<Vec<Slo>, ConfigError> {
        Self::check(name, text).map(|file| file.slos)
    }

    /// Reads a file for `goodput slo check`: its SLOs and what is odd about them.
    pub fn check(name: &str, text: &str) -> Result<Self, ConfigError> {
        let Reading { raw, problems } = read::<RawFile>(text);
        let mut checker = Checker {
            source: text,
            lenient: !problems.is_empty(),
            findings: Findings {
                problems: problems.into_iter().map(with_clause_hint).collect(),
                warnings: Vec::new(),
            },
        };
        let slos = raw.map_or_else(Vec::new, |raw| checker.file(raw));
        let Findings {
            problems,
            mut warnings,
        } = checker.findings;
        warnings.sort_by_key(|w| w.span.as_ref().map_or(0, |s| s.start));
        ConfigError::unless_empty(name, problems, Self { slos, warnings })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    slo: Vec<Spanned<RawSlo>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSlo {
    name: Option<Spanned<String>>,
    class: Option<String>,
    objective: Option<Typed<Objective>>,
    streamed: Option<bool>,
    clauses: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    excused: Vec<Spanned<String>>,
    workload: Option<Spanned<RawWorkload>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWorkload {
    preset: Option<String>,
    model: Option<String>,
    precision: Option<String>,
    input_tokens: Option<Spanned<RawLengths>>,
    output_tokens: Option<Spanned<RawLengths>>,
    cached_share: Option<Typed<Percent>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLengths {
    p50: Option<Typed<Tokens>>,
    p90: Option<Typed<Tokens>>,
    p99: Option<Typed<Tokens>>,
}

struct Checker<'a> {
    source: &'a str,
    /// Entries were taken out already: what is missing may be one of them.
    lenient: bool,
    findings: Findings,
}

impl Checker<'_> {
    fn refuse(&mut self, span: impl Into<Option<Range<usize>>>, error: TextError) {
        self.findings.problems.push(error.at(span));
    }

    fn missing(&mut self, span: Range<usize>, error: TextError) {
        if !self.lenient {
            self.refuse(span, error);
        }
    }

    fn file(&mut self, raw: RawFile) -> Vec<Slo> {
        if raw.slo.is_empty() && !self.lenient {
            let error = TextError::new("the file has no SLO");
            self.refuse(
                None,
                error.hint("begin with `[[slo]]`; `goodput slo presets` shows some"),
            );
        }
        let mut slos: Vec<Slo> = Vec::new();
        for entry in raw.slo {
            let place = entry.get_ref().name.as_ref().map(Spanned::span);
            let slo = self.slo(entry);
            if slos.iter().any(|other| other.name == slo.name) {
                let error = TextError::new(format!("two SLOs are called `{}`", slo.name));
                self.refuse(
                    place,
                    error.expected("a name of its own, by which results call it"),
                );
            }
            slos.push(slo);
        }
        slos
    }

    fn slo(&mut self, entry: Spanned<RawSlo>) -> Slo {
        let span = self.header(entry.span());
        let raw = entry.into_inner();
        let name = self.name(raw.name, &span);
        if raw.objective.is_none() {
            let error = TextError::new("an SLO has no objective");
            self.missing(
                span.clone(),
                error.hint(r#"add `objective = "99% over 28d"`"#),
            );
        }
        let streamed = raw.streamed.unwrap_or(true);
        let clauses = self.clauses(raw.clauses, &span, streamed);
        let excused = self.excused(raw.excused);
        let workload = raw.workload.map(|w| self.workload(w));
        if workload.is_none() {
            self.missing(span, slogan());
        }
        Slo {
            name,
            class: raw.class,
            objective: raw.objective.map_or_else(Objective::essay, |o| o.0),
            streamed,
            clauses,
            excused,
            workload,
        }
    }

    /// The first line of a table: a problem of the whole points there.
    fn header(&self, span: Range<usize>) -> Range<usize> {
        let rest = &self.source[span.clone()];
        span.start..span.start + rest.find('\n').unwrap_or(rest.len())
    }

    fn name(&mut self, raw: Option<Spanned<String>>, span: &Range<usize>) -> String {
        let Some(name) = raw else {
            let error = TextError::new("an SLO has no name");
            self.missing(
                span.clone(),
                error.hint(r#"add `name = "chat"`, say: results call it so"#),
            );
            return String::new();
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let text = name.get_ref();
        if text.is_empty() || !text.chars().all(plain) {
            let error = TextError::new(format!("`{text}` cannot name an SLO"));
            self.refuse(
                name.span(),
                error.expected("letters, digits, `-`, `_` and `.`"),
            );
        }
        name.into_inner()
    }

    fn clauses(
        &mut self,
        raw: Option<Spanned<Vec<Spanned<String>>>>,
        span: &Range<usize>,
        streamed: bool,
    ) -> Vec<Clause> {
        let place = raw.as_ref().map_or_else(|| span.clone(), Spanned::span);
        let raw = raw.map_or_else(Vec::new, Spanned::into_inner);
        if raw.is_empty() {
            let error = TextError::new("an SLO without a clause judges nothing");
            self.missing(
                place,
                error.hint(r#"add `clauses = ["ttft <= 500ms", "tpot <= 50ms"]`"#),
            );
        }
        let mut clauses = Vec::new();
        for text in raw {
            let inner = inner(self.source, &text);
            match Clause::parse(text.get_ref()) {
                Ok(value) => {
                    let span = Some(inner.unwrap_or_else(|| text.span()));
                    clauses.push(Placed { value, span });
                }
                Err(mut problem) => {
                    problem.span = problem.span.zip(inner).map_or_else(
                        || Some(text.span()),
                        |(at, inner)| Some(inner.start + at.start..inner.start + at.end),
                    );
                    self.findings.problems.push(problem);
                }
            }
        }
        check(clauses, streamed, &mut self.findings)
    }

    fn excused(&mut self, raw: Vec<Spanned<String>>) -> Vec<Excuse> {
        let mut excused = Vec::new();
        for text in raw {
            match Excuse::parse(text.get_ref()) {
                Ok(excuse) => {
                    if excuse.outcome.is_none() && excuse.status == Some(429) {
                        let note = TextError::new("`429` excuses a server that sheds for overload, too")
                            .hint(r#"`"shed 429"` excuses only a tenant that our gateway held to its limit"#);
                        self.findings.warnings.push(note.at(text.span()));
                    }
                    excused.push(excuse);
                }
                Err(error) => self.refuse(text.span(), error),
            }
        }
        excused
    }

    fn workload(&mut self, entry: Spanned<RawWorkload>) -> WorkloadStatement {
        let span = self.header(entry.span());
        let raw = entry.into_inner();
        let statement = WorkloadStatement {
            preset: raw.preset,
            model: raw.model,
            precision: raw.precision,
            input_tokens: raw.input_tokens.and_then(|l| self.lengths(l)),
            output_tokens: raw.output_tokens.and_then(|l| self.lengths(l)),
            cached_share: raw.cached_share.map(|p| p.share()),
        };
        let has_lengths = statement.input_tokens.is_some() && statement.output_tokens.is_some();
        if statement.preset.is_none() && !has_lengths {
            self.missing(span, slogan());
        }
        statement
    }

    fn lengths(&mut self, raw: Spanned<RawLengths>) -> Option<LengthPercentiles> {
        let span = raw.span();
        let raw = raw.into_inner();
        let tokens = |t: Option<Typed<Tokens>>| t.map(|t| t.0.0);
        let Some(p50) = tokens(raw.p50) else {
            let error = TextError::new("lengths without a median");
            self.missing(
                span,
                error.expected("{ p50 = 1020, p90 = 2735, p99 = 4142 }"),
            );
            return None;
        };
        let lengths = LengthPercentiles {
            p50,
            p90: tokens(raw.p90),
            p99: tokens(raw.p99),
        };
        if !lengths.rises() {
            let error = TextError::new("a higher percentile is below a lower one");
            self.refuse(span, error.expected("p50 <= p90 <= p99"));
        }
        Some(lengths)
    }
}

fn slogan() -> TextError {
    TextError::new("an SLO without a workload is a slogan")
        .expected("the workload it is meant for, at least a preset or the input and output lengths")
        .hint(r#"add `[slo.workload]` with `preset = "azure-conversation"`, or with `model`, `precision`, `input_tokens` and `output_tokens` percentiles and `cached_share`"#)
}

/// A metric written as a field is nearly right.
fn with_clause_hint(mut problem: Problem) -> Problem {
    let word = problem
        .message
        .strip_prefix("unknown field `")
        .and_then(|m| m.strip_suffix('`'));
    let near = word.and_then(|word| {
        let metric = NAMES.contains(&word) || Metric::parse(word).is_ok();
        let guess = goodput_config::suggest(word, &NAMES);
        metric
            .then(|| word.to_owned())
            .or_else(|| guess.map(str::to_owned))
    });
    if let Some(metric) = near.filter(|_| problem.hint.is_none()) {
        problem.hint = Some(format!(
            r#"bounds stand in a list: `clauses = ["{metric} <= 500ms"]`"#
        ));
    }
    problem
}

/// Where the text of a string stands between its quotes, if it stands there letter by letter.
fn inner(source: &str, text: &Spanned<String>) -> Option<Range<usize>> {
    let span = text.span();
    let start = span.start + source.get(span.clone())?.find(text.get_ref().as_str())?;
    Some(start..start + text.get_ref().len())
}
