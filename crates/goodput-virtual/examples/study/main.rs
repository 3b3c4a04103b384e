//! The sweep against random engines whose truth is known:
//!
//! ```text
//! cargo run --release -p goodput-virtual --example study -- --engines 1000 --threads 2
//! ```
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a program that reads its flags and prints a table"
)]

mod fleet;
mod grid;
mod one;
mod table;
mod truth;

use std::{
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use one::{Outcome, Parts};

fn main() -> ExitCode {
    let flags: Vec<String> = std::env::args().skip(1).collect();
    let flag = |name: &str, otherwise: u64| {
        let at = flags.iter().position(|flag| flag == name);
        let value = at.and_then(|at| flags.get(at + 1));
        value.map_or(otherwise, |value| value.parse().expect("a whole number"))
    };
    let (engines, first) = (flag("--engines", 40), flag("--first", 0));
    let budget_s = flag("--budget", 360) as f64;
    let has = |name: &str| flags.iter().any(|flag| flag == name);
    let parts = match (has("--closed"), has("--open")) {
        (true, false) => Parts::Closed,
        (false, true) => Parts::Open,
        _ => Parts::Both,
    };
    let verbose = has("--verbose");
    let next = AtomicU64::new(first);
    let outcomes: Mutex<Vec<Outcome>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..flag("--threads", 2).max(1) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= first + engines {
                        return;
                    }
                    let outcome = one::study(number, budget_s, verbose, parts);
                    outcomes.lock().expect("no thread panics").push(outcome);
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("no thread panics");
    outcomes.sort_by_key(|outcome| outcome.number);
    let as_it_should_be = table::print(&outcomes, budget_s);
    ExitCode::from(u8::from(!as_it_should_be))
}
