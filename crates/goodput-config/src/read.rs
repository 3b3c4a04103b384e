//! The raw stage: TOML to a serde type, with every problem found on the way.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{
    problem::{ConfigError, Problem, TextError},
    suggest::{known_names, suggest},
};

/// The outcome of the raw stage.
#[derive(Debug)]
pub struct Reading<Raw> {
    /// What could be read, without the entries that `problems` speak of. `None` if even that failed.
    pub raw: Option<Raw>,
    /// What is wrong so far.
    pub problems: Vec<Problem>,
}

/// Reads `text` as a `Raw`, or says everything that is wrong with it. `name` is its file or flag.
#[expect(
    clippy::missing_panics_doc,
    reason = "a reading without a value has a problem"
)]
pub fn parse<Raw: DeserializeOwned>(name: &str, text: &str) -> Result<Raw, ConfigError> {
    let Reading { raw, problems } = read(text);
    let raw = ConfigError::unless_empty(name, problems, raw)?;
    Ok(raw.expect("invariant: a reading without a value has a problem"))
}

/// Reads `text` as a `Raw` and goes on after a problem, so that the checks of the whole can be made
/// as well and all be told at once.
///
/// serde stops at the first problem. So the entry it stopped at is taken out and the rest read again.
#[must_use]
pub fn read<Raw: DeserializeOwned>(text: &str) -> Reading<Raw> {
    let (mut root, broken) = DeTable::parse_recoverable(text);
    let mut problems: Vec<Problem> = broken.iter().map(|e| no_toml(e, text)).collect();
    if !problems.is_empty() {
        return Reading {
            raw: None,
            problems,
        };
    }
    loop {
        let error = match Raw::deserialize(toml::de::Deserializer::from(root.clone())) {
            Ok(raw) => {
                let raw = Some(raw);
                return Reading { raw, problems };
            }
            Err(error) => error,
        };
        let problem = problem_of(&error);
        let cut = error.span().is_some_and(|s| cut(root.get_mut(), &s));
        // An entry that was taken out may be missed afterwards: that is no second problem.
        if problems.is_empty() || !problem.message.starts_with("missing field") {
            problems.push(problem);
        }
        if !cut {
            return Reading {
                raw: None,
                problems,
            };
        }
    }
}

/// Takes out the innermost entry whose key is at `span` or whose value spans it. Whether there was
/// one.
fn cut(table: &mut DeTable<'_>, span: &Range<usize>) -> bool {
    let hit = table
        .iter()
        .find(|(key, value)| {
            key.span() == *span || (is_plain(value.get_ref()) && holds(value, span))
        })
        .map(|(key, _)| key.clone());
    match hit {
        Some(key) => table.remove(&key).is_some(),
        None => table.iter_mut().any(|(_, value)| cut_within(value, span)),
    }
}

fn cut_within(value: &mut Spanned<DeValue<'_>>, span: &Range<usize>) -> bool {
    match value.get_mut() {
        DeValue::Table(table) => cut(table, span),
        DeValue::Array(items) => items.iter_mut().any(|item| cut_within(item, span)),
        _ => false,
    }
}

fn holds(value: &Spanned<DeValue<'_>>, span: &Range<usize>) -> bool {
    value.span().start <= span.start && span.end <= value.span().end
}

/// Whether there is no table in it.
fn is_plain(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::Table(_) => false,
        DeValue::Array(items) => items.iter().all(|item| is_plain(item.get_ref())),
        _ => true,
    }
}

/// Puts an error of the TOML syntax into our words. The commonest is a value without its quotes.
fn no_toml(error: &toml::de::Error, text: &str) -> Problem {
    let unquoted = error.message().starts_with("string values must be quoted");
    let Some(span) = error.span().filter(|_| unquoted) else {
        return problem_of(error);
    };
    let value = text.get(span.clone()).unwrap_or_default().trim();
    let problem = if value.is_empty() {
        TextError::new("a value is missing")
    } else {
        TextError::new("a text must stand in quotes").hint(format!("write \"{value}\""))
    };
    problem.at(span)
}

/// Puts an error of serde into our words.
fn problem_of(error: &toml::de::Error) -> Problem {
    let message = error.message();
    let told = if message.starts_with("unknown field") || message.starts_with("unknown variant") {
        unknown(message)
    } else if message.starts_with("invalid type: map, expected a sequence") {
        TextError::new("one table where a list of tables belongs")
            .expected("double brackets: `[[slo]]`, not `[slo]` or `[slo.name]`")
    } else if let Some((fact, expected)) = message.split_once(", expected ") {
        TextError::new(fact).expected(expected)
    } else {
        TextError::from_display(message)
    };
    told.at(error.span())
}

/// serde's "unknown field `a`, expected one of `b`, `c`" with a guess at what was meant.
fn unknown(message: &str) -> TextError {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let fact = message.split(", ").next().unwrap_or(message);
    let error = TextError::new(fact);
    let Some((word, known)) = quoted.split_first().filter(|(_, known)| !known.is_empty()) else {
        return error;
    };
    let error = error.expected(known_names(known));
    match suggest(word, known) {
        Some(name) => error.hint(format!("did you mean `{name}`?")),
        None => error,
    }
}
