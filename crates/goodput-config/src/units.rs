//! Quantities with their units, as they stand in config files and behind flags.

use std::{fmt, time::Duration};

use crate::{
    decimal::Decimal,
    problem::TextError,
    suggest::{known_names, suggest},
    typed::FromText,
};

const TIME: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Spellings of others, and ours.
const FOREIGN_TIME: [(&str, &str); 16] = [
    ("millis", "ms"),
    ("msec", "ms"),
    ("milliseconds", "ms"),
    ("usec", "us"),
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("mins", "min"),
    ("minute", "min"),
    ("minutes", "min"),
    ("hr", "h"),
    ("hour", "h"),
    ("hours", "h"),
    ("day", "d"),
    ("days", "d"),
];

const DURATION: &str = r#"a number with its unit, such as "500ms", "1.5s", "10min" or "28d""#;

/// Reads a duration with its unit (`ns`, `us`, `ms`, `s`, `min`, `h`, `d`), exactly: "500ms", "1.5s".
///
/// A bare number is refused, since half the world would mean seconds; so is one below zero.
pub fn parse_duration(text: &str) -> Result<Duration, TextError> {
    let (number, unit) = quantity(text, "a duration", DURATION)?;
    if unit.is_empty() {
        let text = text.trim();
        return Err(TextError::new(format!("`{text}` has no unit"))
            .expected(DURATION)
            .hint(format!(r#"write "{text}ms" or "{text}s", as it is meant"#)));
    }
    let Some(&(_, nanos)) = TIME.iter().find(|(name, _)| *name == unit) else {
        return Err(no_unit_of_time(number, unit));
    };
    match number.times(nanos) {
        Some(nanos) => Ok(Duration::from_nanos(nanos)),
        None if number.to_f64() * nanos as f64 > 1e19 => Err(TextError::new(format!(
            "`{}` is longer than 584 years",
            text.trim()
        ))),
        None => Err(TextError::new(format!(
            "`{}` is finer than a nanosecond",
            text.trim()
        ))),
    }
}

fn no_unit_of_time(number: Decimal, unit: &str) -> TextError {
    let known: Vec<&str> = TIME
        .iter()
        .map(|(n, _)| *n)
        .filter(|n| n.is_ascii())
        .collect();
    let error =
        TextError::new(format!("`{unit}` is not a unit of time")).expected(known_names(&known));
    if unit == "m" {
        return error.hint(format!(
            r#"write "{number}min" for minutes, "{number}ms" for milliseconds"#
        ));
    }
    let foreign = FOREIGN_TIME
        .iter()
        .find(|(name, _)| *name == unit.to_lowercase());
    match foreign
        .map(|(_, ours)| *ours)
        .or_else(|| suggest(unit, &known))
    {
        Some(ours) => error.hint(format!(r#"did you mean "{number}{ours}"?"#)),
        None => error,
    }
}

/// The shortest way to write `span` that [`parse_duration`] reads back as the same: "1.5s", "28d".
#[must_use]
pub fn duration_text(span: Duration) -> String {
    let nanos = span.as_nanos();
    let whole = [
        (86_400_000_000_000_u128, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "min"),
    ];
    if let Some((unit, name)) = whole
        .iter()
        .find(|(unit, _)| nanos > 0 && nanos.is_multiple_of(*unit))
    {
        return format!("{}{name}", nanos / unit);
    }
    let (unit, name) = match nanos {
        1_000_000_000.. => (1_000_000_000, "s"),
        1_000_000.. => (1_000_000, "ms"),
        1_000.. => (1_000, "us"),
        1.. => (1, "ns"),
        0 => return "0s".to_owned(),
    };
    let rest = format!("{:09}", (nanos % unit) * (1_000_000_000 / unit));
    let rest = rest.trim_end_matches('0');
    let point = if rest.is_empty() { "" } else { "." };
    format!("{}{point}{rest}{name}", nanos / unit)
}

impl FromText for Duration {
    fn from_text(text: &str) -> Result<Self, TextError> {
        parse_duration(text)
    }
}

/// A share of a whole, exactly as written in percent: 0 to 100 %, to the 7th decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent {
    billionths: u32,
}

impl Percent {
    /// The whole, in the unit of [`Percent::billionths`].
    pub const WHOLE: u32 = 1_000_000_000;

    /// `percent` %, of which there are at most 100.
    #[must_use]
    pub const fn of(percent: u8) -> Self {
        let percent = if percent > 100 { 100 } else { percent };
        Self {
            billionths: percent as u32 * 10_000_000,
        }
    }

    /// The share in billionths of the whole: 99 % is 990,000,000.
    #[must_use]
    pub const fn billionths(self) -> u32 {
        self.billionths
    }

    /// The share as a number from 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.billionths) / 1e9
    }

    /// Whether `part` of `whole` is at least this share, exactly.
    #[must_use]
    pub fn is_kept_by(self, part: u64, whole: u64) -> bool {
        u128::from(part) * u128::from(Self::WHOLE)
            >= u128::from(whole) * u128::from(self.billionths)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!(
            "{}.{:07}",
            self.billionths / 10_000_000,
            self.billionths % 10_000_000
        );
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

const PERCENT: &str = r#"a share from 0% to 100%, such as "99%" or "99.9%""#;

/// Reads "99%" or "99.9 %". A bare number is refused: 0.99 and 99 are both in use.
pub fn parse_percent(text: &str) -> Result<Percent, TextError> {
    let (number, unit) = quantity(text, "a share", PERCENT)?;
    if unit != "%" {
        let error =
            TextError::new(format!("`{}` has no percent sign", text.trim())).expected(PERCENT);
        let meant = match number.times(100) {
            Some(percent @ 1..=99) if number.to_f64() < 1.0 => Decimal::whole(percent),
            _ => number,
        };
        return Err(error.hint(format!(r#"write "{meant}%""#)));
    }
    match number.times(10_000_000).map(u32::try_from) {
        Some(Ok(billionths)) if billionths <= Percent::WHOLE => Ok(Percent { billionths }),
        _ if number.to_f64() > 100.0 => Err(TextError::new(format!(
            "`{}` is more than the whole",
            text.trim()
        ))
        .expected(PERCENT)),
        _ => Err(TextError::new(format!(
            "`{}` has too many decimals",
            text.trim()
        ))),
    }
}

impl FromText for Percent {
    fn from_text(text: &str) -> Result<Self, TextError> {
        parse_percent(text)
    }
}

/// A count of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tokens(pub u32);

const TOKENS: [(&str, u64); 4] = [("", 1), ("k", 1_000), ("Ki", 1_024), ("M", 1_000_000)];

/// Reads a count of tokens: "512", "32k" (32,000), "32Ki" (32,768), "1.5k", "1M".
pub fn parse_tokens(text: &str) -> Result<u32, TextError> {
    let expected = r#"a whole number of tokens, such as 512, "32k" (32,000) or "32Ki" (32,768)"#;
    let (number, unit) = quantity(text, "a count of tokens", expected)?;
    let factor = TOKENS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor);
    factor
        .and_then(|factor| number.times(factor))
        .and_then(|count| u32::try_from(count).ok())
        .ok_or_else(|| {
            TextError::new(format!("`{}` is not a count of tokens", text.trim())).expected(expected)
        })
}

impl FromText for Tokens {
    fn from_text(text: &str) -> Result<Self, TextError> {
        parse_tokens(text).map(Self)
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

const BYTES: [(&str, u64); 9] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Reads a size with its unit: "80GB" (decimal), "24GiB" (binary). A bare number is refused.
pub fn parse_bytes(text: &str) -> Result<u64, TextError> {
    let expected = r#"a size with its unit, such as "80GB" or "24GiB""#;
    let (number, unit) = quantity(text, "a size", expected)?;
    let known = BYTES.map(|(name, _)| name);
    let Some(&(_, factor)) = BYTES.iter().find(|(name, _)| *name == unit) else {
        let fact = match unit {
            "" => format!("`{}` has no unit", text.trim()),
            unit => format!("`{unit}` is not a unit of size"),
        };
        let error = TextError::new(fact).expected(expected);
        return Err(match suggest(unit, &known).filter(|_| !unit.is_empty()) {
            Some(ours) => error.hint(format!(r#"did you mean "{number}{ours}"?"#)),
            None => error,
        });
    };
    number
        .times(factor)
        .ok_or_else(|| TextError::new(format!("`{}` is no whole number of bytes", text.trim())))
}

impl FromText for Bytes {
    fn from_text(text: &str) -> Result<Self, TextError> {
        parse_bytes(text).map(Self)
    }
}

/// So many requests, or so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number of requests.
    Requests(u64),
    /// A span of time.
    Span(Duration),
}

/// Reads "20" as a number of requests and "30s" as a span.
pub fn parse_amount(text: &str) -> Result<Amount, TextError> {
    if let Some(count) = Decimal::parse(text.trim()).and_then(|n| n.times(1)) {
        return Ok(Amount::Requests(count));
    }
    let expected = r#"a number of requests such as 20, or a duration such as "30s""#;
    parse_duration(text)
        .map(Amount::Span)
        .map_err(|e| e.expected(expected))
}

impl FromText for Amount {
    fn from_text(text: &str) -> Result<Self, TextError> {
        parse_amount(text)
    }
}

/// The number and the unit of `text`.
fn quantity<'a>(
    text: &'a str,
    what: &str,
    expected: &str,
) -> Result<(Decimal, &'a str), TextError> {
    let text = text.trim();
    let positive = text.strip_prefix('-').and_then(Decimal::with_unit);
    if positive.is_some() {
        return Err(TextError::new(format!("`{text}` is below zero"))
            .expected(expected)
            .hint("drop the minus sign"));
    }
    Decimal::with_unit(text)
        .ok_or_else(|| TextError::new(format!("`{text}` is not {what}")).expected(expected))
}
