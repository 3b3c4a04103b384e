//! What a plan for trajectories takes for granted, and what a reader should know.

use goodput_config::duration_text;

use super::{GRID, SplitRow, SplitRule, TrajectoryQuestion};
use crate::figure::Assumption;

pub(super) fn assumptions(question: &TrajectoryQuestion) -> Vec<Assumption> {
    let shape = &question.shape;
    vec![
        Assumption::new(
            "agent",
            format!(
                "{} steps; first prompt {} tokens, each step adds {} and answers {} (medians, sigma {}); tools {} a step",
                shape.steps,
                shape.first_input,
                shape.next_input,
                shape.output,
                shape.sigma,
                duration_text(shape.tool)
            ),
            "--steps, --first-input, --next-input, --output, --sigma, --tool",
        ),
        Assumption::new("replica", replica(question), "--profile"),
        Assumption::new(
            "looks",
            format!(
                "{} trajectories at each of up to {} loads, seed {}; half of them make the rules, half judge them",
                question.trajectories,
                GRID.len(),
                question.seed
            ),
            "--trajectories, --seed",
        ),
        Assumption::new(
            "order",
            "first come, first served: nothing acts on a step's budget, it is judged by it",
            "the simulated engine",
        ),
    ]
}

fn replica(question: &TrajectoryQuestion) -> String {
    let profile = &question.profile;
    format!(
        "{}: {} on {} x {} ({}), {} slots, {} tokens a step, {} tokens of KV cache",
        profile.name,
        profile.model_id,
        profile.gpus,
        profile.gpu,
        profile.precision,
        profile.max_num_seqs,
        profile.max_batched_tokens,
        profile.kv_tokens()
    )
}

pub(super) fn findings(rows: &[SplitRow]) -> Vec<String> {
    let mut all = vec!["all figures are of a simulated replica".to_owned()];
    let rate = |rule| {
        rows.iter()
            .find(|row| row.rule == rule)?
            .trajectories_per_s
            .value
    };
    let (online, equal) = (rate(SplitRule::Online), rate(SplitRule::Equal));
    match (online, equal) {
        (Some(online), Some(equal)) if online > equal * 1.01 => all.push(format!(
            "splitting what is left after each step allows {:.2} times the load of equal budgets",
            online / equal
        )),
        _ => {}
    }
    let none = rows
        .iter()
        .filter(|row| row.trajectories_per_s.value.is_none());
    let none = none.count();
    if none > 0 {
        all.push(format!(
            "{none} of {} rules have no load at which enough trajectories keep every budget, not even on a nearly idle replica: a single step varies more than the sum of them all",
            rows.len()
        ));
    }
    all
}
