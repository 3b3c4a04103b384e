//! How far a quantile moves when something is added to every value.

use crate::distribution::Distribution;

/// Cells of equal weight below [`BODY`].
const BODY_CELLS: u32 = 196;
/// Where the tail begins, which has finer cells: a 99th percentile lies inside it.
const BODY: f64 = 0.98;
/// Cells of equal weight above [`BODY`].
const TAIL_CELLS: u32 = 40;

/// How much further up each of the quantiles `qs` (0 to 1) of `values` would lie if every value had
/// grown by `scale` times an independent draw of `added`, in the unit of `values`.
///
/// Asked of measured latencies and the measurer's own lateness it answers what that lateness does:
/// what it would do a second time it has done, to first order, the first time. Both distributions
/// are taken as 236 weighted points (finer above their 98th percentile) and convolved. Never
/// negative. `None` without values, or without anything to add.
///
/// # Examples
///
/// ```
/// use goodput_stats::{Distribution, quantile_shifts};
///
/// let ttft: Distribution = (100..=200).collect();
/// let late: Distribution = [7; 50].into_iter().collect();
/// assert_eq!(quantile_shifts(&ttft, &late, 1.0, &[0.5]), Some(vec![7.0]));
/// ```
#[must_use]
pub fn quantile_shifts(
    values: &Distribution,
    added: &Distribution,
    scale: f64,
    qs: &[f64],
) -> Option<Vec<f64>> {
    let (values, added) = (cells(values)?, cells(added)?);
    let mut sums: Vec<(f64, f64)> = values
        .iter()
        .flat_map(|v| added.iter().map(|a| (v.0 + scale * a.0, v.1 * a.1)))
        .collect();
    sums.sort_by(|a, b| a.0.total_cmp(&b.0));
    let shift = |&q: &f64| (weighted(&sums, q) - weighted(&values, q)).max(0.0);
    Some(qs.iter().map(shift).collect())
}

/// A distribution as (value, weight), ascending; weights sum to 1.
fn cells(of: &Distribution) -> Option<Vec<(f64, f64)>> {
    let part = |from: f64, to: f64, cells: u32| {
        let width = (to - from) / f64::from(cells);
        (0..cells).map(move |i| (from + width * (f64::from(i) + 0.5), width))
    };
    let grid: Vec<(f64, f64)> = part(0.0, BODY, BODY_CELLS)
        .chain(part(BODY, 1.0, TAIL_CELLS))
        .collect();
    let levels: Vec<f64> = grid.iter().map(|cell| cell.0).collect();
    let values = of.quantiles(&levels).into_iter().zip(&grid);
    values.map(|(value, cell)| Some((value?, cell.1))).collect()
}

/// The smallest value up to which at least the share `q` of the weight lies.
fn weighted(points: &[(f64, f64)], q: f64) -> f64 {
    let mut below = 0.0;
    for (value, weight) in points {
        below += weight;
        // Sums of weights are off by rounding: a share that is meant to be reached is.
        if below >= q - 1e-9 {
            return *value;
        }
    }
    points.last().map_or(0.0, |p| p.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(from: u64, to: u64) -> Distribution {
        (from..to).collect()
    }

    #[test]
    fn what_is_added_to_all_moves_every_quantile_by_as_much() {
        let added: Distribution = [25; 9].into_iter().collect();
        let shifts = quantile_shifts(&flat(0, 1000), &added, 2.0, &[0.1, 0.5, 0.99]).unwrap();
        assert!(shifts.iter().all(|s| (s - 50.0).abs() < 1e-9), "{shifts:?}");
    }

    #[test]
    fn nothing_added_moves_nothing_and_nothing_known_is_none() {
        let zero: Distribution = [0; 5].into_iter().collect();
        assert_eq!(
            quantile_shifts(&flat(0, 500), &zero, 1.0, &[0.5, 0.99]),
            Some(vec![0.0, 0.0])
        );
        assert_eq!(
            quantile_shifts(&flat(0, 9), &Distribution::new(), 1.0, &[0.5]),
            None
        );
        assert_eq!(
            quantile_shifts(&Distribution::new(), &zero, 1.0, &[0.5]),
            None
        );
    }

    /// Uniform on [0, 1) plus uniform on [0, 1): P(sum <= x) = x^2 / 2 up to 1, so the median goes
    /// from 1/2 to 1 and the first decile from 1/10 to sqrt(1/5).
    #[test]
    fn two_uniform_ones_make_a_triangle() {
        let flat = flat(0, 10_000);
        let shifts = quantile_shifts(&flat, &flat, 1.0, &[0.1, 0.5]).unwrap();
        assert!((shifts[0] - (4_472.0 - 1_000.0)).abs() < 60.0, "{shifts:?}");
        assert!((shifts[1] - 5_000.0).abs() < 60.0, "{shifts:?}");
    }

    /// One long pause in a thousand instants is in no percentile that a thousand requests carry.
    #[test]
    fn a_single_spike_moves_a_percentile_by_the_slope_it_stands_on() {
        let mut late: Distribution = [0; 999].into_iter().collect();
        late.record(1_000_000);
        let shifts = quantile_shifts(&flat(10_000, 20_000), &late, 1.0, &[0.5, 0.99]).unwrap();
        assert!(shifts[0] < 60.0 && shifts[1] < 60.0, "{shifts:?}");
        // Where a tenth of the instants is late the tail is made of them.
        let late: Distribution = (0..1000).map(|i| if i < 100 { 5_000 } else { 0 }).collect();
        let shifts = quantile_shifts(&flat(10_000, 20_000), &late, 1.0, &[0.5, 0.99]).unwrap();
        assert!(shifts[1] > 2_000.0, "{shifts:?}");
    }
}
