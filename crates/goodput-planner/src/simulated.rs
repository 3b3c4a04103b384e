//! A capacity plan from a simulated replica.

use goodput_stats::mix;

use crate::{
    books::needs_every_token,
    budget::{Budget, Effort, Found, NoBudget, find},
    capacity::{CapacityPlan, PlanError, Question, plan},
    demand::plain,
    figure::Assumption,
    replica::Simulated,
    size::size,
};

/// Replicas so many times as many or as few as assumed ask for one more search.
const FAR: f64 = 1.3;

/// Searches the budget of a simulated replica and plans with it. What is looked at beside the budget
/// is simulated under other random numbers than the search was.
///
/// Where arrivals come in bursts, a replica gets them thinned: by so many replicas as the smallest
/// demand needs, since a small pool smooths least.
pub fn plan_simulated(
    question: &Question,
    replica: &Simulated,
    effort: Effort,
) -> Result<CapacityPlan, PlanError> {
    let smallest = question
        .demands
        .iter()
        .min_by(|a, b| a.rate_req_s.total_cmp(&b.rate_req_s))
        .ok_or(PlanError::NoDemand)?;
    let slo = &replica.slos[0];
    let told = smallest.dispersion;
    let bursts = told
        .or_else(|| replica.own_dispersion())
        .filter(|&i| i > 1.0);
    let needed =
        |budget: f64| size(smallest.rate_req_s, budget, None, &question.rule).map(|s| s.plan);
    let guess = replica.guess().ok_or(NoBudget::Unlimited)?;
    let mut replicas = needed(guess)?;
    let (mut one, mut found) = searched(replica, bursts, replicas, guess, effort)?;
    if bursts.is_some_and(|index| index > 1.0) {
        let now = needed(found.at.rate_req_s)?;
        let (few, many) = (now.min(replicas) as f64, now.max(replicas) as f64);
        if many / few > FAR {
            replicas = now;
            (one, found) = searched(replica, bursts, replicas, found.at.rate_req_s, effort)?;
        }
    }
    let arrivals = one.workload.arrivals().describe();
    let budget = Budget::simulated(found, slo, replica.workload.name(), &replica.profile);
    let mut check = Simulated {
        seed: mix(replica.seed),
        ..one
    };
    let mut question = question.clone();
    question.assumed.push(arrivals_of(
        &arrivals,
        bursts.filter(|_| told.is_some()),
        replicas,
    ));
    let median = |clause: &goodput_slo::Clause| clause.metric == goodput_slo::Metric::TpotMedian;
    if slo.clauses().iter().any(median) && !needs_every_token(slo) {
        question.assumed.push(Assumption::new(
            "median gap",
            "judged as the mean gap of an answer, which is the stricter of the two where prompts interfere",
            "this program, for speed",
        ));
    }
    question.assumed.push(Assumption::new(
        "engine",
        format!(
            "{} on {} x {} ({}), {} slots, {} tokens a step, {} tokens of KV cache",
            replica.profile.model_id,
            replica.profile.gpus,
            replica.profile.gpu,
            replica.profile.precision,
            replica.profile.max_num_seqs,
            replica.profile.max_batched_tokens,
            replica.profile.kv_tokens()
        ),
        format!(
            "profile {}: {}",
            replica.profile.name,
            one_line(&replica.profile.source)
        ),
    ));
    plan(&question, budget, Some(&mut check))
}

fn searched(
    replica: &Simulated,
    bursts: Option<f64>,
    replicas: u64,
    guess: f64,
    effort: Effort,
) -> Result<(Simulated, Found), NoBudget> {
    let mut one = match bursts {
        Some(index) => replica.one_of(replicas, index),
        None => replica.clone(),
    };
    let found = find(&mut one, guess, effort)?;
    Ok((one, found))
}

fn arrivals_of(arrivals: &str, from_trace: Option<f64>, replicas: u64) -> Assumption {
    match from_trace {
        Some(index) => Assumption::new(
            "arrivals",
            format!("{arrivals} at each replica: one of {replicas}"),
            format!(
                "the demand's trace: counts in 10 s have a variance of {} times their mean",
                plain(index)
            ),
        ),
        None => Assumption::new("arrivals", arrivals, "the workload"),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
