//! Pools: each class by itself, all in one, or all in one with priorities.

mod remarks;

use std::sync::Arc;

use goodput_perf_model::{Demand as Work, Profile};
use goodput_slo::Slo;
use goodput_workload::WorkloadSpec;
use serde::Serialize;

use crate::{
    budget::{Effort, Found, NoBudget, find, interactive},
    capacity::{PLAN_SCHEMA_VERSION, PlanError},
    demand::plain,
    figure::{Assumption, Figure},
    mix::{ClassLoad, run_mix},
    price::Price,
    replica::{LoadFigures, ReplicaModel, Simulated, guess, work_of},
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

/// A replica that serves all classes in the proportion of their demands. What it says is of the
/// class that is nearest to breaking its SLO.
struct Shared<'a> {
    profile: &'a Profile,
    classes: &'a [PoolClass],
    prioritised: bool,
    seed: u64,
    /// What the mean field says it keeps up with. A class that waits behind all others may wait for
    /// minutes before a window shows that it would wait for ever.
    most_req_s: f64,
}

impl Shared<'_> {
    fn total(&self) -> f64 {
        self.classes.iter().map(|class| class.rate_req_s).sum()
    }
}

/// A class with fewer than this share of the requests of a look is given a longer one.
const RARE: f64 = 0.2;

impl ReplicaModel for Shared<'_> {
    fn at(&mut self, rate_req_s: f64, requests: u32) -> LoadFigures {
        let total = self.total();
        let loads: Vec<ClassLoad<'_>> = self
            .classes
            .iter()
            .map(|class| ClassLoad {
                workload: &class.workload,
                slo: &class.slo,
                rate_req_s: rate_req_s * class.rate_req_s / total,
                priority: if self.prioritised { class.priority } else { 0 },
            })
            .collect();
        let rarest = loads
            .iter()
            .map(|load| load.rate_req_s / rate_req_s)
            .fold(1.0, f64::min);
        let longer = (RARE / rarest).clamp(1.0, 10.0);
        let window_s = longer * f64::from(requests) / rate_req_s;
        let seen = run_mix(self.profile, &loads, window_s, self.seed);
        let margin = |at: &LoadFigures| {
            let low = at.interval.map_or(0.0, |i| i.low);
            (low - at.objective) / (1.0 - at.objective)
        };
        let worst = seen.into_iter().min_by(|a, b| {
            let broken = |at: &LoadFigures| at.seems_to_keep();
            (broken(a).cmp(&broken(b))).then(margin(a).total_cmp(&margin(b)))
        });
        let mut at = worst.expect("invariant: a shared pool has classes");
        at.rate_req_s = rate_req_s;
        at.valid &= rate_req_s <= self.most_req_s;
        at
    }
}

/// By how much a configuration must look better than the best so far to be searched itself.
const BETTER: f64 = 1.03;
/// Configurations whose mean field is below this share of the best are not looked at: its error is a few percent.
const HOPELESS: f64 = 0.85;
/// Configurations that are looked at, at most.
const MOST_LOOKED_AT: usize = 8;

/// The configuration that carries most, and what it carries. The mean field sorts out what cannot win;
/// of the others each gets one look a little above the best rate so far, and a search only if it
/// keeps it.
fn best<'a>(
    configurations: &'a [Profile],
    estimate: impl Fn(&Profile) -> Option<f64>,
    effort: Effort,
    mut model: impl FnMut(&'a Profile) -> Box<dyn ReplicaModel + 'a>,
) -> Result<(&'a Profile, Found), NoBudget> {
    let mut ranked: Vec<(f64, &Profile)> = configurations
        .iter()
        .filter_map(|profile| Some((estimate(profile)?, profile)))
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let top = ranked.first().ok_or(NoBudget::Unlimited)?.0;
    ranked.retain(|(rate, _)| *rate >= HOPELESS * top);
    ranked.truncate(MOST_LOOKED_AT);
    let mut found: Option<(&Profile, Found)> = None;
    let mut why = NoBudget::Unlimited;
    for (rate, profile) in ranked {
        let mut replica = model(profile);
        let from = match &found {
            None => rate,
            Some((_, best)) => {
                let above = best.at.rate_req_s * BETTER;
                if !replica.at(above, effort.coarse).seems_to_keep() {
                    continue;
                }
                above / 0.85
            }
        };
        match find(replica.as_mut(), from, effort) {
            Ok(new) => {
                let better = found
                    .as_ref()
                    .is_none_or(|(_, best)| new.at.rate_req_s > best.at.rate_req_s);
                if better {
                    found = Some((profile, new));
                }
            }
            Err(no) => why = no,
        }
    }
    found.ok_or(why)
}

/// Compares the ways to lay out pools for all classes of a question.
pub fn compare_pools(question: &PoolQuestion) -> Result<PoolsPlan, PlanError> {
    if question.classes.is_empty() {
        return Err(PlanError::NoDemand);
    }
    for class in &question.classes {
        crate::demand::Demand::rate(class.rate_req_s, "class")?;
    }
    let separate = separate(question)?;
    let mut ways = vec![separate];
    if question.classes.len() > 1 {
        ways.push(shared(question, Layout::Compromise)?);
        if question
            .classes
            .iter()
            .any(|class| class.priority != question.classes[0].priority)
        {
            ways.push(shared(question, Layout::Priority)?);
        }
    }
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
    Ok(PoolsPlan {
        schema_version: PLAN_SCHEMA_VERSION,
        kind: "pools",
        classes: question.classes.iter().map(facts).collect(),
        findings: remarks::findings(question, &ways),
        ways,
        best,
        currency: question.price.as_ref().map(|price| price.currency.clone()),
        assumptions: remarks::assumptions(question),
    })
}

fn facts(class: &PoolClass) -> ClassFacts {
    ClassFacts {
        name: class.name.clone(),
        demand_req_s: Figure::new(class.rate_req_s, "req/s", "the question"),
        slo: class.slo.sentence(),
        workload: class.workload.name().to_owned(),
        priority: class.priority,
    }
}

fn separate(question: &PoolQuestion) -> Result<Way, PlanError> {
    let mut pools = Vec::new();
    for class in &question.classes {
        let work = work_of(&class.workload, question.seed);
        let estimate = |profile: &Profile| guess(profile, work.as_ref()?, &class.slo);
        let found = best(
            &question.configurations,
            estimate,
            question.effort,
            |profile| {
                Box::new(Simulated::new(
                    profile.clone(),
                    Arc::clone(&class.workload),
                    class.slo.clone(),
                    question.seed,
                ))
            },
        );
        match found {
            Ok((profile, found)) => {
                let names = vec![class.name.clone()];
                let rule = rule(question, interactive(&class.slo));
                pools.push(pool(names, class.rate_req_s, profile, &found, &rule)?);
            }
            Err(no) => return Ok(no_way(Layout::Separate, format!("{}: {no}", class.name))),
        }
    }
    Ok(way(question, Layout::Separate, pools))
}

fn shared(question: &PoolQuestion, layout: Layout) -> Result<Way, PlanError> {
    let classes = question.classes.as_slice();
    let total: f64 = classes.iter().map(|class| class.rate_req_s).sum();
    let works = classes
        .iter()
        .map(|class| work_of(&class.workload, question.seed));
    let Some(works) = works.collect::<Option<Vec<Work>>>() else {
        return Ok(no_way(layout, NoBudget::Unlimited.to_string()));
    };
    let mixed = mixed_work(&works, classes, total);
    // The strictest pace binds all of them: who decodes shares every step.
    let estimate = |profile: &Profile| {
        let each = classes
            .iter()
            .map(|class| guess(profile, &mixed, &class.slo));
        each.flatten().min_by(f64::total_cmp)
    };
    let found = best(
        &question.configurations,
        estimate,
        question.effort,
        |profile| {
            Box::new(Shared {
                profile,
                classes,
                prioritised: layout == Layout::Priority,
                seed: question.seed,
                most_req_s: profile
                    .capacity(&mixed)
                    .map_or(f64::INFINITY, |c| c.rate_req_s),
            })
        },
    );
    match found {
        Ok((profile, found)) => {
            let names = classes.iter().map(|class| class.name.clone()).collect();
            let any = classes.iter().any(|class| interactive(&class.slo));
            let pool = pool(names, total, profile, &found, &rule(question, any))?;
            Ok(way(question, layout, vec![pool]))
        }
        Err(no) => Ok(no_way(layout, no.to_string())),
    }
}

/// The mean request of the mix.
fn mixed_work(works: &[Work], classes: &[PoolClass], total: f64) -> Work {
    let mean = |of: &dyn Fn(&Work) -> f64| -> f64 {
        let each = works.iter().zip(classes);
        each.map(|(work, class)| of(work) * class.rate_req_s / total)
            .sum()
    };
    let output_tokens = mean(&|w| w.output_tokens);
    Work {
        prefill_tokens: mean(&|w| w.prefill_tokens),
        prefill_pairs: mean(&|w| w.prefill_pairs),
        output_tokens,
        context_tokens: mean(&|w| w.context_tokens * w.output_tokens) / output_tokens,
    }
}

fn rule(question: &PoolQuestion, interactive: bool) -> Rule {
    Rule {
        spare: question.spare,
        ..Rule::of_class(interactive)
    }
}

fn pool(
    classes: Vec<String>,
    demand: f64,
    profile: &Profile,
    found: &Found,
    rule: &Rule,
) -> Result<Pool, PlanError> {
    let budget = found.at.rate_req_s;
    let sizing = size(demand, budget, None, rule)?;
    let from = format!("{} / {} req/s", plain(demand), plain(budget));
    let whole = |n: u64, from: String| Figure::new(n as f64, "replicas", from);
    let least = up(sizing.fractional);
    let spare = u64::from(rule.spare);
    Ok(Pool {
        configuration: configuration(profile),
        budget_req_s: Figure::new(
            budget,
            "req/s",
            format!(
                "simulated: highest of {} rates tried at which {} keep their SLO ({} requests of the class that binds)",
                found.looked_at,
                classes.join(" and "),
                found.at.requests
            ),
        ),
        classes,
        fractional: Figure::new(sizing.fractional, "fractional replicas", from.clone()),
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
                "{planned} replicas x {gpus} GPUs x {}{}",
                price.currency,
                plain(price.per_gpu_hour)
            ),
        ),
    };
    Way {
        layout,
        fractional: Figure::new(sum(|pool| &pool.fractional), "fractional replicas", over),
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
