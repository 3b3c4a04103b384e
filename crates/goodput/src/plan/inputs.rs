//! What plans are made from: rates, traces, prices, SLOs and workloads, as typed.

use std::{path::Path, sync::Arc, time::Duration};

use goodput_config::{parse_concurrency, parse_duration, parse_rates};
use goodput_planner::{Demand, DemandError, PlanError, Price};
use goodput_slo::Slo;
use goodput_workload::{KeyOfNames, Trace, WorkloadSpec};

use crate::{
    exit::{Exit, Failure},
    flags::{CapacityFlags, Format, TraceFlags},
    measure::{choose_workload, load_workload, text_failure},
    slo,
    talk::Voice,
    trace,
};

/// A plan that cannot be made: a wrong question is a usage error, an honest no is exit 1.
pub(super) fn refused(error: &PlanError) -> Failure {
    let mut failure = Failure::usage(error.to_string());
    if !error.is_usage() {
        failure.exit = Exit::No;
    }
    match hint(error) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn hint(error: &PlanError) -> Option<&'static str> {
    use goodput_planner::{NoBudget, SizeError};
    match error {
        PlanError::Budget(NoBudget::NeverFits { .. }) => Some(
            "take a profile with more KV cache or a longer context, or a workload with shorter prompts",
        ),
        PlanError::Budget(NoBudget::NoLoad { .. }) => {
            Some("loosen the SLO, or take a faster replica: more replicas of this one do not help")
        }
        PlanError::Budget(NoBudget::NotProven { .. }) => Some("raise --requests"),
        PlanError::Budget(NoBudget::NoOpenLoop) => {
            Some("measure one: goodput sweep without --rate none")
        }
        PlanError::Size(SizeError::TooFew { .. }) => {
            Some("add a larger count to --replicas, or take a larger replica")
        }
        PlanError::NoDemand => Some("name it with --rate or --trace"),
        _ => None,
    }
}

pub(super) fn demand_refused(error: DemandError) -> Failure {
    refused(&PlanError::Demand(error))
}

/// The trace of `--trace`.
pub(super) fn trace(path: &Path, voice: Voice) -> Result<Trace, Failure> {
    let flags = TraceFlags {
        file: path.to_owned(),
        form: None,
        skip_broken: false,
        format: Format::Human,
    };
    trace::read(&flags, voice)
}

/// The demands that the flags ask for.
pub(super) fn demands(
    flags: &CapacityFlags,
    trace: Option<&Trace>,
    cold_start: Duration,
) -> Result<Vec<Demand>, Failure> {
    let today = match (&flags.rate, trace) {
        (Some(list), _) => rates(list)?,
        (None, Some(trace)) => vec![of_trace(flags, trace, cold_start)?],
        (None, None) => return Err(refused(&PlanError::NoDemand)),
    };
    let Some(growth) = &flags.growth else {
        return Ok(today);
    };
    let growth = share(growth)?;
    let [today] = today.as_slice() else {
        return Err(Failure::usage("growth starts from one rate")
            .hint("name one with --rate, and the months with --months 0,6,12"));
    };
    let grown = flags
        .months
        .iter()
        .map(|&months| today.grown(growth, months));
    grown.collect::<Result<_, _>>().map_err(demand_refused)
}

fn rates(list: &str) -> Result<Vec<Demand>, Failure> {
    if let Ok(one) = list.trim().parse::<f64>() {
        return Ok(vec![Demand::rate(one, "--rate").map_err(demand_refused)?]);
    }
    let rates = parse_rates(list).map_err(|e| text_failure("--rate", &e))?;
    let demands = rates.into_iter().map(|rate| Demand::rate(rate, "--rate"));
    demands.collect::<Result<_, _>>().map_err(demand_refused)
}

fn of_trace(flags: &CapacityFlags, trace: &Trace, cold_start: Duration) -> Result<Demand, Failure> {
    let name = flags
        .trace
        .as_deref()
        .map_or_else(String::new, |p| p.display().to_string());
    if !trace.timed {
        return Err(
            Failure::usage(format!("{name} does not say when its requests came"))
                .hint("name the demand with --rate, and the lengths with --workload"),
        );
    }
    if !(flags.scale > 0.0 && flags.scale.is_finite()) {
        return Err(
            Failure::usage(format!("--scale {} is no scale", flags.scale))
                .hint("a number above 0: 10 for a trace of a tenth of the users"),
        );
    }
    let times: Vec<u64> = trace.requests.iter().map(|r| r.arrival_ns).collect();
    let from = if (flags.scale - 1.0).abs() < 1e-12 {
        name
    } else {
        format!("{name} x {}", flags.scale)
    };
    Demand::of_trace(&times, flags.scale, cold_start, from).map_err(demand_refused)
}

/// `8%`, `-3%` or `0.08` as a share.
fn share(text: &str) -> Result<f64, Failure> {
    let (sign, size) = match text.trim().strip_prefix('-') {
        Some(size) => (-1.0, size),
        None => (1.0, text.trim().trim_start_matches('+')),
    };
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|v| v.is_finite());
    let share = match size.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        None => number(size),
    };
    match share {
        Some(share) => Ok(sign * share),
        None => {
            Err(Failure::usage(format!("--growth: `{text}` is no growth")).hint("write 8%, say"))
        }
    }
}

/// The changes that all `--what-if` ask for together.
pub(super) fn changes(flags: &[String]) -> Vec<String> {
    let changes = flags.iter().flat_map(|flag| flag.split(';'));
    changes.map(|change| change.trim().to_owned()).collect()
}

/// A span of time behind a flag.
pub(super) fn span(name: &str, text: &str) -> Result<Duration, Failure> {
    parse_duration(text).map_err(|e| text_failure(name, &e))
}

/// Replica counts behind `--replicas`.
pub(super) fn counts(list: Option<&str>) -> Result<Vec<u32>, Failure> {
    let Some(list) = list else {
        return Ok(Vec::new());
    };
    let counts = parse_concurrency(list).map_err(|e| text_failure("--replicas", &e))?;
    Ok(counts.into_iter().map(std::num::NonZeroU32::get).collect())
}

/// A price as typed: a number, a currency sign before it if any.
pub(super) fn price(text: Option<&str>) -> Result<Option<Price>, Failure> {
    let Some(text) = text else {
        return Ok(None);
    };
    let start = text.find(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let (sign, number) = text.split_at(start.unwrap_or(text.len()));
    let value = number.trim().parse::<f64>().ok();
    let Some(per_gpu_hour) = value.filter(|v| v.is_finite() && *v >= 0.0) else {
        return Err(Failure::usage(format!("--price: `{text}` is no price"))
            .hint("the price of one GPU for an hour: 2.50 or '€2.10'"));
    };
    Ok(Some(Price {
        per_gpu_hour,
        currency: match sign.trim() {
            "" => "$".to_owned(),
            sign => sign.to_owned(),
        },
        from: "--price".to_owned(),
    }))
}

/// One SLO as named.
pub(super) fn one_slo(name: &str, voice: Voice) -> Result<Slo, Failure> {
    let mut slos = slo::load(&[name.to_owned()], voice)?;
    if slos.len() != 1 {
        return Err(Failure::usage(format!("{name} has {} SLOs", slos.len()))
            .hint("a plan is made for one; put it in a file of its own"));
    }
    Ok(slos.remove(0))
}

/// The workload of a plan: the one named, else the lengths of the trace, else the SLO's own.
pub(super) fn workload(
    asked: Option<&str>,
    trace: Option<&Trace>,
    slo: &Slo,
    voice: Voice,
) -> Result<Arc<WorkloadSpec>, Failure> {
    let spec = match (asked, trace) {
        (Some(name), _) => load_workload(name, voice)?,
        (None, Some(trace)) => lengths_of(trace, voice)?,
        (None, None) => choose_workload(None, slo, false, voice)?,
    };
    Ok(Arc::new(spec))
}

/// The requests of a trace, over and over; when they come is the demand's business.
fn lengths_of(trace: &Trace, voice: Voice) -> Result<WorkloadSpec, Failure> {
    let text = trace
        .convert("trace", KeyOfNames([0, 0]))
        .replacen("repeat = false", "repeat = true", 1)
        .replacen("arrivals = \"trace\"", "arrivals = \"poisson\"", 1);
    WorkloadSpec::parse("trace", &text)
        .map_err(|e| Failure::usage(e.render("trace", &text, voice.color_err)))
}
