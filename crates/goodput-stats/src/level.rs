//! Whether a series changed its level for good, and where.

use crate::{interval::mean_and_variance, series::correlation_time};

/// Values on either side of a shift at least: fewer are an excursion, not a level.
const EACH_SIDE: usize = 5;
/// The difference of the levels over its standard error that is called a shift. With the best of all
/// places chosen, 24 values of independent normal noise pass 6 in fewer than one series of a thousand,
/// of noise whose neighbours correlate by one half in fewer than one of a hundred (a test).
const STANDARD_ERRORS: f64 = 6.0;

/// A lasting change of a series' level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelShift {
    /// The first value of the new level.
    pub at: usize,
    /// Mean before.
    pub before: f64,
    /// Mean from there on.
    pub after: f64,
}

/// The place that splits a series best into two levels, if these differ by more than the values
/// around each of them, neighbours' correlation allowed for, let expect. `None` if they do not, or
/// under ten values.
///
/// The split of least squares is the maximum-likelihood change point of a normal mean (Hinkley 1970).
#[must_use]
pub fn level_shift(values: &[f64]) -> Option<LevelShift> {
    let splits = EACH_SIDE..(values.len() + 1).saturating_sub(EACH_SIDE);
    let spread = |at: &usize| {
        let (left, right) = values.split_at(*at);
        squares(left) + squares(right)
    };
    let at = splits.min_by(|a, b| spread(a).total_cmp(&spread(b)))?;
    let (left, right) = values.split_at(at);
    let (before, after) = (mean_and_variance(left)?.0, mean_and_variance(right)?.0);
    let rest: Vec<f64> = left
        .iter()
        .map(|v| v - before)
        .chain(right.iter().map(|v| v - after))
        .collect();
    let variance = (squares(left) + squares(right)) / (values.len() - 2) as f64;
    let sizes = 1.0 / left.len() as f64 + 1.0 / right.len() as f64;
    let error = libm::sqrt(variance * correlation_time(&rest).max(1.0) * sizes);
    let shifted = (after - before).abs() > STANDARD_ERRORS * error;
    shifted.then_some(LevelShift { at, before, after })
}

/// The sum of squared distances from the mean.
fn squares(values: &[f64]) -> f64 {
    mean_and_variance(values).map_or(0.0, |(_, variance)| variance * (values.len() - 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Draws, Stream, sampler};

    fn noise(seed: u64, length: u64, correlation: f64) -> Vec<f64> {
        let mut last = 0.0;
        (0..length)
            .map(|i| {
                let draw = sampler::normal(&mut Draws::new(seed, Stream(7), i));
                last = correlation * last + libm::sqrt(1.0 - correlation * correlation) * draw;
                100.0 + 4.0 * last
            })
            .collect()
    }

    #[test]
    fn a_level_that_stays_is_no_shift() {
        assert_eq!(level_shift(&[5.0; 30]), None);
        assert_eq!(level_shift(&[1.0, 2.0, 9.0]), None);
        for (length, correlation, most) in [(24, 0.0, 4), (24, 0.5, 20), (40, 0.5, 20)] {
            let called =
                (0..2_000).filter(|&seed| level_shift(&noise(seed, length, correlation)).is_some());
            assert!(called.count() < most, "false alarms in 2,000 series");
        }
    }

    #[test]
    fn a_fall_is_found_where_it_is() {
        let found = (0..1_000).filter(|&seed| {
            let mut values = noise(seed, 24, 0.0);
            values[14..].iter_mut().for_each(|v| *v -= 20.0);
            level_shift(&values).is_some_and(|shift| shift.at.abs_diff(14) <= 1)
        });
        assert!(found.count() >= 990);
        let step: Vec<f64> = (0..20).map(|i| if i < 8 { 2.0 } else { 1.0 }).collect();
        let exact = LevelShift {
            at: 8,
            before: 2.0,
            after: 1.0,
        };
        assert_eq!(level_shift(&step), Some(exact));
    }

    #[test]
    fn one_wild_value_is_an_excursion() {
        let mut values = vec![100.0; 24];
        values[12] = 0.0;
        assert_eq!(level_shift(&values), None);
    }
}
