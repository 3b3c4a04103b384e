//! The shape of a distribution, for charts.

use super::{Distribution, Store};

/// One bar of a histogram: values from `low` up to, not including, `high` (the last bar includes
/// it).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Lower edge, in the unit of the values.
    pub low: f64,
    /// Upper edge.
    pub high: f64,
    /// Values between the edges.
    pub count: u64,
}

impl Distribution {
    /// The share of values at or below `bound`, 0 to 1, cases without a value left out.
    ///
    /// For display: what passes an SLO is counted exactly where requests are judged.
    #[must_use]
    pub fn share_within(&self, bound: u64) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let within = match &self.store {
            Store::Exact(samples) => samples.iter().filter(|&&value| value <= bound).count() as f64,
            Store::Buckets(_) if bound >= self.max => self.count as f64,
            Store::Buckets(buckets) => buckets.count_below(&(0..bound + 1)),
        };
        Some(within / self.count as f64)
    }

    /// The distribution function as `points` pairs (value, share of values at or below it), evenly
    /// spaced in the share. Empty without values or below two points.
    #[must_use]
    pub fn cdf(&self, points: usize) -> Vec<(f64, f64)> {
        if points < 2 {
            return Vec::new();
        }
        let shares: Vec<f64> = (0..points)
            .map(|i| i as f64 / (points - 1) as f64)
            .collect();
        let values = self.quantiles(&shares);
        values
            .into_iter()
            .zip(shares)
            .filter_map(|(value, share)| Some((value?, share)))
            .collect()
    }

    /// `bars` bars of equal width from the smallest to the largest value.
    #[must_use]
    pub fn histogram(&self, bars: usize) -> Vec<Bar> {
        if self.count == 0 || bars == 0 {
            return Vec::new();
        }
        let (low, high) = (self.min as f64, self.max as f64);
        let width = ((high - low) / bars as f64).max(f64::MIN_POSITIVE);
        let edge = |i: usize| low + width * i as f64;
        let mut out: Vec<Bar> = (0..bars)
            .map(|i| Bar {
                low: edge(i),
                high: edge(i + 1),
                count: 0,
            })
            .collect();
        let mut add = |value: f64, count: u64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a float-to-integer cast saturates, and the index is capped"
            )]
            let index = ((value - low) / width) as usize;
            out[index.min(bars - 1)].count += count;
        };
        match &self.store {
            Store::Exact(samples) => samples.iter().for_each(|&value| add(value as f64, 1)),
            Store::Buckets(buckets) => buckets.iter().for_each(|(value, count)| add(value, count)),
        }
        out
    }
}
