//! Pools: each class by itself, all in one, or all in one with priorities.

mod remarks;
mod search;

use std::sync::Arc;

use goodput_perf_model::Profile;
use goodput_slo::Slo;
use goodput_stats::{Interval, whole_u64};
use goodput_workload::WorkloadSpec;
use serde::Serialize;

use self::search::{Part, Parts};
use crate::{
    budget::Effort,
    capacity::{PLAN_SCHEMA_VERSION, PlanError},
    demand::{counted, plain},
    figure::{Assumption, Figure},
    price::Price,
    size::{Rule, size, up},
};

/// One class of requests.
#[derive(Clone, Debug)]
pub struct PoolClass {
    /// Its name.
    pub name: String,
    /// Its demand, in requests per second.
    pub rate_req_s: f64,
    /// Its SLO.
    pub slo: Slo,
    /// What it asks.
    pub workload: Arc<WorkloadSpec>,
    /// Whose prompts come first where classes share a pool: 0 before 1.
    pub priority: u8,
}

/// What is asked of a comparison of pools.
#[derive(Clone, Debug)]
pub struct PoolQuestion {
    /// The classes, at least one.
    pub classes: Vec<PoolClass>,
    /// Configurations of a replica to choose from; all of the same number of accelerators.
    pub configurations: Vec<Profile>,
    /// The price, where told.
    pub price: Option<Price>,
    /// Replicas of each pool that may fail.
    pub spare: u32,
    /// How much may be simulated.
    pub effort: Effort,
    /// The seed of lengths and arrivals.
    pub seed: u64,
}

/// How classes are put into pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Each class has a pool of its own, with its own best configuration.
    Separate,
    /// One pool for all, first come, first served.
    Compromise,
    /// One pool for all, in which prompts of the first class come first.
    Priority,
}

/// One pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pool {
    /// The classes in it.
    pub classes: Vec<String>,
    /// The configuration that carries most.
    pub configuration: String,
    /// Requests per second of a replica, all classes together, while every class keeps its SLO.
    pub budget_req_s: Figure,
    /// Demand over budget, not rounded.
    pub fractional: Figure,
    /// The same in whole replicas: a lower bound without headroom.
    pub replicas: Figure,
    /// With what may fail.
    pub with_spare: Figure,
    /// With headroom and with what may fail: what to run.
    pub planned: Figure,
}

/// One way to lay out the pools.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Way {
    /// Which.
    pub layout: Layout,
    /// Its pools; empty where no load keeps every SLO.
    pub pools: Vec<Pool>,
    /// Replicas of all pools, not rounded.
    pub fractional: Figure,
    /// Whole replicas of all pools: a lower bound without headroom.
    pub replicas: Figure,
    /// With what may fail in each pool.
    pub with_spare: Figure,
    /// With headroom and with what may fail: what to run.
    pub planned: Figure,
    /// What that costs an hour.
    pub cost_per_hour: Figure,
    /// Why there is no answer; null where there is one.
    pub why_not: Option<String>,
}

/// A comparison of pools.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolsPlan {
    /// [`PLAN_SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// `pools`.
    pub kind: &'static str,
    /// So many times the demand of the question.
    pub scale: f64,
    /// Name, demand, SLO and workload of each class.
    pub classes: Vec<ClassFacts>,
    /// The ways, in the order of [`Layout`].
    pub ways: Vec<Way>,
    /// The way with the fewest replicas to run; of equals the one with the fewest in fractions.
    pub best: Option<Layout>,
    /// The currency of costs; null without a price.
    pub currency: Option<String>,
    /// What was taken for granted.
    pub assumptions: Vec<Assumption>,
    /// What a reader should know.
    pub findings: Vec<String>,
}

/// Comparisons for several demands, in one document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolsOver {
    /// [`PLAN_SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// `pools_over`.
    pub kind: &'static str,
    /// One for each demand.
    pub plans: Vec<PoolsPlan>,
}

impl PoolsOver {
    /// These plans.
    #[must_use]
    pub const fn new(plans: Vec<PoolsPlan>) -> Self {
        Self {
            schema_version: PLAN_SCHEMA_VERSION,
            kind: "pools_over",
            plans,
        }
    }
}

/// A class as it stands in a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassFacts {
    /// Its name.
    pub name: String,
    /// Its demand.
    pub demand_req_s: Figure,
    /// Its SLO in a sentence.
    pub slo: String,
    /// Its workload's name.
    pub workload: String,
    /// Its priority in a shared pool.
    pub priority: u8,
}

/// Compares the ways to lay out pools for all classes of a question.
pub fn compare_pools(question: &PoolQuestion) -> Result<PoolsPlan, PlanError> {
    Ok(compare_pools_over(question, &[1.0])?.remove(0))
}

/// The same for several demands: all rates of the question times each of `scales`, above 0. What a replica keeps
/// depends on the mix and not on its size, so it is searched once.
pub fn compare_pools_over(
    question: &PoolQuestion,
    scales: &[f64],
) -> Result<Vec<PoolsPlan>, PlanError> {
    if question.classes.is_empty() || scales.is_empty() {
        return Err(PlanError::NoDemand);
    }
    for class in &question.classes {
        for scale in scales {
            crate::demand::Demand::rate(class.rate_req_s * scale, "class")?;
        }
    }
    let mut layouts = vec![(Layout::Separate, search::separate(question))];
    if question.classes.len() > 1 {
        layouts.push((Layout::Compromise, search::shared(question, false)));
        let first = question.classes[0].priority;
        if question.classes.iter().any(|class| class.priority != first) {
            layouts.push((Layout::Priority, search::shared(question, true)));
        }
    }
    let each = scales.iter().map(|&scale| sized(question, &layouts, scale));
    each.collect()
}

/// What was found, sized for so many times the demand of the question.
fn sized(
    question: &PoolQuestion,
    layouts: &[(Layout, Parts<'_>)],
    scale: f64,
) -> Result<PoolsPlan, PlanError> {
    let ways = layouts.iter().map(|(layout, parts)| match parts {
        Err(why) => Ok(no_way(*layout, why.clone())),
        Ok(parts) => {
            let pools = parts.iter().map(|part| pool(part, scale, question));
            Ok(way(question, *layout, pools.collect::<Result<_, _>>()?))
        }
    });
    let ways = ways.collect::<Result<Vec<Way>, PlanError>>()?;
    let answered = ways.iter().filter(|way| way.why_not.is_none());
    let order = |way: &&Way| {
        let of = |figure: &Figure| figure.value.unwrap_or(f64::INFINITY);
        (of(&way.planned), of(&way.fractional))
    };
    let best = answered.min_by(|a, b| {
        let (a, b) = (order(a), order(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let best = best.map(|way| way.layout);
    let classes = question.classes.iter().map(|class| facts(class, scale));
    Ok(PoolsPlan {
        schema_version: PLAN_SCHEMA_VERSION,
        kind: "pools",
        scale,
        classes: classes.collect(),
        findings: remarks::findings(question, &ways),
        ways,
        best,
        currency: question.price.as_ref().map(|price| price.currency.clone()),
        assumptions: remarks::assumptions(question),
    })
}

fn facts(class: &PoolClass, scale: f64) -> ClassFacts {
    let rate = class.rate_req_s;
    let from = if (scale - 1.0).abs() < 1e-12 {
        format!("rate of class {}", class.name)
    } else {
        format!(
            "rate of class {}, {} x {}",
            class.name,
            plain(rate),
            plain(scale)
        )
    };
    ClassFacts {
        name: class.name.clone(),
        demand_req_s: Figure::new(rate * scale, "req/s", from),
        slo: class.slo.sentence(),
        workload: class.workload.name().to_owned(),
        priority: class.priority,
    }
}

fn rule(question: &PoolQuestion, interactive: bool) -> Rule {
    Rule {
        spare: question.spare,
        ..Rule::of_class(interactive)
    }
}

fn pool(part: &Part<'_>, scale: f64, question: &PoolQuestion) -> Result<Pool, PlanError> {
    let rule = rule(question, part.interactive);
    let demand = part.rate_req_s * scale;
    let (found, classes) = (&part.found, part.classes.clone());
    let budget = found.at.rate_req_s;
    let sizing = size(demand, budget, None, &rule)?;
    let from = format!("{} / {} req/s", plain(demand), plain(budget));
    let whole = |n: u64, from: String| Figure::new(n as f64, "replicas", from);
    let least = up(sizing.fractional);
    let spare = u64::from(rule.spare);
    Ok(Pool {
        configuration: configuration(part.profile),
        budget_req_s: Figure::new(
            budget,
            "req/s",
            format!(
                "simulated: highest of {} rates tried at which {} keep their SLO ({} requests of the class that binds)",
                found.looked_at,
                classes.join(" and "),
                found.at.requests
            ),
        )
        .within(found.above_req_s.map(|high| Interval { low: budget, high })),
        classes,
        fractional: Figure::new(sizing.fractional, "fractional replicas", from.clone()).within(
            found.above_req_s.map(|above| Interval {
                low: demand / above,
                high: sizing.fractional,
            }),
        ),
        replicas: whole(least, format!("{from}, rounded up: no headroom")),
        with_spare: whole(least + spare, format!("{least} + {spare} that may fail")),
        planned: whole(
            sizing.with_spare,
            format!(
                "{from} at {} of the budget, rounded up, + {spare} that may fail",
                plain(rule.target)
            ),
        ),
    })
}

fn configuration(profile: &Profile) -> String {
    format!(
        "{}: {} tokens a step, {} slots",
        profile.name, profile.max_batched_tokens, profile.max_num_seqs
    )
}

fn way(question: &PoolQuestion, layout: Layout, pools: Vec<Pool>) -> Way {
    let sum =
        |of: fn(&Pool) -> &Figure| pools.iter().filter_map(|pool| of(pool).value).sum::<f64>();
    let planned = sum(|pool| &pool.planned);
    let over = "sum over the pools";
    let gpus = question
        .configurations
        .first()
        .map_or(1, |profile| profile.gpus.get());
    let cost_per_hour = match &question.price {
        None => Figure::unknown("per hour", "no price was told"),
        Some(price) => Figure::new(
            planned * f64::from(gpus) * price.per_gpu_hour,
            "per hour",
            format!(
                "{} x {} x {}{} an hour ({})",
                counted(whole_u64(planned), "replica"),
                counted(gpus.into(), "GPU"),
                price.currency,
                plain(price.per_gpu_hour),
                price.from
            ),
        ),
    };
    let between = pools.iter().map(|pool| pool.fractional.interval).try_fold(
        Interval {
            low: 0.0,
            high: 0.0,
        },
        |sum, one| {
            let one = one?;
            Some(Interval {
                low: sum.low + one.low,
                high: sum.high + one.high,
            })
        },
    );
    Way {
        layout,
        fractional: Figure::new(sum(|pool| &pool.fractional), "fractional replicas", over)
            .within(between),
        replicas: Figure::new(sum(|pool| &pool.replicas), "replicas", over),
        with_spare: Figure::new(sum(|pool| &pool.with_spare), "replicas", over),
        planned: Figure::new(planned, "replicas", over),
        cost_per_hour,
        pools,
        why_not: None,
    }
}

fn no_way(layout: Layout, why: String) -> Way {
    let none = || Figure::unknown("replicas", why.clone());
    Way {
        layout,
        pools: Vec::new(),
        fractional: Figure::unknown("fractional replicas", why.clone()),
        replicas: none(),
        with_spare: none(),
        planned: none(),
        cost_per_hour: Figure::unknown("per hour", why.clone()),
        why_not: Some(why),
    }
}
