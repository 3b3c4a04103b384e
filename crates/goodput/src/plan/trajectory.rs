//! Budgets of trajectories.

use goodput_config::parse_percent;
use goodput_planner::{AgentShape, TrajectoryError, TrajectoryQuestion, plan_trajectory};
use goodput_report::{html, json, plan as faces};

use super::{Shown, deliver, inputs};
use crate::{
    emulate,
    exit::{Exit, Failure},
    flags::TrajectoryFlags,
    measure::text_failure,
    talk::Voice,
};

/// `goodput plan trajectory`.
pub(super) fn plan(flags: &TrajectoryFlags, voice: Voice) -> Result<Exit, Failure> {
    let mut profile = emulate::profile(&flags.profile, voice)?;
    for change in inputs::changes(&flags.what_if) {
        let went = profile.with(&change);
        went.map_err(|e| text_failure("--what-if", &e))?;
    }
    let checked = profile.check();
    checked.map_err(|e| text_failure("--what-if", &e))?;
    let question = TrajectoryQuestion {
        shape: AgentShape {
            steps: flags.steps,
            first_input: flags.first_input,
            next_input: flags.next_input,
            output: flags.output,
            sigma: flags.sigma,
            tool: inputs::span("--tool", &flags.tool)?,
        },
        deadline: inputs::span("--deadline", &flags.deadline)?,
        objective: parse_percent(&flags.objective)
            .map_err(|e| text_failure("--objective", &e))?
            .share(),
        profile,
        price: inputs::price(flags.price.as_deref())?,
        trajectories: flags.trajectories,
        seed: flags.seed,
    };
    let plan = plan_trajectory(&question).map_err(|e| refused(&e))?;
    let style = voice.style_out();
    let shown = Shown {
        human: faces::terminal::trajectory(&plan, style),
        json: json::document(&plan),
        csv: faces::csv::trajectory(&plan),
        markdown: faces::markdown::trajectory(&plan),
        html: Some(html::trajectory(&plan)),
    };
    deliver(&shown, flags.out.as_deref(), flags.format, voice)?;
    Ok(Exit::Yes)
}

fn refused(error: &TrajectoryError) -> Failure {
    let mut failure = Failure::usage(error.to_string());
    if matches!(
        error,
        TrajectoryError::NoLoad { .. } | TrajectoryError::NeverFits
    ) {
        failure.exit = Exit::No;
        return failure.hint("give it more time, fewer or shorter steps, or a faster replica");
    }
    failure
}
