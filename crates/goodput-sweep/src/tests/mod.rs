use proptest::prelude::*;

mod essay;

use crate::*;

#[test]
fn the_grid_has_both_ends_and_rises() {
    assert_eq!(geometric(1, 2.0), [1]);
    assert_eq!(geometric(128, 2.0), [1, 2, 4, 8, 16, 32, 64, 128]);
    assert_eq!(geometric(100, 2.0), [1, 2, 4, 8, 16, 32, 64, 100]);
}

#[test]
fn the_grid_is_refined_where_goodput_turns() {
    let around = |best| -> Vec<u32> {
        let tested = geometric(128, 2.0);
        between_neighbours(&tested, best)
            .into_iter()
            .map(Into::into)
            .collect()
    };
    assert_eq!(around(64), [45, 91]);
    assert_eq!(around(128), [91], "an end has one neighbour");
    assert_eq!(around(1), [0_u32; 0], "there is nothing between 1 and 2");
}

#[test]
fn run_at_is_two_thirds_to_five_sixths_of_the_cap() {
    assert_eq!(run_at(12), [8, 10]);
    assert_eq!(run_at(1), [1, 1]);
    assert_eq!(run_at(2), [2, 2]);
}

#[test]
fn a_search_for_the_rate_steps_down_until_it_keeps_then_closes_in() {
    assert_eq!(next_rate(&[(10.0, false)], 0.8, 0.1), Some(8.0));
    assert_eq!(next_rate(&[(10.0, true)], 0.8, 0.1), Some(12.5));
    let between = next_rate(&[(10.0, false), (8.0, true)], 0.8, 0.1);
    assert!(between.is_some_and(|r| r > 8.0 && r < 10.0));
    assert_eq!(next_rate(&[(10.0, false), (9.5, true)], 0.8, 0.1), None);
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
