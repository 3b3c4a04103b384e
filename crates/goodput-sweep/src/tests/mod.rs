use proptest::prelude::*;

mod essay;

pub(crate) use essay::plain_row;

use crate::*;

#[test]
fn the_grid_has_both_ends_and_rises() {
    assert_eq!(geometric(1, 2.0), [1]);
    assert_eq!(geometric(128, 2.0), [1, 2, 4, 8, 16, 32, 64, 128]);
    assert_eq!(geometric(100, 2.0), [1, 2, 4, 8, 16, 32, 64, 100]);
}

#[test]
fn run_at_is_two_thirds_to_five_sixths_of_the_cap() {
    assert_eq!(run_at(12), [8, 10]);
    assert_eq!(run_at(1), [1, 1]);
    assert_eq!(run_at(2), [2, 2]);
}

proptest! {
    #[test]
    fn any_grid_rises_from_one_to_most(most in 1_u32..5000, factor in 1.01_f64..4.0) {
        let grid = geometric(most, factor);
        prop_assert_eq!(grid[0], 1);
        prop_assert_eq!(*grid.last().unwrap(), most);
        prop_assert!(grid.windows(2).all(|w| w[0] < w[1]));
    }

    #[test]
    fn run_at_lies_within_the_cap(n in 1_u32..100_000) {
        let [low, high] = run_at(n);
        prop_assert!(1 <= low && low <= high && high <= n);
    }
}
