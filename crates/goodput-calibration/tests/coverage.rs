//! A smaller version of the study in examples/coverage.

#[path = "../examples/coverage/study.rs"]
mod study;

/// Of 60 experiments a true coverage of 88 % leaves fewer than 46 with a chance of under one in 200.
#[test]
fn intervals_hold_the_truth_and_are_not_too_wide() {
    for (coverage, width) in study::study(60) {
        assert!(coverage >= 46.0 / 60.0, "{coverage}");
        assert!(width <= 1.6, "{width}");
    }
}
