//! A result for tests: the sweep of the README's picture.

use goodput_sweep::RunResult;

pub(crate) fn sample() -> RunResult {
    serde_json::from_str(include_str!("../tests/sample.json")).unwrap()
}
