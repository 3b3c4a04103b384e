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
fn nbm(x: &[f64], b: usize) -> (f64, f64) {
    let k = x.len() / b;
    let ms: Vec<f64> = x[x.len() - k * b..]
        .chunks(k)
        .map(|c| c.iter().sum::<f64>() / k as f64)
        .collect();
    let m = ms.iter().sum::<f64>() / b as f64;
    let v = ms.iter().map(|z| (z - m).powi(2)).sum::<f64>() / (b as f64 - 1.0);
    (
        (v / b as f64).sqrt(),
        autocorrelation(&ms, 1).unwrap_or(0.0),
    )
}
fn main() {
    let a: Vec<u64> = std::env::args()
        .skip(1)
        .map(|x| x.parse().unwrap())
        .collect();
    let names = [
        "geyer",
        "nbm30",
        "nbm15",
        "nbm10",
        "nbm6",
        "nbm5",
        "max30-15-10-6 t9",
        "max 30-15-10 t9",
        "10 rho t9",
        "10 rho t6",
        "obm6",
        "combo",
        "A",
        "B",
        "C",
        "D",
    ];
    let mut cov = vec![vec![(0u32, 0u32); names.len()]; 4];
    let mut wid = vec![vec![Vec::<f64>::new(); names.len()]; 4];
    for e in a[0]..a[1] {
        let eng = Emulated::new(e);
        let slos = [eng.slo.clone()];
        let mut tr = Truth::new(&eng);
        let pace = eng.pace.at(goodput_record::Timestamp::ZERO);
        let (best, _) = tr.best(pace, 0.02);
        for mult in [0.6, 0.85, 1.0, 1.08] {
            let users = ((best as f64 * mult).round() as u32).max(1);
            let t = tr.at(At::Users(users), pace, 0.004);
            if t.goodput <= 0.0 {
                continue;
            }
            for (_wi, win) in [15.0, 30.0, 60.0, 90.0].into_iter().enumerate() {
                for rep in 0..6u64 {
                    let setting = Setting {
                        detail: Detail::Bins,
                        ..Setting::new(&eng.workload, &slos, 1000 * rep + e * 31 + users as u64)
                    };
                    let load = Load::Closed(NonZeroU32::new(users).unwrap());
                    let course = CoursePlan::new(
                        settle(load, Duration::from_secs(10)),
                        Window::Duration(Duration::from_secs_f64(win)),
                    );
                    let plan = PointPlan {
                        look_from: Duration::from_secs(9999),
                        ..PointPlan::new(rep as u32, load, course)
                    };
                    let mut r = Replica::with_pace(&eng.profile, Pace::steady(pace));
                    let m = run_point(&mut r, &setting, &plan, |_, _, _| Look::Wait);
                    let e2e = m.row(&plan).e2e_p95_ms.unwrap_or(1e9) / 1e3;
                    let e50 = m.row(&plan).e2e_p50_ms.unwrap_or(1e9) / 1e3;
                    let wi = if win < 2.0 * e2e {
                        0
                    } else if win < 4.0 * e2e {
                        1
                    } else if win < 10.0 * e2e {
                        2
                    } else {
                        3
                    };
                    let s = m.books.so_far(m.window.start, m.window.end);
                    let x: Vec<f64> = s
                        .groups
                        .iter()
                        .map(|g| g.good_tokens as f64 / s.group_s)
                        .collect();
                    if x.len() < 20 {
                        continue;
                    }
                    let mean = x.iter().sum::<f64>() / x.len() as f64;
                    let q = |d: f64| student_quantile(0.975, d).unwrap();
                    let g = series_mean(&x).unwrap();
                    let gi = g.interval(0.95).unwrap().half_width();
                    let n30 = nbm(&x, x.len());
                    let n15 = nbm(&x, 15.min(x.len()));
                    let n10 = nbm(&x, 10);
                    let n6 = nbm(&x, 6);
                    let n5 = nbm(&x, 5);
                    let rho = |(se, r): (f64, f64), b: f64| {
                        let r = (r + 1.0 / b).clamp(0.0, 0.6);
                        se * ((1.0 + r) / (1.0 - r)).sqrt()
                    };
                    // obm with m = n/6
                    let k = x.len() / 6;
                    let obs: Vec<f64> = x
                        .windows(k)
                        .map(|w| w.iter().sum::<f64>() / k as f64)
                        .collect();
                    let n = x.len() as f64;
                    let kk = k as f64;
                    let ov = obs.iter().map(|z| (z - mean).powi(2)).sum::<f64>() * n * kk
                        / ((n - kk + 1.0) * (n - kk))
                        / n;
                    let obm = ov.sqrt();
                    let mx4 = n30.0.max(n15.0).max(n10.0).max(n6.0);
                    let mx3 = n30.0.max(n15.0).max(n10.0);
                    let hs = [
                        gi,
                        n30.0 * q(n - 1.0),
                        n15.0 * q(14.0),
                        n10.0 * q(9.0),
                        n6.0 * q(5.0),
                        n5.0 * q(4.0),
                        mx4 * q(9.0),
                        mx3 * q(9.0),
                        rho(n10, 10.0) * q(9.0),
                        rho(n10, 10.0) * q(6.0),
                        obm * q(8.0),
                        (g.standard_error.max(mx3)) * q(8.0),
                        {
                            let se = g.standard_error.max(mx3);
                            se * q((win / e50 - 1.0).clamp(2.0, 12.0))
                        },
                        {
                            let se = g.standard_error.max(mx3);
                            se * q((win / e50 / 1.5 - 1.0).clamp(2.0, 12.0))
                        },
                        {
                            let se = g.standard_error.max(mx3);
                            se * q((win / e50 / 1.5 - 1.0).clamp(2.0, 25.0))
                        },
                        {
                            let se = g.standard_error.max(mx3);
                            se * q((win / e50 / 2.0 - 1.0).clamp(2.0, 25.0))
                        },
                    ];
                    for (i, h) in hs.iter().enumerate() {
                        cov[wi][i].1 += 1;
                        if (mean - t.goodput).abs() <= *h + 0.004 * t.goodput * 0.0 {
                            cov[wi][i].0 += 1;
                        }
                        let f = t.fixed_reach(win);
                        if f > 0.0 {
                            wid[wi][i].push(h / f);
                        }
                    }
                }
            }
        }
    }
    for wi in 0..4 {
        println!("window {}", ["<2 e2e", "2-4", "4-10", ">10"][wi]);
        for i in 0..names.len() {
            let w = &mut wid[wi][i];
            w.sort_by(f64::total_cmp);
            println!(
                "  {:<20} coverage {:.3} of {}, width median {:.2} p90 {:.2}",
                names[i],
                cov[wi][i].0 as f64 / cov[wi][i].1 as f64,
                cov[wi][i].1,
                w[w.len() / 2],
                w[w.len() * 9 / 10]
            );
        }
    }
}
