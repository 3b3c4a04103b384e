//! The log-linear buckets of a distribution that has outgrown its exact samples.

use std::ops::Range;

/// Buckets a power of two is split into. The middle of a bucket is within 1/1024 of any value in
/// it, so a figure read from buckets is at most 0.1 % off.
const SPLIT_BITS: u32 = 9;
const SPLIT: u64 = 1 << SPLIT_BITS;

/// Which bucket holds `value`. Below 1,024 every value has a bucket of its own.
#[inline]
pub(crate) fn bucket_of(value: u64) -> usize {
    let shift = (u64::BITS - 1 - (value | SPLIT).leading_zeros()) - SPLIT_BITS;
    let index = (u64::from(shift) << SPLIT_BITS) + (value >> shift);
    usize::try_from(index).expect("invariant: at most 56 powers of two of 512 buckets")
}

/// The values of bucket `index`: first and last, both inside.
fn bounds(index: usize) -> (u64, u64) {
    let index = index as u64;
    if index < SPLIT {
        return (index, index);
    }
    let shift = (index >> SPLIT_BITS) - 1;
    let first = (index - (shift << SPLIT_BITS)) << shift;
    (first, first + ((1 << shift) - 1))
}

/// How often each bucket was hit, from the bucket of 0 up to the highest one hit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Buckets {
    counts: Vec<u64>,
}

impl Buckets {
    #[inline]
    pub(crate) fn record(&mut self, value: u64) {
        let index = bucket_of(value);
        match self.counts.get_mut(index) {
            Some(count) => *count += 1,
            None => self.reach(index),
        }
    }

    /// Counts a value in a bucket higher than any before.
    #[cold]
    fn reach(&mut self, index: usize) {
        self.counts.resize(index + 1, 0);
        self.counts[index] = 1;
    }

    pub(crate) fn extend(&mut self, values: &[u64]) {
        for &value in values {
            self.record(value);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }

    /// The middle of the bucket that holds the order statistic `rank`, counted from 0.
    pub(crate) fn order_statistic(&self, rank: u64) -> Option<f64> {
        let mut passed = 0;
        self.counts
            .iter()
            .position(|&count| {
                passed += count;
                passed > rank
            })
            .map(middle)
    }

    /// The non-empty buckets, ascending: the middle and how many values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (f64, u64)> {
        let hit = |&(_, &count): &(usize, &u64)| count > 0;
        self.counts
            .iter()
            .enumerate()
            .filter(hit)
            .map(|(index, &count)| (middle(index), count))
    }

    /// The non-empty buckets, ascending: which one and how many values.
    pub(crate) fn hit(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts = self.counts.iter().copied().enumerate();
        counts.filter(|(_, count)| *count > 0)
    }

    /// The buckets that [`Buckets::hit`] tells of. `None`: there is no such bucket, or their order
    /// is another one.
    pub(crate) fn of(hit: &[(usize, u64)]) -> Option<Self> {
        let last = hit.last().map_or(0, |last| last.0 + 1);
        if last > bucket_of(u64::MAX) + 1 || hit.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return None;
        }
        let mut counts = vec![0; last];
        for &(index, count) in hit {
            counts[index] = count;
        }
        Some(Self { counts })
    }

    /// How many values there are. `None`: more than can be counted.
    pub(crate) fn total(&self) -> Option<u64> {
        let mut counts = self.counts.iter();
        counts.try_fold(0_u64, |sum, count| sum.checked_add(*count))
    }

    /// How many values lie in `values`, which must start at 0; the bucket in which it ends counts
    /// in proportion.
    pub(crate) fn count_below(&self, values: &Range<u64>) -> f64 {
        let end = bucket_of(values.end);
        let whole: u64 = self.counts.iter().take(end).sum();
        let (first, last) = bounds(end);
        let part = (values.end - first) as f64 / ((last - first) as f64 + 1.0);
        whole as f64 + part * self.counts.get(end).copied().unwrap_or(0) as f64
    }
}

fn middle(index: usize) -> f64 {
    let (first, last) = bounds(index);
    first as f64 + (last - first) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other_without_a_hole() {
        let mut next = 0;
        for index in 0..bucket_of(u64::MAX) {
            let (first, last) = bounds(index);
            assert_eq!(first, next, "bucket {index}");
            assert_eq!((bucket_of(first), bucket_of(last)), (index, index));
            next = last + 1;
        }
        assert_eq!(bounds(bucket_of(u64::MAX)).1, u64::MAX);
    }

    proptest! {
        #[test]
        fn the_middle_of_a_bucket_is_within_a_thousandth(value in any::<u64>(), shift in 0_u32..64) {
            let value = value >> shift;
            let off = (middle(bucket_of(value)) - value as f64).abs();
            prop_assert!(off <= value as f64 * 0.001, "{value} is off by {off}");
        }
    }
}
