//! The table of the study, and whether it is as it should be.

use goodput_stats::quantile;

use crate::{
    fleet::Kind,
    one::{Check, Outcome, Sold},
};

/// What a run of a few dozen engines must reach; a true share of 95 % falls below in one of a
/// thousand runs.
const LEAST: f64 = 0.82;

/// Percent of those of which something is true, and how many there are.
fn share<T>(of: &[T], is_it: impl Fn(&T) -> bool) -> String {
    if of.is_empty() {
        return "-".to_owned();
    }
    let part = 100.0 * part(of, is_it);
    format!("{part:.1} % of {}", of.len())
}

fn part<T>(of: &[T], is_it: impl Fn(&T) -> bool) -> f64 {
    let those = of.iter().filter(|one| is_it(one)).count();
    those as f64 / of.len().max(1) as f64
}

/// Percentiles 5, 25, 50, 75, 95.
fn spread(values: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let told = [0.05, 0.25, 0.5, 0.75, 0.95].map(|q| {
        let value = quantile(&values, q);
        value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"))
    });
    told.join(" / ")
}

fn line(what: &str, said: &str) {
    println!("{what:<58} {said}");
}

/// Prints the table; returns whether nothing in it is worse than chance allows.
pub(crate) fn print(all: &[Outcome], budget_s: f64) -> bool {
    println!("Five figures are percentiles 5 / 25 / 50 / 75 / 95.\n");
    let engines: Vec<Outcome> = all.iter().filter(|o| o.best > 0).cloned().collect();
    if !engines.is_empty() {
        fleet(&engines, budget_s);
        found(&engines);
    }
    let checked = intervals(&engines);
    let of = |bursty: bool| all.iter().filter(move |o| o.bursty == bursty);
    let gathered = |bursty| of(bursty).filter_map(|o| o.sold).collect::<Vec<Sold>>();
    let (poisson, bursty) = (gathered(false), gathered(true));
    sold("Poisson arrivals", &poisson);
    sold("arrivals in bursts", &bursty);
    let both = poisson.iter().chain(&bursty);
    let kept: Vec<bool> = both.filter_map(|s| s.keeps).collect();
    let near = engines.is_empty() || part(&engines, |o| o.share >= 0.95) >= LEAST;
    near && checked && (kept.is_empty() || part(&kept, |k| *k) >= LEAST)
}

fn fleet(all: &[Outcome], budget_s: f64) {
    line("engines", &all.len().to_string());
    line("budget of measuring", &format!("{budget_s} s"));
    line(
        "best load, users",
        &spread(all.iter().map(|o| f64::from(o.best))),
    );
    let twice = spread(all.iter().map(|o| o.at_twice));
    line("goodput at twice the best load, over the best", &twice);
    let half = share(all, |o| o.at_twice <= 0.5);
    line("  lose half or more", &half);
    println!();
}

fn found(all: &[Outcome]) {
    let near = |o: &Outcome| o.share >= 0.95;
    line(
        "true goodput at the load found within 5 % of the best",
        &share(all, near),
    );
    for kind in [Kind::Steady, Kind::Drift, Kind::Step] {
        let of: Vec<&Outcome> = all.iter().filter(|o| o.kind == kind).collect();
        line(&format!("  {}", kind.words()), &share(&of, |o| near(o)));
    }
    let resolved: Vec<&Outcome> = all.iter().filter(|o| o.resolved).collect();
    line("  said to be resolved", &share(all, |o| o.resolved));
    line("    of these within 5 %", &share(&resolved, |o| near(o)));
    line("  said to have changed", &share(all, |o| o.changed));
    line("  nothing found", &share(all, |o| o.found.is_none()));
    line(
        "true goodput at the load found, over the best",
        &spread(all.iter().map(|o| o.share)),
    );
    line(
        "seconds measured",
        &spread(all.iter().map(|o| o.measured_s)),
    );
    line(
        "seconds with settling and draining",
        &spread(all.iter().map(|o| o.all_s)),
    );
    line("points", &spread(all.iter().map(|o| o.points as f64)));
    line(
        "fixed grid 1, 2, 4 .. 128 of 180 s: within 5 %",
        &share(all, |o| o.grid_share >= 0.95),
    );
    let mut worst: Vec<&Outcome> = all.iter().filter(|o| !near(o)).collect();
    worst.sort_by(|a, b| a.share.total_cmp(&b.share));
    for o in worst.iter().take(10) {
        let (number, best, kind) = (o.number, o.best, o.kind.words());
        let users = o
            .found
            .map_or_else(|| "nothing".to_owned(), |n| n.to_string());
        println!(
            "    #{number} ({kind}): best {best}, found {users}: {:.3} of the best",
            o.share
        );
    }
    println!();
}

/// Intervals against the truth; whether they hold it often enough.
fn intervals(all: &[Outcome]) -> bool {
    let steady = all.iter().filter(|o| o.kind == Kind::Steady);
    let of = [
        ("goodput", gather(all, |o| &o.goodput)),
        ("attainment", gather(all, |o| &o.attainment)),
        ("TTFT p50", gather(all, |o| &o.ttft[0])),
        ("TTFT p99", gather(all, |o| &o.ttft[1])),
        (
            "goodput of the load found, steady",
            steady.filter_map(|o| o.at_found).collect(),
        ),
    ];
    for (name, checks) in &of {
        let holds = share(checks, |c: &Check| c.holds);
        line(&format!("95 % intervals hold the truth: {name}"), &holds);
        if checks.iter().any(|c| c.width.is_some()) {
            let widths = spread(checks.iter().filter_map(|c| c.width));
            line("  width over that of a fixed sample", &widths);
        }
    }
    println!();
    let enough = |checks: &Vec<Check>| checks.is_empty() || part(checks, |c| c.holds) >= 0.88;
    of[..2].iter().all(|(_, checks)| enough(checks))
}

fn gather(all: &[Outcome], of: impl Fn(&Outcome) -> &Vec<Check>) -> Vec<Check> {
    all.iter().flat_map(|o| of(o).iter().copied()).collect()
}

fn sold(kind: &str, all: &[Sold]) {
    if all.is_empty() {
        return;
    }
    line(
        &format!("open loop, {kind}: a rate was proven"),
        &share(all, |s| s.keeps.is_some()),
    );
    let found: Vec<&Sold> = all.iter().filter(|s| s.keeps.is_some()).collect();
    line(
        "  and truly keeps the objective",
        &share(&found, |s| s.keeps == Some(true)),
    );
    line(
        "  its misses over those allowed",
        &spread(all.iter().map(|s| s.misses)),
    );
    line(
        "  seconds measured",
        &spread(all.iter().map(|s| s.measured_s)),
    );
    line("  points", &spread(all.iter().map(|s| s.points as f64)));
}
