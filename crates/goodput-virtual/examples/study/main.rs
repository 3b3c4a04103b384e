//! The sweep against random engines whose truth is known.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a program that prints a table"
)]

mod fleet;
mod truth;

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use fleet::Emulated;
use goodput_sweep::auto::{PeakPlan, PeakSearch};
use goodput_virtual::{Detail, Replica, Setting, sweep};
use truth::{MOST, Truth};

fn main() {
    let engines: u64 = std::env::args()
        .nth(1)
        .map_or(5, |n| n.parse().expect("a number"));
    for number in 0..engines {
        let engine = Emulated::new(number);
        let slos = [engine.slo.clone()];
        let setting = Setting {
            detail: Detail::Bins,
            ..Setting::new(&engine.workload, &slos, number)
        };
        let mut replica = Replica::with_pace(&engine.profile, engine.pace.clone());
        let t0 = Instant::now();
        let mut search = PeakSearch::new(PeakPlan::new(
            NonZeroU32::new(MOST).expect("not zero"),
            Duration::from_secs(360),
        ));
        let points = sweep(&mut replica, &setting, &mut search);
        let t1 = Instant::now();
        let found = search.found();
        let pace = engine.pace.at(replica.now());
        let mut truth = Truth::new(&engine);
        let (best, most) = truth.best(pace, 0.01);
        let at = found
            .best
            .map(|users| truth.at(truth::At::Users(users), pace, 0.01).goodput);
        println!(
            "#{number} {:?} slots {} slo {} best {best} {most:.0}, found {:?} {:.3}, {} points, {:.0}s measured, {:.0}s in all, sweep {:?} truth {:?}",
            engine.kind,
            engine.profile.max_num_seqs,
            engine.slo.terms(),
            found.best,
            at.unwrap_or(0.0) / most,
            points.len(),
            found.measured_s,
            replica.now().seconds(),
            t1 - t0,
            t1.elapsed()
        );
        for p in &points {
            println!(
                "    {:?} {:.1}s of {:.1}s g {:.0} {:?} x {:.0} a {:.3} e2e {:.0}",
                p.row.concurrency,
                p.row.window_s,
                p.span.end.seconds() - p.span.start.seconds(),
                p.row.goodput_tok_s,
                p.row
                    .goodput_interval
                    .map(|i| ((i.high - i.low) / 2.0).round()),
                p.row.throughput_tok_s,
                p.row.slo_attainment.unwrap_or(-1.0),
                p.row.e2e_p95_ms.unwrap_or(0.0)
            );
        }
    }
}
