//! Coverage and width of prediction intervals over 1,000 synthetic engines:
//! `cargo run --release -p goodput-calibration --example coverage`. It takes minutes.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a study, not a part of the library"
)]

mod study;

fn main() {
    let count = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(1_000);
    println!("{count} experiments, intervals of nominally 90 %");
    for (what, (coverage, width)) in ["TPOT", "TTFT", "rate"]
        .into_iter()
        .zip(study::study(count))
    {
        let word = if coverage >= 0.88 && width <= 1.5 {
            "within"
        } else {
            "MISSES"
        };
        println!(
            "{what:<5} coverage {:.1} %, median width {width:.2} of the best possible  {word} 88 % and 1.5",
            100.0 * coverage
        );
    }
}
