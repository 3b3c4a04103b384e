//! Config text to checked values: units, places and all problems at once.
//!
//! A config file is read in two stages. [`read`] turns TOML into a raw serde type whose fields keep
//! their places ([`Spanned`]) and whose values know their units ([`Typed`]); the owner of the raw
//! type then checks what only the whole can tell. Both stages collect [`Problem`]s instead of
//! stopping at the first, and [`ConfigError::render`] shows each with its line, what was expected
//! and what to do.
//!
//! This crate never opens a file. It takes text and gives back values or problems.
//!
//! ```
//! use goodput_config::{Spanned, Typed, parse};
//! use std::time::Duration;
//!
//! #[derive(Debug, serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Raw {
//!     ttft: Spanned<Typed<Duration>>,
//! }
//!
//! let raw: Raw = parse("slo.toml", "ttft = '500ms'").unwrap();
//! assert_eq!(raw.ttft.get_ref().0, Duration::from_millis(500));
//! let refused = parse::<Raw>("slo.toml", "ttft = 500").unwrap_err();
//! assert_eq!(refused.problems[0].message, "`500` has no unit");
//! ```

mod decimal;
mod list;
mod problem;
mod read;
mod suggest;
#[cfg(test)]
mod tests;
mod typed;
mod units;

pub use decimal::Decimal;
pub use list::{parse_concurrency, parse_rates};
pub use problem::{ConfigError, Problem, Severity, TextError};
pub use read::{Reading, parse, read};
pub use suggest::{known_names, suggest};
pub use toml::Spanned;
pub use typed::{DurationText, FromText, Typed};
pub use units::{
    Amount, Bytes, Percent, Tokens, duration_text, parse_amount, parse_bytes, parse_duration,
    parse_percent, parse_tokens,
};
