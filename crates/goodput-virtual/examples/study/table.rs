//! The table of the study.

use goodput_stats::quantile;

use crate::{
    fleet::Kind,
    one::{Check, Outcome, Sold},
};

fn share<T>(of: &[T], is_it: impl Fn(&T) -> bool) -> String {
    if of.is_empty() {
        return "none".to_owned();
    }
    let those = of.iter().filter(|one| is_it(one)).count();
    format!(
        "{:.1} % of {}",
        100.0 * those as f64 / of.len() as f64,
        of.len()
    )
}

fn spread(values: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let at = |q| quantile(&values, q).unwrap_or(f64::NAN);
    format!(
        "{:.2} / {:.2} / {:.2} / {:.2} / {:.2}",
        at(0.05),
        at(0.25),
        at(0.5),
        at(0.75),
        at(0.95)
    )
}

fn line(what: &str, said: &str) {
    println!("{what:<58} {said}");
}

pub(crate) fn print(all: &[Outcome], budget_s: f64) {
    line(
        "engines (budget of measuring)",
        &format!("{} ({budget_s} s)", all.len()),
    );
    line(
        "lose half their goodput at twice the best load",
        &share(all, |o| o.at_twice <= 0.5),
    );
    line("no load meets the SLO", &share(all, |o| o.share.is_nan()));
    line(
        "best load: 5, 25, 50, 75, 95 %",
        &spread(all.iter().map(|o| f64::from(o.best))),
    );
    line(
        "goodput at twice the best load over the best",
        &spread(all.iter().map(|o| o.at_twice)),
    );
    println!();
    line(
        "load found is within 5 % of the best",
        &share(all, |o| o.share >= 0.95),
    );
    for kind in [Kind::Steady, Kind::Drift, Kind::Step] {
        let of: Vec<&Outcome> = all.iter().filter(|o| o.kind == kind).collect();
        line(&format!("  {kind:?}"), &share(&of, |o| o.share >= 0.95));
    }
    line("  said to be resolved", &share(all, |o| o.resolved));
    let resolved: Vec<&Outcome> = all.iter().filter(|o| o.resolved).collect();
    line(
        "  within 5 % of these",
        &share(&resolved, |o| o.share >= 0.95),
    );
    line("  said to have changed", &share(all, |o| o.changed));
    line(
        "the fixed grid of 1,440 s",
        &share(all, |o| o.grid_share >= 0.95),
    );
    line(
        "true goodput found over the best",
        &spread(all.iter().map(|o| o.share)),
    );
    line(
        "seconds measured",
        &spread(all.iter().map(|o| o.measured_s)),
    );
    line(
        "seconds in all, settling and draining included",
        &spread(all.iter().map(|o| o.all_s)),
    );
    line("points", &spread(all.iter().map(|o| o.points as f64)));
    println!();
    checks(
        "goodput",
        &all.iter()
            .flat_map(|o| o.goodput.clone())
            .collect::<Vec<_>>(),
    );
    checks(
        "attainment",
        &all.iter()
            .flat_map(|o| o.attainment.clone())
            .collect::<Vec<_>>(),
    );
    checks(
        "goodput at the load found",
        &all.iter().filter_map(|o| o.at_found).collect::<Vec<_>>(),
    );
    println!();
    sold(
        "poisson",
        &all.iter().filter_map(|o| o.poisson).collect::<Vec<_>>(),
    );
    sold(
        "bursty",
        &all.iter().filter_map(|o| o.bursty).collect::<Vec<_>>(),
    );
    println!();
    let mut worst: Vec<&Outcome> = all.iter().filter(|o| o.share < 0.95).collect();
    worst.sort_by(|a, b| a.share.total_cmp(&b.share));
    for o in worst.iter().take(12) {
        println!(
            "#{} {:?}: best {} found {:?}, {:.3}",
            o.number, o.kind, o.best, o.found, o.share
        );
    }
}

fn checks(of: &str, all: &[Check]) {
    line(
        &format!("95 % intervals of {of} hold the truth"),
        &share(all, |c| c.holds),
    );
    line(
        "  width over that of a fixed sample",
        &spread(all.iter().filter_map(|c| c.width)),
    );
}

fn sold(kind: &str, all: &[Sold]) {
    line(
        &format!("open loop, {kind}: a rate was found"),
        &share(all, |s| s.keeps.is_some()),
    );
    let found: Vec<&Sold> = all.iter().filter(|s| s.keeps.is_some()).collect();
    line(
        "  it truly keeps the objective",
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
