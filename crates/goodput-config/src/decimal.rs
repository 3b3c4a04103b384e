//! Decimal numbers as people write them, kept exactly.

use std::fmt;

/// A number that is not negative, as written: `digits / 10^scale`. No binary fraction comes between
/// "0.12ms" and 120,000 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    digits: u64,
    scale: u32,
}

impl Decimal {
    /// Reads digits with at most one point and `_` between them. `None` if it is anything else, has
    /// more than 18 digits, or more than 12 of them behind the point.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digit = |b: u8| b.is_ascii_digit() || b == b'_';
        let well_formed =
            |part: &str| part.bytes().all(digit) && !part.starts_with('_') && !part.ends_with('_');
        if whole.is_empty() || text.ends_with('.') || !well_formed(whole) || !well_formed(fraction)
        {
            return None;
        }
        let fraction = fraction.replace('_', "");
        let fraction = fraction.trim_end_matches('0');
        let digits = format!("{}{fraction}", whole.replace('_', ""));
        let scale = u32::try_from(fraction.len()).ok().filter(|s| *s <= 12)?;
        if digits.len() > 18 {
            return None;
        }
        Some(Self {
            digits: digits.parse().ok()?,
            scale,
        })
    }

    /// A whole number.
    #[must_use]
    pub const fn whole(digits: u64) -> Self {
        Self { digits, scale: 0 }
    }

    /// Whether it is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// The number times `factor`, if that is a whole number that fits.
    #[must_use]
    pub fn times(self, factor: u64) -> Option<u64> {
        let product = u128::from(self.digits) * u128::from(factor);
        let unit = 10_u128.pow(self.scale);
        if product % unit != 0 {
            return None;
        }
        u64::try_from(product / unit).ok()
    }

    /// The nearest binary number, for formulas.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.digits as f64 / 10_u64.pow(self.scale) as f64
    }

    /// Splits "500 ms" into the number and the word behind it.
    pub(crate) fn with_unit(text: &str) -> Option<(Self, &str)> {
        let end = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        Some((Self::parse(number)?, unit.trim_start()))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = 10_u64.pow(self.scale);
        write!(f, "{}", self.digits / unit)?;
        if self.scale > 0 {
            let width = self.scale as usize;
            write!(f, ".{:0width$}", self.digits % unit)?;
        }
        Ok(())
    }
}
