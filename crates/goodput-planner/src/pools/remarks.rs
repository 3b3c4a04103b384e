//! What a comparison of pools takes for granted, and what a reader should know.

use super::{Layout, PoolQuestion, Way, configuration};
use crate::figure::Assumption;

pub(super) fn assumptions(question: &PoolQuestion) -> Vec<Assumption> {
    let tried: Vec<String> = question.configurations.iter().map(configuration).collect();
    vec![
        Assumption::new("configurations", tried.join("; "), "the question"),
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
