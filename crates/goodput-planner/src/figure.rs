//! A figure of a plan, and what it was made from.

use goodput_stats::Interval;
use serde::Serialize;

/// A figure that says where it comes from. One that does not exist is null and says why not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The value; null where it is not known.
    pub value: Option<f64>,
    /// Its interval, where it is an estimate.
    pub interval: Option<Interval>,
    /// Its unit: `req/s`, `replicas`, `ms`. A share (0 to 1) has the unit `share`.
    pub unit: &'static str,
    /// What it was made from: an input, a formula over other figures, a load point.
    pub from: String,
}

impl Figure {
    /// A value.
    #[must_use]
    pub fn new(value: f64, unit: &'static str, from: impl Into<String>) -> Self {
        Self::known(Some(value), unit, from)
    }

    /// A value that may not exist; `from` then says why it does not.
    #[must_use]
    pub fn known(value: Option<f64>, unit: &'static str, from: impl Into<String>) -> Self {
        Self {
            value: value.filter(|v| v.is_finite()),
            interval: None,
            unit,
            from: from.into(),
        }
    }

    /// No value, and why.
    #[must_use]
    pub fn unknown(unit: &'static str, why: impl Into<String>) -> Self {
        Self::known(None, unit, why)
    }

    /// The same with an interval.
    #[must_use]
    pub fn within(mut self, interval: Option<Interval>) -> Self {
        self.interval = interval;
        self
    }
}

/// Something a plan takes for granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assumption {
    /// What it is about, in a word or two.
    pub name: String,
    /// What is assumed.
    pub value: String,
    /// Who said so: a flag, a file, a rule of this program.
    pub from: String,
}

impl Assumption {
    /// An assumption in words.
    #[must_use]
    pub fn new(name: &str, value: impl Into<String>, from: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            value: value.into(),
            from: from.into(),
        }
    }
}
