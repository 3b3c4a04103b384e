//! Pools compared: separate, one with priorities, one compromise, for several shares of batch work.
//!
//! `cargo run --release -p goodput-planner --example pools -- [REQUESTS] [SHARE] [SIGMA] [SEED] [SLOTS]`
//!
//! 200 req/s, of which SHARE (0.02, 0.1 and 0.3 in turn where it is 0) are batch work of 4,000 tokens in and 400 out, to finish
//! in 10 minutes; the others chat of 512 and 128 within 500 ms and 50 ms for 99 %. A step takes
//! 6.57 ms, 11.3 us a sequence, 46.8 ns a token of context and 19 us a prompt token; 28,000 blocks of 16.
//! SIGMA is the standard deviation of the logarithm of all lengths; their means stay.
//! SLOTS is the most sequences of a batch (1024: none of these loads reaches it).

#![expect(clippy::print_stdout, reason = "a study talks to whoever runs it")]
#![expect(clippy::disallowed_methods, reason = "a study reads its arguments")]

#[path = "shared/mix.rs"]
mod mix;

use goodput_planner::{PoolQuestion, compare_pools};

fn main() {
    let requests = std::env::args()
        .nth(1)
        .and_then(|a| a.parse().ok())
        .unwrap_or(10_000);
    let only = std::env::args()
        .nth(2)
        .and_then(|a| a.parse().ok())
        .filter(|share| *share > 0.0);
    let shares = only.map_or_else(|| vec![0.02, 0.1, 0.3], |share: f64| vec![share]);
    let sigma = std::env::args()
        .nth(3)
        .and_then(|a| a.parse().ok())
        .unwrap_or(0.5);
    let seed = std::env::args()
        .nth(4)
        .and_then(|a| a.parse().ok())
        .unwrap_or(7);
    let slots = std::env::args()
        .nth(5)
        .and_then(|a| a.parse().ok())
        .unwrap_or(1_024.0);
    for share in shares {
        let question = PoolQuestion {
            seed,
            ..mix::mix(share, requests, sigma, slots)
        };
        let plan = compare_pools(&question).expect("a comparison");
        println!("batch share {share}");
        for way in &plan.ways {
            println!(
                "  {:<12} {:>6.2} fractional ({:.2?}), {:?} whole, {:?} with spares, {:?} planned  {}",
                format!("{:?}", way.layout),
                way.fractional.value.unwrap_or(f64::NAN),
                way.fractional.interval.map(|i| [i.low, i.high]),
                way.replicas.value,
                way.with_spare.value,
                way.planned.value,
                way.why_not.as_deref().unwrap_or(""),
            );
            for pool in &way.pools {
                println!(
                    "      {:?} {} {:?} {}",
                    pool.classes,
                    pool.configuration,
                    pool.budget_req_s.value,
                    pool.budget_req_s.from
                );
            }
        }
    }
}
