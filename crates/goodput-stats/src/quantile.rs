//! Quantiles by linear interpolation between order statistics, the one definition used everywhere.

/// A number of which a quantile can be taken.
pub trait Sample: Copy {
    /// The same number as a float; above 2^53 rounded to the nearest.
    fn value(self) -> f64;
}

impl Sample for u64 {
    fn value(self) -> f64 {
        self as f64
    }
}

impl Sample for u32 {
    fn value(self) -> f64 {
        f64::from(self)
    }
}

impl Sample for f64 {
    fn value(self) -> f64 {
        self
    }
}

/// The `q` quantile (0 to 1) of ascending samples, in their own unit.
///
/// Between the two order statistics around rank `(n - 1) q` it interpolates linearly (type 7 of
/// Hyndman and Fan 1996; the default of R, `NumPy` and Excel). `None` without samples or for a `q`
/// outside 0 to 1.
#[must_use]
pub fn quantile<T: Sample>(sorted: &[T], q: f64) -> Option<f64> {
    let rank = Rank::of(sorted.len() as u64, q)?;
    let low = sorted[usize::try_from(rank.low).ok()?].value();
    let high = sorted[usize::try_from(rank.high).ok()?].value();
    Some(rank.between(low, high))
}

/// How many samples a quantile needs before it is more than the largest (or smallest) one.
///
/// A p99 needs 100, a p90 10, a p50 2: `1 / min(q, 1 - q)`, rounded up. Below it the figure says
/// where the extreme lies and nothing about the tail, so reports mark it as too few.
#[must_use]
pub fn min_samples_for(q: f64) -> u64 {
    let tail = q.min(1.0 - q);
    if tail.is_nan() || tail <= 0.0 {
        return u64::MAX;
    }
    // 1 / (1 - 0.9) is a hair above 10: without the allowance a p90 would ask for 11.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and a float-to-integer cast saturates"
    )]
    let needed = libm::ceil(1.0 / tail - 1e-6) as u64;
    needed
}

/// Two neighbouring order statistics (counted from 0) and how far between them a quantile lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rank {
    pub(crate) low: u64,
    pub(crate) high: u64,
    fraction: f64,
}

impl Rank {
    pub(crate) fn of(count: u64, q: f64) -> Option<Self> {
        if !(0.0..=1.0).contains(&q) {
            return None;
        }
        let last = count.checked_sub(1)?;
        let position = last as f64 * q;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and `last`"
        )]
        let low = (libm::floor(position) as u64).min(last);
        let fraction = position - low as f64;
        let high = if fraction > 0.0 {
            (low + 1).min(last)
        } else {
            low
        };
        Some(Self {
            low,
            high,
            fraction,
        })
    }

    pub(crate) fn between(self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.fraction
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(sorted: &[u64], q: f64, expect: Option<f64>) {
        assert_eq!(quantile(sorted, q), expect, "quantile {q} of {sorted:?}");
    }

    #[test]
    fn quantiles_interpolate_between_order_statistics() {
        check(&[], 0.5, None);
        check(&[7], 0.99, Some(7.0));
        check(&[1, 2, 3, 4], 0.5, Some(2.5));
        check(&[1, 2, 3, 4], 0.25, Some(1.75));
        check(&[10, 20], 0.9, Some(19.0));
        check(&[1, 2, 3], 0.0, Some(1.0));
        check(&[1, 2, 3], 1.0, Some(3.0));
        check(&[1, 2, 3], 1.1, None);
        check(&[1, 2, 3], f64::NAN, None);
    }

    #[test]
    fn a_percentile_of_too_few_samples_is_known_as_such() {
        let ttft: Vec<u64> = (58..=128).collect();
        check(&ttft, 0.5, Some(93.0));
        assert!((ttft.len() as u64) < min_samples_for(0.99));
        assert!((ttft.len() as u64) >= min_samples_for(0.95));
    }

    #[test]
    fn the_samples_a_percentile_needs() {
        let needed = [0.5, 0.9, 0.95, 0.99, 0.999, 0.05, 1.0, 0.0].map(min_samples_for);
        assert_eq!(needed, [2, 10, 20, 100, 1000, 20, u64::MAX, u64::MAX]);
    }

    proptest! {
        #[test]
        fn a_quantile_never_falls_and_stays_inside(
            mut samples in prop::collection::vec(0_u64..1_000_000, 1..50),
            a in 0.0..=1.0_f64,
            b in 0.0..=1.0_f64,
        ) {
            samples.sort_unstable();
            let low = quantile(&samples, a.min(b)).unwrap();
            let high = quantile(&samples, a.max(b)).unwrap();
            prop_assert!(samples[0] as f64 <= low);
            prop_assert!(low <= high);
            prop_assert!(high <= samples[samples.len() - 1] as f64);
        }
    }
}
