//! Ends of a request that count neither as met nor as missed.

use std::fmt;

use goodput_config::{TextError, suggest};
use goodput_record::{Outcome, RequestSummary};

/// An end that is excused by name: an outcome, an HTTP status, or both ("shed 429").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excuse {
    /// The outcome; any but `ok` if it is not named.
    pub outcome: Option<Outcome>,
    /// The HTTP status; any, and none, if it is not named.
    pub status: Option<u16>,
}

impl Excuse {
    /// Whether `request` is excused.
    #[must_use]
    pub fn covers(&self, request: &RequestSummary) -> bool {
        request.outcome() != Outcome::Ok
            && self.outcome.is_none_or(|o| o == request.outcome())
            && self
                .status
                .is_none_or(|s| request.end().http_status == Some(s))
    }

    /// Reads "cancelled", "400" or "shed 429".
    pub(crate) fn parse(text: &str) -> Result<Self, TextError> {
        let expected = r#"an outcome, an HTTP status, or both: "cancelled", "400", "shed 429""#;
        let mut excuse = Self {
            outcome: None,
            status: None,
        };
        for word in text.split_whitespace() {
            if let Some(outcome) = Outcome::ALL.into_iter().find(|o| o.name() == word) {
                excuse.outcome = Some(outcome);
            } else if let Some(status) = word.parse().ok().filter(|s| (400..600).contains(s)) {
                excuse.status = Some(status);
            } else {
                let names = Outcome::ALL.map(Outcome::name);
                let error =
                    TextError::new(format!("`{word}` is no outcome and no status of an error"))
                        .expected(expected);
                return Err(match suggest(word, &names) {
                    Some(name) => error.hint(format!("did you mean `{name}`?")),
                    None => error.hint(format!("the outcomes are {}", names[1..].join(", "))),
                });
            }
        }
        match excuse {
            Self {
                outcome: None,
                status: None,
            } => Err(TextError::new("an excuse names nothing").expected(expected)),
            Self {
                outcome: Some(Outcome::Ok),
                ..
            } => Err(TextError::new("an answer that is ok needs no excuse").expected(expected)),
            excuse => Ok(excuse),
        }
    }
}

impl fmt::Display for Excuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.outcome, self.status) {
            (Some(outcome), Some(status)) => write!(f, "{} {status}", outcome.name()),
            (Some(outcome), None) => f.write_str(outcome.name()),
            (None, Some(status)) => write!(f, "{status}"),
            (None, None) => Ok(()),
        }
    }
}
