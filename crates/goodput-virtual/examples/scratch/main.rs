#![allow(warnings, clippy::all, clippy::pedantic)]
mod fleet;
mod truth;
use fleet::Emulated;
use goodput_stats::*;
use goodput_sweep::auto::*;
use goodput_virtual::*;
use goodput_workload::*;
use std::num::NonZeroU32;
use std::time::Duration;
use truth::*;
fn main() {
    let a: Vec<u64> = std::env::args()
        .skip(1)
        .map(|x| x.parse().unwrap())
        .collect();
    for e in a[0]..a[1] {
        let eng = Emulated::new(e);
        let slos = [eng.slo.clone()];
        let mut tr = Truth::new(&eng);
        let pace = eng.pace.at(goodput_record::Timestamp::ZERO);
        let (best, g) = tr.best(pace, 0.03);
        let run = |rate: f64, n: f64, seed: u64| {
            let setting = Setting {
                bin: Duration::from_millis(500),
                detail: Detail::Bins,
                ..Setting::new(&eng.workload, &slos, seed)
            };
            let load = Load::Open { per_second: rate };
            let course = CoursePlan::new(
                settle(load, Duration::from_secs(10)),
                Window::Duration(Duration::from_secs_f64(n / rate)),
            );
            let plan = PointPlan {
                look_from: Duration::from_secs(999999),
                most_in_flight: 1000,
                ..PointPlan::new(1, load, course)
            };
            let mut r = Replica::with_pace(&eng.profile, Pace::steady(pace));
            let m = run_point(&mut r, &setting, &plan, |_, _, _| Look::Wait);
            let row = m.row(&plan);
            (m, row)
        };
        // find boundary
        let outmean = 60.0;
        let mut hi = g / eng.mean_out;
        let mut lo = hi * 0.2;
        hi *= 1.3;
        for _ in 0..7 {
            let mid = (lo * hi).sqrt();
            let (_, row) = run(mid, 4000.0, 5);
            let p = row.slo_attainment.unwrap_or(0.0);
            if row.valid && p >= eng.objective {
                lo = mid
            } else {
                hi = mid
            }
        }
        let (m, row) = run(lo, 20000.0, 6);
        // deff from consecutive chunks via so_far over subwindows: 100 windows
        let w0 = m.window.start;
        let total = row.window_s;
        let k = 100;
        let p = row.slo_attainment.unwrap();
        let mut ys = vec![];
        for i in 0..k {
            let s = m.books.so_far(
                goodput_record::Timestamp::from_seconds(w0.seconds() + total * i as f64 / k as f64),
                goodput_record::Timestamp::from_seconds(
                    w0.seconds() + total * (i + 1) as f64 / k as f64,
                ),
            );
            let met: u64 = s.groups.iter().map(|g| g.met).sum();
            let mis: u64 = s.groups.iter().map(|g| g.missed).sum();
            ys.push((met as f64, (met + mis) as f64));
        }
        let n: f64 = ys.iter().map(|y| y.1).sum();
        let v: f64 = ys.iter().map(|y| (y.0 - p * y.1).powi(2)).sum::<f64>();
        let deff = v / (n * p * (1.0 - p));
        println!(
            "#{e} bursty {} rate {:.2} p {:.4} (obj {}) N {:.1} e2e {:.1}s deff(200-req batches) {:.1} deff/N {:.2} invalid {} slo {}",
            eng.bursty,
            lo,
            p,
            eng.objective,
            row.in_flight_mean,
            row.e2e_p50_ms.unwrap() / 1e3,
            deff,
            deff / row.in_flight_mean,
            !row.valid,
            eng.slo.terms()
        );
    }
}
