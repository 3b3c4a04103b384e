//! How many requests must keep the bounds, over which time.

use std::{fmt, time::Duration};

use goodput_config::{FromText, Percent, TextError, duration_text, parse_duration, parse_percent};

/// A share of requests over a rolling window: "99% over 28d".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// The share as a number between 0 and 1.
    pub share: f64,
    /// The share, exactly.
    pub percent: Percent,
    /// The rolling window.
    pub window: Duration,
}

impl Objective {
    /// The first essay's: 99 % over 28 days. Whole weeks, so that no weekend drops in or out.
    #[must_use]
    pub fn essay() -> Self {
        Self::of(Percent::of(99), Duration::from_hours(28 * 24))
    }

    /// The share `percent` over `window`.
    #[must_use]
    pub fn of(percent: Percent, window: Duration) -> Self {
        Self {
            share: percent.share(),
            percent,
            window,
        }
    }

    /// Whether `met` of `judged` requests keep it, exactly. Nothing judged keeps everything.
    #[must_use]
    pub fn is_kept_by(&self, met: u64, judged: u64) -> bool {
        self.percent.is_kept_by(met, judged)
    }

    /// The fastest the error budget can burn, all requests missing: `1 / (1 - share)`.
    #[must_use]
    pub fn max_burn_rate(&self) -> f64 {
        f64::from(Percent::WHOLE) / f64::from(Percent::WHOLE - self.percent.billionths())
    }

    /// The burn rate that spends `budget` (a share of the whole error budget) within `span`:
    /// `budget x window / span`. 2 % in 1 h of 28 d is 13.44 (14.4 belongs to 30 d).
    #[must_use]
    pub fn burn_rate_spending(&self, budget: f64, span: Duration) -> f64 {
        budget * self.window.as_secs_f64() / span.as_secs_f64()
    }

    /// Reads "99% over 28d", and "99%" as over `default_window` if there is one.
    pub(crate) fn parse(text: &str, default_window: Option<Duration>) -> Result<Self, TextError> {
        let expected = r#"a share and a window, such as "99% over 28d""#;
        let (share, window) = match text.split_once(" over ") {
            Some((share, window)) => (share, Some(parse_duration(window)?)),
            None => (text, default_window),
        };
        let percent = parse_percent(share)?;
        let Some(window) = window else {
            return Err(TextError::new(format!("`{}` has no window", text.trim()))
                .expected(expected)
                .hint(format!(r#"write "{percent} over 28d""#)));
        };
        if percent.billionths() == Percent::WHOLE {
            return Err(TextError::new("an objective of 100% leaves no error budget")
                .expected("a share below 100%")
                .hint(r#"write "99.9% over 28d", say: one slow request must not break the promise"#));
        }
        if percent.billionths() == 0 || window.is_zero() {
            return Err(
                TextError::new(format!("`{}` asks for nothing", text.trim())).expected(expected),
            );
        }
        Ok(Self::of(percent, window))
    }
}

impl FromText for Objective {
    fn from_text(text: &str) -> Result<Self, TextError> {
        Self::parse(text, None)
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {}", self.percent, duration_text(self.window))
    }
}
