//! One engine of the study: swept, and held against its truth.

use std::{num::NonZeroU32, time::Duration};

use goodput_ledger::Between;
use goodput_sweep::auto::{PeakPlan, PeakSearch, RatePlan, RateSearch};
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
    pub(crate) poisson: Option<Sold>,
    pub(crate) bursty: Option<Sold>,
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
            poisson: None,
            bursty: None,
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
    let found = search.found();
    let all_s = replica.now().seconds();
    let pace = engine.pace.at(replica.now());
    let mut truth = Truth::new(&engine);
    if parts == Parts::Open {
        let sold = search
            .first_rate()
            .map(|first| open(&engine, &mut truth, first, pace, verbose));
        return Outcome {
            bursty: sold.filter(|_| engine.bursty),
            poisson: sold.filter(|_| !engine.bursty),
            ..Outcome::of(number, engine.kind)
        };
    }
    let (mut best, mut most_goodput) = truth.best(pace, ACCURACY);
    let at_found = found
        .best
        .map(|users| truth.at(At::Users(users), pace, ACCURACY));
    if let (Some(users), Some(there)) = (found.best, at_found)
        && there.goodput > most_goodput
    {
        (best, most_goodput) = (users, there.goodput);
    }
    let share = at_found.map_or(0.0, |there| there.goodput / most_goodput);
    let interval_of_found = found.interval.zip(at_found).map(|(interval, there)| Check {
        holds: holds(interval, there.goodput),
        width: None,
    });
    let (goodput, attainment, ttft) = checks(&mut truth, &engine, &points, found.best);
    let grid_share = fixed_grid(&engine, &setting).map_or(0.0, |users| {
        truth.at(At::Users(users), pace, ACCURACY).goodput / most_goodput
    });
    let twice = truth.at(At::Users(2 * best), pace, 4.0 * ACCURACY).goodput;
    let poisson = search
        .first_rate()
        .filter(|_| parts == Parts::Both)
        .map(|first| open(&engine, &mut truth, first, pace, verbose));
    if verbose {
        print(
            &engine,
            &points,
            &format!(
                "best {best} {most_goodput:.0}, found {found:?}, share {share:.3}, open {poisson:?}"
            ),
        );
    }
    Outcome {
        number,
        kind: engine.kind,
        share,
        grid_share,
        at_twice: twice / most_goodput,
        best,
        found: found.best,
        resolved: found.resolved,
        changed: found.changed,
        points: points.len(),
        measured_s: found.measured_s,
        all_s,
        goodput,
        at_found: interval_of_found,
        attainment,
        ttft,
        poisson: poisson.filter(|_| !engine.bursty),
        bursty: poisson.filter(|_| engine.bursty),
    }
}

fn holds(interval: Between, truth: f64) -> bool {
    (interval.low..=interval.high).contains(&truth)
}

/// Intervals of some points against the truth at the pace in force.
fn checks(
    truth: &mut Truth<'_>,
    engine: &Emulated,
    points: &[Swept],
    best: Option<u32>,
) -> (Vec<Check>, Vec<Check>, [Vec<Check>; 2]) {
    // The point of the best load that was measured first, and others spread over the sweep.
    let every = points.len().div_ceil(CHECKED).max(1);
    let is_best = |p: &Swept| p.row.concurrency == best;
    let chosen = points
        .iter()
        .enumerate()
        .filter(|(i, p)| i % every == 1 || is_best(p));
    let (mut goodput, mut attainment, mut ttft) =
        (Vec::new(), Vec::new(), <[Vec<Check>; 2]>::default());
    for (_, point) in chosen {
        let (from, to) = (
            engine.pace.at(point.window.start),
            engine.pace.at(point.span.end),
        );
        // A step inside the window has no one truth.
        if (from / to - 1.0).abs() > 0.03 {
            continue;
        }
        let (Some(users), pace) = (point.row.concurrency, f64::midpoint(from, to)) else {
            continue;
        };
        let reach = point
            .row
            .goodput_interval
            .map_or(0.0, |i| (i.high - i.low) / 2.0);
        let wanted = 0.2 * reach / point.row.goodput_tok_s.max(1.0);
        // As exact as the interval needs, in few steps so that neighbours share a truth.
        let accuracy = [0.02, 0.01, 0.005].into_iter().find(|&a| a <= wanted);
        let there = truth.at(At::Users(users), pace, accuracy.unwrap_or(0.003));
        let fixed = there.fixed_reach(point.row.window_s);
        if let Some(i) = point.row.goodput_interval {
            goodput.push(Check {
                holds: holds(i, there.goodput),
                width: (fixed > 0.0).then(|| (i.high - i.low) / 2.0 / fixed),
            });
        }
        let percentiles = [point.row.ttft_p50_interval, point.row.ttft_p99_interval];
        for (index, interval) in percentiles.into_iter().enumerate() {
            ttft[index].extend(interval.map(|i| Check {
                holds: holds(i, there.ttft_ms[index]),
                width: None,
            }));
        }
        if let Some(i) = point.row.attainment_interval {
            let fixed = there.fixed_attainment_reach(point.row.window_s);
            attainment.push(Check {
                holds: holds(i, there.attainment),
                width: (fixed > 0.0).then(|| (i.high - i.low) / 2.0 / fixed),
            });
        }
    }
    (goodput, attainment, ttft)
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
        budget: Duration::from_secs(3_600),
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
