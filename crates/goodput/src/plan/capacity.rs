//! The capacity plan.

use std::sync::Arc;

use goodput_perf_model::Profile;
use goodput_planner::{
    Assumption, Budget, CapacityPlan, Effort, PlanError, Question, Rule, Simulated, plan as decide,
    plan_simulated,
};
use goodput_report::{
    html, json,
    plan::{self as faces, replicas, with_interval},
};

use super::{Shown, deliver, inputs};
use crate::{
    emulate,
    exit::{Exit, Failure},
    flags::{CapacityFlags, PlanPage},
    report::killed::result_of,
    simulate::change,
    talk::Voice,
};

/// `goodput plan`, `goodput plan capacity`.
pub(super) fn plan(flags: &CapacityFlags, voice: Voice) -> Result<Exit, Failure> {
    let plan = made(flags, voice)?;
    let style = voice.style_out();
    let shown = match flags.faces.page {
        PlanPage::Full => Shown {
            human: faces::terminal::capacity(&plan, style),
            json: json::document(&plan),
            csv: faces::csv::capacity(&plan),
            markdown: faces::markdown::capacity(&plan),
            html: Some(html::capacity(&plan)),
        },
        PlanPage::Pm => Shown {
            human: faces::terminal::plain(&plan, style),
            json: json::document(&plan.plain),
            csv: faces::csv::plain(&plan),
            markdown: faces::markdown::plain(&plan),
            html: Some(html::capacity(&plan)),
        },
    };
    let faces = &flags.faces;
    deliver(&shown, faces.out.as_deref(), faces.format, voice)?;
    let kept = |answer: &goodput_planner::Answer| {
        let interval = answer.attainment.interval;
        interval.is_none_or(|i| i.high >= plan.budget.objective)
    };
    Ok(if plan.answers.iter().all(kept) {
        Exit::Yes
    } else {
        Exit::No
    })
}

fn made(flags: &CapacityFlags, voice: Voice) -> Result<CapacityPlan, Failure> {
    let cold_start = inputs::span("--cold-start", &flags.cold_start)?;
    let trace = flags
        .trace
        .as_deref()
        .map(|path| inputs::trace(path, voice));
    let trace = trace.transpose()?;
    let mut question = Question {
        demands: inputs::demands(flags, trace.as_ref(), cold_start)?,
        rule: Rule::of_class(true),
        price: inputs::price(flags.price.as_deref())?,
        allowed: inputs::counts(flags.replicas.as_deref())?,
        gpus: flags.gpus,
        e2e_at: flags.e2e_at,
        requests: flags.requests.unwrap_or(0),
        assumed: vec![Assumption::new(
            "cold start",
            flags.cold_start.clone(),
            "--cold-start",
        )],
    };
    match (&flags.from, &flags.profile) {
        (Some(folder), _) => {
            let name = folder.display().to_string();
            let result = result_of(folder)?;
            let mut budget = Budget::measured(&result, &name)
                .map_err(|e| inputs::refused(&PlanError::Budget(e)))?;
            budget.gpus = flags.gpus.or(budget.gpus);
            question.rule = rule(flags, budget.interactive);
            decide(&question, budget, None)
        }
        (None, Some(profile)) => {
            let slo = inputs::one_slo(flags.slo.as_deref().unwrap_or("chat"), voice)?;
            let asked = flags.workload.as_deref();
            let workload = inputs::workload(asked, trace.as_ref(), &slo, voice)?;
            let profile = emulate::profile(profile, voice)?;
            same_gpus(flags, &profile)?;
            question.rule = rule(flags, goodput_planner::interactive(&slo));
            let effort = flags
                .requests
                .map_or_else(|| Effort::of(slo.objective().share), Effort::requests);
            question.requests = effort.fine;
            let replica = Simulated::new(profile, workload, slo, flags.seed);
            return simulated(flags, question, &replica, effort);
        }
        (None, None) => {
            return Err(Failure::usage("what one replica can do was not told").hint(
                "name a measured result with --from DIR, or an engine profile with --profile",
            ));
        }
    }
    .map_err(|e| inputs::refused(&e))
}

/// A profile says itself on how many GPUs its figures were found.
fn same_gpus(flags: &CapacityFlags, profile: &Profile) -> Result<(), Failure> {
    match flags.gpus.filter(|gpus| *gpus != profile.gpus.get()) {
        Some(gpus) => Err(Failure::usage(format!(
            "--gpus {gpus}: the profile {} is of a replica on {}",
            profile.name, profile.gpus
        ))
        .hint(format!(
            "--what-if gpus={gpus} computes it again, where it is from the catalogue; --gpus is for --from"
        ))),
        None => Ok(()),
    }
}

/// Plans for a simulated replica, as named or with what `--what-if` changes; then the plan says what it
/// would be without.
fn simulated(
    flags: &CapacityFlags,
    mut question: Question,
    named: &Simulated,
    effort: Effort,
) -> Result<CapacityPlan, Failure> {
    let made = |question: &Question, replica: &Simulated| {
        plan_simulated(question, replica, effort).map_err(|e| inputs::refused(&e))
    };
    if flags.what_if.is_empty() {
        return made(&question, named);
    }
    let changes = inputs::changes(&flags.what_if);
    let mut replica = named.clone();
    change(
        Arc::make_mut(&mut replica.workload),
        &mut replica.profile,
        &changes,
    )?;
    let without = plan_simulated(&question, named, effort);
    let changes = changes.join("; ");
    let what_if = Assumption::new("what if", changes.clone(), "--what-if");
    question.assumed.insert(0, what_if);
    let mut plan = made(&question, &replica)?;
    plan.findings
        .insert(0, beside(&plan, without.ok().as_ref(), &changes));
    Ok(plan)
}

/// The plan beside the one without the changes, in a sentence.
fn beside(plan: &CapacityPlan, without: Option<&CapacityPlan>, changes: &str) -> String {
    let Some(without) = without else {
        return format!("{changes}: without that there is no plan");
    };
    let of = |plan: &CapacityPlan| {
        let run = plan.answers.iter().map(|answer| replicas(&answer.replicas));
        let run: Vec<String> = run.collect();
        let budget = with_interval(&plan.budget.rate_req_s);
        format!("a budget of {budget} a replica, run {}", run.join(", "))
    };
    format!("{changes}: {}; without that: {}", of(plan), of(without))
}

fn rule(flags: &CapacityFlags, interactive: bool) -> Rule {
    let rule = Rule {
        spare: flags.spare,
        ..Rule::of_class(interactive)
    };
    match flags.target {
        Some(target) => rule.with_target(target),
        None => rule,
    }
}
