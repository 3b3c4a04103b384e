//! A result for tests: the sweep of the README's picture.

use goodput_sweep::RunResult;

pub(crate) fn sample() -> RunResult {
    serde_json::from_str(include_str!("../tests/sample.json")).unwrap()
}

/// The sample with `goodput` times the goodput and `ttft` times the p99 of TTFT at every load.
pub(crate) fn scaled(goodput: f64, ttft: f64) -> RunResult {
    let mut result = sample();
    for point in &mut result.points {
        point.goodput_tok_s *= goodput;
        point.ttft_p99_ms = point.ttft_p99_ms.map(|ms| ms * ttft);
        point.goodput_interval = point.goodput_interval.map(|mut i| {
            i.low *= goodput;
            i.high *= goodput;
            i
        });
    }
    result
}
