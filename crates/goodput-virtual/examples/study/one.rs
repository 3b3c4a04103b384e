//! One engine of the study: swept, and held against its truth.

use std::{num::NonZeroU32, time::Duration};

use goodput_ledger::Between;
use goodput_sweep::auto::{Found, PeakPlan, PeakSearch, RatePlan, RateSearch};
use goodput_virtual::{Detail, Replica, Setting, Swept, sweep};

use crate::{
    fleet::{Emulated, Kind},
    truth::{At, MOST, Truth},
};

/// Standard error of a truth, as a share of it.
const ACCURACY: f64 = 0.01;
/// Of each engine, this many points beside the best have their interval held against the truth.
const CHECKED: usize = 3;

/// An interval held against the truth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    /// Whether it holds the truth.
    pub(crate) holds: bool,
    /// Its width over that of an interval fixed ahead; `None` where nothing varies.
    pub(crate) width: Option<f64>,
}

/// What became of an open-loop search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sold {
    /// Whether a rate was found, and whether it truly keeps the objective.
    pub(crate) keeps: Option<bool>,
    /// The true attainment over the objective's allowance of misses: 1 is on the line.
    pub(crate) misses: f64,
    pub(crate) measured_s: f64,
    pub(crate) points: usize,
}

/// What became of one engine.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) number: u64,
    pub(crate) kind: Kind,
    /// True goodput at the load found, over the best; 0 if none was found.
    pub(crate) share: f64,
    /// The same for the fixed grid.
    pub(crate) grid_share: f64,
    /// True goodput at twice the best load over the best.
    pub(crate) at_twice: f64,
    pub(crate) best: u32,
    /// True goodput of the best load.
    pub(crate) most: f64,
    pub(crate) found: Option<u32>,
    pub(crate) resolved: bool,
    pub(crate) changed: bool,
    pub(crate) points: usize,
    pub(crate) measured_s: f64,
    pub(crate) all_s: f64,
    pub(crate) goodput: Vec<Check>,
    /// The interval of the load found, over all its points.
    pub(crate) at_found: Option<Check>,
    pub(crate) attainment: Vec<Check>,
    /// TTFT p50 and p99.
    pub(crate) ttft: [Vec<Check>; 2],
    pub(crate) sold: Option<Sold>,
    /// Whether arrivals came in bursts.
    pub(crate) bursty: bool,
}

impl Outcome {
    /// Nothing known yet.
    fn of(number: u64, kind: Kind) -> Self {
        Self {
            number,
            kind,
            share: f64::NAN,
            grid_share: f64::NAN,
            at_twice: f64::NAN,
            best: 0,
            most: f64::NAN,
            found: None,
            resolved: false,
            changed: false,
            points: 0,
            measured_s: f64::NAN,
            all_s: f64::NAN,
            goodput: Vec::new(),
            at_found: None,
            attainment: Vec::new(),
            ttft: Default::default(),
            sold: None,
            bursty: false,
        }
    }
}

/// What is studied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    Closed,
    Open,
    Both,
}

/// Sweeps the engine of this number and holds what was found against its truth.
pub(crate) fn study(number: u64, budget_s: f64, verbose: bool, parts: Parts) -> Outcome {
    let engine = Emulated::new(number);
    let slos = [engine.slo.clone()];
    let setting = Setting {
        detail: Detail::Bins,
        ..Setting::new(&engine.workload, &slos, number)
    };
    let mut replica = Replica::with_pace(&engine.profile, engine.pace.clone());
    let most = NonZeroU32::new(MOST).expect("not zero");
    let mut search = PeakSearch::new(PeakPlan::new(most, Duration::from_secs_f64(budget_s)));
    let points = sweep(&mut replica, &setting, &mut search);
    // The truth is that of the state in force when the sweep has ended.
    let pace = engine.pace.at(replica.now());
    let mut truth = Truth::new(&engine);
    let mut outcome = Outcome::of(number, engine.kind);
    if parts != Parts::Open {
        outcome.all_s = replica.now().seconds();
        closed(&mut outcome, &search.found(), &points, (&mut truth, pace));
        let there = fixed_grid(&engine, &setting);
        let there = there.map(|users| truth.at(At::Users(users), pace, ACCURACY).goodput);
        outcome.grid_share = there.map_or(0.0, |goodput| goodput / outcome.most);
    }
    if parts != Parts::Closed {
        outcome.bursty = engine.bursty;
        let first = search.first_rate();
        outcome.sold = first.map(|first| open(&engine, &mut truth, first, pace, verbose));
    }
    if verbose {
        print(
            &engine,
            &points,
            &format!("{:?}\n{outcome:?}", search.found()),
        );
    }
    outcome
}

/// The closed-loop search against the truth.
fn closed(
    outcome: &mut Outcome,
    found: &Found,
    points: &[Swept],
    (truth, pace): (&mut Truth<'_>, f64),
) {
    let (mut best, mut most) = truth.best(pace, ACCURACY);
    let there = found
        .best
        .map(|users| (users, truth.at(At::Users(users), pace, ACCURACY).goodput));
    if let Some((users, goodput)) = there.filter(|there| there.1 > most) {
        (best, most) = (users, goodput);
    }
    let goodput = there.map(|(_, goodput)| goodput);
    outcome.share = goodput.map_or(0.0, |goodput| goodput / most);
    outcome.at_found = found
        .interval
        .zip(goodput)
        .map(|(interval, goodput)| Check {
            holds: holds(interval, goodput),
            width: None,
        });
    let twice = truth.at(At::Users(2 * best), pace, 4.0 * ACCURACY);
    outcome.at_twice = twice.goodput / most;
    (outcome.best, outcome.most, outcome.found) = (best, most, found.best);
    (outcome.resolved, outcome.changed) = (found.resolved, found.changed);
    (outcome.points, outcome.measured_s) = (points.len(), found.measured_s);
    checks(outcome, truth, points);
}

fn holds(interval: Between, truth: f64) -> bool {
    (interval.low..=interval.high).contains(&truth)
}

/// Intervals of some points against the truth at the pace in force.
fn checks(outcome: &mut Outcome, truth: &mut Truth<'_>, points: &[Swept]) {
    // The points of the best load, and others spread over the sweep.
    let every = points.len().div_ceil(CHECKED).max(1);
    let is_best = |p: &Swept| p.row.concurrency == outcome.found;
    let chosen = points.iter().enumerate();
    let chosen: Vec<&Swept> = chosen
        .filter(|(i, p)| i % every == 1 || is_best(p))
        .map(|(_, p)| p)
        .collect();
    for point in chosen {
        let pace = &truth.engine.pace;
        let (from, to) = (pace.at(point.window.start), pace.at(point.span.end));
        let Some(users) = point.row.concurrency else {
            continue;
        };
        // A step inside the window has no one truth.
        if (from / to - 1.0).abs() > 0.03 {
            continue;
        }
        let reach = |i: Between| (i.high - i.low) / 2.0;
        let wanted = 0.2 * point.row.goodput_interval.map_or(0.0, reach);
        let wanted = wanted / point.row.goodput_tok_s.max(1.0);
        // As exact as the interval needs, in few steps so that neighbours share a truth.
        let accuracy = [0.02, 0.01, 0.005].into_iter().find(|&a| a <= wanted);
        let pace = f64::midpoint(from, to);
        let there = truth.at(At::Users(users), pace, accuracy.unwrap_or(0.003));
        let seconds = point.row.window_s;
        let check = |interval: Option<Between>, value: f64, fixed: f64| {
            interval.map(|interval| Check {
                holds: holds(interval, value),
                width: (fixed > 0.0).then(|| reach(interval) / fixed),
            })
        };
        let row = &point.row;
        let fixed = there.fixed_reach(seconds);
        outcome
            .goodput
            .extend(check(row.goodput_interval, there.goodput, fixed));
        let fixed = there.fixed_attainment_reach(seconds);
        outcome
            .attainment
            .extend(check(row.attainment_interval, there.attainment, fixed));
        let percentiles = [row.ttft_p50_interval, row.ttft_p99_interval];
        for (index, interval) in percentiles.into_iter().enumerate() {
            outcome.ttft[index].extend(check(interval, there.ttft_ms[index], 0.0));
        }
    }
}

/// The load that the fixed grid of 1, 2, 4 to 128 users with 180 s a point says is best.
fn fixed_grid(engine: &Emulated, setting: &Setting<'_>) -> Option<u32> {
    let mut replica = Replica::with_pace(&engine.profile, engine.pace.clone());
    let mut grid = crate::grid::FixedGrid::default();
    sweep(&mut replica, setting, &mut grid);
    grid.best()
}

/// Searches for the rate to sell, and looks whether it is good for it.
fn open(engine: &Emulated, truth: &mut Truth<'_>, first: f64, pace: f64, verbose: bool) -> Sold {
    let slos = [engine.slo.clone()];
    let setting = Setting {
        detail: Detail::Bins,
        ..Setting::new(&engine.workload, &slos, 0x0F_0000 + engine.number)
    };
    // The pace at which the closed loop ended holds on.
    let mut replica = Replica::with_pace(&engine.profile, goodput_virtual::Pace::steady(pace));
    let mut search = RateSearch::new(RatePlan {
        first,
        objective: engine.objective,
        budget: Duration::from_hours(1),
        shortest: Duration::from_secs(20),
    });
    let points = sweep(&mut replica, &setting, &mut search);
    let found = search.found();
    let there = found
        .rate_req_s
        .map(|rate| truth.at(At::Micro((rate * 1e6) as u64), pace, 0.0));
    if verbose {
        print(engine, &points, &format!("open {found:?} {there:?}"));
    }
    Sold {
        keeps: there.map(|t| t.attainment >= engine.objective),
        misses: there.map_or(f64::NAN, |t| {
            (1.0 - t.attainment) / (1.0 - engine.objective)
        }),
        measured_s: found.measured_s,
        points: points.len(),
    }
}

fn print(engine: &Emulated, points: &[Swept], said: &str) {
    println!(
        "#{} {:?} slots {} slo {}: {said}",
        engine.number,
        engine.kind,
        engine.profile.max_num_seqs,
        engine.slo.sentence()
    );
    for p in points {
        let reach = p
            .row
            .goodput_interval
            .map_or(f64::NAN, |i| (i.high - i.low) / 2.0);
        println!(
            "    {:>4} users {:>6.2} req/s {:>5.1} of {:>5.1} s, good {:>6.0} +- {reach:>5.0} of {:>6.0} tok/s, {:.3} in time, e2e p95 {:>6.0} ms",
            p.row.concurrency.unwrap_or(0),
            p.row.rate_req_s.unwrap_or(f64::NAN),
            p.row.window_s,
            p.span.end.seconds() - p.span.start.seconds(),
            p.row.goodput_tok_s,
            p.row.throughput_tok_s,
            p.row.slo_attainment.unwrap_or(f64::NAN),
            p.row.e2e_p95_ms.unwrap_or(f64::NAN),
        );
    }
}
