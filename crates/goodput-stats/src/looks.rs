//! Intervals that stay true although the run was stopped because of what was seen.

use crate::interval::{CONFIDENCE, Estimate, Interval};

/// Two-sided confidence that each of k looks needs for all of them together to have 95 %, where each
/// look sees 1.5 times the data of the one before.
///
/// The constant boundary of Pocock (1977), for correlations of `sqrt(1 / 1.5)` between neighbouring
/// looks, by numerical integration over the chain of looks. In standard errors these are 1.960,
/// 2.147, 2.265, 2.353, 2.424, 2.482, 2.533, 2.576, 2.615 and 2.650.
const OF_LOOKS: [f64; 10] = [
    CONFIDENCE, 0.96819, 0.97649, 0.98139, 0.98463, 0.98695, 0.98867, 0.99002, 0.99109, 0.99196,
];

/// The confidence (0 to 1) of each of `looks` intervals, the last one included, so that all of them
/// hold the truth in 95 %: whichever one the run stopped at, it may be believed.
///
/// Holds for looks that come on a geometric schedule of 1.5 or denser data per look; above ten looks
/// the error left over is split evenly, which is wider than needed.
#[must_use]
pub fn looks_confidence(looks: u32) -> f64 {
    let index = usize::try_from(looks.max(1) - 1).unwrap_or(usize::MAX);
    let even = 1.0 - (1.0 - CONFIDENCE) / f64::from(looks.max(1));
    OF_LOOKS.get(index).copied().unwrap_or(even)
}

/// The interval of an estimate at the last of `looks` looks.
#[must_use]
pub fn looks_interval(estimate: &Estimate, looks: u32) -> Option<Interval> {
    estimate.interval(looks_confidence(looks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Draws, Stream, mean_estimate, normal_quantile, sampler::normal};

    /// Means of a growing sample, and whether any look's interval, or the first look's kind of
    /// interval, ever misses the truth.
    fn misses(looks: u32, seed: u64) -> (bool, bool) {
        let mut values = Vec::new();
        let mut size = 60.0;
        let (mut aware, mut blind) = (false, false);
        for _ in 0..looks {
            while (values.len() as f64) < size {
                values.push(normal(&mut Draws::new(
                    seed,
                    Stream(8),
                    values.len() as u64,
                )));
            }
            size *= 1.5;
            let estimate = mean_estimate(&values).unwrap();
            aware |= !looks_interval(&estimate, looks).unwrap().contains(0.0);
            blind |= !looks_interval(&estimate, 1).unwrap().contains(0.0);
        }
        (aware, blind)
    }

    #[test]
    fn whichever_look_a_run_stops_at_the_interval_holds() {
        let runs = 2_000_u64;
        let seen: Vec<_> = (0..runs).map(|seed| misses(5, seed)).collect();
        let share = |of: fn(&(bool, bool)) -> bool| {
            seen.iter().filter(|run| of(run)).count() as f64 / runs as f64
        };
        let (aware, blind) = (share(|run| run.0), share(|run| run.1));
        assert!((0.035..0.065).contains(&aware), "{aware}");
        assert!(blind > 0.1, "looking five times has no cost? {blind}");
    }

    #[test]
    fn every_further_look_widens_and_one_look_is_free() {
        assert!((looks_confidence(1) - CONFIDENCE).abs() < 1e-12);
        assert!((looks_confidence(0) - CONFIDENCE).abs() < 1e-12);
        let reach = |looks| normal_quantile(0.5 + looks_confidence(looks) / 2.0).unwrap();
        assert!((1..30).all(|looks| reach(looks) < reach(looks + 1)));
        assert!((reach(5) - 2.424).abs() < 0.001, "{}", reach(5));
    }
}
