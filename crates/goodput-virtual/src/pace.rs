//! How fast a replica is, over time.

use goodput_record::Timestamp;

/// By how much longer every step takes than the profile says, from one instant to the next: a boot
/// that came out slow, a clock that drops, a drift.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pace(Vec<(Timestamp, f64)>);

impl Pace {
    /// Steps `factor` times as long as the profile's, for ever.
    #[must_use]
    pub fn steady(factor: f64) -> Self {
        Self(vec![(Timestamp::ZERO, factor)])
    }

    /// Factors with the instants from which they hold; before the first one it is 1.
    #[must_use]
    pub fn steps(mut steps: Vec<(Timestamp, f64)>) -> Self {
        steps.sort_by_key(|step| step.0);
        Self(steps)
    }

    /// The factor at an instant.
    #[must_use]
    pub fn at(&self, at: Timestamp) -> f64 {
        let upto = self.0.partition_point(|step| step.0 <= at);
        upto.checked_sub(1).map_or(1.0, |last| self.0[last].1)
    }

    /// The next instant after `at` at which the factor changes.
    #[must_use]
    pub fn next_change(&self, at: Timestamp) -> Option<Timestamp> {
        let upto = self.0.partition_point(|step| step.0 <= at);
        self.0.get(upto).map(|step| step.0)
    }
}
