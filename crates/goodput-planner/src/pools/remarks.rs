//! What a comparison of pools takes for granted, and what a reader should know.

use super::{Layout, PoolClass, PoolQuestion, Way, configuration};
use crate::{
    budget::interactive,
    demand::{counted, plain},
    figure::Assumption,
    size::Rule,
};

pub(super) fn assumptions(question: &PoolQuestion) -> Vec<Assumption> {
    let tried: Vec<String> = question.configurations.iter().map(configuration).collect();
    vec![
        Assumption::new("configurations", tried.join("; "), "the pools file"),
        Assumption::new("engine", engine(question), "the profile's own words"),
        Assumption::new(
            "use",
            uses(question),
            "this program: 70 % where someone watches, 90 % where nobody does",
        ),
        Assumption::new(
            "spare",
            format!(
                "{} of each pool may fail",
                counted(question.spare.into(), "replica")
            ),
            "--spare",
        ),
        Assumption::new(
            "looks",
            format!(
                "{} requests at a load to narrow down, {} to decide, seed {}",
                question.effort.coarse, question.effort.fine, question.seed
            ),
            "--requests, --seed",
        ),
        Assumption::new(
            "priority",
            "prompts of a lower number are admitted first and computed before half-done ones of a higher; what decodes goes on",
            "the simulated engine",
        ),
        Assumption::new(
            "spread",
            "every replica gets an equal share of each class, spread at random",
            "this program",
        ),
    ]
}

/// What the configurations are made from.
fn engine(question: &PoolQuestion) -> String {
    question
        .configurations
        .first()
        .map_or_else(String::new, |profile| {
            let source: Vec<&str> = profile.source.split_whitespace().collect();
            format!(
                "{} on {} x {} ({}), {} tokens of KV cache; {}",
                profile.model_id,
                profile.gpus,
                profile.gpu,
                profile.precision,
                profile.kv_tokens(),
                source.join(" ")
            )
        })
}

/// How much of its budget a replica of each class is planned to use.
fn uses(question: &PoolQuestion) -> String {
    let of = |class: &PoolClass| {
        let target = Rule::of_class(interactive(&class.slo)).target;
        format!(
            "{} at most {}% of its budget",
            class.name,
            plain(100.0 * target)
        )
    };
    question
        .classes
        .iter()
        .map(of)
        .collect::<Vec<_>>()
        .join("; ")
}

pub(super) fn findings(question: &PoolQuestion, ways: &[Way]) -> Vec<String> {
    let mut all = vec!["all figures are of simulated replicas: hold one of them against a measured one before they are relied on".to_owned()];
    for way in ways {
        if let Some(why) = &way.why_not {
            all.push(format!("{:?}: {why}", way.layout));
        }
    }
    let by = |layout| ways.iter().find(|way: &&Way| way.layout == layout);
    if let (Some(apart), Some(one)) = (by(Layout::Separate), by(Layout::Compromise))
        && let (Some(a), Some(b)) = (apart.fractional.value, one.fractional.value)
        && let (Some(whole_a), Some(whole_b)) = (apart.with_spare.value, one.with_spare.value)
        && (a < b) != (whole_a <= whole_b)
    {
        all.push("in whole replicas, with one of each pool that may fail, the order is another than in fractions: shares are small".to_owned());
    }
    if question.price.is_none() {
        all.push("no price was told: costs are unknown".to_owned());
    }
    all
}
