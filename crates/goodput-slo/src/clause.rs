//! One bound on one metric: "ttft <= 500ms", "p90 tpot <= 40ms".

use std::{fmt, ops::Range, time::Duration};

use goodput_config::{Percent, Problem, TextError, parse_percent};

use crate::{
    bound::{Bound, trimmed},
    metric::Metric,
};

/// One bound on one metric.
///
/// A clause with a percentile is a promise of its own: the exact share of requests within the bound
/// is at least that. Its bound also judges each request, like that of a clause without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clause {
    /// What is bounded.
    pub metric: Metric,
    /// The share of requests that must keep the bound, if the clause says one of its own.
    pub percentile: Option<Percent>,
    /// The longest that is still good, inclusive.
    pub bound: Bound,
}

const SHAPE: &str =
    "`ttft <= 500ms`, `p90 tpot <= 40ms` or `ttft <= 300ms + 0.12ms x input_tokens`";

impl Clause {
    /// Reads "ttft <= 500ms", "ttft=500ms" or "p90 ttft <= 500ms".
    ///
    /// ```
    /// let clause = goodput_slo::Clause::parse("p90 ttft <= 0.5s").unwrap();
    /// assert_eq!(clause.to_string(), "p90 ttft <= 500ms");
    /// ```
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let whole = trimmed(text, 0..text.len());
        let Some(sign) = text.find(['<', '≤', '=', '>', '≥', ':']) else {
            let name = text[whole.clone()].split_whitespace().last().unwrap_or("");
            // A misspelt name is the first thing to say; a missing bound comes after it.
            let error = match Metric::parse(name) {
                Ok(metric) => {
                    let example = if metric.is_pace() { "50ms" } else { "500ms" };
                    TextError::new(format!("`{metric}` has no bound"))
                        .hint(format!("write `{metric} <= {example}`, say"))
                }
                Err(_) => TextError::new(format!("`{}` is not a clause", &text[whole.clone()])),
            };
            return Err(error.expected(SHAPE).at(whole));
        };
        let (left, right) = text.split_at(sign);
        let (metric, percentile) = Self::left_side(left)?;
        let bound_at = sign + sign_length(right).map_err(|e| e.at(whole))?;
        let bound = &text[bound_at..];
        if bound.trim().is_empty() {
            return Err(TextError::new(format!("`{metric}` has no bound"))
                .expected(SHAPE)
                .at(trimmed(text, 0..text.len())));
        }
        let bound = Bound::parse(bound)
            .map_err(|(error, at)| error.at(bound_at + at.start..bound_at + at.end))?;
        Ok(Self {
            metric,
            percentile,
            bound,
        })
    }

    /// The metric and the percentile in front of it.
    fn left_side(left: &str) -> Result<(Metric, Option<Percent>), Problem> {
        let place = trimmed(left, 0..left.len());
        let words = &left[place.clone()];
        let (rank, name) = match words.split_once(char::is_whitespace) {
            Some((rank, name)) => (Some(rank), name.trim_start()),
            None => (None, words),
        };
        let name_at = place.end - name.len()..place.end;
        let metric = Metric::parse(name).map_err(|e| e.at(name_at))?;
        let Some(rank) = rank else {
            return Ok((metric, None));
        };
        let rank_at = place.start..place.start + rank.len();
        let share = rank
            .strip_prefix(['p', 'P'])
            .and_then(|digits| parse_percent(&format!("{digits}%")).ok())
            .filter(|share| (1..Percent::WHOLE).contains(&share.billionths()));
        match share {
            Some(share) if metric != Metric::Trajectory => Ok((metric, Some(share))),
            Some(_) => Err(TextError::new("a trajectory deadline takes no percentile")
                .hint("the objective says how many sessions must keep it")
                .at(rank_at)),
            None => Err(TextError::new(format!("`{rank}` is not a percentile"))
                .expected("p50, p90, p99 or p99.9, say")
                .at(rank_at)),
        }
    }

    /// The fixed bound in nanoseconds, or `None` if it grows with a length.
    #[must_use]
    pub fn fixed_bound(&self) -> Option<Duration> {
        self.bound.fixed_span()
    }

    /// The metric with its percentile: "ttft", "p90 ttft".
    #[must_use]
    pub fn name(&self) -> String {
        match self.percentile {
            Some(share) => format!(
                "p{} {}",
                share.to_string().trim_end_matches('%'),
                self.metric
            ),
            None => self.metric.to_string(),
        }
    }

    /// Where it stands in an SLO. Two clauses of the same place are one too many.
    pub(crate) fn rank(&self) -> (Metric, Option<Percent>) {
        (self.metric, self.percentile)
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <= {}", self.name(), self.bound)
    }
}

/// The length of the sign at the start of `text`.
fn sign_length(text: &str) -> Result<usize, TextError> {
    for sign in ["<=", "≤", "="] {
        if text.starts_with(sign) {
            return Ok(sign.len());
        }
    }
    let error = TextError::new("a clause bounds a time from above, inclusively").expected(SHAPE);
    Err(if text.starts_with('<') || text.starts_with(':') {
        error.hint("write `<=`")
    } else {
        error
    })
}

/// Reads a list of clauses behind commas and gives each its place.
pub(crate) fn split_list(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    text.split(',').map(move |item| {
        let range = start..start + item.len();
        start = range.end + 1;
        range
    })
}
