use std::sync::Arc;

use goodput_perf_model::Profile;
use goodput_slo::Slo;
use goodput_stats::{Draws, Stream, wilson};
use goodput_workload::WorkloadSpec;

use crate::{
    CapacityPlan, Demand, Effort, LoadFigures, NoBudget, PlanError, Price, Question, ReplicaModel,
    Rule, Simulated, find, plan_simulated, shifted_rate, work_seconds,
};

/// A replica whose share of good requests is known: `1 - loss (rate / limit)^8`.
struct Known {
    limit: f64,
    loss: f64,
    refused: f64,
    looks: Vec<(f64, u32)>,
}

impl Known {
    fn new(limit: f64) -> Self {
        Self {
            limit,
            loss: 0.01,
            refused: 0.0,
            looks: Vec::new(),
        }
    }

    fn truth(&self, rate: f64) -> f64 {
        (1.0 - self.loss * libm::pow(rate / self.limit, 8.0)).max(0.0) * (1.0 - self.refused)
    }
}

impl ReplicaModel for Known {
    fn at(&mut self, rate_req_s: f64, requests: u32) -> LoadFigures {
        self.looks.push((rate_req_s, requests));
        let share = self.truth(rate_req_s);
        let good = (0..u64::from(requests))
            .filter(|&i| Draws::new(7, Stream(1), i).unit() < share)
            .count() as u64;
        let attainment = good as f64 / f64::from(requests);
        LoadFigures {
            rate_req_s,
            requests: requests.into(),
            objective: 0.99,
            attainment: Some(attainment),
            interval: wilson(good, requests.into(), 0.95),
            ttft_p50_ms: None,
            ttft_p95_ms: None,
            ttft_p99_ms: None,
            tpot_p50_ms: None,
            tpot_p95_ms: None,
            tpot_p99_ms: None,
            e2e_p50_ms: None,
            e2e_p99_ms: None,
            goodput_tok_s: 100.0 * rate_req_s * attainment,
            goodput_req_s: rate_req_s * attainment,
            in_flight_mean: 0.0,
            refused_share: self.refused,
            valid: true,
        }
    }
}

#[test]
fn the_search_finds_the_rate_at_which_the_objective_breaks_wherever_it_begins() {
    for guess in [20.0, 40.0, 50.0, 60.0, 400.0] {
        let mut replica = Known::new(50.0);
        let found = find(&mut replica, guess, Effort::of(0.99)).unwrap();
        let rate = found.at.rate_req_s;
        // The lower end of the interval keeps it: a little below the true 50, never above.
        assert!((46.0..50.5).contains(&rate), "from {guess}: {rate}");
        assert!(replica.truth(rate) >= 0.99 - 1e-3, "{rate}");
        assert!(found.above_req_s.unwrap() / rate < 1.05);
        assert!(replica.looks.len() <= 30, "{} looks", replica.looks.len());
    }
}

#[test]
fn a_replica_that_keeps_nothing_or_everything_has_no_budget() {
    let no = |replica: &mut Known| find(replica, 50.0, Effort::requests(2_000)).unwrap_err();
    let mut hopeless = Known {
        loss: 1.0e20,
        ..Known::new(50.0)
    };
    assert!(matches!(no(&mut hopeless), NoBudget::NoLoad { .. }));
    let mut refusing = Known {
        refused: 0.1,
        ..Known::new(50.0)
    };
    assert!(matches!(no(&mut refusing), NoBudget::NeverFits { share } if share > 0.09));
    let mut endless = Known {
        loss: 0.0,
        ..Known::new(50.0)
    };
    assert!(matches!(no(&mut endless), NoBudget::Unlimited));
}

fn chat() -> Simulated {
    Simulated::new(
        Profile::builtin("laptop").unwrap(),
        Arc::new(WorkloadSpec::preset("chat-short").unwrap()),
        Slo::from_argument("ttft<=500ms,tpot<=10ms,objective=90%").unwrap(),
        7,
    )
}

fn question(rate: f64) -> Question {
    Question {
        demands: vec![Demand::rate(rate, "--rate").unwrap()],
        rule: Rule::of_class(true),
        price: None,
        allowed: Vec::new(),
        gpus: None,
        e2e_at: 250,
        requests: 2_000,
        assumed: Vec::new(),
    }
}

fn small(rate: f64) -> CapacityPlan {
    plan_simulated(&question(rate), &chat(), Effort::requests(3_000)).unwrap()
}

/// The small version of the study `plans`: what is planned keeps its objective under other random
/// numbers, and the smallest number of replicas cannot do with one fewer.
#[test]
fn a_plan_keeps_its_objective_under_other_seeds_and_its_lower_bound_is_tight() {
    let plan = small(400.0);
    let answer = &plan.answers[0];
    let least = answer.lower_bound.value.unwrap();
    let mut other = Simulated {
        seed: 4_711,
        ..chat()
    };
    let mut at = |replicas: f64| other.at(400.0 / replicas, 3_000);
    assert!(at(answer.plan.value.unwrap()).attainment.unwrap() >= 0.9);
    assert!(at(least).attainment.unwrap() >= 0.9);
    assert!(at(least - 1.0).attainment.unwrap() < 0.9);
    let used = answer.plan_utilisation.value.unwrap();
    assert!((0.60..=0.75).contains(&used), "{used}");
    // The tails rise with the share of the budget in use, and no figure lacks its source.
    let tails: Vec<f64> = plan
        .ladder
        .iter()
        .map(|r| r.ttft_p99_ms.value.unwrap())
        .collect();
    assert!(tails.is_sorted(), "{tails:?}");
    assert!(plan.ladder.iter().all(|r| !r.tpot_p99_ms.from.is_empty()));
    // Without a price there is no cost, and it is said why.
    assert_eq!(answer.cost.per_hour.value, None);
    assert!(answer.cost.per_hour.from.contains("--price"));
}

#[test]
fn a_price_gives_the_cost_of_what_is_good() {
    let mut asked = question(40.0);
    asked.price = Some(Price {
        per_gpu_hour: 3.6,
        currency: "$".into(),
        from: "--price".into(),
    });
    let plan = plan_simulated(&asked, &chat(), Effort::requests(2_000)).unwrap();
    let answer = &plan.answers[0];
    let replicas = answer.replicas.value.unwrap();
    let hour = answer.cost.per_hour.value.unwrap();
    assert!((hour - 3.6 * replicas).abs() < 1e-9);
    let good = 40.0 * answer.attainment.value.unwrap();
    let request = answer.cost.per_good_request.value.unwrap();
    assert!((request - hour / 3600.0 / good).abs() < 1e-12);
    let million = answer.cost.per_million_good_tokens.value.unwrap();
    let tokens = 1e6 * request / million;
    assert!((40.0..70.0).contains(&tokens), "{tokens} tokens an answer");
}

#[test]
fn a_bursty_demand_costs_more_on_few_replicas_than_on_many() {
    let poisson = chat();
    let index = |replicas| match poisson.one_of(replicas, 9.0).workload.arrivals() {
        goodput_workload::Arrivals::Gamma { cv } => cv * cv,
        _ => 1.0,
    };
    assert!((index(1) - 9.0).abs() < 0.01 && (index(4) - 3.0).abs() < 0.01);
    let budget = |replicas| {
        let mut one = poisson.one_of(replicas, 9.0);
        find(&mut one, 60.0, Effort::requests(2_000))
            .unwrap()
            .at
            .rate_req_s
    };
    assert!(budget(1) < budget(100), "{} {}", budget(1), budget(100));
}

#[test]
fn a_slo_that_no_load_keeps_is_no_plan() {
    let strict = Simulated::new(
        Profile::builtin("laptop").unwrap(),
        Arc::new(WorkloadSpec::preset("chat-short").unwrap()),
        Slo::from_argument("ttft<=1ms").unwrap(),
        7,
    );
    let no = plan_simulated(&question(10.0), &strict, Effort::requests(1_000)).unwrap_err();
    assert!(!no.is_usage());
    assert!(
        matches!(no, PlanError::Budget(NoBudget::NoLoad { .. })),
        "{no}"
    );
    assert!(no.to_string().contains("ttft p99"), "{no}");
}

/// Where lengths shift, work in seconds predicts the new budget to the first order.
#[test]
fn a_shift_of_the_mix_moves_demand_not_capacity() {
    let step = Profile::builtin("qwen3-8b-h100").unwrap().step_time;
    let work = chat().work().unwrap();
    assert_eq!(shifted_rate(50.0, &step, &work, &work), Some(50.0));
    let twice = crate::scaled(&work, 1.0, 2.0);
    let shifted = shifted_rate(50.0, &step, &work, &twice).unwrap();
    let ratio = work_seconds(&step, &work) / work_seconds(&step, &twice);
    assert!((shifted - 50.0 * ratio).abs() < 1e-9 && shifted < 50.0 && shifted > 20.0);
}
