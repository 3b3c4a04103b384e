//! Faces of plans.

pub mod csv;
pub mod markdown;
pub mod terminal;

use goodput_planner::{
    Answer, CapacityPlan, DecidedBy, Figure, JudgedBy, Layout, PlainPage, SplitRule,
};

use crate::number::{NONE, count, fixed, number, percent, percent_short, span_ms};

/// A figure as people read it, with its unit where the number alone does not say it. `currency`
/// stands before amounts of money.
pub(crate) fn shown(figure: &Figure, currency: Option<&str>) -> String {
    let Some(value) = figure.value else {
        return NONE.to_owned();
    };
    match figure.unit {
        "replicas" | "GPUs" => count(whole(value)),
        "share" => percent_short(value),
        "ratio" => number(value),
        "ms" => span_ms(Some(value)),
        "fractional replicas" => fixed(Some(value), 2),
        "req/s" | "tok/s" => format!("{} {}", number(value), figure.unit),
        "trajectories/s" => format!("{} a second", number(value)),
        _ => format!("{}{}", currency.unwrap_or_default(), money(value)),
    }
}

/// The number alone, for columns with the unit at their head.
pub(crate) fn bare(figure: &Figure) -> String {
    let Some(value) = figure.value else {
        return NONE.to_owned();
    };
    match figure.unit {
        "replicas" | "GPUs" => count(whole(value)),
        "share" => percent(Some(value)),
        "per hour" | "per good request" | "per 1M good tokens" => money(value),
        _ => number(value),
    }
}

/// A number to the hundredth with its interval: `7.13 [7.04..7.13]`.
pub(crate) fn two_places(figure: &Figure) -> String {
    let value = fixed(figure.value, 2);
    match figure.interval {
        Some(i) => format!("{value} [{:.2}..{:.2}]", i.low, i.high),
        None => value,
    }
}

/// A count with its unit in words: `1 replica`, `3 replicas`.
#[must_use]
pub fn replicas(figure: &Figure) -> String {
    counted(figure, "replica")
}

/// A count with what is counted, which takes an s where it is not one.
pub(crate) fn counted(figure: &Figure, what: &str) -> String {
    let number = shown(figure, None);
    match figure.value {
        Some(value) if whole(value) == 1 => format!("{number} {what}"),
        _ => format!("{number} {what}s"),
    }
}

fn whole(value: f64) -> u64 {
    goodput_stats::whole_u64(value)
}

/// Money to the hundredth, and below one to three digits.
fn money(value: f64) -> String {
    if value.abs() >= 1_000.0 {
        return number(value);
    }
    if value.abs() >= 0.995 {
        return format!("{value:.2}");
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // Three digits that count, however small: a request costs a fraction of a cent.
    let places = -libm::floor(libm::log10(value.abs())) + 2.0;
    let places = usize::try_from(goodput_stats::whole_u32(places)).unwrap_or(3);
    format!("{value:.places$}")
}

/// A share with its interval: `99.8% [99.5..99.9]`.
#[must_use]
pub fn with_interval(figure: &Figure) -> String {
    let value = shown(figure, None);
    match figure.interval {
        Some(interval) if figure.unit == "share" => format!(
            "{value} [{}..{}]",
            percent(Some(interval.low)),
            percent(Some(interval.high))
        ),
        Some(interval) => format!(
            "{value} [{}..{}]",
            number(interval.low),
            number(interval.high)
        ),
        None => value,
    }
}

/// What decided a size, in words.
pub(crate) fn decided(answer: &Answer) -> &'static str {
    match answer.decided_by {
        DecidedBy::Target => "the target utilisation",
        DecidedBy::Burst => "the burst within one cold start",
        DecidedBy::Spare => "the replica that may fail",
    }
}

/// How much of the budget the sizes aim to use.
pub(crate) fn aim(plan: &CapacityPlan) -> String {
    let rule = &plan.rule;
    let target = percent_short(rule.target);
    if rule.band[0] < rule.band[1] {
        let [low, high] = rule.band.map(percent_short);
        format!("{target}, {low} to {high}")
    } else {
        target
    }
}

/// What stands for a replica: what it is and where the figures are from.
pub(crate) fn replica(plan: &CapacityPlan) -> String {
    let budget = &plan.budget;
    let gpus = match budget.gpus {
        Some(1) => "1 GPU".to_owned(),
        Some(n) => format!("{n} GPUs"),
        None => "GPUs not told".to_owned(),
    };
    let how = if budget.simulated {
        "simulated"
    } else {
        "measured"
    };
    let model = if budget.model_id.is_empty() {
        "model not told"
    } else {
        &budget.model_id
    };
    format!("{model} | {} | {gpus} | {how}", budget.source)
}

/// What one of two readers a page of plain words is for.
pub(crate) fn plain_sentences(page: &PlainPage) -> Vec<String> {
    let one = |figure: &Figure| shown(figure, None);
    let tokens = count(page.tokens.into());
    let mut all = vec![format!(
        "An answer of {tokens} tokens is complete after {} for half of the users, and for 95% within {} (an upper estimate).",
        one(&page.e2e_p50_ms),
        one(&page.e2e_p95_ms)
    )];
    match page.judged_by {
        JudgedBy::Stream => all.push(format!(
            "It begins after {} for half of the users and within {} for 95%; then it streams at {} for half of the users, and at no less than {} for 95%. People read 5 to 10 tokens a second.",
            one(&page.first_token_p50_ms),
            one(&page.first_token_p95_ms),
            one(&page.stream_p50_tok_s),
            one(&page.stream_p95_tok_s),
        )),
        JudgedBy::Deadline => all.push(format!(
            "Nobody reads along for that long, or nobody watches at all: such an answer is judged by when it is there. (Its first token comes after {} for half of the users, its stream has {}.)",
            one(&page.first_token_p50_ms),
            one(&page.stream_p50_tok_s),
        )),
    }
    all
}

/// Everything in a plan that is a figure, with its name: for lists of what each was made from.
pub(crate) fn figures(answer: &Answer) -> Vec<(&'static str, &Figure)> {
    let mut all = vec![("demand", &answer.demand_req_s)];
    all.extend(answer.mean_req_s.as_ref().map(|f| ("mean demand", f)));
    all.extend(answer.peak_over_mean.as_ref().map(|f| ("peak / mean", f)));
    all.extend(answer.burst.as_ref().map(|f| ("burst", f)));
    all.extend([
        ("lower bound", &answer.lower_bound),
        ("use at the lower bound", &answer.lower_bound_utilisation),
        ("plan", &answer.plan),
        ("use at the plan", &answer.plan_utilisation),
        ("replicas to run", &answer.replicas),
        ("use with all of them", &answer.utilisation),
        ("GPUs", &answer.gpus),
        ("headroom", &answer.headroom_req_s),
        ("in SLO, the spare gone", &answer.attainment),
        ("cost an hour", &answer.cost.per_hour),
        ("cost of a good request", &answer.cost.per_good_request),
        (
            "cost of 1M good tokens",
            &answer.cost.per_million_good_tokens,
        ),
    ]);
    if let Some(mean) = &answer.cost_at_mean {
        all.push((
            "cost of a good request, mean demand",
            &mean.per_good_request,
        ));
        all.push((
            "cost of 1M good tokens, mean demand",
            &mean.per_million_good_tokens,
        ));
    }
    all
}

/// A layout of pools in words.
pub(crate) const fn layout(layout: Layout) -> &'static str {
    match layout {
        Layout::Separate => "separate",
        Layout::Compromise => "one for all",
        Layout::Priority => "one with priorities",
    }
}

/// A rule of budgets in words.
pub(crate) const fn split(rule: SplitRule) -> &'static str {
    match rule {
        SplitRule::Equal => "equal parts",
        SplitRule::Proportional => "work",
        SplitRule::VarianceAware => "variance",
        SplitRule::EqualTail => "equal tail",
        SplitRule::Online => "what is left, each step",
    }
}
