//! Distributions of lengths, in tokens or steps.

use goodput_stats::{
    Draws,
    sampler::{QuantileTable, log_normal},
    whole_u32,
};

/// How a length is drawn. Every draw is at least 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// Always the same.
    Fixed(u32),
    /// Every whole number from `min` to `max`, equally often.
    Uniform {
        /// The smallest.
        min: u32,
        /// The largest.
        max: u32,
    },
    /// Log-normal, cut at `max`: what lies above becomes `max`.
    LogNormal {
        /// The median.
        median: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// The largest.
        max: u32,
    },
    /// By some of its quantiles, straight lines between them.
    Quantiles(QuantileTable),
}

impl Lengths {
    /// Draws one.
    pub fn draw(&self, draws: &mut Draws) -> u32 {
        match self {
            Self::Fixed(length) => *length,
            Self::Uniform { min, max } => {
                let span = f64::from(max - min) + 1.0;
                min + whole_u32(draws.unit() * span - 0.5).min(max - min)
            }
            Self::LogNormal { median, sigma, max } => {
                whole_u32(log_normal(draws, *median, *sigma)).clamp(1, *max)
            }
            Self::Quantiles(table) => whole_u32(table.draw(draws)),
        }
        .max(1)
    }

    /// The largest that can be drawn.
    #[must_use]
    pub fn longest(&self) -> u32 {
        match self {
            Self::Fixed(length) => *length,
            Self::Uniform { max, .. } | Self::LogNormal { max, .. } => *max,
            Self::Quantiles(table) => whole_u32(table.at(1.0)),
        }
        .max(1)
    }

    /// The mean of many draws, for rates; exact where a formula is at hand.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(length) => f64::from(*length),
            Self::Uniform { min, max } => f64::midpoint(f64::from(*min), f64::from(*max)),
            Self::LogNormal { .. } | Self::Quantiles(_) => {
                let all = (0..SAMPLE).map(|i| {
                    let mut draws = Draws::new(0, goodput_stats::Stream(0x4D_45_41_4E), i);
                    f64::from(self.draw(&mut draws))
                });
                all.sum::<f64>() / SAMPLE as f64
            }
        }
    }
}

/// Draws behind a mean that has no formula (rounding and cuts move it).
const SAMPLE: u64 = 20_000;
