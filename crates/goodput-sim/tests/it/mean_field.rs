//! The mean field of profiles from first principles, against the whole engine.

use std::num::NonZeroU32;

use goodput_perf_model::{Assumptions, Catalogue, Demand, Precision, Profile, Speculation};
use goodput_record::{RequestSummary, Timestamp, nanos};
use goodput_sim::drive::Plan;
use goodput_stats::{Draws, Stream};

use crate::load::{Poisson, normal, simulate, tokens};

fn chat(index: u64) -> (u32, u32) {
    let mut draws = Draws::new(5, Stream(2), index);
    let mut draw = |mean: f64, sigma: f64| {
        tokens(mean * libm::exp(sigma * normal(&mut draws) - sigma * sigma / 2.0))
    };
    (draw(1_000.0, 0.6), draw(200.0, 0.6))
}

fn derived(model: &str, gpus: u32, precision: Precision) -> Profile {
    let catalogue = Catalogue::builtin().unwrap();
    let mut profile = Profile::from_catalogue(
        catalogue.model(model).unwrap(),
        catalogue.accelerator("H100-SXM").unwrap(),
        NonZeroU32::new(gpus).unwrap(),
        precision,
        &Assumptions::default(),
    )
    .unwrap();
    profile.prefix_cache = false;
    profile
}

/// Holds the mean TPOT and TTFT at 10, 50 and 80 % of the capacity against what is simulated.
fn check(profile: &Profile, tpot_within: f64) {
    let plan = Plan::until(Timestamp::FAR_FUTURE);
    let count = 3_000;
    let demand = Demand::of(&(count..2 * count).map(chat).collect::<Vec<_>>()).unwrap();
    let capacity = profile.capacity(&demand).unwrap();
    for share in [0.1, 0.5, 0.8] {
        let mut source = Poisson::new(1, share * capacity.rate_req_s, count, chat);
        let run = simulate(profile, &mut source, &plan);
        let came = run.ended.iter().map(RequestSummary::origin).max().unwrap();
        let rate = count as f64 / came.seconds();
        let field = profile.mean_field(&demand, rate).unwrap();
        let (mut gap, mut gaps, mut wait) = (0.0, 0.0, 0.0);
        for request in &run.ended {
            let (first, last) = (
                request.first_token().unwrap(),
                request.last_token().unwrap(),
            );
            gap += nanos(last.since(first).unwrap()) as f64 / 1e9;
            gaps += f64::from(request.output_tokens() - 1);
            wait += nanos(first.since(request.origin()).unwrap()) as f64 / 1e9 / count as f64;
        }
        let off = field.tpot_s / (gap / gaps) - 1.0;
        let ttft = profile.ttft_at(&demand, rate, 1_000).unwrap().as_secs_f64();
        println!(
            "{} {share} {:?} {rate:.1}: tpot {:.2} ms off {:+.1} %, ttft {:.1} ms off {:+.1} %",
            profile.name,
            capacity.limit,
            gap / gaps * 1e3,
            off * 1e2,
            wait * 1e3,
            (ttft / wait - 1.0) * 1e2
        );
        assert!(off.abs() < tpot_within, "{share}");
        assert!((ttft / wait - 1.0).abs() < 0.12, "{share}");
    }
}

#[test]
fn of_a_dense_model() {
    check(&derived("Qwen/Qwen3-8B", 1, Precision::Bf16), 0.03);
}

#[test]
fn of_a_mixture_of_experts_with_windows_on_two_devices() {
    check(&derived("openai/gpt-oss-120b", 2, Precision::W4a16), 0.11);
}

#[test]
fn of_a_draft() {
    let mut profile = derived("meta-llama/Meta-Llama-3.1-70B", 4, Precision::Fp8);
    profile.step_time.speculation = Some(Speculation {
        draft_tokens: 3,
        acceptance: 0.7,
        draft_s: 1e-3,
    });
    check(&profile, 0.09);
}
