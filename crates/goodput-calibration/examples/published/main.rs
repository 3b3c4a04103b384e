//! What a fit to the lower loads of published tables says of the higher ones, beside what was
//! measured there: `GOODPUT_DATA=DIR cargo run --release -p goodput-calibration --example published`.
//!
//! Every figure that docs/predicting.md quotes of published tables is printed here, the failures
//! among them. With `--rows` each single prediction is printed too.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a study, not a part of the library"
)]

mod capacity;
mod closed;
mod open;
mod table;
mod tail;

use std::path::Path;

fn main() {
    let Some(folder) = std::env::var_os("GOODPUT_DATA") else {
        println!("GOODPUT_DATA names no folder with published/");
        return;
    };
    let rows = std::env::args().any(|a| a == "--rows");
    let folder = Path::new(&folder).join("published");
    println!("CLOSED LOOP: fitted on all concurrencies but the highest, asked for the highest\n");
    closed::report(&folder, rows);
    println!(
        "\nOPEN LOOP (inference_perf_kubecon): fitted on stages 0 to 2, asked for the later ones\n"
    );
    open::report(&folder, rows);
    println!("\nWHERE THE KV CACHE CAPS CONCURRENCY\n");
    capacity::report(&folder);
}
