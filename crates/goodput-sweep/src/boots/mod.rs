//! Results over restarts of the server.
//!
//! A server that is started again is not quite the same server: memory is laid out anew, kernels are
//! tuned anew, another machine of the pool may serve. How far that moves a figure cannot be seen
//! within one boot, however long it is measured. So each boot counts as one observation, and an
//! interval over boots comes from how far they lie apart.

mod merge;
#[cfg(test)]
mod tests;

use goodput_ledger::PointRow;
use goodput_stats::{Bounded, CONFIDENCE, Estimate, Interval, mean_estimate, normal_quantile};
use serde::{Deserialize, Serialize};

pub use merge::{merge_points, merge_result};

/// One boot of the server and what was measured on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootSummary {
    /// Its number, from 1.
    pub boot: u32,
    /// The run that measured it: the first part of its request ids.
    pub run: String,
    /// When the measuring began, RFC 3339 in UTC.
    pub started: String,
    /// When the server says that it was started, in seconds since 1970-01-01 UTC.
    pub server_started_unix_s: Option<f64>,
    /// Its load points, as measured on this boot alone.
    pub points: Vec<PointRow>,
}

impl BootSummary {
    /// Its valid point at the load of another, if it has one; the last, where a load was measured
    /// again.
    #[must_use]
    pub fn at(&self, like: &PointRow) -> Option<&PointRow> {
        self.points.iter().rfind(|p| p.valid && same_point(p, like))
    }
}

/// Whether two points are of one load: the same users, or the same rate by the same arrivals.
#[must_use]
pub fn same_point(a: &PointRow, b: &PointRow) -> bool {
    a.mode == b.mode && same_load(a.load(), b.load()) && a.other_arrivals == b.other_arrivals
}

/// Whether two loads are the same one, to rounding.
#[must_use]
pub fn same_load(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(1.0)
}

/// One point for each load, in the order in which loads were first measured. Where a load was
/// measured more than once, the last valid point speaks: one was measured again for a reason.
pub(crate) fn one_a_load<'a>(points: impl Iterator<Item = &'a PointRow>) -> Vec<&'a PointRow> {
    let mut chosen: Vec<&PointRow> = Vec::new();
    for point in points {
        let same = chosen.iter_mut().find(|c| same_point(c, point));
        match same {
            Some(before) if point.valid || !before.valid => *before = point,
            Some(_) => {}
            None => chosen.push(point),
        }
    }
    chosen
}

/// A figure of one boot, with the interval that it has within that boot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BootValue {
    /// The figure.
    pub value: f64,
    /// Its interval on that boot, at [`CONFIDENCE`].
    pub interval: Option<Interval>,
}

/// The mean over boots of a figure: each boot counts the same.
///
/// The standard error is that of the mean of independent boots, so it holds what differs between
/// boots and what is not known of each; where boots lie closer together than their own intervals let
/// expect, those decide. Student's t with one degree less than there are boots: with two or three
/// boots the interval is wide, and rightly so. `None` below two boots: one boot says nothing of the
/// next.
#[must_use]
pub fn over_boots(boots: &[BootValue]) -> Option<Estimate> {
    let values: Vec<f64> = boots.iter().map(|b| b.value).collect();
    let seen = mean_estimate(&values)?;
    let z = normal_quantile(0.5 + CONFIDENCE / 2.0)?;
    let variance = |b: &BootValue| b.interval.map(|i| (i.half_width() / z).powi(2));
    let within: Option<f64> = boots.iter().map(variance).sum();
    let within = within.map_or(0.0, f64::sqrt) / boots.len() as f64;
    Some(Estimate {
        standard_error: seen.standard_error.max(within),
        ..seen
    })
}

/// What one boot more would bring, given how far these lie apart: the estimate of a single boot of
/// the same kind of server, whose own value is `value`. Relative distances are taken over, so that it
/// serves a server that is faster or slower too. `None` below two boots or around zero.
#[must_use]
pub fn as_one_of(boots: &[BootValue], value: f64) -> Option<Bounded> {
    let seen = over_boots(boots).filter(|e| e.value > 0.0)?;
    let of_one = seen.standard_error * (boots.len() as f64).sqrt() / seen.value;
    let single = Estimate {
        value,
        standard_error: value * of_one,
        degrees: seen.degrees,
    };
    Some(Bounded {
        value,
        interval: single.interval(CONFIDENCE)?,
    })
}

/// How far boots lie apart: the distance from the lowest to the highest, over the mean. `None` below
/// two boots or around zero.
#[must_use]
pub fn spread(values: &[f64]) -> Option<f64> {
    let low = values.iter().copied().reduce(f64::min)?;
    let high = values.iter().copied().reduce(f64::max)?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.len() > 1 && mean > 0.0).then(|| (high - low) / mean)
}
