//! The built-in profiles, swept in virtual time.

use std::time::Duration;

use goodput_perf_model::Profile;
use goodput_record::{RequestSummary, Timestamp};
use goodput_sim::drive::Plan;

use crate::load::{Closed, Lengths, Poisson, conversation, simulate};

/// One load of a closed loop, over the window after the first 40 % of the time.
#[derive(Clone, Copy, Debug)]
struct Point {
    throughput_tok_s: f64,
    goodput_tok_s: f64,
    attainment: f64,
    ttft_mean_ms: f64,
    tpot_mean_ms: f64,
    e2e_mean_s: f64,
    preemptions: u64,
}

/// The chat of the first essay: 500 ms to the first token, a median of 50 ms between tokens.
fn is_chat(request: &RequestSummary) -> bool {
    request.ttft() <= Some(Duration::from_millis(500))
        && request.tpot_median() <= Some(Duration::from_millis(50))
}

fn measure(profile: &Profile, users: u32, lengths: Lengths, seconds: f64) -> Point {
    let stop = Timestamp::from_seconds(seconds);
    let from = Timestamp::from_seconds(0.4 * seconds);
    let mut source = Closed::new(users, lengths);
    let run = simulate(profile, &mut source, &Plan::until(stop));
    let inside = |s: &&RequestSummary| s.ended() >= from && s.ended() < stop;
    let window: Vec<&RequestSummary> = run.ended.iter().filter(inside).collect();
    let tokens = |s: &&&RequestSummary| f64::from(s.output_tokens());
    let span = 0.6 * seconds;
    let count = window.len() as f64;
    let mean = |f: &dyn Fn(&RequestSummary) -> Option<Duration>| {
        let all = window.iter().filter_map(|s| f(s));
        all.map(|d| d.as_secs_f64()).sum::<f64>() / count
    };
    let good: Vec<_> = window.iter().filter(|s| is_chat(s)).collect();
    Point {
        throughput_tok_s: window.iter().map(|s| tokens(&s)).sum::<f64>() / span,
        goodput_tok_s: good.iter().map(tokens).sum::<f64>() / span,
        attainment: good.len() as f64 / count,
        ttft_mean_ms: 1e3 * mean(&RequestSummary::ttft),
        tpot_mean_ms: 1e3 * mean(&RequestSummary::tpot),
        e2e_mean_s: mean(&RequestSummary::e2e),
        preemptions: run.engine.counters().preemptions,
    }
}

fn sweep(name: &str, loads: &[u32], seconds: f64) -> Vec<Point> {
    let profile = Profile::builtin(name).unwrap();
    let point = |&users: &u32| {
        let point = measure(&profile, users, conversation, seconds);
        println!("{name} {users}: {point:?}");
        point
    };
    loads.iter().map(point).collect()
}

fn peak(points: &[Point], of: impl Fn(&Point) -> f64) -> (usize, f64) {
    let values = points.iter().map(of).enumerate();
    values.fold((0, 0.0), |best, v| if v.1 > best.1 { v } else { best })
}

#[test]
fn the_laptop_profile_peaks_inside_the_grid_and_collapses_at_its_end() {
    let points = sweep("laptop", &[1, 2, 4, 8, 16, 32, 64, 128], 60.0);
    let (best, goodput) = peak(&points, |p| p.goodput_tok_s);
    assert_eq!(best, 5, "at 32");
    assert!(points[7].goodput_tok_s < 0.1 * goodput);
    let (_, throughput) = peak(&points, |p| p.throughput_tok_s);
    assert!(points[7].throughput_tok_s > 0.9 * throughput);
    assert!(points[..6].iter().all(|p| p.attainment > 0.99));
    assert!(
        points.iter().all(|p| p.e2e_mean_s < 6.0),
        "a demo must settle soon"
    );
}

#[test]
fn the_laptop_profile_sells_27_conversations_a_second() {
    let profile = Profile::builtin("laptop").unwrap();
    let attainment = |rate: u32| {
        let mut source = Poisson::new(1, rate.into(), u64::from(rate) * 150, conversation);
        let run = simulate(&profile, &mut source, &Plan::until(Timestamp::FAR_FUTURE));
        let good = run.ended.iter().filter(|s| is_chat(s)).count();
        good as f64 / run.ended.len() as f64
    };
    let (kept, lost) = (attainment(25), attainment(30));
    assert!(kept > 0.99, "{kept}");
    assert!(lost < 0.95, "{lost}");
}

#[test]
fn past_the_kv_limit_throughput_stays_and_goodput_falls_off_a_cliff() {
    let points = sweep("qwen3-8b-h100-shared", &[16, 32, 48, 64, 96, 128], 120.0);
    let (best, goodput) = peak(&points, |p| p.goodput_tok_s);
    let (_, throughput) = peak(&points, |p| p.throughput_tok_s);
    assert!((1..=3).contains(&best), "{best}");
    assert!(points[5].throughput_tok_s > 0.93 * throughput);
    assert!(points[5].goodput_tok_s < 0.2 * goodput);
    assert!(points[5].attainment < 0.2);
    assert_eq!(points[0].preemptions, 0);
    assert!(points[5].preemptions > 0);
}

/// Tokens in and out of the published table below.
fn documents(_: u64) -> (u32, u32) {
    (5_000, 500)
}

#[test]
fn the_llama_70b_profile_gives_the_published_table() {
    // NVIDIA NIM 1.8.0, Llama-3.3-70B in fp8 on two H100: docs.nvidia.com/nim/benchmarking/llm.
    // Users, milliseconds between two tokens, tokens per second.
    let table = [
        (1, 18.58, 51.67),
        (5, 21.83, 218.48),
        (25, 38.75, 623.40),
        (50, 59.73, 814.37),
        (100, 92.91, 917.26),
        (150, 92.86, 920.90),
    ];
    let profile = Profile::builtin("llama-3.3-70b-fp8-2xh100").unwrap();
    for (users, gap_ms, tok_s) in table {
        let point = measure(&profile, users, documents, 600.0);
        println!("{users}: {point:?}");
        let close = |ours: f64, published: f64| (ours / published - 1.0).abs() < 0.05;
        assert!(
            close(point.tpot_mean_ms, gap_ms),
            "{users}: {point:?}, published {gap_ms}"
        );
        assert!(
            close(point.throughput_tok_s, tok_s),
            "{users}: {point:?}, published {tok_s}"
        );
        if users == 150 {
            // Past the KV limit the rest waits: 34.8 s to the first token, published.
            assert!(
                (point.ttft_mean_ms / 34_794.22 - 1.0).abs() < 0.1,
                "{point:?}"
            );
        }
    }
}
