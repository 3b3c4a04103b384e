//! A distribution as it stands in a file: whole numbers, so that what was merged in a file is what
//! would have been merged in memory.

use serde::{Deserialize, Serialize};

use super::{Distribution, EXACT_SAMPLES, Store};
use crate::buckets::Buckets;

/// All that a [`Distribution`] has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedDistribution {
    /// Every value, as the differences of the values in rising order. Absent once they were too
    /// many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) steps: Option<Vec<u64>>,
    /// The buckets that were hit and how often, in rising order. Absent while every value is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) buckets: Option<Vec<(usize, u64)>>,
    /// The sum of the values, in two halves of 64 bits, the higher one first.
    pub(super) sum: (u64, u64),
    /// The smallest and the largest value; absent without values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ends: Option<(u64, u64)>,
    /// Cases without a value.
    pub(super) undefined: u64,
    /// Of these, cases that were watched for a while, and the shortest while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) censored: Option<(u64, u64)>,
}

impl From<Distribution> for SavedDistribution {
    fn from(of: Distribution) -> Self {
        let (steps, buckets) = match of.store {
            Store::Exact(values) => (Some(steps(values)), None),
            Store::Buckets(buckets) => (None, Some(buckets.hit().collect())),
        };
        let half = |n: u128| u64::try_from(n & u128::from(u64::MAX)).unwrap_or(u64::MAX);
        Self {
            steps,
            buckets,
            sum: (half(of.sum >> 64), half(of.sum)),
            ends: (of.count > 0).then_some((of.min, of.max)),
            undefined: of.undefined,
            censored: (of.censored > 0).then_some((of.censored, of.censored_above)),
        }
    }
}

/// The differences of values in rising order: small numbers, and the same whatever the order in
/// which the values came.
fn steps(mut values: Vec<u64>) -> Vec<u64> {
    values.sort_unstable();
    let mut last = 0;
    for value in &mut values {
        (*value, last) = (*value - last, *value);
    }
    values
}

impl TryFrom<SavedDistribution> for Distribution {
    type Error = &'static str;

    fn try_from(saved: SavedDistribution) -> Result<Self, Self::Error> {
        saved
            .restore()
            .ok_or("the parts of a distribution contradict each other")
    }
}

impl SavedDistribution {
    /// The distribution again. `None` if the parts contradict each other: the file was changed.
    fn restore(&self) -> Option<Distribution> {
        let store = match (&self.steps, &self.buckets) {
            (Some(steps), None) if steps.len() <= EXACT_SAMPLES => {
                let mut at = 0_u64;
                let values = steps.iter().map(|step| {
                    at = at.checked_add(*step)?;
                    Some(at)
                });
                Store::Exact(values.collect::<Option<_>>()?)
            }
            (None, Some(hit)) => Store::Buckets(Buckets::of(hit)?),
            _ => return None,
        };
        let count = match &store {
            Store::Exact(values) => values.len() as u64,
            Store::Buckets(buckets) => buckets.total()?,
        };
        if self.ends.is_some() != (count > 0) {
            return None;
        }
        let (min, max) = self.ends.unwrap_or((u64::MAX, 0));
        let (censored, censored_above) = self.censored.unwrap_or((0, u64::MAX));
        Some(Distribution {
            store,
            limit: EXACT_SAMPLES,
            count,
            sum: u128::from(self.sum.0) << 64 | u128::from(self.sum.1),
            min,
            max,
            undefined: self.undefined,
            censored,
            censored_above,
        })
    }
}
