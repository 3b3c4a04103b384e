//! The searches of a sweep: a strategy asks, load points are measured, the strategy hears.

use std::{cell::RefCell, num::NonZeroU32, rc::Rc, sync::Arc, time::Duration};

use goodput_sweep::{
    OperatingPoint, Search,
    auto::{Ask, PeakPlan, PeakSearch, RatePlan, RateSearch, Strategy},
};
use goodput_workload::{Arrivals, Load};

use super::{observer::SharedStrategy, outage::Then, run::Run};
use crate::exit::Failure;

/// An open-loop search begins a little below the rate of good answers at the best load.
const BELOW_PEAK: f64 = 0.8;
/// What overload costs is shown at this many times the best load, if nothing so far beyond was tried.
const OVERLOAD: u32 = 2;

/// Looks for the load of largest goodput; the rate at which an open-loop search should begin.
pub(crate) async fn search_peak(
    run: &mut Run,
    first: &[NonZeroU32],
    most: NonZeroU32,
    budget: Duration,
) -> Result<Option<f64>, Failure> {
    let plan = if first.is_empty() {
        PeakPlan::new(most, budget)
    } else {
        PeakPlan::of(first, budget)
    };
    let search = Rc::new(RefCell::new(PeakSearch::new(PeakPlan {
        shortest: run.lengths.shortest_look(),
        ..plan
    })));
    drive(run, &search).await?;
    if first.is_empty() && !run.stopped() {
        overload(run, &search, most).await?;
    }
    let search = search.borrow();
    run.search = Some(Search {
        peak: Some(search.found()),
        ..Search::default()
    });
    Ok(search.first_rate())
}

/// One short point far beyond the best load, unless there is one: what overload costs is part of the
/// answer. Where a search had little time, it may turn out to be the better load.
async fn overload(
    run: &mut Run,
    search: &RefCell<PeakSearch>,
    most: NonZeroU32,
) -> Result<(), Failure> {
    let best = search.borrow().found().best;
    let tried = run.points.iter().filter_map(|p| p.concurrency).max();
    let (Some(best), Some(tried)) = (best, tried) else {
        return Ok(());
    };
    let beyond = best.saturating_mul(OVERLOAD);
    let Some(users) = NonZeroU32::new(beyond.min(most.get())).filter(|n| n.get() > tried) else {
        return Ok(());
    };
    if let Some(row) = run.sure_point(Load::Closed(users), 0).await? {
        search.borrow_mut().tell_of(row);
    }
    Ok(())
}

/// Looks for the highest rate that keeps the objective: under the workload's own arrivals, which is
/// the answer, and where those come in bursts under Poisson arrivals too, to show what bursts cost.
pub(crate) async fn search_rates(
    run: &mut Run,
    first: Option<f64>,
    budget: Duration,
) -> Result<(), Failure> {
    let Some(first) = first.or_else(|| first_rate(&run.answers())) else {
        return Ok(());
    };
    let found = search_rate(run, first, budget).await?;
    let begin = found.rate_req_s.unwrap_or(first);
    run.search.get_or_insert_default().rate = Some(found);
    if *run.spec.arrivals() == Arrivals::Poisson || run.stopped() {
        return Ok(());
    }
    let own = Arc::clone(&run.spec);
    run.spec = Arc::new((*own).clone().with_arrivals(Arrivals::Poisson));
    run.other_arrivals = Some("poisson");
    let found = search_rate(run, begin, budget).await;
    (run.spec, run.other_arrivals) = (own, None);
    run.search.get_or_insert_default().poisson_rate = Some(found?);
    Ok(())
}

async fn search_rate(
    run: &mut Run,
    first: f64,
    budget: Duration,
) -> Result<goodput_sweep::auto::FoundRate, Failure> {
    let search = Rc::new(RefCell::new(RateSearch::new(RatePlan {
        first,
        objective: run.objective(),
        budget,
        shortest: run.lengths.shortest_look(),
    })));
    drive(run, &search).await?;
    let found = search.borrow().found();
    Ok(found)
}

/// Where an open-loop search begins without a closed-loop one: at the rate that the last load which
/// holds every clause served, or a little below that of the best goodput, if that is more.
fn first_rate(found: &OperatingPoint) -> Option<f64> {
    let cap = found.by_clauses.as_ref().map(|row| row.completed_req_s);
    let peak = found
        .by_goodput
        .as_ref()
        .map(|best| BELOW_PEAK * best.row.goodput_req_s);
    let rate = cap.into_iter().chain(peak).fold(0.0, f64::max);
    (rate > 0.0).then_some(rate)
}

/// Measures what the strategy asks for until it wants no more or the run is asked to stop.
async fn drive<S: Strategy + 'static>(
    run: &mut Run,
    strategy: &Rc<RefCell<S>>,
) -> Result<(), Failure> {
    let shared: SharedStrategy = Rc::<RefCell<S>>::clone(strategy);
    loop {
        let asked = strategy.borrow_mut().ask();
        let Ask::Measure(asked) = asked else {
            return Ok(());
        };
        let row = run.asked_point(asked, &shared).await?;
        strategy.borrow_mut().tell(row);
        // A point that failed throughout says nothing: the strategy asks for the same load again.
        if run.after_point().await == Then::GiveUp || run.stopped() {
            return Ok(());
        }
    }
}
