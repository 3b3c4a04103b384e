//! Series in order of time: how correlated, how bursty, when steady.

use crate::interval::mean_and_variance;

/// The coefficient of variation: standard deviation over mean. Of gaps between arrivals it is 1 for
/// a Poisson process, more for bursts. `None` below two values or for a mean of 0.
#[must_use]
pub fn cv(values: &[f64]) -> Option<f64> {
    let (mean, variance) = mean_and_variance(values)?;
    (mean != 0.0).then(|| libm::sqrt(variance) / mean)
}

/// The index of dispersion of counts: variance over mean of the arrivals in equal bins. 1 for a
/// Poisson process, more for bursts. `None` below two bins or without arrivals.
#[must_use]
pub fn index_of_dispersion(counts: &[u64]) -> Option<f64> {
    let counts: Vec<f64> = counts.iter().map(|&count| count as f64).collect();
    let (mean, variance) = mean_and_variance(&counts)?;
    (mean > 0.0).then(|| variance / mean)
}

/// Pearson's correlation coefficient of paired values, -1 to 1. `None` for unequal lengths, below
/// two pairs, or if one side does not vary.
#[must_use]
pub fn pearson(xs: &[f64], ys: &[f64]) -> Option<f64> {
    if xs.len() != ys.len() {
        return None;
    }
    let (x_mean, x_variance) = mean_and_variance(xs)?;
    let (y_mean, y_variance) = mean_and_variance(ys)?;
    let spread = libm::sqrt(x_variance) * libm::sqrt(y_variance);
    let products: f64 = xs
        .iter()
        .zip(ys)
        .map(|(x, y)| (x - x_mean) * (y - y_mean))
        .sum();
    (spread > 0.0).then(|| (products / (xs.len() as f64 - 1.0) / spread).clamp(-1.0, 1.0))
}

/// The autocorrelation of a series with itself `lag` steps later, -1 to 1. `None` if the series is
/// not longer than the lag or does not vary.
#[must_use]
pub fn autocorrelation(values: &[f64], lag: usize) -> Option<f64> {
    if lag >= values.len() {
        return None;
    }
    let (mean, variance) = mean_and_variance(values)?;
    let products: f64 = values
        .iter()
        .zip(&values[lag..])
        .map(|(a, b)| (a - mean) * (b - mean))
        .sum();
    (variance > 0.0).then(|| products / (variance * (values.len() as f64 - 1.0)))
}

/// How many steps one independent observation is worth: `1 + 2 x sum of autocorrelations`, from 1
/// (white noise) to half of the series.
///
/// The sum ends where two neighbouring autocorrelations no longer add up to something positive
/// (initial positive sequence, Geyer 1992). A correlation below 1 would narrow intervals and is not
/// used: with few bins it is more often noise than fact.
#[must_use]
pub fn correlation_time(values: &[f64]) -> f64 {
    let n = values.len();
    let at = |lag| autocorrelation(values, lag).unwrap_or(0.0);
    // Estimated autocorrelations are too small by about 1/n each: their own mean was subtracted.
    let unbiased = |lag: usize| at(lag) + 1.0 / n as f64;
    let mut tau = 1.0;
    let mut lag = 1;
    while lag + 1 < n / 2 {
        let pair = unbiased(lag) + unbiased(lag + 1);
        if pair <= 0.0 || (lag == 1 && unbiased(1) <= 0.0) {
            break;
        }
        tau += 2.0 * pair;
        lag += 2;
    }
    tau.clamp(1.0, (n as f64 / 2.0).max(1.0))
}

/// How many values at the start to drop because the system was still warming up, by MSER-5 (White
/// 1997): the cut after which the standard error of the mean of batches of five is smallest.
///
/// Five batches or a quarter of the series are left in any case. `None` if the series is shorter than
/// 20 values, or if the best cut lies in its second half: then it never became steady, and no cut is
/// to be trusted.
#[must_use]
pub fn truncate_mser5(values: &[f64]) -> Option<usize> {
    const BATCH: usize = 5;
    const TAIL: usize = 5;
    if values.len() < 4 * BATCH {
        return None;
    }
    let batches: Vec<f64> = values
        .chunks_exact(BATCH)
        .map(|batch| batch.iter().sum::<f64>() / BATCH as f64)
        .collect();
    let error_after = |cut: usize| {
        let rest = &batches[cut..];
        let n = rest.len() as f64;
        let mean = rest.iter().sum::<f64>() / n;
        rest.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n * n)
    };
    // Further back a few values that happen to agree would look steadiest of all.
    let last = batches.len().saturating_sub(TAIL.max(batches.len() / 4));
    let best = (0..=last).min_by(|&a, &b| error_after(a).total_cmp(&error_after(b)))?;
    (best <= batches.len() / 2).then_some(best * BATCH)
}

#[cfg(test)]
mod tests;
