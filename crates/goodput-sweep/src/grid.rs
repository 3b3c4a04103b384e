//! Which loads a sweep tries.

use std::num::NonZeroU32;

/// Concurrencies from 1 to `most`, each about `factor` times the one before, always with 1 and
/// `most`.
#[must_use]
pub fn geometric(most: u32, factor: f64) -> Vec<u32> {
    let mut grid = vec![1_u32];
    let mut exact = 1.0;
    while let Some(&last) = grid.last()
        && last < most
    {
        exact = (exact * factor.max(1.01)).max(f64::from(last) + 1.0);
        let next = if exact >= f64::from(most) {
            most
        } else {
            rounded(exact)
        };
        grid.push(next.max(last + 1));
    }
    grid
}

/// The loads halfway, in ratio, between `best` and its tested neighbours; what was tested already is
/// left out.
#[must_use]
pub fn between_neighbours(tested: &[u32], best: u32) -> Vec<NonZeroU32> {
    let below = tested.iter().copied().filter(|&n| n < best).max();
    let above = tested.iter().copied().filter(|&n| n > best).min();
    let halfway = |n: u32| rounded((f64::from(n) * f64::from(best)).sqrt());
    let new = |n: &u32| !tested.contains(n);
    let loads = below.into_iter().chain(above).map(halfway).filter(new);
    loads.filter_map(NonZeroU32::new).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the caller keeps the value between 1 and a u32"
)]
fn rounded(value: f64) -> u32 {
    value.round() as u32
}

/// The next open-loop rate: below the last one tried while it broke the objective, else above it,
/// until the two sides are within `resolution` of each other.
///
/// `tried` are rates with whether each kept the objective. The first rate is the caller's.
#[must_use]
pub fn next_rate(tried: &[(f64, bool)], step_down: f64, resolution: f64) -> Option<f64> {
    let kept = tried
        .iter()
        .filter(|t| t.1)
        .map(|t| t.0)
        .fold(0.0, f64::max);
    let above = |t: &&(f64, bool)| !t.1 && t.0 > kept;
    let broke = tried
        .iter()
        .filter(above)
        .map(|t| t.0)
        .fold(f64::INFINITY, f64::min);
    if kept == 0.0 {
        return broke.is_finite().then_some(broke * step_down);
    }
    if broke.is_infinite() {
        return Some(kept / step_down);
    }
    (broke / kept > 1.0 + resolution).then(|| (broke * kept).sqrt())
}
