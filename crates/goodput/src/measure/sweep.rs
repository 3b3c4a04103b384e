//! `goodput sweep`: closed loop for capacity, open loop for latency.

use std::{num::NonZeroU32, time::Duration};

use goodput_config::{parse_concurrency, parse_rates};
use goodput_ledger::PointRow;
use goodput_sweep::{OperatingPoint, between_neighbours, geometric, next_rate};
use goodput_workload::Load;

use super::{live::minutes, run::Run};
use crate::{exit::Failure, flags::SweepFlags};

/// The largest concurrency of the default grid.
const MOST: u32 = 128;
/// Rates that the open loop tries at most.
const RATES_MOST: usize = 5;
/// A rate that breaks the objective is followed by one this much lower.
const STEP_DOWN: f64 = 0.8;
/// The search ends when the highest rate that keeps the objective and the lowest that breaks it are
/// this close.
const RESOLUTION: f64 = 0.12;

/// The loads that a sweep tries.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grid {
    /// Closed loop, in rising order.
    pub(crate) users: Vec<NonZeroU32>,
    /// Whether two loads around the best are added: where goodput turns a doubling is too coarse.
    pub(crate) refine: bool,
    /// Open loop.
    pub(crate) rates: Rates,
}

/// The open-loop side of a grid.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rates {
    /// None.
    Off,
    /// These.
    Given(Vec<f64>),
    /// Found around the best closed-loop points.
    Searched,
}

impl Grid {
    /// From the flags.
    pub(crate) fn new(flags: &SweepFlags) -> Result<Self, Failure> {
        let users = match flags.concurrency.as_deref() {
            Some("none") => Vec::new(),
            Some(list) => parse_concurrency(list).map_err(|e| list_failure("--concurrency", &e))?,
            None => geometric(MOST, 2.0)
                .into_iter()
                .filter_map(NonZeroU32::new)
                .collect(),
        };
        let rates = match flags.rate.as_deref() {
            Some("none") => Rates::Off,
            Some(list) => {
                let rates = parse_rates(list).map_err(|e| list_failure("--rate", &e))?;
                rates
                    .iter()
                    .try_for_each(|&rate| super::bench::check_rate(rate))?;
                Rates::Given(rates)
            }
            None => Rates::Searched,
        };
        if users.is_empty() && !matches!(rates, Rates::Given(_)) {
            return Err(Failure::usage("no load is left to try")
                .hint("without closed-loop points, name rates with --rate"));
        }
        Ok(Self {
            users,
            refine: flags.concurrency.is_none(),
            rates,
        })
    }

    /// How many points it has, at most.
    fn points(&self) -> usize {
        self.users.len()
            + 2 * usize::from(self.refine)
            + match &self.rates {
                Rates::Off => 0,
                Rates::Given(rates) => rates.len(),
                Rates::Searched => RATES_MOST,
            }
    }

    /// What the sweep costs, in a sentence.
    pub(crate) fn cost(&self, run: &Run) -> String {
        let closed = self.users.len() + 2 * usize::from(self.refine);
        let open = match &self.rates {
            Rates::Off => "no open-loop points".to_owned(),
            Rates::Given(rates) => format!("{} open-loop points", rates.len()),
            Rates::Searched => format!("up to {RATES_MOST} open-loop points"),
        };
        if let Some(requests) = run.requests {
            return format!(
                "cost      {closed} closed-loop points and {open}, of {requests} requests each: how long is the server's to say"
            );
        }
        let e2e = run.e2e_p95();
        let window = run.lengths.closed(e2e);
        let each = window + Duration::from_secs(2) + 2 * e2e;
        let total = each * u32::try_from(self.points()).unwrap_or(u32::MAX);
        format!(
            "cost      {closed} closed-loop points of {} and {open}: about {}",
            minutes(window),
            minutes(total)
        )
    }
}

fn list_failure(flag: &str, problem: &goodput_config::TextError) -> Failure {
    super::text_failure(flag, problem)
}

/// Runs the whole grid. Stops early, keeping what there is, when the run is asked to stop.
pub(crate) async fn run_grid(run: &mut Run, grid: &Grid) -> Result<(), Failure> {
    let points = grid.points();
    let mut left = points;
    for &users in &grid.users {
        left = left.saturating_sub(1);
        run.point(Load::Closed(users), left).await?;
        if run.stopped() {
            return Ok(());
        }
    }
    for users in grid.refine.then(|| around_best(run)).into_iter().flatten() {
        left = left.saturating_sub(1);
        run.point(Load::Closed(users), left).await?;
        if run.stopped() {
            return Ok(());
        }
    }
    match &grid.rates {
        Rates::Off => Ok(()),
        Rates::Given(rates) => {
            for &per_second in rates {
                left = left.saturating_sub(1);
                run.point(Load::Open { per_second }, left).await?;
                if run.stopped() {
                    return Ok(());
                }
            }
            Ok(())
        }
        Rates::Searched => search_rate(run).await,
    }
}

/// The loads halfway, in ratio, between the best one and its neighbours.
fn around_best(run: &Run) -> Vec<NonZeroU32> {
    let best = run
        .answers()
        .by_goodput
        .and_then(|best| best.row.concurrency);
    let tested: Vec<u32> = run.points.iter().filter_map(|p| p.concurrency).collect();
    best.map(|best| between_neighbours(&tested, best))
        .unwrap_or_default()
}

/// Looks for the highest rate at which the objective surely holds, from the rate that the best
/// closed-loop point served downwards.
async fn search_rate(run: &mut Run) -> Result<(), Failure> {
    let Some(mut per_second) = first_rate(&run.answers()) else {
        return Ok(());
    };
    let objective = run.objective();
    let mut tried: Vec<(f64, bool)> = Vec::new();
    for points in 1..=RATES_MOST {
        let row = run
            .point(Load::Open { per_second }, RATES_MOST - points)
            .await?;
        let kept = row.valid.then(|| keeps(row, objective));
        if run.stopped() {
            return Ok(());
        }
        // A point that is not valid says nothing of the rate: it is tried again.
        let Some(kept) = kept else { continue };
        tried.push((per_second, kept));
        match next_rate(&tried, STEP_DOWN, RESOLUTION) {
            Some(next) => per_second = next,
            None => break,
        }
    }
    Ok(())
}

/// Where the search begins: at the rate that the last load which holds every clause served, else a
/// little below that of the best goodput.
fn first_rate(found: &OperatingPoint) -> Option<f64> {
    let cap = found.by_clauses.as_ref().map(|row| row.completed_req_s);
    let peak = found
        .by_goodput
        .as_ref()
        .map(|best| STEP_DOWN * best.row.goodput_req_s);
    // The peak may lie far above a cap that one unlucky point has set: try the higher of the two.
    let rate = cap.into_iter().chain(peak).fold(0.0, f64::max);
    (rate > 0.0).then_some(rate)
}

/// Whether a point surely keeps the objective.
fn keeps(row: &PointRow, objective: f64) -> bool {
    row.attainment_interval.is_some_and(|i| i.low >= objective)
}
