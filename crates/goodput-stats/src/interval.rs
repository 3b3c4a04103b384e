//! Intervals: how far an estimate may be off.

use serde::{Deserialize, Serialize};

use crate::normal::{normal_quantile, student_quantile};
use crate::series::correlation_time;

/// The confidence of every interval printed, unless it says otherwise.
pub const CONFIDENCE: f64 = 0.95;

/// From `low` to `high`, both in the unit of what they enclose.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies inside, ends included.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Whether the two have a value in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// Half the distance between the ends.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// An estimate with what is needed to say how far it may be off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate itself.
    pub value: f64,
    /// Its standard error, in the same unit.
    pub standard_error: f64,
    /// Degrees of freedom behind the standard error.
    pub degrees: f64,
}

impl Estimate {
    /// The two-sided interval of this confidence (0 to 1), by Student's t.
    #[must_use]
    pub fn interval(&self, confidence: f64) -> Option<Interval> {
        let reach = student_quantile(0.5 + confidence / 2.0, self.degrees)? * self.standard_error;
        Some(Interval {
            low: self.value - reach,
            high: self.value + reach,
        })
    }

    /// The difference of two independent estimates, with the degrees of freedom of Welch and
    /// Satterthwaite.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let (a, b) = (self.standard_error.powi(2), other.standard_error.powi(2));
        let spread = a * a / self.degrees + b * b / other.degrees;
        let degrees = if spread > 0.0 {
            (a + b).powi(2) / spread
        } else {
            self.degrees.min(other.degrees)
        };
        Self {
            value: self.value - other.value,
            standard_error: libm::sqrt(a + b),
            degrees,
        }
    }
}

/// The score interval of a proportion (Wilson 1927): `good` of `total` independent cases.
///
/// Stays inside 0 to 1 and does not collapse at 0 or 100 %. `None` without cases, or if `good`
/// exceeds `total`. Cases that come in bursts are not independent: see [`attainment_interval`].
#[must_use]
pub fn wilson(good: u64, total: u64, confidence: f64) -> Option<Interval> {
    if total == 0 || good > total {
        return None;
    }
    let z = normal_quantile(0.5 + confidence / 2.0)?;
    Some(score_interval(good as f64 / total as f64, total as f64, z))
}

/// The score interval with `cases` independent cases, where `z` standard errors are to be covered.
fn score_interval(share: f64, cases: f64, z: f64) -> Interval {
    let z2 = z * z;
    let scale = 1.0 + z2 / cases;
    let centre = (share + z2 / (2.0 * cases)) / scale;
    let spread = share * (1.0 - share) / cases + z2 / (4.0 * cases * cases);
    let reach = z * libm::sqrt(spread) / scale;
    // At the ends the interval reaches exactly 0 or 1; rounding must not spoil it.
    let low = if share <= 0.0 {
        0.0
    } else {
        (centre - reach).max(0.0)
    };
    let high = if share >= 1.0 {
        1.0
    } else {
        (centre + reach).min(1.0)
    };
    Interval { low, high }
}

/// What is known of a series of bins beside its values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Watched {
    /// Bins that what is measured lasts, such as a request; 0 where it is not known.
    pub memory: f64,
    /// Requests that are under way together and so share a fate; 0 where they do not.
    pub together: f64,
}

/// Misses after which the design effect seen counts as much as the one assumed.
const MISSES_TO_BELIEVE: f64 = 10.0;
/// How many of the requests under way beside one that misses are taken to miss with it, as a share,
/// until misses were seen: see [`attainment_interval`].
pub const COMPANY: f64 = 0.6;

/// The interval of a share from time bins `(good, total)` in order of time.
///
/// Misses come in bursts, so requests are not independent and [`wilson`] alone is too sure of
/// itself. The bins give the variance that the share really has, as for [`steady_mean`]; its ratio
/// to the binomial variance (the design effect of Kish 1965, at least 1) divides the sample, and
/// the score interval is taken of what is left, with Student's t for the few independent stretches
/// of time that the variance was seen in.
///
/// A run with few misses shows little of how they come. Where arrivals do not wait for answers, a
/// queue that makes one request late makes others late that stand in it, so a design effect of one
/// and 0.6 of the requests under way is assumed, and believed less the more misses were seen. (In
/// long simulated runs at the rate where attainment meets its objective the effect is 0.3 to 3 times
/// the requests under way.)
///
/// No interval allows for what did not happen while it was watched: in a window that is not much
/// longer than the spells in which a server is unwell it is still too narrow.
#[must_use]
pub fn attainment_interval(
    bins: &[(u64, u64)],
    watched: Watched,
    confidence: f64,
) -> Option<Interval> {
    let good: u64 = bins.iter().map(|bin| bin.0).sum();
    let total: u64 = bins.iter().map(|bin| bin.1).sum();
    if total == 0 || good > total {
        return None;
    }
    let (n, share) = (total as f64, good as f64 / total as f64);
    let floats: Vec<(f64, f64)> = bins.iter().map(|&(g, t)| (g as f64, t as f64)).collect();
    let binomial = share * (1.0 - share) / n;
    let rare = good.min(total - good) as f64;
    let assumed = 1.0 + COMPANY * watched.together * MISSES_TO_BELIEVE / (MISSES_TO_BELIEVE + rare);
    let seen = ratio_estimate(&floats, watched.memory).filter(|_| binomial > 0.0);
    let design_effect = seen.map_or(1.0, |s| s.standard_error.powi(2) / binomial);
    let upto = 0.5 + confidence / 2.0;
    let reach = match seen {
        // Below three degrees Student's t says little more than that nothing is known.
        Some(seen) => student_quantile(upto, seen.degrees.max(3.0)),
        None => normal_quantile(upto),
    };
    let cases = n / design_effect.max(assumed);
    Some(score_interval(share, cases, reach?))
}

/// The levels (0 to 1) between whose sample quantiles the true `q` quantile lies, seen over so many
/// independent `cases`: the score interval of the share of values below it.
///
/// `None` where the sample is too small to have a value beyond the quantile with this confidence:
/// below 368 cases for a 99th percentile at 95 %.
#[must_use]
pub fn quantile_levels(q: f64, cases: f64, confidence: f64) -> Option<Interval> {
    let z = normal_quantile(0.5 + confidence / 2.0)?;
    let none_beyond = libm::pow(q.max(1.0 - q), cases);
    let told = (0.0..1.0).contains(&q) && none_beyond <= (1.0 - confidence) / 2.0;
    told.then(|| score_interval(q, cases, z))
}

/// How many independent values a series is worth, from the sums and counts of its bins in order of
/// time and the variance of single values: the values over their design effect (Kish 1965).
/// `None` without a variance, or below three bins.
#[must_use]
pub fn independent_values(bins: &[(f64, f64)], variance: f64, memory: f64) -> Option<f64> {
    let values: f64 = bins.iter().map(|bin| bin.1).sum();
    let seen = ratio_estimate(bins, memory)?;
    let alone = variance / values;
    (alone > 0.0).then(|| values / (seen.standard_error.powi(2) / alone).max(1.0))
}

/// A ratio of sums from time bins `(numerator, denominator)` in order of time, where what is
/// measured lasts `memory` bins: tokens a second, misses a request.
///
/// The standard error is that of the ratio estimator (Cochran 1977, section 6.4) over the bins'
/// residuals, taken as those of [`steady_mean`]. `None` below three bins or for a denominator that
/// does not add up to something positive.
#[must_use]
pub fn ratio_estimate(bins: &[(f64, f64)], memory: f64) -> Option<Estimate> {
    let above: f64 = bins.iter().map(|bin| bin.0).sum();
    let below: f64 = bins.iter().map(|bin| bin.1).sum();
    if below.is_nan() || below <= 0.0 {
        return None;
    }
    let value = above / below;
    let residuals: Vec<f64> = bins.iter().map(|&(a, b)| a - value * b).collect();
    let mean_below = below / bins.len() as f64;
    let error = steady_mean(&residuals, memory)?;
    Some(Estimate {
        value,
        standard_error: error.standard_error / mean_below,
        degrees: error.degrees,
    })
}

/// The interval of [`ratio_estimate`].
#[must_use]
pub fn ratio_interval(bins: &[(f64, f64)], memory: f64, confidence: f64) -> Option<Interval> {
    ratio_estimate(bins, memory)?.interval(confidence)
}

/// The mean of independent values. `None` below two.
#[must_use]
pub fn mean_estimate(values: &[f64]) -> Option<Estimate> {
    let (mean, variance) = mean_and_variance(values)?;
    let n = values.len() as f64;
    Some(Estimate {
        value: mean,
        standard_error: libm::sqrt(variance / n),
        degrees: n - 1.0,
    })
}

/// The interval of [`mean_estimate`].
#[must_use]
pub fn mean_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    mean_estimate(values)?.interval(confidence)
}

/// The mean of values in order of time that may be correlated with their neighbours. `None` below
/// three.
///
/// `n` values with a correlation time of tau count as `n / tau` independent ones, and the sample
/// variance is corrected for the same reason.
#[must_use]
pub fn series_mean(values: &[f64]) -> Option<Estimate> {
    let (mean, variance) = mean_and_variance(values).filter(|_| values.len() >= 3)?;
    let n = values.len() as f64;
    let tau = correlation_time(values);
    let variance = variance * (n - 1.0) / (n - tau);
    Some(Estimate {
        value: mean,
        standard_error: libm::sqrt(variance * tau / n),
        degrees: (n / tau - 1.0).max(1.0),
    })
}

/// Batches into which [`steady_mean`] gathers a series, beside its single values.
const BATCHES: [usize; 2] = [15, 10];
/// So many lengths of what is measured make one independent stretch of time.
const STRETCH: f64 = 1.4;
/// Degrees of freedom of [`steady_mean`]: fewer say nothing, more than the batches have are not
/// to be had.
const DEGREES: (f64, f64) = (3.0, 15.0);

/// The mean of a steady series in order of time, where what is measured lasts about `memory` values
/// (0 where it is not known): the length of a request in bins.
///
/// One estimator of the variance is too small on a short series, and which one depends on the
/// series: the correlation time of [`series_mean`] misses slow changes, batch means (15 and 10 of
/// them) miss quick ones. The largest is taken. How far it may be trusted is not to be read off a
/// short series at all, but off how many requests fit one after the other into its time: that
/// gives the degrees of freedom. `None` below three values.
#[must_use]
pub fn steady_mean(values: &[f64], memory: f64) -> Option<Estimate> {
    let correlated = series_mean(values)?;
    let n = values.len();
    let batches = BATCHES.into_iter().filter(|&count| count < n);
    let batched = batches.filter_map(|count| {
        // What does not fill a batch is left out at the start, which is the least settled.
        let size = n / count;
        let means = values[n - count * size..].chunks_exact(size);
        let means: Vec<f64> = means.map(|b| b.iter().sum::<f64>() / size as f64).collect();
        Some(mean_estimate(&means)?.standard_error)
    });
    let standard_error = batched.fold(correlated.standard_error, f64::max);
    let stretches = n as f64 / (STRETCH * memory.max(1.0));
    Some(Estimate {
        value: correlated.value,
        standard_error,
        degrees: (stretches - 1.0).clamp(DEGREES.0, DEGREES.1),
    })
}

/// The interval of [`series_mean`] at [`CONFIDENCE`], for rates seen in equal bins of time.
#[must_use]
pub fn mean_rate_interval(bins: &[f64]) -> Option<Interval> {
    series_mean(bins)?.interval(CONFIDENCE)
}

/// Mean and sample variance (divided by n - 1). `None` below two values.
pub(crate) fn mean_and_variance(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    Some((mean, squares / (n - 1.0)))
}

#[cfg(test)]
mod tests;
