//! Where a window becomes steady.

use std::ops::Range;

use goodput_record::Timestamp;
use goodput_stats::{steady_mean, truncate_mser5};

use crate::books::{BUSY_NS, PointBooks, TOKENS};

/// Groups in which a start that is not yet steady is looked for.
const GROUPS: u64 = 60;
/// Measured requests below which nothing is steady or not.
const FEW: u64 = 50;
/// Standard errors by which the start must differ from the rest to be left out.
const SURELY: f64 = 3.0;

impl PointBooks {
    /// The part of `window` after its warm-up, by MSER-5 (White 1997) on the tokens received and on
    /// the requests in flight, on top of the first wave that settling leaves out.
    ///
    /// The rule alone cuts steady series too, wherever chance makes the rest look calmer. So a start
    /// is left out only if its mean differs from that of the rest by three standard errors.
    pub(crate) fn steady_part(&self, window: &Range<Timestamp>) -> Range<Timestamp> {
        if self.measured() < FEW {
            return window.clone();
        }
        let (whole, _) = self.bins.whole_bins(window);
        let (groups, seconds) = self.bins.groups(whole.clone(), GROUPS);
        let of = |column: usize| groups.iter().map(|g| g[column] as f64).collect::<Vec<_>>();
        let cut = cut(&of(TOKENS)).max(cut(&of(BUSY_NS)));
        if cut == 0 {
            return window.clone();
        }
        let start = whole.start as f64 * self.bins.width_ns() as f64 / 1e9;
        Timestamp::from_seconds(start + cut as f64 * seconds)..window.end
    }
}

/// How many values at the start do not belong to the rest.
fn cut(values: &[f64]) -> usize {
    let Some(cut) = truncate_mser5(values).filter(|&cut| cut > 0) else {
        return 0;
    };
    let (start, rest) = values.split_at(cut);
    let mean = start.iter().sum::<f64>() / start.len() as f64;
    // The start is shorter than the rest, so its own mean is known less well.
    let wider = libm::sqrt(1.0 + rest.len() as f64 / start.len() as f64);
    let surely = steady_mean(rest, 0.0)
        .is_some_and(|rest| (mean - rest.value).abs() > SURELY * wider * rest.standard_error);
    if surely { cut } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_stats::{Draws, Stream, sampler::normal};

    fn series(seed: u64, level: impl Fn(usize) -> f64) -> Vec<f64> {
        let noise = |i: usize| normal(&mut Draws::new(seed, Stream(4), i as u64));
        (0..60).map(|i| level(i) + noise(i)).collect()
    }

    #[test]
    fn a_start_that_still_rises_is_left_out() {
        let cut = |seed| {
            cut(&series(seed, |i| {
                100.0 - 60.0 * libm::exp(-(i as f64) / 4.0)
            }))
        };
        let found = (0..100).filter(|&seed| (5..=25).contains(&cut(seed)));
        // Where the rest happens to look calmest in its middle, no cut is taken.
        let found = found.count();
        assert!(found >= 70, "{found}");
    }

    #[test]
    fn a_steady_series_is_left_whole() {
        let cuts = (0..400).filter(|&seed| cut(&series(seed, |_| 100.0)) > 0);
        assert!(
            cuts.count() <= 20,
            "more than one in twenty steady series is cut"
        );
    }
}
