//! Distributions that merge: of nanoseconds, of tokens, of anything counted.

mod saved;
mod shape;
#[cfg(test)]
mod tests;

pub use shape::Bar;

use saved::SavedDistribution;
use serde::{Deserialize, Serialize};

use crate::buckets::Buckets;
use crate::quantile::{Rank, quantile};

/// Samples kept one by one before a distribution turns into buckets.
pub const EXACT_SAMPLES: usize = 65_536;

/// What was seen of one quantity: its values, and how often it did not exist.
///
/// Up to [`EXACT_SAMPLES`] values are kept as they are and every quantile is exact. From then on
/// they are counted in log-linear buckets whose relative error is at most 0.1 %, in bounded memory.
/// Count, mean, minimum and maximum stay exact. Neither the order of recording nor the way in which
/// the values were spread over merged parts changes any figure.
///
/// As a file holds it: whole numbers, every one of them, so that a distribution read back merges
/// like one that never left memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "SavedDistribution", try_from = "SavedDistribution")]
pub struct Distribution {
    store: Store,
    limit: usize,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
    undefined: u64,
    censored: u64,
    censored_above: u64,
}

#[derive(Clone, Debug)]
enum Store {
    Exact(Vec<u64>),
    Buckets(Buckets),
}

/// A quantile over all requests, those included whose value was never seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Adjusted {
    /// Nothing was recorded.
    Nothing,
    /// The quantile is among the values that were seen.
    Value(f64),
    /// The quantile is among those that were never seen: it lies above this bound, where every one
    /// of them had a bound, and nowhere otherwise.
    Above(Option<f64>),
}

impl Default for Distribution {
    fn default() -> Self {
        Self::new()
    }
}

impl Distribution {
    /// An empty distribution.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_limit(EXACT_SAMPLES)
    }

    /// An empty distribution that keeps up to `limit` values as they are, in place of
    /// [`EXACT_SAMPLES`]: for quantities of which 0.1 % is near enough, to save memory.
    #[must_use]
    pub const fn with_limit(limit: usize) -> Self {
        Self {
            store: Store::Exact(Vec::new()),
            limit,
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
            undefined: 0,
            censored: 0,
            censored_above: u64::MAX,
        }
    }

    /// Adds a value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        match &mut self.store {
            Store::Buckets(buckets) => buckets.record(value),
            Store::Exact(_) => self.keep(value),
        }
    }

    /// Keeps a value as it is, while there is room for that.
    fn keep(&mut self, value: u64) {
        match &mut self.store {
            Store::Exact(samples) if samples.len() < self.limit => samples.push(value),
            _ => self.buckets().record(value),
        }
    }

    /// Counts a case in which the quantity does not exist, such as the time to a first token that
    /// never came. It is no value, least of all 0.
    pub fn record_undefined(&mut self) {
        self.undefined += 1;
    }

    /// Counts a case in which the value was not seen because watching ended at `at_least`, such as
    /// a request given up after 10 s. It is among [`Distribution::undefined`] too.
    pub fn record_censored(&mut self, at_least: u64) {
        self.undefined += 1;
        self.censored += 1;
        self.censored_above = self.censored_above.min(at_least);
    }

    /// Records a value, or that there is none.
    #[inline]
    pub fn record_option(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.record(value),
            None => self.record_undefined(),
        }
    }

    /// Adds all that `other` has seen.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.undefined += other.undefined;
        self.censored += other.censored;
        self.censored_above = self.censored_above.min(other.censored_above);
        match (&mut self.store, &other.store) {
            (Store::Exact(mine), Store::Exact(theirs))
                if mine.len() + theirs.len() <= self.limit =>
            {
                mine.extend_from_slice(theirs);
            }
            (_, Store::Exact(theirs)) => {
                self.buckets().extend(theirs);
            }
            (_, Store::Buckets(theirs)) => self.buckets().merge(theirs),
        }
    }

    /// The buckets, made from the exact samples if there are none yet.
    fn buckets(&mut self) -> &mut Buckets {
        if let Store::Exact(samples) = &self.store {
            let mut buckets = Buckets::default();
            buckets.extend(samples);
            self.store = Store::Buckets(buckets);
        }
        match &mut self.store {
            Store::Buckets(buckets) => buckets,
            Store::Exact(_) => unreachable!("invariant: turned into buckets just above"),
        }
    }

    /// Values recorded.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Cases without a value.
    #[must_use]
    pub const fn undefined(&self) -> u64 {
        self.undefined
    }

    /// Whether neither a value nor a case without one was recorded.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0 && self.undefined == 0
    }

    /// Whether quantiles are exact, not read from buckets.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        matches!(self.store, Store::Exact(_))
    }

    /// The arithmetic mean of the values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The sum of the values.
    #[must_use]
    pub const fn sum(&self) -> u128 {
        self.sum
    }

    /// The smallest value.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The `q` quantile (0 to 1) of the values, by linear interpolation between order statistics.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        self.quantiles(&[q])[0]
    }

    /// Several quantiles at the cost of one.
    #[must_use]
    pub fn quantiles(&self, qs: &[f64]) -> Vec<Option<f64>> {
        match &self.store {
            Store::Exact(samples) => {
                let mut sorted = samples.clone();
                sorted.sort_unstable();
                qs.iter().map(|&q| quantile(&sorted, q)).collect()
            }
            Store::Buckets(buckets) => qs
                .iter()
                .map(|&q| self.bucket_quantile(buckets, q))
                .collect(),
        }
    }

    fn bucket_quantile(&self, buckets: &Buckets, q: f64) -> Option<f64> {
        let rank = Rank::of(self.count, q)?;
        let at = |rank: u64| match rank {
            0 => Some(self.min as f64),
            last if last + 1 == self.count => Some(self.max as f64),
            inner => Some(
                buckets
                    .order_statistic(inner)?
                    .clamp(self.min as f64, self.max as f64),
            ),
        };
        Some(rank.between(at(rank.low)?, at(rank.high)?))
    }

    /// The `q` quantile (0 to 1) over values *and* cases without one, which rank above every value.
    ///
    /// A percentile over survivors falls when requests fail; this one does not. Where it lies among
    /// the cases without a value it is only known to be above the smallest bound given to
    /// [`Distribution::record_censored`].
    #[must_use]
    pub fn adjusted_quantile(&self, q: f64) -> Adjusted {
        let Some(rank) = Rank::of(self.count + self.undefined, q) else {
            return Adjusted::Nothing;
        };
        if rank.high >= self.count {
            let bounded = self.censored == self.undefined;
            return Adjusted::Above(bounded.then_some(self.censored_above as f64));
        }
        let share = |rank: u64| rank as f64 / (self.count.max(2) - 1) as f64;
        let ends = self.quantiles(&[share(rank.low), share(rank.high)]);
        match (ends[0], ends[1]) {
            (Some(low), Some(high)) => Adjusted::Value(rank.between(low, high)),
            _ => Adjusted::Nothing,
        }
    }
}

/// Equal if the same values and cases were recorded, in whatever order.
impl PartialEq for Distribution {
    fn eq(&self, other: &Self) -> bool {
        let facts = |d: &Self| {
            (
                d.count,
                d.sum,
                d.min,
                d.max,
                d.undefined,
                d.censored,
                d.censored_above,
                d.limit,
            )
        };
        let same_store = match (&self.store, &other.store) {
            (Store::Exact(mine), Store::Exact(theirs)) => {
                let (mut mine, mut theirs) = (mine.clone(), theirs.clone());
                mine.sort_unstable();
                theirs.sort_unstable();
                mine == theirs
            }
            (Store::Buckets(mine), Store::Buckets(theirs)) => mine == theirs,
            _ => false,
        };
        facts(self) == facts(other) && same_store
    }
}

impl Extend<u64> for Distribution {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.record(value));
    }
}

impl FromIterator<u64> for Distribution {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Self {
        let mut distribution = Self::new();
        distribution.extend(values);
        distribution
    }
}
