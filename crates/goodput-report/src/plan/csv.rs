//! Plans as CSV: one answer a line.

use goodput_planner::{CapacityPlan, Figure};
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
