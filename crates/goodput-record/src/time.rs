//! Instants of one run, and the one place where they are tied to the wall clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant of one run: nanoseconds since the run's epoch.
///
/// Only differences have meaning, and only [`Timestamp::since`] makes them: there is no `Sub`, so
/// no latency is computed by accident elsewhere. Unlike [`std::time::Instant`] it can be saved,
/// and a simulator can make one up.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The run's epoch itself.
    pub const ZERO: Self = Self(0);
    /// Later than every instant that can be reached.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// Makes the instant `nanos` nanoseconds after the run's epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Makes the instant `millis` milliseconds after the run's epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Makes the instant `seconds` after the epoch, to the nearest nanosecond; below zero is zero.
    #[must_use]
    pub fn from_seconds(seconds: f64) -> Self {
        Self(nanos_of(seconds))
    }

    /// Nanoseconds since the run's epoch.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the run's epoch, for formulas.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The time from `earlier` to `self`, or `None` if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Option<Duration> {
        match self.0.checked_sub(earlier.0) {
            Some(nanos) => Some(Duration::from_nanos(nanos)),
            None => None,
        }
    }

    /// The instant `span` later; [`Timestamp::FAR_FUTURE`] where that cannot be said.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

/// Seconds as integer nanoseconds, rounded to the nearest; what is not positive is zero.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is clamped to the range of u64 first, and `as` saturates"
)]
#[inline]
pub fn nanos_of(seconds: f64) -> u64 {
    // To the nearest as `round` does it, without a call.
    let nanos = seconds * 1e9;
    let below = nanos as u64;
    below.saturating_add(u64::from(nanos - below as f64 >= 0.5))
}

/// A [`Duration`] from seconds, to the nearest nanosecond; what is not positive is zero.
#[must_use]
pub fn span_of(seconds: f64) -> Duration {
    Duration::from_nanos(nanos_of(seconds))
}

/// A span in whole nanoseconds; [`u64::MAX`] (584 years) where it is longer.
#[must_use]
pub fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A span in milliseconds, for people and files.
#[must_use]
pub fn millis(span: Duration) -> f64 {
    nanos(span) as f64 / 1e6
}

/// The wall-clock time of [`Timestamp::ZERO`]: written once, with the run.
///
/// Every wall time of a run is this anchor plus monotonic time, so a clock that steps in the
/// middle of a run moves no latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch {
    unix_ns: u64,
}

impl Epoch {
    /// Anchors a run's epoch at `unix_ns` nanoseconds since 1970-01-01 UTC.
    #[must_use]
    pub const fn from_unix_nanos(unix_ns: u64) -> Self {
        Self { unix_ns }
    }

    /// Nanoseconds since 1970-01-01 UTC of the epoch.
    #[must_use]
    pub const fn unix_nanos(self) -> u64 {
        self.unix_ns
    }

    /// The minute of wall time that `at` falls into.
    #[must_use]
    pub fn minute(self, at: Timestamp) -> UnixMinute {
        let minutes = self.unix_ns.saturating_add(at.nanos()) / 60_000_000_000;
        UnixMinute(u32::try_from(minutes).unwrap_or(u32::MAX))
    }
}

/// A minute of wall time, counted from 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixMinute(u32);

impl UnixMinute {
    /// Minutes since 1970-01-01 UTC.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}
