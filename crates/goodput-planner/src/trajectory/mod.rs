//! Budgets of trajectories: an agent's deadline split over its steps.

mod remarks;
mod rules;

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use goodput_config::duration_text;
use goodput_perf_model::Profile;
use goodput_slo::Slo;
use goodput_stats::{CONFIDENCE, wilson};
use goodput_workload::WorkloadSpec;
use serde::Serialize;
use thiserror::Error;

pub use rules::{SplitRule, Times};

use crate::{
    capacity::PLAN_SCHEMA_VERSION,
    demand::{counted, plain},
    figure::{Assumption, Figure},
    mix::{ClassLoad, run_watched},
    price::Price,
    replica::work_of,
};

/// What an agent does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentShape {
    /// Steps of a trajectory, 1 to 100.
    pub steps: u32,
    /// Median tokens of the first prompt.
    pub first_input: u32,
    /// Median tokens that each step adds: a tool's result.
    pub next_input: u32,
    /// Median tokens of an answer.
    pub output: u32,
    /// Standard deviation of the logarithm of all lengths.
    pub sigma: f64,
    /// Time a tool takes between two steps.
    pub tool: Duration,
}

impl AgentShape {
    /// As a workload. The context of a step holds all steps before it.
    fn workload(&self) -> Option<Arc<WorkloadSpec>> {
        let lengths = |median: u32| {
            format!(
                ".log_normal = {{ median = {median}, sigma = {:?}, max = {} }}",
                self.sigma,
                8 * u64::from(median)
            )
        };
        let text = format!(
            "class = \"agent\"\noutput_policy = \"max_tokens\"\narrivals = \"poisson\"\n\
             input{}\noutput{}\n[sessions]\nsteps.fixed = {}\nnext_input{}\nthink_time.fixed = \"{}\"\n",
            lengths(self.first_input),
            lengths(self.output),
            self.steps,
            lengths(self.next_input),
            duration_text(self.tool)
        );
        WorkloadSpec::parse("agent", &text).ok().map(Arc::new)
    }
}

/// What is asked of a plan for trajectories.
#[derive(Clone, Debug)]
pub struct TrajectoryQuestion {
    /// What the agent does.
    pub shape: AgentShape,
    /// The whole time a trajectory may take.
    pub deadline: Duration,
    /// Share of trajectories that must keep it, above 0 and below 1.
    pub objective: f64,
    /// The replica.
    pub profile: Profile,
    /// The price, where told.
    pub price: Option<Price>,
    /// Trajectories simulated at each load.
    pub trajectories: u32,
    /// The seed of lengths and arrivals.
    pub seed: u64,
}

/// Why there is no plan for trajectories.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum TrajectoryError {
    /// The shape describes no agent.
    #[error("{0}")]
    Shape(String),
    /// Tools alone take the whole time.
    #[error(
        "the tools of {steps} steps take {tools_s} s of a deadline of {deadline_s} s: nothing is left for the steps"
    )]
    ToolsOnly {
        /// Steps of a trajectory.
        steps: u32,
        /// Time of all tools.
        tools_s: f64,
        /// The deadline.
        deadline_s: f64,
    },
    /// No load keeps the deadline.
    #[error(
        "no load keeps the deadline: nearly idle, {:.1}% of the trajectories keep it, the median takes {median_s:.1} s",
        100.0 * kept
    )]
    NoLoad {
        /// Share that kept it.
        kept: f64,
        /// The median trajectory, tools included, in seconds.
        median_s: f64,
    },
    /// The replica's profile says nothing that limits its rate.
    #[error("the profile has no cost that grows with load")]
    Unlimited,
    /// Nothing ended.
    #[error("no trajectory fits into the replica: context limit or KV cache")]
    NeverFits,
}

/// One rule, with what it does at the load that the deadline itself allows, and the load it allows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SplitRow {
    /// The rule.
    pub rule: SplitRule,
    /// Budget of each step, in ms; of a rule that splits anew, the budgets it begins with.
    pub budgets_ms: Vec<f64>,
    /// Share of steps that outlast their budget.
    pub steps_over: Figure,
    /// Share of trajectories with such a step.
    pub flagged: Figure,
    /// Share of trajectories with such a step that keep their deadline all the same.
    pub false_alarms: Figure,
    /// Highest load at which as many trajectories as the objective asks keep every budget.
    pub trajectories_per_s: Figure,
    /// What a trajectory costs there.
    pub cost: Figure,
}

/// A plan for trajectories.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrajectoryPlan {
    /// [`PLAN_SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// `trajectory`.
    pub kind: &'static str,
    /// What the agent does.
    pub shape: AgentShape,
    /// The deadline, in seconds.
    pub deadline_s: f64,
    /// Share of trajectories that must keep it.
    pub objective: f64,
    /// Highest load at which the deadline itself is kept, whatever each step takes.
    pub trajectories_per_s: Figure,
    /// What a trajectory costs there.
    pub cost: Figure,
    /// Share of trajectories that keep the deadline there.
    pub kept: Figure,
    /// The rules.
    pub rules: Vec<SplitRow>,
    /// The currency of costs; null without a price.
    pub currency: Option<String>,
    /// What was taken for granted.
    pub assumptions: Vec<Assumption>,
    /// What a reader should know.
    pub findings: Vec<String>,
}

/// Loads that are simulated, as shares of the rate that the mean field says a replica keeps up with.
const GRID: [f64; 17] = [
    0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0,
];

/// Trajectories at one load: one half to make rules from, one to hold them against.
struct Seen {
    per_s: f64,
    learnt: Times,
    held: Times,
}

impl Seen {
    /// How many of the trajectories held against a rule keep every budget; `None`: the deadline alone.
    fn kept(&self, rule: Option<SplitRule>, deadline_s: f64) -> u64 {
        let good = |row: &&Vec<f64>| match rule {
            None => row.iter().sum::<f64>() <= deadline_s,
            Some(rule) => !self.learnt.broken(rule, deadline_s, row).contains(&true),
        };
        self.held.rows().iter().filter(good).count() as u64
    }

    fn surely_keeps(&self, rule: Option<SplitRule>, deadline_s: f64, objective: f64) -> bool {
        let total = self.held.rows().len() as u64;
        let kept = wilson(self.kept(rule, deadline_s), total, CONFIDENCE);
        kept.is_some_and(|interval| interval.low >= objective)
    }
}

/// Splits the deadline of a question by every rule and says what each misses and costs.
///
/// Nothing in the simulated replica acts on a step's budget: it serves first come, first served. So
/// a budget is what each step is judged by, and a rule is good if it alarms where the trajectory is
/// late and not elsewhere. A dispatcher that serves by budgets can only gain.
pub fn plan_trajectory(question: &TrajectoryQuestion) -> Result<TrajectoryPlan, TrajectoryError> {
    let deadline_s = steps_time(question)?;
    let workload = question
        .shape
        .workload()
        .ok_or_else(|| TrajectoryError::Shape("the lengths describe no workload".to_owned()))?;
    let work = work_of(&workload, question.seed).ok_or(TrajectoryError::Unlimited)?;
    let capacity = question
        .profile
        .capacity(&work)
        .ok_or(TrajectoryError::Unlimited)?;
    let most = capacity.rate_req_s / f64::from(question.shape.steps);
    let mut loads = Vec::new();
    for share in GRID {
        let seen = simulate(question, &workload, most * share).ok_or(TrajectoryError::NeverFits)?;
        let keeps = seen.surely_keeps(None, deadline_s, question.objective);
        loads.push(seen);
        // What no higher load can answer: every rule is stricter than the deadline itself.
        if !keeps {
            break;
        }
    }
    let highest = |rule: Option<SplitRule>| {
        let keeps = |seen: &&Seen| seen.surely_keeps(rule, deadline_s, question.objective);
        loads.iter().take_while(keeps).last()
    };
    let Some(at) = highest(None) else {
        return Err(no_load(question, &loads[0], deadline_s));
    };
    let rows = SplitRule::ALL.map(|rule| row(question, rule, at, highest(Some(rule)), deadline_s));
    let total = at.held.rows().len() as u64;
    let kept = at.kept(None, deadline_s);
    Ok(TrajectoryPlan {
        schema_version: PLAN_SCHEMA_VERSION,
        kind: "trajectory",
        shape: question.shape.clone(),
        deadline_s: question.deadline.as_secs_f64(),
        objective: question.objective,
        trajectories_per_s: rate_of(Some(at)),
        cost: cost(question, Some(at)),
        kept: Figure::new(
            kept as f64 / total as f64,
            "share",
            format!("of {total} trajectories not used to make the rules"),
        )
        .within(wilson(kept, total, CONFIDENCE)),
        findings: remarks::findings(&rows),
        rules: rows.into(),
        currency: question.price.as_ref().map(|price| price.currency.clone()),
        assumptions: remarks::assumptions(question),
    })
}

/// The part of the deadline that is left for the steps.
fn steps_time(question: &TrajectoryQuestion) -> Result<f64, TrajectoryError> {
    let shape = &question.shape;
    if !(1..=100).contains(&shape.steps) {
        let steps = shape.steps;
        return Err(TrajectoryError::Shape(format!(
            "{steps} steps are no trajectory; expected 1 to 100"
        )));
    }
    if !(question.objective > 0.0 && question.objective < 1.0) {
        return Err(TrajectoryError::Shape(format!(
            "an objective of {} is no share; expected above 0 and below 1",
            question.objective
        )));
    }
    if [shape.first_input, shape.next_input, shape.output].contains(&0)
        || !(0.0..=3.0).contains(&shape.sigma)
    {
        return Err(TrajectoryError::Shape(
            "lengths start at 1 token, and their spread lies from 0 to 3".to_owned(),
        ));
    }
    let tools_s = shape.tool.as_secs_f64() * f64::from(shape.steps - 1);
    let deadline_s = question.deadline.as_secs_f64();
    if tools_s >= deadline_s {
        return Err(TrajectoryError::ToolsOnly {
            steps: shape.steps,
            tools_s,
            deadline_s,
        });
    }
    Ok(deadline_s - tools_s)
}

fn simulate(
    question: &TrajectoryQuestion,
    workload: &Arc<WorkloadSpec>,
    per_s: f64,
) -> Option<Seen> {
    let steps = question.shape.steps as usize;
    let slo = Slo::from_argument("e2e<=1h").ok()?;
    let class = ClassLoad {
        workload,
        slo: &slo,
        rate_req_s: per_s * steps as f64,
        priority: 0,
    };
    let seen: Rc<RefCell<BTreeMap<u32, Vec<Option<f64>>>>> = Rc::default();
    let kept = Rc::clone(&seen);
    let window_s = f64::from(question.trajectories) / per_s;
    run_watched(
        &question.profile,
        &[class],
        window_s,
        question.seed,
        move |_, record| {
            let arrival = record.summary.arrival();
            let mut sessions = kept.borrow_mut();
            let row = sessions
                .entry(arrival.session)
                .or_insert_with(|| vec![None; steps]);
            if let Some(place) = row.get_mut(usize::from(arrival.step)) {
                *place = record.summary.e2e().map(|span| span.as_secs_f64());
            }
        },
    );
    // A trajectory of which a step lies outside the window, or never ended, is not whole.
    let whole: Vec<Vec<f64>> = seen
        .borrow()
        .values()
        .filter_map(|row| row.iter().copied().collect())
        .collect();
    let (learnt, held): (Vec<_>, Vec<_>) =
        whole.into_iter().enumerate().partition(|(i, _)| i % 2 == 0);
    let rows =
        |half: Vec<(usize, Vec<f64>)>| Times::new(half.into_iter().map(|(_, row)| row).collect());
    Some(Seen {
        per_s,
        learnt: rows(learnt)?,
        held: rows(held)?,
    })
}

fn no_load(question: &TrajectoryQuestion, idle: &Seen, deadline_s: f64) -> TrajectoryError {
    let mut whole: Vec<f64> = idle
        .held
        .rows()
        .iter()
        .map(|row| row.iter().sum())
        .collect();
    whole.sort_by(f64::total_cmp);
    let tools_s = question.deadline.as_secs_f64() - deadline_s;
    TrajectoryError::NoLoad {
        kept: idle.kept(None, deadline_s) as f64 / whole.len().max(1) as f64,
        median_s: goodput_stats::quantile(&whole, 0.5).unwrap_or(0.0) + tools_s,
    }
}

fn row(
    question: &TrajectoryQuestion,
    rule: SplitRule,
    at: &Seen,
    highest: Option<&Seen>,
    deadline_s: f64,
) -> SplitRow {
    let rows = at.held.rows();
    let broken: Vec<Vec<bool>> = rows
        .iter()
        .map(|row| at.learnt.broken(rule, deadline_s, row))
        .collect();
    let steps = (rows.len() * at.held.steps()) as u64;
    let over = broken.iter().flatten().filter(|over| **over).count() as u64;
    let flagged = broken.iter().filter(|row| row.contains(&true)).count() as u64;
    let alarms = rows.iter().zip(&broken);
    let false_alarms = alarms
        .filter(|(row, broken)| broken.contains(&true) && row.iter().sum::<f64>() <= deadline_s)
        .count() as u64;
    let share = |count: u64, of: u64, what: &str| {
        let from = format!(
            "of {of} {what} at {} trajectories a second",
            plain(at.per_s)
        );
        Figure::new(count as f64 / of.max(1) as f64, "share", from)
            .within(wilson(count, of, CONFIDENCE))
    };
    let trajectories = rows.len() as u64;
    SplitRow {
        rule,
        budgets_ms: at
            .learnt
            .split(rule, deadline_s)
            .iter()
            .map(|s| 1e3 * s)
            .collect(),
        steps_over: share(over, steps, "steps"),
        flagged: share(flagged, trajectories, "trajectories"),
        false_alarms: share(false_alarms, trajectories, "trajectories"),
        trajectories_per_s: rate_of(highest),
        cost: cost(question, highest),
    }
}

fn rate_of(at: Option<&Seen>) -> Figure {
    match at {
        Some(seen) => Figure::new(
            seen.per_s,
            "trajectories/s",
            "simulated: highest load tried such that it and every smaller one surely keep the objective",
        ),
        None => Figure::unknown("trajectories/s", "not even a nearly idle replica keeps it"),
    }
}

fn cost(question: &TrajectoryQuestion, at: Option<&Seen>) -> Figure {
    let unit = "per trajectory";
    match (&question.price, at) {
        (None, _) => Figure::unknown(unit, "no price was told: --price"),
        (_, None) => Figure::unknown(unit, "no load keeps it"),
        (Some(price), Some(seen)) => {
            let gpus: u32 = question.profile.gpus.get();
            Figure::new(
                f64::from(gpus) * price.per_gpu_hour / 3600.0 / seen.per_s,
                unit,
                format!(
                    "{} x {}{} an hour / (3600 x {} trajectories a second), no headroom",
                    counted(gpus.into(), "GPU"),
                    price.currency,
                    plain(price.per_gpu_hour),
                    plain(seen.per_s)
                ),
            )
        }
    }
}
