//! What docs/predicting.md claims of published tables, held against them. They lie in the folder that
//! the environment variable `GOODPUT_DATA` names; without it the test says so and holds nothing.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test of figures on disk"
)]

#[expect(dead_code, reason = "its report is the example's")]
#[path = "../examples/published/closed.rs"]
mod closed;
#[path = "../examples/published/table.rs"]
mod table;

use std::path::Path;

#[test]
fn higher_concurrencies_are_predicted_from_the_lower_ones() {
    let Some(folder) = std::env::var_os("GOODPUT_DATA") else {
        println!("skipped: GOODPUT_DATA names no folder with published results");
        return;
    };
    let folder = Path::new(&folder).join("published");
    for (dense, most) in [(true, 0.05), (false, 0.10)] {
        let mut sizes: Vec<f64> = closed::errors(&folder, dense, 2.0)
            .iter()
            .map(|e| e.abs())
            .collect();
        assert!(sizes.len() >= 40, "{}", sizes.len());
        sizes.sort_by(f64::total_cmp);
        let median = goodput_stats::quantile(&sizes, 0.5).unwrap();
        assert!(median <= most, "dense {dense}: {median}");
    }
}
