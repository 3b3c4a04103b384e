//! A smaller version of the study in examples/coverage.

#[path = "../examples/coverage/study.rs"]
mod study;

/// Of 40 experiments a true coverage of 88 % leaves fewer than 29 with a chance of under one in 100, and
/// the experiments are always the same.
#[test]
fn intervals_hold_the_truth_and_are_not_too_wide() {
    for (coverage, width) in study::study(40) {
        assert!(coverage >= 29.0 / 40.0, "{coverage}");
        assert!(width <= 1.6, "{width}");
    }
}
