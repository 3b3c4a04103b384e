//! What samples can tell, what they cannot, and that this is said.

use goodput_perf_model::{Batch, Demand, Experts, StepTime};

use super::{closed_loop_of, observed, quiet};
use crate::{
    Advice, Ask, Form, Known, Load, Replica, Routing, StepSample, Term, calibrate, steps_of,
};

fn known(calibration: &crate::Calibration, term: Term) -> Known {
    let all = &calibration.identified.coefficients;
    all.iter().find(|e| e.coefficient == term).unwrap().known
}

/// Prompts and answers that are all alike leave prefill and its quadratic part, and what a sequence
/// costs beside its context, one and the same.
#[test]
fn lengths_that_are_all_alike_leave_coefficients_open_and_the_load_that_helps_is_named() {
    let truth = quiet("qwen3-8b-h100");
    let alike = |users, input| closed_loop_of(&truth, users, 40, (input, 12.0), 0.0);
    let samples = |runs: &[Vec<goodput_record::RequestRecord>]| -> Vec<StepSample> {
        let steps = |r: &Vec<crate::Observed>| steps_of(r, None).samples;
        let mut samples: Vec<StepSample> = observed(runs).iter().flat_map(steps).collect();
        // Two percent of noise: without any, rounding would tell all coefficients apart.
        for (i, sample) in samples.iter_mut().enumerate() {
            let mut draws = goodput_stats::Draws::new(5, goodput_stats::Stream(9), i as u64);
            sample.seconds *= 1.0 + 0.02 * goodput_stats::sampler::normal(&mut draws);
        }
        samples
    };
    let poor = calibrate(
        &samples(&[alike(1, 600.0), alike(6, 600.0)]),
        &Ask::default(),
    )
    .unwrap();
    for term in [Term::Pair, Term::Prefill] {
        assert_eq!(
            known(&poor, term),
            Known::Unsettled,
            "{:?}",
            poor.identified
        );
    }
    assert_ne!(known(&poor, Term::Context), Known::Settled);
    assert_eq!(known(&poor, Term::Step), Known::Settled);
    let advice = &poor.identified.advice;
    assert!(advice.contains(&Advice::TwoPromptLengths), "{advice:?}");
    assert!(advice.contains(&Advice::OtherContext), "{advice:?}");
    // The advice is good: with it they are settled.
    let runs = [
        alike(1, 600.0),
        alike(6, 600.0),
        alike(1, 6_000.0),
        alike(6, 6_000.0),
    ];
    let rich = calibrate(&samples(&runs), &Ask::default()).unwrap();
    for term in [Term::Pair, Term::Prefill, Term::Context] {
        assert_eq!(known(&rich, term), Known::Settled, "{:?}", rich.identified);
    }
    assert_eq!(rich.identified.advice, []);
    let condition = |c: &crate::Calibration| c.identified.condition.unwrap();
    assert!(condition(&rich) < 0.5 * condition(&poor));
}

/// Samples of `step` at batches up to `most`, with two contexts and some prompts.
fn synthetic(step: &StepTime, most: u32) -> Vec<StepSample> {
    let of = |(i, decodes): (u32, u32)| {
        let context = u64::from(decodes) * if i % 3 == 0 { 300 } else { 2_000 };
        let prefill = if i % 5 == 0 { 100 + 400 * (i % 7) } else { 0 };
        let pairs = u64::from(prefill) * (u64::from(prefill) + 1) / 2;
        let batch = Batch {
            decodes,
            context_tokens: context,
            prefill_tokens: prefill,
            prefill_pairs: pairs,
            ..Batch::default()
        };
        StepSample {
            seconds: step.seconds(&batch),
            steps: 1.0,
            decodes: f64::from(decodes),
            context: context as f64,
            prefill: f64::from(prefill),
            pairs: pairs as f64,
            prefill_steps: f64::from(u8::from(prefill > 0)),
            from_send: false,
            point: decodes / 32,
            weight: 1.0,
        }
    };
    (0..).zip((1..=most).chain(1..=most)).map(of).collect()
}

#[test]
fn a_knee_is_found_where_arithmetic_outgrows_the_weight_reads() {
    let truth = StepTime {
        overhead_s: 2e-3,
        weights_s: 5e-3,
        compute_s: 5e-3 / 128.0,
        sequence_s: 5e-6,
        context_s: 30e-9,
        prefill_s: 4e-6,
        pair_s: 1e-9,
        ..StepTime::default()
    };
    let calibration = calibrate(&synthetic(&truth, 240), &Ask::default()).unwrap();
    let form = calibration.fit.form;
    assert_eq!(form.knee_tokens, Some(128.0));
    let found = form.step_time(&calibration.fit.theta, None);
    for decodes in [1, 100, 200, 400] {
        let batch = Batch {
            decodes,
            context_tokens: 900 * u64::from(decodes),
            ..Batch::default()
        };
        let ratio = found.seconds(&batch) / truth.seconds(&batch);
        assert!((ratio - 1.0).abs() < 0.005, "{decodes}: {ratio}");
    }
    // Where there is none, none is found.
    let straight = StepTime {
        compute_s: 0.0,
        ..truth
    };
    let calibration = calibrate(&synthetic(&straight, 240), &Ask::default()).unwrap();
    assert_eq!(calibration.fit.form.knee_tokens, None);
}

#[test]
fn reads_of_experts_are_told_from_those_of_all_weights() {
    let truth = StepTime {
        overhead_s: 2e-3,
        weights_s: 1e-3,
        experts: Some(Experts {
            count: 128,
            per_token: 8,
            read_s: 20e-3,
        }),
        sequence_s: 20e-6,
        context_s: 30e-9,
        prefill_s: 20e-6,
        ..StepTime::default()
    };
    let ask = Ask {
        form: Form {
            routing: Some(Routing {
                count: 128,
                per_token: 8,
            }),
            ..Form::default()
        },
        ..Ask::default()
    };
    let calibration = calibrate(&synthetic(&truth, 48), &ask).unwrap();
    let read = calibration.fit.get(Term::Experts).unwrap();
    assert!((read / 20e-3 - 1.0).abs() < 1e-3, "{read}");
    let step = calibration.fit.get(Term::Step).unwrap();
    assert!((step / 3e-3 - 1.0).abs() < 5e-3, "{step}");
}

/// A base's coefficients speak where the samples do not, and only there.
#[test]
fn a_prior_settles_what_the_samples_leave_open_and_nothing_else() {
    let truth = quiet("qwen3-8b-h100");
    let runs = [
        closed_loop_of(&truth, 1, 30, (600.0, 12.0), 0.0),
        closed_loop_of(&truth, 6, 30, (600.0, 12.0), 0.0),
    ];
    let samples: Vec<StepSample> = observed(&runs)
        .iter()
        .flat_map(|r| steps_of(r, None).samples)
        .collect();
    let mut base = truth.clone();
    base.step_time.overhead_s *= 1.5;
    let ask = Ask {
        priors: crate::priors_of(&base),
        form: crate::form_of(&base),
        ..Ask::default()
    };
    let calibration = calibrate(&samples, &ask).unwrap();
    let time = &truth.step_time;
    let step = calibration.fit.get(Term::Step).unwrap();
    assert!(
        (step / (time.overhead_s + time.weights_s) - 1.0).abs() < 0.01,
        "{step}"
    );
    let pair = calibration.fit.get(Term::Pair).unwrap();
    assert!((pair / time.pair_s - 1.0).abs() < 0.3, "{pair}");
}

/// Means by Little's law agree with each other, and the users that keep a TPOT are the last that do.
#[test]
fn means_obey_littles_law_and_users_within_a_bound_are_the_last() {
    let replica = Replica {
        step: quiet("qwen3-8b-h100").step_time,
        ingest_s: 1e-3,
        slots: 64.0,
    };
    let demand = Demand::of(&[(500, 100), (1_500, 200)]).unwrap();
    for users in [1.0, 8.0, 60.0, 200.0] {
        let means = replica.means(&demand, Load::Users(users)).unwrap();
        let e2e = means.ttft_s + means.tpot_s * (demand.output_tokens - 1.0);
        assert!(
            (means.requests_s * e2e / users - 1.0).abs() < 1e-6,
            "{means:?}"
        );
        assert!(means.decodes <= 64.0 + 1e-6);
        // The same rate in an open loop is the same load, but for one user who does not meet itself.
        if users < 60.0 {
            let open = replica
                .means(&demand, Load::Rate(means.requests_s))
                .unwrap();
            assert!(open.tpot_s >= means.tpot_s, "{open:?} {means:?}");
        }
    }
    assert_eq!(replica.means(&demand, Load::Rate(1e3)), None);
    let within = replica.users_within(&demand, 0.012, 1.0).unwrap();
    let tpot = |users| replica.means(&demand, Load::Users(users)).unwrap().tpot_s;
    assert!(
        tpot(within) <= 0.012 && tpot(within + 1.0) > 0.012,
        "{within}"
    );
    assert_eq!(replica.users_within(&demand, 0.001, 1.0), None);
}
