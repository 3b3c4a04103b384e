//! How far apart two estimates are, with an interval: of the difference and of the relative change.

use crate::{
    interval::{CONFIDENCE, Interval, Watched, attainment_interval},
    normal::{normal_quantile, student_quantile},
    quantile::quantile,
    series::pearson,
};

/// An estimate and what its interval is. The interval need not lie evenly around it: that of a
/// share or a percentile does not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounded {
    /// The estimate.
    pub value: f64,
    /// Its interval, at one confidence for all that are put together.
    pub interval: Interval,
}

impl Bounded {
    /// From the estimate down to the lower end and up to the upper one; an end on the wrong side
    /// counts as no distance.
    fn reach(&self) -> (f64, f64) {
        let down = (self.value - self.interval.low).max(0.0);
        let up = (self.interval.high - self.value).max(0.0);
        (down, up)
    }

    /// The same estimate `factor` times as large, ends with it. `factor` is not negative.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            interval: Interval {
                low: self.interval.low * factor,
                high: self.interval.high * factor,
            },
        }
    }

    /// The same estimate with both distances `factor` times as long.
    #[must_use]
    pub fn stretched(&self, factor: f64) -> Self {
        let (down, up) = self.reach();
        Self {
            value: self.value,
            interval: Interval {
                low: self.value - factor * down,
                high: self.value + factor * up,
            },
        }
    }
}

/// How much longer the distances of a 95 % interval ([`CONFIDENCE`]) become at another confidence,
/// by the ratio of normal quantiles. `None` outside 0 to 1.
#[must_use]
pub fn confidence_stretch(confidence: f64) -> Option<f64> {
    let at = normal_quantile(0.5 + confidence / 2.0)?;
    Some(at / normal_quantile(0.5 + CONFIDENCE / 2.0)?)
}

/// The interval of `other - base` at the confidence of the two intervals, by the method of variance
/// estimates recovery (Newcombe 1998; with correlation Zou and Donner 2008): each end is as far
/// from the difference as the two distances that lead there are long together.
///
/// For symmetric normal intervals this is the usual interval of a difference. `correlation` is that
/// of the two estimates: 0 for independent ones, above 0 where both saw the same requests.
#[must_use]
pub fn difference_interval(base: Bounded, other: Bounded, correlation: f64) -> Interval {
    let r = correlation.clamp(-1.0, 1.0);
    let ((base_down, base_up), (other_down, other_up)) = (base.reach(), other.reach());
    let together = |a: f64, b: f64| libm::sqrt((a * a + b * b - 2.0 * r * a * b).max(0.0));
    let difference = other.value - base.value;
    Interval {
        low: difference - together(other_down, base_up),
        high: difference + together(other_up, base_down),
    }
}

/// The interval of the relative change `other / base - 1`, by the same method for ratios (Donner and
/// Zou 2012). A change of `c` lies in it exactly if 0 lies in the interval of `other - (1 + c) base`.
///
/// `None` where the base cannot be told from 0, or its interval reaches up to twice its value:
/// then every change is possible.
#[must_use]
pub fn change_interval(base: Bounded, other: Bounded, correlation: f64) -> Option<Interval> {
    let r = correlation.clamp(-1.0, 1.0);
    let ((base_down, base_up), (other_down, other_up)) = (base.reach(), other.reach());
    if base.value <= 0.0 || base_down >= base.value || base_up >= base.value {
        return None;
    }
    // The roots of other^2 - ... in the ratio: where the contrast's end meets 0.
    let ends = |of_other: f64, of_base: f64| {
        let middle = base.value * other.value - r * of_other * of_base;
        let below = base.value.powi(2) - of_base.powi(2);
        let above = other.value.powi(2) - of_other.powi(2);
        let root = libm::sqrt((middle * middle - below * above).max(0.0));
        ((middle - root) / below, (middle + root) / below)
    };
    let (low, high) = (ends(other_down, base_up).0, ends(other_up, base_down).1);
    (low.is_finite() && high.is_finite()).then_some(Interval {
        low: low - 1.0,
        high: high - 1.0,
    })
}

/// The correlation of two estimates that come from the same blocks, from what each block adds to
/// either: the residuals of a ratio `numerator / denominator`. Below 0 it counts as 0: the same
/// requests do not make two servers behave in opposite ways, so that is noise. `None` for unequal
/// lengths, below three blocks, or where one side does not vary.
#[must_use]
pub fn paired_correlation(base: &[(f64, f64)], other: &[(f64, f64)]) -> Option<f64> {
    if base.len() < 3 {
        return None;
    }
    let r = pearson(&residuals(base)?, &residuals(other)?)?;
    Some(r.max(0.0))
}

/// What each block's numerator is above what the whole's ratio lets expect of its denominator.
fn residuals(blocks: &[(f64, f64)]) -> Option<Vec<f64>> {
    let above: f64 = blocks.iter().map(|b| b.0).sum();
    let below: f64 = blocks.iter().map(|b| b.1).sum();
    (below > 0.0).then(|| {
        let ratio = above / below;
        blocks.iter().map(|&(a, b)| a - ratio * b).collect()
    })
}

/// How many samples the interval of a quantile needs: fewer, and the quantile may lie beyond the
/// most extreme sample with more than half of what the confidence leaves. For a p99 at 95 % 368, for
/// a p90 36, for a median 6.
#[must_use]
pub fn min_samples_for_interval(q: f64, confidence: f64) -> u64 {
    let inside = q.max(1.0 - q);
    let outside = (1.0 - confidence) / 2.0;
    if !(inside < 1.0 && outside > 0.0 && outside < 1.0) {
        return u64::MAX;
    }
    let needed = libm::ceil(libm::log(outside) / libm::log(inside) - 1e-9);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and a float-to-integer cast saturates"
    )]
    let needed = needed as u64;
    needed
}

/// The interval of the `q` quantile of ascending samples (Woodruff 1952): the interval of the share
/// of samples at or below it, read back through the samples.
///
/// `blocks` are (samples at or below the quantile, samples) of consecutive stretches of time: slow
/// requests come together, and [`attainment_interval`] allows for that. How they come is seen only
/// in the blocks that hold some, so Student's t has one degree less than there are of these. `None`
/// below [`min_samples_for_interval`], or where all lie in one block.
#[must_use]
pub fn quantile_interval(
    sorted: &[f64],
    blocks: &[(u64, u64)],
    q: f64,
    confidence: f64,
) -> Option<Interval> {
    if (sorted.len() as u64) < min_samples_for_interval(q, confidence) {
        return None;
    }
    // How the rarer side comes is seen in the blocks that hold some of it, and nowhere else.
    let holds = |b: &&(u64, u64)| if q < 0.5 { b.0 > 0 } else { b.0 < b.1 };
    let seen_in = blocks.iter().filter(holds).count();
    let upto = 0.5 + confidence / 2.0;
    let wider = student_quantile(upto, seen_in.checked_sub(1)? as f64)? / normal_quantile(upto)?;
    let share = attainment_interval(blocks, Watched::default(), confidence)?;
    // The sample's own share at the quantile differs from q by up to one sample, and between two
    // samples nothing is known: both ends move outwards to a sample.
    let total: u64 = blocks.iter().map(|b| b.1).sum();
    let below: u64 = blocks.iter().map(|b| b.0).sum();
    let last = (sorted.len() - 1) as f64;
    let at = below as f64 / total as f64;
    let rank = |end: f64| last * (q + wider * (end - at)).clamp(0.0, 1.0);
    Some(Interval {
        low: quantile(sorted, libm::floor(rank(share.low)) / last)?,
        high: quantile(sorted, (libm::ceil(rank(share.high)) / last).min(1.0))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Draws, Stream, mean_estimate};
    use proptest::prelude::*;

    fn even(value: f64, reach: f64) -> Bounded {
        Bounded {
            value,
            interval: Interval {
                low: value - reach,
                high: value + reach,
            },
        }
    }

    /// A standard normal draw (the sum of twelve uniform ones).
    fn normal(draws: &mut Draws) -> f64 {
        (0..12).map(|_| draws.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn independent_even_intervals_add_like_variances() {
        let d = difference_interval(even(10.0, 3.0), even(12.0, 4.0), 0.0);
        assert_eq!((d.low, d.high), (-3.0, 7.0));
        let d = difference_interval(even(10.0, 3.0), even(12.0, 3.0), 1.0);
        assert_eq!((d.low, d.high), (2.0, 2.0), "the same noise cancels");
    }

    #[test]
    fn a_share_of_all_has_no_room_above() {
        let all = Bounded {
            value: 1.0,
            interval: Interval {
                low: 0.98,
                high: 1.0,
            },
        };
        let d = difference_interval(all, all, 0.0);
        assert!(d.low < -0.019 && d.high > 0.019, "{d:?}");
    }

    #[test]
    fn a_base_that_may_be_nothing_has_no_change() {
        assert_eq!(change_interval(even(1.0, 1.0), even(1.0, 0.1), 0.0), None);
        assert_eq!(change_interval(even(0.0, 0.0), even(1.0, 0.1), 0.0), None);
        let sure = change_interval(even(10.0, 0.0), even(11.0, 0.5), 0.0).unwrap();
        assert!((sure.low - 0.05).abs() < 1e-12 && (sure.high - 0.15).abs() < 1e-12);
    }

    #[test]
    fn samples_that_an_interval_needs() {
        let needed = [0.5, 0.9, 0.95, 0.99, 0.01].map(|q| min_samples_for_interval(q, 0.95));
        assert_eq!(needed, [6, 36, 72, 368, 368]);
        assert_eq!(min_samples_for_interval(1.0, 0.95), u64::MAX);
    }

    #[test]
    fn a_percentile_lies_in_its_interval_as_often_as_said() {
        // Exponential samples: the true quantile is -ln(1 - q).
        for (q, n) in [(0.5, 200_u32), (0.9, 300), (0.99, 1000)] {
            let truth = -libm::log(1.0 - q);
            let runs = 600;
            let held = (0..runs)
                .filter(|run| {
                    let mut draws = Draws::new(3, Stream(1), *run);
                    let values: Vec<f64> = (0..n).map(|_| -libm::log(1.0 - draws.unit())).collect();
                    let mut sorted = values.clone();
                    sorted.sort_by(f64::total_cmp);
                    let at = quantile(&sorted, q).unwrap();
                    let blocks: Vec<(u64, u64)> = values
                        .chunks(values.len().div_ceil(30))
                        .map(|b| {
                            (
                                b.iter().filter(|v| **v <= at).count() as u64,
                                b.len() as u64,
                            )
                        })
                        .collect();
                    quantile_interval(&sorted, &blocks, q, 0.95)
                        .unwrap()
                        .contains(truth)
                })
                .count();
            let coverage = held as f64 / runs as f64;
            assert!((0.93..=0.995).contains(&coverage), "q {q}: {coverage}");
        }
    }

    #[test]
    fn pairing_narrows_and_still_covers() {
        // Thirty blocks; both sides share most of their noise; the truth is a change of +2.
        let runs = 600_u64;
        let (mut held, mut paired_width, mut plain_width) = (0, 0.0, 0.0);
        for run in 0..runs {
            let mut draws = Draws::new(5, Stream(2), run);
            let (mut base, mut other) = (Vec::new(), Vec::new());
            for _ in 0..30 {
                let shared = 3.0 * normal(&mut draws);
                base.push(100.0 + shared + normal(&mut draws));
                other.push(102.0 + shared + normal(&mut draws));
            }
            let bounded = |values: &[f64]| {
                let mean = mean_estimate(values).unwrap();
                Bounded {
                    value: mean.value,
                    interval: mean.interval(0.95).unwrap(),
                }
            };
            let pairs = |values: &[f64]| values.iter().map(|v| (*v, 1.0)).collect::<Vec<_>>();
            let r = paired_correlation(&pairs(&base), &pairs(&other)).unwrap();
            let d = difference_interval(bounded(&base), bounded(&other), r);
            held += u32::from(d.contains(2.0));
            paired_width += d.half_width();
            plain_width += difference_interval(bounded(&base), bounded(&other), 0.0).half_width();
        }
        let coverage = f64::from(held) / runs as f64;
        assert!((0.93..=0.98).contains(&coverage), "{coverage}");
        assert!(
            paired_width < 0.5 * plain_width,
            "{paired_width} {plain_width}"
        );
    }

    proptest! {
        #[test]
        fn a_change_is_inside_exactly_if_its_contrast_may_be_nothing(
            base in 1.0..100.0_f64, other in 0.0..100.0_f64,
            base_reach in 0.0..0.9_f64, other_reach in 0.0..20.0_f64,
            r in 0.0..0.95_f64, c in -0.9..3.0_f64,
        ) {
            let (b, o) = (even(base, base * base_reach), even(other, other_reach));
            let change = change_interval(b, o, r).unwrap();
            let contrast = difference_interval(b.scaled(1.0 + c), o, r);
            let near = |x: f64| (x - c).abs() < 1e-6;
            prop_assert!(
                near(change.low) || near(change.high)
                    || change.contains(c) == contrast.contains(0.0),
                "{change:?} {contrast:?}"
            );
        }

        #[test]
        fn the_difference_lies_in_its_interval(
            a in -50.0..50.0_f64, b in -50.0..50.0_f64,
            x in 0.0..9.0_f64, y in 0.0..9.0_f64, r in 0.0..1.0_f64,
        ) {
            let d = difference_interval(even(a, x), even(b, y), r);
            prop_assert!(d.low <= b - a + 1e-12 && b - a <= d.high + 1e-12);
        }
    }
}
