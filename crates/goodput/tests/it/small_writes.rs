//! Case O-CL-05: small writes on a reused connection do not wait for acknowledgements.
//!
//! Where one side leaves Nagle's algorithm on, every small frame waits near 40 ms. A loaded machine
//! may delay any one of them, but not all: the fastest tells.

use crate::{program::Place, workloads::TINY};

/// Below the 40 ms of a delayed acknowledgement, far above what loopback takes.
const HELD_BACK_MS: f64 = 35.0;

#[test]
fn small_answers_on_one_connection_are_not_held_back() {
    let place = Place::new("small");
    place.write("w.toml", TINY);
    let flags = ["--requests", "30", "--concurrency", "1", "--warmup", "0"];
    let bench = ["bench", "--out", "out", "--workload", "w.toml"];
    place.run(&[&bench[..], &flags[..]].concat()).measured();
    let rows = place.measured_rows();
    let fastest = |column: &str| {
        let values = rows.iter().filter_map(|row| row[column].as_f64());
        values.fold(f64::INFINITY, f64::min)
    };
    assert!(fastest("ttft_ms") < HELD_BACK_MS, "{}", fastest("ttft_ms"));
    assert!(
        fastest("stall_ms") < HELD_BACK_MS,
        "{}",
        fastest("stall_ms")
    );
    let dialled = rows.iter().filter(|row| !row["connect_ms"].is_null());
    assert!(dialled.count() <= 1, "one connection serves all");
}
