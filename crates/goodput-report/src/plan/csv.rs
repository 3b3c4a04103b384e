//! Plans as CSV: one answer a line.

use goodput_planner::{CapacityPlan, Figure, PoolsPlan, TrajectoryPlan};
use serde_json::{Map, Value, json};

use crate::csv::table;

/// The columns of a capacity plan, in order.
pub const CAPACITY: &[&str] = &[
    "demand",
    "demand_req_s",
    "mean_req_s",
    "burst",
    "budget_req_s",
    "lower_bound_replicas",
    "lower_bound_use",
    "plan_replicas",
    "plan_use",
    "run_replicas",
    "run_use",
    "gpus",
    "headroom_req_s",
    "slo_attainment",
    "attainment_low",
    "attainment_high",
    "cost_per_hour",
    "cost_per_good_request",
    "cost_per_1m_good_tokens",
    "decided_by",
];

/// A capacity plan, one demand a line.
#[must_use]
pub fn capacity(plan: &CapacityPlan) -> String {
    let of = |figure: &Figure| json!(figure.value);
    let maybe = |figure: Option<&Figure>| json!(figure.and_then(|f| f.value));
    let rows: Vec<Value> = plan
        .answers
        .iter()
        .map(|a| {
            let interval = a.attainment.interval;
            let cells = [
                json!(a.label),
                of(&a.demand_req_s),
                maybe(a.mean_req_s.as_ref()),
                maybe(a.burst.as_ref()),
                of(&plan.budget.rate_req_s),
                of(&a.lower_bound),
                of(&a.lower_bound_utilisation),
                of(&a.plan),
                of(&a.plan_utilisation),
                of(&a.replicas),
                of(&a.utilisation),
                of(&a.gpus),
                of(&a.headroom_req_s),
                of(&a.attainment),
                json!(interval.map(|i| i.low)),
                json!(interval.map(|i| i.high)),
                of(&a.cost.per_hour),
                of(&a.cost.per_good_request),
                of(&a.cost.per_million_good_tokens),
                json!(a.decided_by),
            ];
            row(CAPACITY, cells)
        })
        .collect();
    table(CAPACITY, &rows)
}

/// The columns of the page of plain words.
pub const PLAIN: &[&str] = &[
    "tokens",
    "first_token_p50_ms",
    "first_token_p95_ms",
    "stream_p50_tok_s",
    "stream_p95_tok_s",
    "e2e_p50_ms",
    "e2e_p95_ms",
    "judged_by",
];

/// The page of plain words, on one line.
#[must_use]
pub fn plain(plan: &CapacityPlan) -> String {
    let page = &plan.plain;
    let cells = [
        json!(page.tokens),
        json!(page.first_token_p50_ms.value),
        json!(page.first_token_p95_ms.value),
        json!(page.stream_p50_tok_s.value),
        json!(page.stream_p95_tok_s.value),
        json!(page.e2e_p50_ms.value),
        json!(page.e2e_p95_ms.value),
        json!(page.judged_by),
    ];
    table(PLAIN, &[row(PLAIN, cells)])
}

pub(super) fn row<const N: usize>(columns: &[&str], cells: [Value; N]) -> Value {
    let names = columns.iter().map(|&name| name.to_owned());
    Value::Object(names.zip(cells).collect::<Map<String, Value>>())
}

/// The columns of a comparison of pools, one layout and demand a line.
pub const POOLS: &[&str] = &[
    "scale",
    "pools",
    "fractional",
    "replicas",
    "with_spare",
    "run_replicas",
    "cost_per_hour",
];

/// Pools side by side.
#[must_use]
pub fn pools(plans: &[PoolsPlan]) -> String {
    let ways = plans
        .iter()
        .flat_map(|plan| plan.ways.iter().map(|way| (plan.scale, way)));
    let rows: Vec<Value> = ways
        .map(|(scale, way)| {
            let of = |figure: &Figure| json!(figure.value);
            let cells = [
                json!(scale),
                json!(way.layout),
                of(&way.fractional),
                of(&way.replicas),
                of(&way.with_spare),
                of(&way.planned),
                of(&way.cost_per_hour),
            ];
            row(POOLS, cells)
        })
        .collect();
    table(POOLS, &rows)
}

/// The columns of a plan for trajectories, one rule a line.
pub const TRAJECTORY: &[&str] = &[
    "rule",
    "steps_over_share",
    "flagged_share",
    "false_alarm_share",
    "trajectories_per_s",
    "cost_per_trajectory",
];

/// An agent's deadline, split by every rule.
#[must_use]
pub fn trajectory(plan: &TrajectoryPlan) -> String {
    let rows: Vec<Value> = plan
        .rules
        .iter()
        .map(|of| {
            let cells = [
                json!(of.rule),
                json!(of.steps_over.value),
                json!(of.flagged.value),
                json!(of.false_alarms.value),
                json!(of.trajectories_per_s.value),
                json!(of.cost.value),
            ];
            row(TRAJECTORY, cells)
        })
        .collect();
    table(TRAJECTORY, &rows)
}
