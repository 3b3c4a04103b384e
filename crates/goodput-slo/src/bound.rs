//! How long something may take: a fixed time, or one that grows with the request's lengths.

use std::{fmt, ops::Range, time::Duration};

use goodput_config::{TextError, duration_text, known_names, parse_duration, suggest};
use goodput_record::{RequestSummary, nanos};

/// A length that a bound can grow with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    /// Input tokens: by the server's `usage`, else as planned.
    InputTokens,
    /// Input tokens less those read from the prefix cache. Where the server does not tell those,
    /// the ones that an earlier request of the run made reusable.
    UncachedInputTokens,
    /// Output tokens as counted.
    OutputTokens,
}

impl Variable {
    /// All variables, in the order of a bound's terms.
    pub const ALL: [Self; 3] = [
        Self::InputTokens,
        Self::UncachedInputTokens,
        Self::OutputTokens,
    ];

    /// The name in a bound.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InputTokens => "input_tokens",
            Self::UncachedInputTokens => "uncached_input_tokens",
            Self::OutputTokens => "output_tokens",
        }
    }

    /// The length of one request.
    #[must_use]
    pub fn of(self, request: &RequestSummary) -> u32 {
        let (arrival, end) = (request.arrival(), request.end());
        let input = end.input_tokens.unwrap_or(arrival.planned_input_tokens);
        match self {
            Self::InputTokens => input,
            Self::UncachedInputTokens => {
                input.saturating_sub(end.cached_tokens.unwrap_or(arrival.planned_cached_tokens))
            }
            Self::OutputTokens => request.output_tokens(),
        }
    }

    fn parse(name: &str) -> Result<Self, TextError> {
        let names = Self::ALL.map(Self::name);
        Self::ALL
            .into_iter()
            .find(|v| v.name() == name)
            .ok_or_else(|| {
                let error = TextError::new(format!("unknown length `{name}`"))
                    .expected(known_names(&names));
                match suggest(name, &names) {
                    Some(ours) => error.hint(format!("did you mean `{ours}`?")),
                    None => error,
                }
            })
    }
}

/// The longest time that still keeps a clause, inclusive, in whole nanoseconds:
/// `base + sum of (per token x length)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    base: u64,
    per_token: [u64; 3],
}

impl Bound {
    /// The same for every request.
    #[must_use]
    pub fn fixed(span: Duration) -> Self {
        Self {
            base: nanos(span),
            per_token: [0; 3],
        }
    }

    /// The bound for one request; 584 years where it would be longer.
    #[must_use]
    pub fn of(&self, request: &RequestSummary) -> Duration {
        if self.is_fixed() {
            return self.base();
        }
        self.at(Variable::ALL.map(|v| v.of(request)))
    }

    /// The bound at given lengths, in the order of [`Variable::ALL`].
    #[must_use]
    pub fn at(&self, lengths: [u32; 3]) -> Duration {
        let grown = self
            .per_token
            .iter()
            .zip(lengths)
            .fold(self.base, |sum, (rate, length)| {
                sum.saturating_add(rate.saturating_mul(u64::from(length)))
            });
        Duration::from_nanos(grown)
    }

    /// The part that does not grow.
    #[must_use]
    pub const fn base(&self) -> Duration {
        Duration::from_nanos(self.base)
    }

    /// Whether it is the same for every request.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.per_token == [0; 3]
    }

    /// The fixed bound, or `None` if it grows.
    #[must_use]
    pub fn fixed_span(&self) -> Option<Duration> {
        self.is_fixed().then(|| self.base())
    }

    /// Reads "500ms" or `300ms + 0.12ms x uncached_input_tokens`. An error comes with its place.
    pub(crate) fn parse(text: &str) -> Result<Self, (TextError, Range<usize>)> {
        let mut bound = Self::fixed(Duration::ZERO);
        let mut start = 0;
        for term in text.split('+') {
            let place = trimmed(text, start..start + term.len());
            bound.add(term.trim()).map_err(|e| (e, place))?;
            start += term.len() + 1;
        }
        if bound.is_fixed() && bound.base == 0 {
            let error = TextError::new("a bound of zero can never be met")
                .expected("the longest time that is still good, inclusive");
            return Err((error, trimmed(text, 0..text.len())));
        }
        Ok(bound)
    }

    fn add(&mut self, term: &str) -> Result<(), TextError> {
        let product = [" x ", "×", "*"]
            .iter()
            .find_map(|sign| term.split_once(sign));
        let Some((rate, variable)) = product else {
            let span = parse_duration(term)?;
            self.base = self.base.saturating_add(nanos(span));
            return Ok(());
        };
        let rate = nanos(parse_duration(rate)?);
        let per_token = &mut self.per_token[Variable::parse(variable.trim())? as usize];
        *per_token = per_token.saturating_add(rate);
        Ok(())
    }
}

/// `range` of `text` without the white space at its ends.
pub(crate) fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.start + (part.len() - part.trim_start().len());
    start..(start + part.trim().len())
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sign = "";
        if self.base > 0 || self.is_fixed() {
            f.write_str(&duration_text(self.base()))?;
            sign = " + ";
        }
        for (variable, rate) in Variable::ALL.iter().zip(self.per_token) {
            if rate > 0 {
                let rate = duration_text(Duration::from_nanos(rate));
                write!(f, "{sign}{rate} x {}", variable.name())?;
                sign = " + ";
            }
        }
        Ok(())
    }
}
