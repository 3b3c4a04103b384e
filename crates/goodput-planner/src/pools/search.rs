//! Which configuration a pool gets, and the rate at which its classes keep their SLOs.

use std::sync::Arc;

use goodput_perf_model::{Demand as Work, Profile};

use super::{PoolClass, PoolQuestion};
use crate::{
    books::hides_a_queue,
    budget::{Bracket, Effort, Found, NoBudget, bracket, decide, interactive, provable},
    mix::{ClassLoad, run_mix},
    replica::{LoadFigures, ReplicaModel, Simulated, guess, guess_within, pace, work_of},
};

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

/// A look is made at most so many times as long for the sake of a rare class.
const LONGEST: f64 = 10.0;

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
        // A class that is rare in the mix needs a longer look: enough of it to prove its objective.
        let longer = loads.iter().map(|load| {
            let share = load.rate_req_s / rate_req_s;
            let needed = provable(0.0, load.slo.objective().share);
            f64::from(needed) / (share * f64::from(requests))
        });
        let longer = longer.fold(1.0, f64::max).min(LONGEST);
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
        if loads.iter().any(|load| hides_a_queue(load.slo, window_s)) {
            at.valid &= rate_req_s <= self.most_req_s;
        }
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
/// of the others each gets one short look a little above the best rate so far, and is narrowed down
/// only if it keeps it. Long looks are spent on the one that is left.
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
    let mut found: Option<(&Profile, Bracket)> = None;
    let mut why = NoBudget::Unlimited;
    for (rate, profile) in ranked {
        let mut replica = model(profile);
        let from = match &found {
            None => rate,
            Some((_, best)) => {
                let above = best.low * BETTER;
                if !replica.at(above, effort.coarse).seems_to_keep() {
                    continue;
                }
                above / 0.85
            }
        };
        match bracket(replica.as_mut(), from, effort) {
            Ok(new) if found.as_ref().is_none_or(|(_, best)| new.low > best.low) => {
                found = Some((profile, new));
            }
            Ok(_) => {}
            Err(no) => why = no,
        }
    }
    let Some((profile, bracket)) = found else {
        return Err(why);
    };
    let found = decide(model(profile).as_mut(), &bracket, effort)?;
    Ok((profile, found))
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

/// A pool whose budget was found.
pub(super) struct Part<'a> {
    pub(super) classes: Vec<String>,
    /// Demand of its classes together.
    pub(super) rate_req_s: f64,
    pub(super) profile: &'a Profile,
    pub(super) found: Found,
    pub(super) interactive: bool,
}

/// The pools of a layout, or why no load keeps every SLO.
pub(super) type Parts<'a> = Result<Vec<Part<'a>>, String>;

/// Each class by itself.
pub(super) fn separate(question: &PoolQuestion) -> Parts<'_> {
    let each = question.classes.iter().map(|class| {
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
        let (profile, found) = found.map_err(|no| format!("{}: {no}", class.name))?;
        Ok(Part {
            classes: vec![class.name.clone()],
            rate_req_s: class.rate_req_s,
            profile,
            found,
            interactive: interactive(&class.slo),
        })
    });
    each.collect()
}

/// All classes in one pool.
pub(super) fn shared(question: &PoolQuestion, prioritised: bool) -> Parts<'_> {
    let classes = question.classes.as_slice();
    let total: f64 = classes.iter().map(|class| class.rate_req_s).sum();
    let works = classes
        .iter()
        .map(|class| work_of(&class.workload, question.seed));
    let works: Vec<Work> = works
        .collect::<Option<_>>()
        .ok_or_else(|| NoBudget::Unlimited.to_string())?;
    let mixed = mixed_work(&works, classes, total);
    // The strictest pace binds all of them: who decodes shares every step.
    let strictest = classes.iter().filter_map(|class| pace(&class.slo)).min();
    let estimate = |profile: &Profile| guess_within(profile, &mixed, strictest);
    let found = best(
        &question.configurations,
        estimate,
        question.effort,
        |profile| {
            Box::new(Shared {
                profile,
                classes,
                prioritised,
                seed: question.seed,
                most_req_s: profile
                    .capacity(&mixed)
                    .map_or(f64::INFINITY, |c| c.rate_req_s),
            })
        },
    );
    let (profile, found) = found.map_err(|no| no.to_string())?;
    Ok(vec![Part {
        classes: classes.iter().map(|class| class.name.clone()).collect(),
        rate_req_s: total,
        profile,
        found,
        interactive: classes.iter().any(|class| interactive(&class.slo)),
    }])
}
