//! Samplers: each turns a keyed sequence of draws into one value of a distribution.
//!
//! Logarithms, powers and exponentials come from `libm`, so that the same draws give the same bits on
//! every machine.

use crate::{Draws, ziggurat};

/// Exponential with mean 1, by the ziggurat of Marsaglia and Tsang (2000).
#[inline]
pub fn exponential(draws: &mut Draws) -> f64 {
    ziggurat::exponential(draws)
}

/// Standard normal (mean 0, variance 1), by the ziggurat of Marsaglia and Tsang (2000).
#[inline]
pub fn normal(draws: &mut Draws) -> f64 {
    ziggurat::normal(draws)
}

/// Log-normal: `median` times e to the power of `sigma` standard normals. Both must be finite,
/// `median` above 0 and `sigma` not below.
#[inline]
pub fn log_normal(draws: &mut Draws, median: f64, sigma: f64) -> f64 {
    median * libm::exp(sigma * normal(draws))
}

/// Gamma with mean `shape * scale` and CV `1 / sqrt(shape)`; both must be finite and above 0.
///
/// Marsaglia and Tsang (2000): rejection from a transformed normal; below shape 1 a draw of shape
/// + 1 is scaled down by a power of a uniform.
pub fn gamma(draws: &mut Draws, shape: f64, scale: f64) -> f64 {
    if shape < 1.0 {
        let power = libm::pow(1.0 - draws.unit(), 1.0 / shape);
        return power * gamma(draws, shape + 1.0, scale);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let x = normal(draws);
        let root = 1.0 + c * x;
        if root <= 0.0 {
            continue;
        }
        let v = root * root * root;
        if libm::log(1.0 - draws.unit()) < 0.5 * x * x + d * (1.0 - v + libm::log(v)) {
            return d * v * scale;
        }
    }
}

/// The law of Zipf over ranks 0 to n-1: rank r has weight `1 / (r + 1)^exponent`.
#[derive(Clone, Debug, PartialEq)]
pub struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    /// Tabulates the law. `None` for no ranks, or for an exponent that is negative or not finite.
    /// Exponent 0 is the uniform law.
    #[must_use]
    pub fn new(ranks: u32, exponent: f64) -> Option<Self> {
        if ranks == 0 || !exponent.is_finite() || exponent < 0.0 {
            return None;
        }
        let mut total = 0.0;
        let cumulative = (0..ranks).map(|rank| {
            total += libm::pow(f64::from(rank) + 1.0, -exponent);
            total
        });
        Some(Self {
            cumulative: cumulative.collect(),
        })
    }

    /// Draws a rank, from 0.
    pub fn draw(&self, draws: &mut Draws) -> u32 {
        let total = self.cumulative.last().copied().unwrap_or(0.0);
        let at = draws.unit() * total;
        let rank = self.cumulative.partition_point(|&sum| sum <= at);
        let last = self.cumulative.len().saturating_sub(1);
        u32::try_from(rank.min(last)).unwrap_or(u32::MAX)
    }
}

/// A distribution given by some of its quantiles, straight lines between them.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantileTable {
    points: Vec<(f64, f64)>,
}

impl QuantileTable {
    /// Takes (level, value) points: levels strictly rising from exactly 0 to exactly 1, values
    /// finite and not falling. `None` if they are not.
    #[must_use]
    pub fn new(points: &[(f64, f64)]) -> Option<Self> {
        let whole = points.first()?.0.to_bits() == 0.0_f64.to_bits()
            && points.last()?.0.to_bits() == 1.0_f64.to_bits();
        let rising = points
            .windows(2)
            .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        let finite = points.iter().all(|point| point.1.is_finite());
        (whole && rising && finite).then(|| Self {
            points: points.to_vec(),
        })
    }

    /// The points, rising.
    #[must_use]
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The value at a level in [0, 1]; levels outside are clamped.
    #[must_use]
    pub fn at(&self, level: f64) -> f64 {
        let upper = self.points.partition_point(|point| point.0 < level);
        let upper = upper.clamp(1, self.points.len() - 1);
        let ((l0, v0), (l1, v1)) = (self.points[upper - 1], self.points[upper]);
        v0 + (v1 - v0) * ((level - l0) / (l1 - l0)).clamp(0.0, 1.0)
    }

    /// Draws a value, by inversion.
    pub fn draw(&self, draws: &mut Draws) -> f64 {
        self.at(draws.unit())
    }

    /// The exact mean: the area under the lines.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let areas = self.points.windows(2);
        areas
            .map(|pair| (pair[1].0 - pair[0].0) * f64::midpoint(pair[0].1, pair[1].1))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    /// Mean and CV of `n` values, each from a sequence of its own.
    fn moments(n: u64, mut sample: impl FnMut(&mut Draws) -> f64) -> (f64, f64) {
        let values: Vec<f64> = (0..n)
            .map(|i| sample(&mut Draws::new(11, Stream(3), i)))
            .collect();
        let mean = values.iter().sum::<f64>() / n as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
        (mean, variance.sqrt() / mean)
    }

    #[track_caller]
    fn check(got: (f64, f64), mean: f64, cv: f64) {
        assert!((got.0 / mean - 1.0).abs() < 0.02, "mean {got:?}");
        assert!((got.1 / cv - 1.0).abs() < 0.03, "cv {got:?}");
    }

    #[test]
    fn moments_are_those_of_theory() {
        check(moments(100_000, exponential), 1.0, 1.0);
        check(moments(100_000, |d| 5.0 + normal(d)), 5.0, 0.2);
        check(moments(100_000, |d| gamma(d, 4.0, 0.25)), 1.0, 0.5);
        check(moments(200_000, |d| gamma(d, 0.25, 8.0)), 2.0, 2.0);
        // Mean m * exp(s^2 / 2), CV sqrt(exp(s^2) - 1).
        let (mean, cv) = (100.0 * 0.125_f64.exp(), (0.25_f64.exp() - 1.0).sqrt());
        check(moments(100_000, |d| log_normal(d, 100.0, 0.5)), mean, cv);
    }

    #[test]
    fn zipf_ranks_have_their_weights() {
        let zipf = Zipf::new(3, 1.0).unwrap();
        let mut seen = [0_u32; 3];
        for i in 0..110_000 {
            seen[zipf.draw(&mut Draws::new(5, Stream(1), i)) as usize] += 1;
        }
        for (rank, count) in seen.iter().enumerate() {
            let expected = 60_000.0 / (rank as f64 + 1.0);
            assert!((f64::from(*count) / expected - 1.0).abs() < 0.02);
        }
        assert!(Zipf::new(0, 1.0).is_none());
        assert!(Zipf::new(3, f64::NAN).is_none());
    }

    #[test]
    fn quantile_tables_are_checked_and_exact_at_their_points() {
        let table = QuantileTable::new(&[(0.0, 10.0), (0.5, 20.0), (1.0, 60.0)]).unwrap();
        assert!((table.at(0.5) - 20.0).abs() < 1e-12);
        assert!((table.at(0.75) - 40.0).abs() < 1e-12);
        assert!((table.mean() - 27.5).abs() < 1e-12);
        let (mean, _) = moments(100_000, |d| table.draw(d));
        assert!((mean / 27.5 - 1.0).abs() < 0.01);
        assert!(QuantileTable::new(&[(0.0, 10.0), (1.0, 5.0)]).is_none());
        assert!(QuantileTable::new(&[(0.1, 10.0), (1.0, 15.0)]).is_none());
        assert!(QuantileTable::new(&[]).is_none());
    }
}
