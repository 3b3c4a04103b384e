//! Random plans held against simulations they have not seen.
//!
//! `cargo run --release -p goodput-planner --example plans -- [PLANS] [SEED]`
//!
//! Each plan has a random profile, workload, SLO and demand. Two questions: does the number of
//! replicas that it calls the least (demand over budget, rounded up) keep the SLO under other random
//! numbers, and does one replica fewer break it? The first is to hold for at least 95 % of plans, the
//! second for at least half. The planned number, with its headroom, is asked too.

#![expect(clippy::print_stdout, reason = "a study talks to whoever runs it")]
#![expect(clippy::disallowed_methods, reason = "a study reads its arguments")]

use std::sync::Arc;

use goodput_perf_model::Profile;
use goodput_planner::{Demand, Effort, ReplicaModel, Rule, Simulated, find, size};
use goodput_slo::Slo;
use goodput_stats::{Draws, Stream, mix};
use goodput_workload::WorkloadSpec;

/// Requests of a look that judges a plan.
const JUDGED_OVER: u32 = 60_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| {
        arguments
            .next()
            .and_then(|a| a.parse().ok())
            .unwrap_or(default)
    };
    let (plans, seed) = (number(200), number(1));
    let mut counted = Counted::default();
    for index in 0..plans {
        counted.one(seed, index);
    }
    counted.print(plans);
}

#[derive(Default)]
struct Counted {
    planned: u64,
    none: u64,
    least_keeps: u64,
    least_surely_breaks: u64,
    plan_keeps: u64,
    could_have_fewer: u64,
    one_fewer_misses: u64,
    plan_one_fewer_misses: u64,
}

impl Counted {
    fn one(&mut self, seed: u64, index: u64) {
        let mut draws = Draws::new(seed, Stream(0x504C_414E), index);
        let replica = drawn(&mut draws, mix(seed).wrapping_add(index));
        let objective = replica.slos[0].objective().share;
        let Some(guess) = replica.guess() else {
            self.none += 1;
            return;
        };
        let found = match find(&mut replica.clone(), guess, Effort::of(objective)) {
            Ok(found) => found,
            Err(no) => {
                println!("{index:>4} no budget: {no}");
                self.none += 1;
                return;
            }
        };
        let budget = found.at.rate_req_s;
        let demand = budget * (0.3 + 12.0 * draws.unit());
        let demand = Demand::rate(demand, "drawn").map(|d| d.rate_req_s);
        let Ok(demand) = demand else { return };
        let Ok(sizing) = size(demand, budget, None, &Rule::of_class(true)) else {
            return;
        };
        let mut other = Simulated {
            seed: mix(replica.seed),
            ..replica
        };
        let mut at = |replicas: u64| other.at(demand / replicas as f64, JUDGED_OVER);
        self.planned += 1;
        let least = at(sizing.lower_bound);
        let keeps = least.attainment.is_some_and(|a| a >= objective);
        self.least_keeps += u64::from(keeps);
        self.least_surely_breaks += u64::from(least.interval.is_some_and(|i| i.high < objective));
        self.plan_keeps += u64::from(at(sizing.plan).seems_to_keep());
        let mut missed = None;
        if sizing.lower_bound > 1 {
            self.could_have_fewer += 1;
            let fewer = at(sizing.lower_bound - 1);
            let misses = !fewer.seems_to_keep();
            self.one_fewer_misses += u64::from(misses);
            missed = fewer.attainment;
            if sizing.plan > 1 {
                self.plan_one_fewer_misses += u64::from(!at(sizing.plan - 1).seems_to_keep());
            }
        }
        println!(
            "{index:>4} {:<22} {:<22} {:<44} budget {budget:>7.2} demand {demand:>7.1} least {:>2} {:.4} {} one fewer {:.4}",
            other.profile.name,
            other.workload.name(),
            other.slos[0]
                .sentence()
                .split(" have ")
                .last()
                .unwrap_or(""),
            sizing.lower_bound,
            least.attainment.unwrap_or(f64::NAN),
            if keeps { "keeps " } else { "MISSES" },
            missed.unwrap_or(f64::NAN),
        );
    }

    fn print(&self, plans: u64) {
        let share = |n: u64, of: u64| 100.0 * n as f64 / of.max(1) as f64;
        println!(
            "{plans} drawn, {} planned, {} without a budget",
            self.planned, self.none
        );
        println!(
            "least number keeps the SLO under other seeds: {:.1} % ({} surely break it)",
            share(self.least_keeps, self.planned),
            self.least_surely_breaks
        );
        println!(
            "planned number keeps it: {:.1} %",
            share(self.plan_keeps, self.planned)
        );
        println!(
            "one fewer than the least misses it: {:.1} % of {}; one fewer than planned: {:.1} %",
            share(self.one_fewer_misses, self.could_have_fewer),
            self.could_have_fewer,
            share(self.plan_one_fewer_misses, self.could_have_fewer)
        );
    }
}

/// One of `choices`, each as likely.
fn pick<T: Copy>(draws: &mut Draws, choices: &[T]) -> T {
    let at = goodput_stats::whole_u32(draws.unit() * choices.len() as f64 - 0.5) as usize;
    choices[at.min(choices.len() - 1)]
}

fn drawn(draws: &mut Draws, seed: u64) -> Simulated {
    let names = [
        "laptop",
        "qwen3-8b-h100",
        "llama-3.1-8b-h200",
        "qwen3-32b-fp8-h200",
        "llama-3.3-70b-fp8-2xh100",
    ];
    let mut profile = Profile::builtin(pick(draws, &names)).expect("a built-in profile");
    profile.max_num_seqs = pick(draws, &[32, 64, 128, 256])
        .try_into()
        .expect("above 0");
    profile.max_batched_tokens = pick(draws, &[1_024, 2_048, 8_192])
        .try_into()
        .expect("above 0");
    let presets = ["chat-short", "azure-conversation", "completion", "voice"];
    let workload = WorkloadSpec::preset(pick(draws, &presets)).expect("a preset");
    // Bounds some times above those of an idle replica, so that most can be kept.
    let step_ms = 1e3 * (profile.step_time.overhead_s + profile.step_time.weights_s);
    let tpot = step_ms * (2.0 + 3.0 * draws.unit());
    let ttft = 200.0 + 1_500.0 * draws.unit();
    let objective = pick(draws, &["90%", "95%", "99%"]);
    let slo = format!("ttft<={ttft:.0}ms,tpot<={tpot:.1}ms,objective={objective}");
    let slo = Slo::from_argument(&slo).expect("an SLO");
    Simulated::new(profile, Arc::new(workload), slo, seed)
}
