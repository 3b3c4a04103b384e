//! Queueing theory through the whole engine.

use std::{rc::Rc, time::Duration};

use goodput_perf_model::{Demand, Profile, StepTime};
use goodput_record::{Outcome, RequestSummary, Timestamp, nanos};
use goodput_sim::{
    Engine,
    drive::{Plan, run},
};
use goodput_stats::{Draws, Stream};

use crate::load::{Closed, Lengths, Log, Poisson, normal, simulate, tokens, unbounded};

const FOREVER: Plan = Plan::until(Timestamp::FAR_FUTURE);

/// Mean service time of the single servers.
const SERVICE_S: f64 = 0.01;

/// One request at a time, one token each: a queue with one server whose service time is that of the
/// prompt, 10 us a token.
fn single_server() -> Profile {
    Profile {
        max_num_seqs: std::num::NonZeroU32::MIN,
        step_time: StepTime {
            prefill_s: 1e-5,
            ..StepTime::default()
        },
        ..unbounded()
    }
}

fn fixed(_: u64) -> (u32, u32) {
    (1_000, 1)
}

fn exponential(index: u64) -> (u32, u32) {
    let unit = Draws::new(3, Stream(2), index).unit();
    (tokens(-1_000.0 * libm::log(1.0 - unit)), 1)
}

/// Log-normal with a mean of 1000 tokens and a squared coefficient of variation of 4.
fn heavy(index: u64) -> (u32, u32) {
    let variance = libm::log(5.0_f64);
    let z = normal(&mut Draws::new(3, Stream(2), index));
    let value = 1_000.0 * libm::exp(variance.sqrt() * z - variance / 2.0);
    (tokens(value), 1)
}

/// Mean wait over runs, and the standard error of it, in seconds.
fn mean_wait(rho: f64, lengths: Lengths, runs: u64) -> (f64, f64) {
    const REQUESTS: u64 = 20_000;
    const SETTLING: usize = 2_000;
    let means: Vec<f64> = (0..runs)
        .map(|seed| {
            let mut source = Poisson::new(seed, rho / SERVICE_S, REQUESTS, lengths);
            let mut ended = simulate(&single_server(), &mut source, &FOREVER).ended;
            let settled = ended.split_off(SETTLING);
            let wait = |s: &RequestSummary| {
                let service = f64::from(s.end().input_tokens.unwrap()) * 1e-5;
                s.ttft().unwrap().as_secs_f64() - service
            };
            settled.iter().map(wait).sum::<f64>() / settled.len() as f64
        })
        .collect();
    let count = means.len() as f64;
    let mean = means.iter().sum::<f64>() / count;
    let square = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (square / count).sqrt())
}

/// Pollaczek and Khinchine: `rho E[S] (1 + C^2) / (2 (1 - rho))`.
#[track_caller]
fn check(rho: f64, lengths: Lengths, variation: f64, runs: u64, widest: f64) {
    let theory = rho * SERVICE_S * (1.0 + variation) / (2.0 * (1.0 - rho));
    let (mean, error) = mean_wait(rho, lengths, runs);
    assert!(
        error < widest * theory,
        "the test says nothing: {error} of {theory}"
    );
    let off = (mean - theory).abs();
    assert!(
        off < 3.0 * error,
        "rho {rho}: {mean} +- {error}, theory {theory}"
    );
}

#[test]
fn m_d_1() {
    check(0.5, fixed, 0.0, 10, 0.01);
    check(0.8, fixed, 0.0, 10, 0.03);
}

#[test]
fn m_m_1() {
    check(0.5, exponential, 1.0, 10, 0.02);
    check(0.8, exponential, 1.0, 20, 0.03);
}

#[test]
fn m_g_1_with_a_heavy_tail() {
    check(0.5, heavy, 4.0, 20, 0.05);
}

/// Log-normal prompts and answers of a chat, with means of 511 and 127.7 tokens.
fn chat(index: u64) -> (u32, u32) {
    let mut draws = Draws::new(5, Stream(2), index);
    let mut draw = |mean: f64, sigma: f64| {
        tokens(mean * libm::exp(sigma * normal(&mut draws) - sigma * sigma / 2.0))
    };
    (draw(511.0, 0.6), draw(127.7, 0.6))
}

#[test]
fn the_closed_form_gives_the_mean_tpot_below_ninety_percent_of_saturation() {
    let profile = Profile {
        step_time: StepTime {
            overhead_s: 6.57e-3,
            sequence_s: 1.9e-5,
            context_s: 4.68e-8,
            prefill_s: 1.9e-5,
            ..StepTime::default()
        },
        ..unbounded()
    };
    let chat_of = |seed: u64, count: u64| (seed * count..(seed + 1) * count).map(chat);
    for rate in [6.0, 20.0, 40.0, 52.0] {
        let count = u64::from(tokens(rate * 250.0));
        let mut source = Poisson::new(1, rate, count, chat);
        let run = simulate(&profile, &mut source, &FOREVER);
        // Near saturation the formula stretches every sampling error, so it gets what really came.
        let demand = Demand::of(&chat_of(1, count).collect::<Vec<_>>()).unwrap();
        let came = run.ended.iter().map(RequestSummary::origin).max().unwrap();
        let rate = count as f64 / came.seconds();
        let share = rate / profile.step_time.saturation_rate(&demand).unwrap();
        assert!(share < 0.9, "{share}");
        let simulated = mean_gap(&run.ended);
        let formula = profile.step_time.tpot_at(&demand, rate).unwrap();
        let off = simulated / formula.as_secs_f64() - 1.0;
        println!("{share}: {simulated}, formula {formula:?}, off by {off}");
        assert!(
            off.abs() < 0.03,
            "at {share} of saturation: {simulated}, formula {formula:?}"
        );
    }
}

/// Seconds between two tokens, over all gaps.
fn mean_gap(ended: &[RequestSummary]) -> f64 {
    let (mut span, mut gaps) = (0, 0_u64);
    for request in ended {
        let (first, last) = (request.first_token(), request.last_token());
        span += nanos(last.unwrap().since(first.unwrap()).unwrap());
        gaps += u64::from(request.output_tokens() - 1);
    }
    span as f64 / gaps as f64 / 1e9
}

#[test]
fn an_overloaded_engine_falls_behind_and_still_comes_to_an_end() {
    let mut source = Poisson::new(1, 200.0, 2_000, fixed);
    let run = simulate(&single_server(), &mut source, &FOREVER);
    assert_eq!(run.engine.counters().finished, 2_000);
    assert!((run.report.ended.seconds() / 20.0 - 1.0).abs() < 0.01);
}

#[test]
fn what_is_open_at_the_cut_is_filed_as_cancelled() {
    let mut source = Poisson::new(1, 200.0, 2_000, fixed);
    let plan = Plan {
        stop_arrivals: Timestamp::from_seconds(5.0),
        cut: Timestamp::from_seconds(5.0),
        sample_every: None,
    };
    let run = simulate(&single_server(), &mut source, &plan);
    let counters = run.engine.counters();
    assert_eq!(counters.finished + run.report.cut, run.report.arrived);
    assert_eq!(counters.cancelled, run.report.cut);
    assert_eq!(counters.finished, 499);
    assert_eq!((run.engine.running(), run.engine.waiting()), (0, 0));
}

#[test]
fn a_closed_loop_whose_requests_are_all_refused_comes_to_an_end() {
    let profile = Profile {
        context_limit: 100,
        ..single_server()
    };
    let plan = Plan::until(Timestamp::from_millis(100));
    let run = simulate(&profile, &mut Closed::new(1, fixed), &plan);
    assert_eq!((run.report.arrived, run.report.refused), (100, 100));
    assert!(run.ended.iter().all(|s| s.outcome() == Outcome::Rejected));
}

#[test]
fn samples_are_taken_at_whole_intervals_and_show_the_queue() {
    let plan = Plan {
        sample_every: Some(Duration::from_millis(100)),
        ..Plan::until(Timestamp::from_seconds(2.0))
    };
    let mut samples = Vec::new();
    let mut engine = Engine::new(&single_server());
    let (mut source, sink) = (Closed::new(5, fixed), Rc::new(Log::default()));
    run(&mut engine, &mut source, &sink, &plan, |s| samples.push(s));
    assert!(samples.len() >= 20, "{}", samples.len());
    for (index, sample) in (0..).zip(&samples) {
        assert_eq!(sample.at, Timestamp::from_millis(index * 100));
    }
    // At the instant of an end the next request of that user is not yet there.
    assert_eq!(samples[15].running, Some(1));
    assert!([Some(3), Some(4)].contains(&samples[15].waiting));
}
