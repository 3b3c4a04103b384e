//! Exit codes, and errors as people read them.

use std::{fmt, process::ExitCode};

use goodput_results::ResultsError;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, and the answer is yes.
    Yes,
    /// Done, and the answer is no: the SLO is missed by every load, a gate failed.
    No,
    /// The flags or a file are wrong.
    Usage,
    /// Not carried out, or not to be trusted.
    Untrusted,
    /// Ended by this signal.
    Signal(u8),
}

impl Exit {
    /// The number the shell sees.
    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(self.number())
    }

    /// The same as a number.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Yes => 0,
            Self::No => 1,
            Self::Usage => 2,
            Self::Untrusted => 3,
            Self::Signal(number) => 128_u8.saturating_add(number),
        }
    }
}

/// Why the program could not go on: one message that says where, what was expected, what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// The message, possibly with a source snippet; no trailing newline.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
}

impl Failure {
    /// Wrong flags or a wrong file.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The run could not be carried out.
    pub(crate) fn untrusted(message: impl Into<String>) -> Self {
        Self::new(Exit::Untrusted, message)
    }

    fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
        }
    }

    /// Adds what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<ResultsError> for Failure {
    fn from(error: ResultsError) -> Self {
        let failure = if error.is_usage() {
            Self::usage(error.to_string())
        } else {
            Self::untrusted(error.to_string())
        };
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.starts_with("error") {
            write!(f, "{}", self.message)?;
        } else {
            write!(f, "error: {}", self.message)?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}
