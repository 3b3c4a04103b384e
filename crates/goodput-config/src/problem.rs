//! What is wrong with a text, where, and what to do about it.

use std::{fmt, ops::Range};

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

/// What a reader of one value objects to. Its place is not known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// What is wrong: a fact, without "expected".
    pub message: String,
    /// What would have been right.
    pub expected: Option<String>,
    /// What to do.
    pub hint: Option<String>,
}

impl TextError {
    /// An objection of which nothing but the fact is known.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            expected: None,
            hint: None,
        }
    }

    /// Says what would have been right.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Gives it the place `span`, in bytes of the whole text.
    #[must_use]
    pub fn at(self, span: impl Into<Option<Range<usize>>>) -> Problem {
        Problem {
            message: self.message,
            span: span.into(),
            expected: self.expected,
            hint: self.hint,
        }
    }

    /// Takes apart what [`fmt::Display`] wrote. serde carries an error as one string; this way the
    /// parts survive the passage.
    pub(crate) fn from_display(text: &str) -> Self {
        let (mut expected, mut hint) = (None, None);
        let mut message = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix(EXPECTED) {
                expected = Some(rest.to_owned());
            } else if let Some(rest) = line.strip_prefix(HINT) {
                hint = Some(rest.to_owned());
            } else {
                message.push(line);
            }
        }
        Self {
            message: message.join(" "),
            expected,
            hint,
        }
    }
}

const EXPECTED: &str = "expected: ";
const HINT: &str = "hint: ";

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(expected) = &self.expected {
            write!(f, "\n{EXPECTED}{expected}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n{HINT}{hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for TextError {}

/// One thing that is wrong with a config text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong: a fact, without "expected".
    pub message: String,
    /// Where, in bytes of the text. `None`: it is about the whole.
    pub span: Option<Range<usize>>,
    /// What would have been right.
    pub expected: Option<String>,
    /// What to do.
    pub hint: Option<String>,
}

impl Problem {
    /// Shows the problem under the line it is in.
    ///
    /// `name` is the file (or the flag) the text came from.
    #[must_use]
    pub fn render(&self, name: &str, source: &str, severity: Severity, color: bool) -> String {
        let level = match severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let group = Group::with_title(level.primary_title(self.message.as_str()));
        let expected = self.expected.as_ref().map(|e| format!("expected {e}"));
        let (label, note) = match expected {
            Some(text) if text.chars().count() <= LONGEST_LABEL && self.span.is_some() => {
                (Some(text), None)
            }
            other => (None, other),
        };
        let mut group = match &self.span {
            Some(span) => {
                let mark = AnnotationKind::Primary.span(within(source, span));
                let snippet = Snippet::source(source).path(name);
                group.element(snippet.annotation(mark.label(label.as_deref())))
            }
            None => group.element(Origin::path(name)),
        };
        group = with_footer(group, note.as_deref(), Level::NOTE);
        group = with_footer(group, self.hint.as_deref(), Level::HELP);
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.render(&[group])
    }
}

/// Longer ones go below the source, where they do not push the line off the screen.
const LONGEST_LABEL: usize = 60;

fn with_footer<'a>(group: Group<'a>, text: Option<&'a str>, level: Level<'a>) -> Group<'a> {
    match text {
        Some(text) => group.element(level.message(text)),
        None => group,
    }
}

/// `span` cut to what exists of `source`, at character borders.
fn within(source: &str, span: &Range<usize>) -> Range<usize> {
    let start = source.floor_char_boundary(span.start);
    let end = source.ceil_char_boundary(span.end).max(start);
    start..end
}

/// How bad a [`Problem`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The text is refused.
    Error,
    /// The text is taken, and likely not what was meant.
    Warning,
}

/// Everything that is wrong with a config text: at least one problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The problems, in the order of their places.
    pub problems: Vec<Problem>,
    /// What the text is called: its file, or the flag it stands behind.
    pub name: String,
}

impl ConfigError {
    /// Fails with `problems`, or succeeds with `value` if there are none.
    pub fn unless_empty<T>(name: &str, mut problems: Vec<Problem>, value: T) -> Result<T, Self> {
        if problems.is_empty() {
            return Ok(value);
        }
        problems.sort_by_key(|p| p.span.as_ref().map_or(usize::MAX, |s| s.start));
        problems.dedup();
        Err(Self {
            problems,
            name: name.to_owned(),
        })
    }

    /// An error of one problem.
    #[must_use]
    pub fn of(name: &str, problem: Problem) -> Self {
        Self {
            problems: vec![problem],
            name: name.to_owned(),
        }
    }

    /// Shows every problem under its line of `source`, a blank line between them.
    #[must_use]
    pub fn render(&self, name: &str, source: &str, color: bool) -> String {
        let shown: Vec<String> = self
            .problems
            .iter()
            .map(|p| p.render(name, source, Severity::Error, color))
            .collect();
        shown.join("\n\n")
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            f.write_str(&problem.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
