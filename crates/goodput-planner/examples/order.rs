//! Whether pools of their own need fewer replicas than priorities in one pool, with intervals.
//!
//! `cargo run --release -p goodput-planner --example order -- [SHARE] [SEEDS] [WINDOW_S] [SIGMA] [SLOTS]`
//!
//! The mix of `--example pools`. For each seed, layout and token budget the highest rate of a replica at which
//! every class keeps its SLO is narrowed down to 0.1 % over a window of `WINDOW_S` seconds of virtual time. Layouts see
//! the same requests, so their differences by seed are of pairs; the interval is Student's over the seeds.
//! Where a budget of tokens is worse than another by 3 % with the first seed, it is not looked at again.

#![expect(clippy::print_stdout, reason = "a study talks to whoever runs it")]
#![expect(clippy::disallowed_methods, reason = "a study reads its arguments")]

#[path = "shared/mix.rs"]
mod mix;

use goodput_perf_model::Profile;
use goodput_planner::{ClassLoad, LoadFigures, PoolClass, run_mix};
use goodput_stats::mean_interval;

fn argument(place: usize, otherwise: f64) -> f64 {
    let told = std::env::args().nth(place).and_then(|a| a.parse().ok());
    told.unwrap_or(otherwise)
}

fn main() {
    let (share, seeds, window_s) = (argument(1, 0.1), argument(2, 8.0), argument(3, 100_000.0));
    let question = mix::mix(share, 0, argument(4, 0.5), argument(5, 1_024.0));
    let [chat, batch] = &question.classes[..] else {
        return;
    };
    let of = [
        ("chat", vec![chat], true),
        ("batch", vec![batch], true),
        ("priority", vec![chat, batch], true),
        ("compromise", vec![chat, batch], false),
    ];
    let mut all: [Vec<f64>; 4] = Default::default();
    let mut kept: Vec<Vec<&Profile>> = vec![question.configurations.iter().collect(); 4];
    for seed in 0..goodput_stats::whole_u64(seeds) {
        for (place, (name, classes, prioritised)) in of.iter().enumerate() {
            let each = kept[place].iter().map(|profile| {
                let needed = replicas(profile, classes, *prioritised, window_s, seed);
                (needed, *profile)
            });
            let each: Vec<(f64, &Profile)> = each.collect();
            let best = each.iter().map(|(n, _)| *n).fold(f64::INFINITY, f64::min);
            for (needed, profile) in &each {
                println!(
                    "seed {seed} {name:<10} {:>5} tokens a step: {needed:.4} replicas",
                    profile.max_batched_tokens
                );
            }
            let good = each.iter().filter(|(needed, _)| *needed <= 1.03 * best);
            kept[place] = good.map(|(_, profile)| *profile).collect();
            all[place].push(best);
        }
    }
    let [chat, batch, priority, compromise] = &all;
    let apart: Vec<f64> = chat.iter().zip(batch).map(|(a, b)| a + b).collect();
    told("chat alone", chat);
    told("batch alone", batch);
    told("separate", &apart);
    told("priority", priority);
    told("compromise", compromise);
    told("priority - separate", &less(priority, &apart));
    told("compromise - priority", &less(compromise, priority));
}

fn less(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

fn told(name: &str, values: &[f64]) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    match mean_interval(values, 0.95) {
        Some(i) => println!("{name:<22} {mean:.3} [{:.3}..{:.3}]", i.low, i.high),
        None => println!("{name:<22} {mean:.3}"),
    }
}

/// The fewest replicas, in fractions, with which each of these classes keeps its SLO; infinite where none does.
fn replicas(
    profile: &Profile,
    classes: &[&PoolClass],
    prioritised: bool,
    window_s: f64,
    seed: u64,
) -> f64 {
    let demand: f64 = classes.iter().map(|class| class.rate_req_s).sum();
    let kept = |replicas: f64| {
        let loads: Vec<ClassLoad<'_>> = classes
            .iter()
            .map(|class| ClassLoad {
                workload: &class.workload,
                slo: &class.slo,
                rate_req_s: class.rate_req_s / replicas,
                priority: if prioritised { class.priority } else { 0 },
            })
            .collect();
        run_mix(profile, &loads, window_s, seed)
            .iter()
            .all(LoadFigures::seems_to_keep)
    };
    let (mut low, mut high) = (demand / 100.0, demand / 100.0);
    while !kept(high) {
        low = high;
        high *= 1.5;
        if high > demand {
            return f64::INFINITY;
        }
    }
    while high / low > 1.001 {
        let middle = (low * high).sqrt();
        if kept(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}
