//! Random engines: profile, workload, SLO and how their pace changes.

use std::{num::NonZeroU32, sync::Arc};

use goodput_perf_model::{Profile, StepTime};
use goodput_record::Timestamp;
use goodput_slo::Slo;
use goodput_stats::{Draws, Stream};
use goodput_virtual::Pace;
use goodput_workload::WorkloadSpec;

/// How an engine's pace changes while it is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Not at all.
    Steady,
    /// By up to 12 % over fifteen minutes, in small steps.
    Drift,
    /// Once, by 10 to 30 %, slower or faster, within the first eight minutes.
    Step,
}

impl Kind {
    /// In words.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Drift => "drifting",
            Self::Step => "with a step",
        }
    }
}

/// One engine with all that is asked of it.
pub(crate) struct Emulated {
    pub(crate) number: u64,
    pub(crate) kind: Kind,
    pub(crate) profile: Profile,
    pub(crate) workload: Arc<WorkloadSpec>,
    pub(crate) slo: Slo,
    pub(crate) pace: Pace,
    pub(crate) objective: f64,
    /// Whether its arrivals come in bursts.
    pub(crate) bursty: bool,
}

/// Draws with names.
struct Dice(Draws);

impl Dice {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.unit()
    }

    /// Evenly in ratio.
    fn ratio(&mut self, low: f64, high: f64) -> f64 {
        low * libm::pow(high / low, self.0.unit())
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        let place = (self.0.unit() * of.len() as f64) as usize;
        of[place.min(of.len() - 1)]
    }
}

impl Emulated {
    /// The engine of this number.
    pub(crate) fn new(number: u64) -> Self {
        let mut dice = Dice(Draws::new(0x60_0D, Stream(1), number));
        let input = dice.ratio(50.0, 1_000.0);
        let output = dice.ratio(24.0, 110.0);
        let (input_sigma, output_sigma) = (dice.between(0.2, 0.9), dice.between(0.2, 0.8));
        let (input_max, output_max) = (input * 6.0, output * 5.0);
        let slots = dice.ratio(6.0, 128.0).round();
        let profile = profile(&mut dice, slots, input + output);
        let arrivals = match dice.one_of(&[0, 0, 1]) {
            0 => "\"poisson\"".to_owned(),
            _ => format!("{{ gamma = {{ cv = {:.2} }} }}", dice.between(1.5, 3.0)),
        };
        let workload = format!(
            "output_policy = \"max_tokens\"\narrivals = {arrivals}\n\
             input = {{ log_normal = {{ median = {input:.0}, sigma = {input_sigma:.2}, max = {input_max:.0} }} }}\n\
             output = {{ log_normal = {{ median = {output:.0}, sigma = {output_sigma:.2}, max = {output_max:.0} }} }}\n"
        );
        let objective = dice.one_of(&[0.9, 0.95, 0.99, 0.99]);
        let slo = slo(&mut dice, &profile.step_time, (input, output), objective);
        let boot = dice.between(0.92, 1.08);
        let kind = dice.one_of(&[
            Kind::Steady,
            Kind::Steady,
            Kind::Steady,
            Kind::Drift,
            Kind::Step,
        ]);
        Self {
            number,
            kind,
            pace: pace(&mut dice, kind, boot),
            profile,
            workload: Arc::new(WorkloadSpec::parse("study", &workload).expect("a valid workload")),
            slo: Slo::from_argument(&slo).expect("a valid SLO"),
            objective,
            bursty: arrivals.starts_with('{'),
        }
    }
}

/// Step times from 8 to 40 ms, batches that slow a step by 0.3 to 4 times its floor when full, and
/// room in the cache for 0.7 to 3 full batches.
fn profile(dice: &mut Dice, slots: f64, context: f64) -> Profile {
    let floor = dice.ratio(8e-3, 40e-3);
    let growth = dice.ratio(0.3, 4.0) * floor;
    let by_context = dice.between(0.1, 0.9);
    let mean_context = 1.3 * context;
    let step_time = StepTime {
        overhead_s: 0.2 * floor,
        weights_s: 0.8 * floor,
        sequence_s: growth * (1.0 - by_context) / slots,
        context_s: growth * by_context / slots / mean_context,
        prefill_s: dice.ratio(15e-6, 100e-6),
        pair_s: 1e-9,
        ..StepTime::default()
    };
    let kv_tokens = slots * mean_context * dice.ratio(0.7, 3.0);
    let whole = |value: f64| NonZeroU32::new(value as u32).unwrap_or(NonZeroU32::MIN);
    Profile {
        max_num_seqs: whole(slots),
        max_batched_tokens: whole(dice.one_of(&[512.0, 1_024.0, 2_048.0, 4_096.0])),
        kv_blocks: ((kv_tokens / 16.0) as u32).max(1_500),
        prefix_cache: false,
        step_time,
        ..Profile::builtin("laptop").expect("a built-in profile")
    }
}

/// Bounds as multiples of what an idle engine does: TTFT of a median prompt, step time, the whole of
/// a median request.
fn slo(dice: &mut Dice, step: &StepTime, (input, output): (f64, f64), objective: f64) -> String {
    let floor = step.overhead_s + step.weights_s;
    let ttft = floor + step.prefill_s * input;
    let ttft_bound = ttft * dice.ratio(4.0, 25.0) + 0.05;
    let tpot_bound = floor * dice.ratio(1.4, 4.0);
    let percent = objective * 100.0;
    let ttft_ms = (1e3 * ttft_bound).round();
    let tpot_ms = (1e3 * tpot_bound).round().max(1.0);
    let e2e = ttft + floor * output;
    let e2e_ms = (1e3 * e2e * dice.ratio(3.0, 10.0)).round();
    let clauses = match dice.one_of(&[0, 0, 0, 1, 2, 3]) {
        0 => format!("ttft={ttft_ms}ms,tpot={tpot_ms}ms"),
        1 => format!("ttft={ttft_ms}ms"),
        2 => format!("e2e={e2e_ms}ms"),
        _ => format!("tpot={tpot_ms}ms"),
    };
    format!("{clauses},objective={percent}%")
}

fn pace(dice: &mut Dice, kind: Kind, boot: f64) -> Pace {
    match kind {
        Kind::Steady => Pace::steady(boot),
        Kind::Drift => {
            let whole = dice.between(-0.12, 0.12);
            let steps = (0..90).map(|i| {
                let share = f64::from(i) / 90.0;
                (
                    Timestamp::from_seconds(10.0 * f64::from(i)),
                    boot * (1.0 + whole * share),
                )
            });
            Pace::steps(steps.collect())
        }
        Kind::Step => {
            let by = dice.between(0.1, 0.3);
            let factor = dice.one_of(&[1.0 + by, 1.0 / (1.0 + by)]);
            let at = Timestamp::from_seconds(dice.between(30.0, 480.0));
            Pace::steps(vec![(Timestamp::ZERO, boot), (at, boot * factor)])
        }
    }
}
