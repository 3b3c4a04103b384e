//! How far the percentiles of a latency reach.
//!
//! Requests that are slow together are not independent, so the order statistics of a percentile are
//! further apart than a count of requests says. How much is seen in the logarithm of the latency by
//! bins of origin time.

use std::{ops::Range, time::Duration};

use goodput_record::{Outcome, RequestSummary, Timestamp};
use goodput_stats::{Distribution, independent_values, quantile_levels, whole_u64};
use serde::{Deserialize, Serialize};

use crate::{
    bins::Bins,
    books::Latency,
    figures::{Certainty, GROUPS},
    row::Between,
};

/// Logarithms are kept in whole numbers of this part of one, so that books merge exactly.
const UNIT: f64 = 4_096.0;
/// The latencies that are kept, in the order of the columns.
const OF: [Latency; 2] = [Latency::Ttft, Latency::Tpot];

/// Sums of the logarithm of latencies, in bins of origin time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Paces {
    /// Two columns a latency: the sum, and how many.
    bins: Bins<4>,
    /// Sums of squares.
    squares: [u64; 2],
}

impl Paces {
    pub(crate) fn new(width: Duration) -> Self {
        Self {
            bins: Bins::new(width),
            squares: [0; 2],
        }
    }

    /// The width of a bin in nanoseconds.
    pub(crate) const fn width_ns(&self) -> u64 {
        self.bins.width_ns()
    }

    pub(crate) fn post(&mut self, summary: &RequestSummary) {
        if summary.outcome() != Outcome::Ok {
            return;
        }
        for (column, latency) in OF.into_iter().enumerate() {
            if let Some(nanos) = latency.of(summary).filter(|&nanos| nanos > 0) {
                let units = whole_u64(libm::log(nanos as f64) * UNIT);
                let bin = self.bins.at(summary.origin());
                bin[2 * column] += units;
                bin[2 * column + 1] += 1;
                self.squares[column] += units * units;
            }
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.bins.merge(&other.bins);
        for (mine, theirs) in self.squares.iter_mut().zip(other.squares) {
            *mine += theirs;
        }
    }

    /// The intervals of some percentiles, in ms.
    pub(crate) fn intervals<const N: usize>(
        &self,
        latency: Latency,
        (distribution, window): (&Distribution, &Range<Timestamp>),
        qs: [f64; N],
        certainty: Certainty,
    ) -> [Option<Between>; N] {
        let column = OF.iter().position(|&of| of == latency);
        let cases = column.and_then(|column| self.independent(column, window, certainty));
        qs.map(|q| {
            let levels = quantile_levels(q, cases?, certainty.confidence)?;
            let ends = distribution.quantiles(&[levels.low, levels.high]);
            Some(Between {
                low: ends[0]? / 1e6,
                high: ends[1]? / 1e6,
            })
        })
    }

    /// How many independent requests those of the window are worth.
    fn independent(
        &self,
        column: usize,
        window: &Range<Timestamp>,
        certainty: Certainty,
    ) -> Option<f64> {
        let (whole, _) = self.bins.whole_bins(window);
        let (groups, seconds) = self.bins.groups(whole, GROUPS);
        let of = |group: &[u64; 4]| (group[2 * column] as f64, group[2 * column + 1] as f64);
        let groups: Vec<(f64, f64)> = groups.iter().map(of).filter(|bin| bin.1 > 0.0).collect();
        let total = self.bins.sum(0..u64::MAX);
        let (sum, n) = of(&total);
        let variance = (self.squares[column] as f64 - sum * sum / n) / (n - 1.0);
        independent_values(&groups, variance, certainty.watched(seconds).memory)
    }
}
