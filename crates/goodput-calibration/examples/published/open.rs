//! Open loops: stages of rising rate.

use std::{collections::BTreeMap, path::Path};

use std::num::NonZeroU32;

use goodput_calibration::{Fit, Form, Load, PointFacts, Replica, Term};
use goodput_perf_model::{Demand, Profile, StepTime};

use crate::table::{number, read, summary, text};

/// Mean figures of one stage.
struct Stage {
    number: u32,
    rate_asked: f64,
    rate_sent: f64,
    rate_done: f64,
    input: f64,
    output: f64,
    ttft: f64,
    ttft_p99: f64,
    tpot: f64,
}

pub(crate) fn report(folder: &Path, rows: bool) {
    let mut variants: BTreeMap<String, Vec<Stage>> = BTreeMap::new();
    for row in read(&folder.join("inference_perf_kubecon.csv")) {
        let of = |name: &str| number(&row, name).unwrap_or(f64::NAN);
        let output = of("output_len_mean");
        let stage = Stage {
            number: row["stage"].parse().expect("a stage's number"),
            rate_asked: of("rate_requested"),
            rate_sent: of("rate_sent"),
            rate_done: of("rate_done"),
            input: of("prompt_len_mean"),
            output,
            ttft: of("ttft_mean_s"),
            ttft_p99: of("ttft_p99_s"),
            // The harness counted two events a token: its own TPOT is half the truth.
            tpot: (of("e2e_mean_s") - of("ttft_mean_s")) / (output - 1.0),
        };
        variants
            .entry(text(&row, "variant").to_owned())
            .or_default()
            .push(stage);
    }
    let (mut all, mut chunked) = (Vec::new(), Vec::new());
    let (mut poisson, mut even, mut crowded) = (Vec::new(), Vec::new(), Vec::new());
    for (variant, stages) in &variants {
        for (stage, tpot, tails) in asked(stages) {
            let error = tpot / stage.tpot - 1.0;
            if rows {
                println!(
                    "  {variant:<34} stage {} at {:>5.1} req/s  TPOT {:>5.2} of {:>5.2} ms  TTFT p99 {:>4.0} (Poisson) {:>4.0} (even) of {:>4.0} ms",
                    stage.number,
                    stage.rate_sent,
                    tpot * 1e3,
                    stage.tpot * 1e3,
                    tails.0 * 1e3,
                    tails.1 * 1e3,
                    stage.ttft_p99 * 1e3
                );
            }
            all.push(error);
            let tail = (
                tails.0 / stage.ttft_p99 - 1.0,
                tails.1 / stage.ttft_p99 - 1.0,
            );
            if variant == "vllm" || stage.number > 3 {
                crowded.push(tail.0);
            } else {
                poisson.push(tail.0);
                even.push(tail.1);
            }
            if variant != "vllm" {
                chunked.push(error);
            }
        }
    }
    summary("TPOT, chunked prefill", &chunked, 0.05);
    summary("TPOT, all variants", &all, 0.05);
    summary("TTFT p99, slots free, even arrivals", &even, 0.20);
    summary("TTFT p99, slots free, Poisson arrivals", &poisson, 0.20);
    summary("TTFT p99, slots taken or unchunked", &crowded, 0.20);
}

/// Loaded stages that were an open loop (what was asked was sent): predicted TPOT, and TTFT p99 under
/// Poisson and under even arrivals (which of them the harness sent is not told).
fn asked(stages: &[Stage]) -> Vec<(&Stage, f64, (f64, f64))> {
    let low = stages.iter().filter(|s| s.number <= 2);
    let samples: Vec<_> = low
        .clone()
        .flat_map(|s| {
            PointFacts {
                point: s.number,
                requests_s: Some(s.rate_done),
                ttft_s: Some(s.ttft),
                weight: (1.0 + s.rate_done).powi(2),
                ..PointFacts::fixed_lengths(s.input, s.output, s.tpot)
            }
            .samples()
        })
        .collect();
    let fit = Fit::of(&samples, Form::default(), &[]).expect("three stages");
    let replica = Replica {
        step: fit.form.step_time(&fit.theta, None),
        ingest_s: fit.get(Term::Ingest).unwrap_or(0.0),
        slots: f64::INFINITY,
    };
    // The engine's slots, by the stages at which they were all taken; the way in, by the idle stage.
    let slots = stages
        .iter()
        .map(|s| s.rate_done * s.tpot * (s.output - 1.0));
    let slots = goodput_stats::whole_u32(slots.fold(1.0, f64::max) + 3.0);
    let demand_s = replica.step.seconds(&goodput_perf_model::Batch {
        prefill_tokens: goodput_stats::whole_u32(stages[0].input),
        ..Default::default()
    });
    let ingest_s = (stages[0].ttft - demand_s).max(0.0);
    let mut asked = Vec::new();
    for stage in stages {
        if stage.number <= 2 || stage.rate_sent < 0.98 * stage.rate_asked {
            continue;
        }
        let demand = Demand {
            prefill_tokens: stage.input,
            prefill_pairs: stage.input * (stage.input + 1.0) / 2.0,
            output_tokens: stage.output,
            context_tokens: stage.input + stage.output / 2.0,
        };
        let Some(means) = replica.means(&demand, Load::Rate(stage.rate_done)) else {
            asked.push((stage, f64::INFINITY, (f64::INFINITY, f64::INFINITY)));
            continue;
        };
        let tail = |even| {
            ingest_s
                + crate::tail::ttft_p99(
                    &engine(replica.step, slots),
                    stage.rate_sent,
                    (stage.input, stage.output),
                    even,
                )
        };
        asked.push((stage, means.tpot_s, (tail(false), tail(true))));
    }
    asked
}

/// vLLM as its documentation has it for this GPU: 8,192 tokens a step, the KV cache far from full.
fn engine(step_time: StepTime, slots: u32) -> Profile {
    let positive = |n: u32| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
    let mut profile = Profile::builtin("qwen3-8b-h100").expect("a built-in profile");
    profile.step_time = step_time;
    profile.max_num_seqs = positive(slots);
    profile.max_batched_tokens = positive(8_192);
    profile
}
