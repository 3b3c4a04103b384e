//! Which loads a sweep tries.

use goodput_stats::whole_u32;

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
            whole_u32(exact)
        };
        grid.push(next.max(last + 1));
    }
    grid
}
