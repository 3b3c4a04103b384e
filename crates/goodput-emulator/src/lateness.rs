//! How far from their instant tokens were written: the emulator's claim about itself, checked while
//! it runs.

use std::time::Duration;

use goodput_record::{Timestamp, millis, nanos};
use goodput_stats::Distribution;
use serde::Serialize;

/// Between the instant at which a token was due by the engine and the return of the write that handed
/// it to the kernel, early or late alike. One sample for each write that carried tokens, by its earliest token.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    spans: Distribution,
    blocked: u64,
}

/// Figures of a [`Lateness`], in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatenessFigures {
    /// Writes that carried tokens.
    pub writes: u64,
    /// Writes that a client's full window held back; not among the samples.
    pub blocked: u64,
    /// Median; `null` without a sample.
    pub p50_ms: Option<f64>,
    /// 90th percentile.
    pub p90_ms: Option<f64>,
    /// 99th percentile.
    pub p99_ms: Option<f64>,
    /// Largest.
    pub max_ms: Option<f64>,
}

impl Lateness {
    /// A write that carried tokens due at `due` returned at `written`.
    pub(crate) fn record(&mut self, due: Timestamp, written: Timestamp) {
        let distance = written.since(due).or_else(|| due.since(written));
        self.spans.record(distance.map_or(0, nanos));
    }

    /// A client's full window held tokens back.
    pub(crate) fn record_blocked(&mut self) {
        self.blocked += 1;
    }

    /// The samples, in nanoseconds.
    #[must_use]
    pub const fn spans(&self) -> &Distribution {
        &self.spans
    }

    /// The figures to print.
    #[must_use]
    pub fn figures(&self) -> LatenessFigures {
        let quantile = |q| self.spans.quantile(q).map(|nanos| nanos / 1e6);
        LatenessFigures {
            writes: self.spans.count(),
            blocked: self.blocked,
            p50_ms: quantile(0.5),
            p90_ms: quantile(0.9),
            p99_ms: quantile(0.99),
            max_ms: self
                .spans
                .max()
                .map(|max| millis(Duration::from_nanos(max))),
        }
    }
}
