//! The capacity plan: how many replicas a demand needs.

use serde::Serialize;
use thiserror::Error;

use crate::{
    budget::{Budget, NoBudget, provable},
    demand::{Demand, DemandError, counted, plain},
    figure::{Assumption, Figure},
    plain::{PlainPage, page},
    price::{Cost, Delivered, Price, cost},
    replica::{LoadFigures, ReplicaModel},
    size::{DecidedBy, Rule, SizeError, Sizing, on_list, size},
};

/// Version of the documents of plans. It rises when a field changes its meaning or goes away.
pub const PLAN_SCHEMA_VERSION: u32 = 1;

/// Utilisations of the goodput budget whose tails stand beside a plan.
pub const LADDER: [f64; 4] = [0.5, 0.7, 0.9, 0.95];

/// Beyond so many demands each one's attainment is told by the next rung of the ladder instead of
/// by a look of its own.
const OWN_LOOKS: usize = 4;

/// What is asked of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The demands, each of which gets an answer.
    pub demands: Vec<Demand>,
    /// How sizes are chosen.
    pub rule: Rule,
    /// The price, where told.
    pub price: Option<Price>,
    /// Replica counts there may be; empty: any.
    pub allowed: Vec<u32>,
    /// Accelerators of one replica, where the budget does not know.
    pub gpus: Option<u32>,
    /// Output length at which the end-to-end time is stated.
    pub e2e_at: u32,
    /// Requests behind a look at a load.
    pub requests: u32,
    /// What was assumed by whoever asks.
    pub assumed: Vec<Assumption>,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No budget.
    #[error(transparent)]
    Budget(#[from] NoBudget),
    /// No demand.
    #[error(transparent)]
    Demand(#[from] DemandError),
    /// No size.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// Nothing is asked for.
    #[error("no demand was told")]
    NoDemand,
}

impl PlanError {
    /// Whether the question itself is wrong; else it was understood and the answer is no.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Demand(_)
                | Self::NoDemand
                | Self::Size(SizeError::Target(_))
                | Self::Budget(NoBudget::NoOpenLoop | NoBudget::Unlimited)
        )
    }
}

/// How one replica does at a share of its budget.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rung {
    /// Share of the goodput budget.
    pub utilisation: f64,
    /// The rate there.
    pub rate_req_s: Figure,
    /// Share of requests that meet the SLO.
    pub attainment: Figure,
    /// TTFT at 99 %.
    pub ttft_p99_ms: Figure,
    /// TPOT at 99 %.
    pub tpot_p99_ms: Figure,
    /// End-to-end time at 99 %.
    pub e2e_p99_ms: Figure,
}

/// The answer to one demand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// What the demand is called.
    pub label: String,
    /// The rate that drives the plan.
    pub demand_req_s: Figure,
    /// The mean rate, where known. It sizes nothing.
    pub mean_req_s: Option<Figure>,
    /// Peak over mean, where known.
    pub peak_over_mean: Option<Figure>,
    /// Highest rate within one cold start over the driving rate, where known.
    pub burst: Option<Figure>,
    /// Demand over budget rounded up: what no plan can go below, and no plan.
    pub lower_bound: Figure,
    /// Share of the budget in use at the lower bound.
    pub lower_bound_utilisation: Figure,
    /// Replicas with headroom.
    pub plan: Figure,
    /// Share of the budget in use at the plan.
    pub plan_utilisation: Figure,
    /// Replicas to run: the plan and its spares, of the counts there may be.
    pub replicas: Figure,
    /// Share of the budget in use when all of them run.
    pub utilisation: Figure,
    /// What decided the size.
    pub decided_by: DecidedBy,
    /// Accelerators of all replicas.
    pub gpus: Figure,
    /// What could be asked beyond the demand before the objective breaks, all replicas running.
    pub headroom_req_s: Figure,
    /// Share of requests that meet the SLO with the spares gone; with them it is no lower.
    pub attainment: Figure,
    /// Cost at the driving rate.
    pub cost: Cost,
    /// Cost at the mean rate, where known: what a fleet of a fixed size costs over the whole time.
    pub cost_at_mean: Option<Cost>,
}

/// A capacity plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CapacityPlan {
    /// [`PLAN_SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// `capacity`.
    pub kind: &'static str,
    /// What one replica can be sold for.
    pub budget: Budget,
    /// How sizes were chosen.
    pub rule: Rule,
    /// The tails at other utilisations.
    pub ladder: Vec<Rung>,
    /// One answer a demand.
    pub answers: Vec<Answer>,
    /// What a user of the first answer's service sees.
    pub plain: PlainPage,
    /// The currency of all costs; null without a price.
    pub currency: Option<String>,
    /// What was taken for granted.
    pub assumptions: Vec<Assumption>,
    /// What a reader should know.
    pub findings: Vec<String>,
}

/// Plans for all demands of a question. `check` looks at single loads; it should draw other random
/// numbers than the search for the budget did. Without one, the budget's measured curve is read.
pub fn plan(
    question: &Question,
    budget: Budget,
    check: Option<&mut dyn ReplicaModel>,
) -> Result<CapacityPlan, PlanError> {
    if question.demands.is_empty() {
        return Err(PlanError::NoDemand);
    }
    let mut looks = Looks {
        budget: &budget,
        check,
        // A 99th percentile needs no proof: half of what a proof takes shows it.
        requests: question.requests / 2,
        seen: Vec::new(),
    };
    let ladder: Vec<Rung> = LADDER.iter().map(|&share| looks.rung(share)).collect();
    let proof = provable(budget.at.in_flight_mean, budget.objective);
    looks.requests = looks.requests.max(proof);
    let mut sized = Vec::new();
    for demand in &question.demands {
        let burst = demand.burst.map(|burst| burst.ratio);
        let sizing = size(demand.rate_req_s, budget.rate(), burst, &question.rule)?;
        let replicas = on_list(sizing.with_spare, &question.allowed)?;
        sized.push((demand, sizing, replicas));
    }
    let own = sized.len() <= OWN_LOOKS;
    let mut answers = Vec::new();
    let mut first_seen = None;
    for (demand, sizing, replicas) in &sized {
        let failed = replicas.saturating_sub(question.rule.spare.into()).max(1);
        let load = demand.rate_req_s / failed as f64;
        let seen = looks.at(load, own);
        answers.push(answer(
            question,
            &budget,
            demand,
            sizing,
            *replicas,
            (load, seen.as_ref()),
        ));
        first_seen = first_seen.or(seen);
    }
    let seen = first_seen.unwrap_or_else(|| budget.at.clone());
    let plain = page(&seen, &budget.source, question.e2e_at, budget.interactive);
    let findings = findings(question, &budget, &answers);
    Ok(CapacityPlan {
        schema_version: PLAN_SCHEMA_VERSION,
        kind: "capacity",
        rule: question.rule,
        ladder,
        answers,
        plain,
        currency: question.price.as_ref().map(|price| price.currency.clone()),
        assumptions: assumptions(question, &budget),
        findings,
        budget,
    })
}

/// Looks at single loads, each once.
struct Looks<'a, 'm> {
    budget: &'a Budget,
    check: Option<&'m mut dyn ReplicaModel>,
    requests: u32,
    seen: Vec<LoadFigures>,
}

impl Looks<'_, '_> {
    /// What is known at a load: looked at now if it may be, else the next higher load that was.
    fn at(&mut self, load: f64, own: bool) -> Option<LoadFigures> {
        if let Some(check) = self.check.as_mut().filter(|_| own) {
            let at = check.at(load, self.requests);
            self.seen.push(at.clone());
            return Some(at);
        }
        let seen = self
            .seen
            .iter()
            .filter(|at| at.rate_req_s >= load * (1.0 - 1e-9));
        let nearest = seen.min_by(|a, b| a.rate_req_s.total_cmp(&b.rate_req_s));
        let known = self.budget.not_better_than(load);
        let all = nearest.into_iter().chain(known);
        all.min_by(|a, b| a.rate_req_s.total_cmp(&b.rate_req_s))
            .cloned()
    }

    fn rung(&mut self, utilisation: f64) -> Rung {
        let rate = utilisation * self.budget.rate();
        let at = self.at(rate, true);
        let at = at.as_ref();
        let from = |what: &str| seen_at(what, rate, at);
        let ms = |what: &str, of: fn(&LoadFigures) -> Option<f64>| {
            Figure::known(at.and_then(of), "ms", from(what))
        };
        Rung {
            utilisation,
            rate_req_s: Figure::new(
                rate,
                "req/s",
                format!(
                    "{} x budget of {} req/s",
                    plain(utilisation),
                    plain(self.budget.rate())
                ),
            ),
            attainment: attainment(rate, at),
            ttft_p99_ms: ms("ttft p99", |at| at.ttft_p99_ms),
            tpot_p99_ms: ms("tpot p99", |at| at.tpot_p99_ms),
            e2e_p99_ms: ms("e2e p99", |at| at.e2e_p99_ms),
        }
    }
}

/// Where a figure was seen: at the load itself, or at a higher one.
fn seen_at(what: &str, load: f64, at: Option<&LoadFigures>) -> String {
    match at {
        None => "no load as high as this was looked at".to_owned(),
        Some(at) if at.rate_req_s > load * 1.000_001 => format!(
            "{what} at {} req/s, the next higher load looked at ({} requests): no better than at {}",
            plain(at.rate_req_s),
            at.requests,
            plain(load)
        ),
        Some(at) => format!("{what} at {} req/s ({} requests)", plain(load), at.requests),
    }
}

fn attainment(load: f64, at: Option<&LoadFigures>) -> Figure {
    let from = seen_at("attainment", load, at);
    Figure::known(at.and_then(|at| at.attainment), "share", from)
        .within(at.and_then(|at| at.interval))
}

fn answer(
    question: &Question,
    budget: &Budget,
    demand: &Demand,
    sizing: &Sizing,
    replicas: u64,
    (load, seen): (f64, Option<&LoadFigures>),
) -> Answer {
    let (rate, g) = (demand.rate_req_s, budget.rate());
    let rule = &question.rule;
    let count = |n: u64, from: String| Figure::new(n as f64, "replicas", from);
    let used = |n: u64| {
        Figure::new(
            sizing.utilisation(n),
            "share",
            format!(
                "{} / ({} x {} req/s)",
                plain(rate),
                counted(n, "replica"),
                plain(g)
            ),
        )
    };
    let gpus = budget.gpus.or(question.gpus);
    let mean = demand.mean_req_s;
    let delivered = |rate: f64, when: &'static str| Delivered {
        replicas,
        gpus,
        good_req_s: seen.and_then(|at| at.attainment).map(|share| share * rate),
        tokens: tokens_of_good(&budget.at),
        when,
    };
    let price = question.price.as_ref();
    Answer {
        label: demand.label.clone(),
        demand_req_s: Figure::new(rate, "req/s", demand.from.clone()),
        mean_req_s: mean.map(|m| Figure::new(m, "req/s", "arrivals / time, over the whole")),
        peak_over_mean: mean.map(|m| Figure::new(rate / m, "ratio", "driving rate / mean")),
        burst: demand.burst.map(|b| {
            let from = format!(
                "highest rate within a cold start of {} s / driving rate",
                plain(b.cold_start_s)
            );
            Figure::new(b.ratio, "ratio", from)
        }),
        lower_bound: count(
            sizing.lower_bound,
            format!(
                "{} / {} req/s, rounded up: no headroom, no plan",
                plain(rate),
                plain(g)
            ),
        ),
        lower_bound_utilisation: used(sizing.lower_bound),
        plan: count(sizing.plan, plan_from(demand, sizing, rule, g)),
        plan_utilisation: used(sizing.plan),
        replicas: count(replicas, replicas_from(question, sizing)),
        utilisation: used(replicas),
        decided_by: sizing.decided_by,
        gpus: Figure::known(
            gpus.map(|n| f64::from(n) * replicas as f64),
            "GPUs",
            gpus.map_or_else(
                || "how many GPUs a replica has was not told: --gpus".to_owned(),
                |n| format!("{} x {n}", counted(replicas, "replica")),
            ),
        ),
        headroom_req_s: Figure::new(
            replicas as f64 * g - rate,
            "req/s",
            format!("{replicas} x {} - {} req/s", plain(g), plain(rate)),
        ),
        attainment: attainment(load, seen),
        cost: cost(price, &delivered(rate, "driving rate")),
        cost_at_mean: mean.map(|m| cost(price, &delivered(m, "mean rate"))),
    }
}

fn plan_from(demand: &Demand, sizing: &Sizing, rule: &Rule, budget: f64) -> String {
    let rate = plain(demand.rate_req_s);
    match (sizing.decided_by, demand.burst) {
        (DecidedBy::Burst, Some(burst)) => format!(
            "{rate} x {} within one cold start / {} req/s, rounded up",
            plain(burst.ratio),
            plain(budget)
        ),
        _ if sizing.utilisation(sizing.plan) > rule.target + 1e-9 => format!(
            "{rate} / {} req/s: one more would run below {}, this one below {}",
            plain(budget),
            plain(rule.band[0]),
            plain(rule.band[1])
        ),
        _ => format!(
            "{rate} / ({} x {} req/s), rounded up",
            plain(rule.target),
            plain(budget)
        ),
    }
}

fn replicas_from(question: &Question, sizing: &Sizing) -> String {
    let spare = question.rule.spare;
    let counts = if question.allowed.is_empty() {
        String::new()
    } else {
        ", the next on the list of --replicas".to_owned()
    };
    format!("plan of {} + {spare} that may fail{counts}", sizing.plan)
}

/// Mean output tokens of a request that met the SLO.
fn tokens_of_good(at: &LoadFigures) -> Option<f64> {
    (at.goodput_req_s > 0.0).then(|| at.goodput_tok_s / at.goodput_req_s)
}

fn assumptions(question: &Question, budget: &Budget) -> Vec<Assumption> {
    let mut all = question.assumed.clone();
    all.push(Assumption::new(
        "SLO",
        budget.slo.clone(),
        budget.source.clone(),
    ));
    all.push(Assumption::new(
        "workload",
        budget.workload.clone(),
        budget.source.clone(),
    ));
    all.push(Assumption::new(
        "spread",
        "every replica gets an equal share of the arrivals, spread at random",
        "this program; a dispatcher that knows who is busy does better, one that favours a replica worse",
    ));
    all.push(Assumption::new(
        "replicas",
        "all alike, warm and ready",
        "this program; what starts cold is no capacity until it is ready",
    ));
    all
}

fn findings(question: &Question, budget: &Budget, answers: &[Answer]) -> Vec<String> {
    let mut all = Vec::new();
    if budget.simulated {
        all.push(format!(
            "the budget is of a simulated replica ({}): hold it against a measured one before it is relied on",
            budget.source
        ));
    }
    if question.price.is_none() {
        all.push("no price was told: costs are unknown (--price)".to_owned());
    }
    for answer in answers {
        let kept = answer
            .attainment
            .interval
            .map(|i| i.low >= budget.objective);
        let label = &answer.label;
        match kept {
            Some(true) => {}
            Some(false) => all.push(format!(
                "{label}: whether the plan keeps the objective is not proven at this many requests"
            )),
            None => all.push(format!(
                "{label}: the attainment at the plan's load is not known"
            )),
        }
        if answer.decided_by == DecidedBy::Spare {
            all.push(format!(
                "{label}: so few replicas that the one that may fail decides, not the target utilisation"
            ));
        }
        if answer.decided_by == DecidedBy::Burst {
            all.push(format!(
                "{label}: the burst within one cold start decides: a shorter cold start, or shedding of what can wait, needs fewer replicas"
            ));
        }
    }
    all
}
