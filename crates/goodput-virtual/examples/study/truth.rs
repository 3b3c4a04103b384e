//! What is true of an engine, from long runs.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use goodput_ledger::Latency;
use goodput_stats::wilson;
use goodput_sweep::auto::{Look, Why, settle};
use goodput_virtual::{Detail, Pace, PointPlan, Replica, Setting, run_point};
use goodput_workload::{CoursePlan, Load, Window};

use crate::fleet::Emulated;

/// The largest load, of the truth and of the search.
pub(crate) const MOST: u32 = 256;

/// The truth at one load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct True {
    pub(crate) goodput: f64,
    pub(crate) goodput_error: f64,
    pub(crate) attainment: f64,
    pub(crate) attainment_error: f64,
    /// TTFT percentiles, 50 and 99, in ms.
    pub(crate) ttft_ms: [f64; 2],
    /// Requests judged.
    pub(crate) judged: f64,
    /// Seconds it was seen over.
    pub(crate) seconds: f64,
}

impl True {
    /// Half the width of the interval that a run of `seconds`, fixed ahead, would have for its
    /// goodput if its variance were known.
    pub(crate) fn fixed_reach(&self, seconds: f64) -> f64 {
        1.96 * self.goodput_error * (self.seconds / seconds).sqrt()
    }
}

impl True {
    /// The same for the attainment: half the width of a score interval over as many independent
    /// requests as the run is worth.
    pub(crate) fn fixed_attainment_reach(&self, seconds: f64) -> f64 {
        let binomial = self.attainment * (1.0 - self.attainment) / self.judged.max(1.0);
        let effect = if binomial > 0.0 {
            (self.attainment_error.powi(2) / binomial).max(1.0)
        } else {
            1.0
        };
        let cases = self.judged * seconds / self.seconds / effect;
        let good = (self.attainment * cases).round();
        wilson(good as u64, cases.round().max(good) as u64, 0.95).map_or(0.0, |i| i.half_width())
    }
}

/// A load in the order of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum At {
    Users(u32),
    /// Millionths of a request a second.
    Micro(u64),
}

/// Truths of one engine, computed once.
pub(crate) struct Truth<'a> {
    pub(crate) engine: &'a Emulated,
    /// By load, pace in millionths, and accuracy in hundredths of a percent.
    known: BTreeMap<(At, u32, u32), True>,
}

impl<'a> Truth<'a> {
    pub(crate) fn new(engine: &'a Emulated) -> Self {
        Self {
            engine,
            known: BTreeMap::new(),
        }
    }

    /// The truth at a load and a pace, to a standard error of this share of the goodput.
    pub(crate) fn at(&mut self, at: At, pace: f64, accuracy: f64) -> True {
        let key = (at, (pace * 1e6) as u32, (accuracy * 1e4) as u32);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let found = measure(self.engine, at, pace, accuracy);
        self.known.insert(key, found);
        found
    }

    /// The best load at a pace and its goodput: a scan by doublings, then ever finer around the
    /// best, each to within a standard error of `accuracy`.
    pub(crate) fn best(&mut self, pace: f64, accuracy: f64) -> (u32, f64) {
        let rough = 4.0 * accuracy;
        let mut tried: BTreeMap<u32, f64> = BTreeMap::new();
        let mut users = 1;
        while users <= MOST {
            let goodput = self.at(At::Users(users), pace, rough).goodput;
            tried.insert(users, goodput);
            let best = top(&tried).1;
            if goodput < 0.5 * best {
                break;
            }
            users *= 2;
        }
        for step in [1.41, 1.19, 1.08] {
            let (best, _) = top(&tried);
            for users in [scaled(best, 1.0 / step), scaled(best, step)] {
                if !tried.contains_key(&users) && (1..=MOST).contains(&users) {
                    let accuracy = if step < 1.3 { 1.5 * accuracy } else { rough };
                    tried.insert(users, self.at(At::Users(users), pace, accuracy).goodput);
                }
            }
        }
        let (best, _) = top(&tried);
        (best, self.at(At::Users(best), pace, accuracy).goodput)
    }
}

fn top(tried: &BTreeMap<u32, f64>) -> (u32, f64) {
    tried.iter().fold((1, 0.0), |best, (&users, &goodput)| {
        if goodput > best.1 {
            (users, goodput)
        } else {
            best
        }
    })
}

fn scaled(users: u32, by: f64) -> u32 {
    let there = (f64::from(users) * by).round() as u32;
    if by > 1.0 {
        there.max(users + 1)
    } else {
        there.min(users.saturating_sub(1))
    }
}

/// One long run at one load.
fn measure(engine: &Emulated, at: At, pace: f64, accuracy: f64) -> True {
    let load = match at {
        At::Users(users) => Load::Closed(NonZeroU32::new(users).expect("at least one user")),
        At::Micro(rate) => Load::Open {
            per_second: rate as f64 / 1e6,
        },
    };
    let slos = [engine.slo.clone()];
    let setting = Setting {
        bin: Duration::from_millis(500),
        detail: Detail::Bins,
        ..Setting::new(&engine.workload, &slos, 0x7_0000 + engine.number)
    };
    let longest = Window::Duration(Duration::from_hours(4));
    let course = CoursePlan::new(settle(load, Duration::from_secs(15)), longest);
    let plan = PointPlan {
        look_from: Duration::from_mins(2),
        most_in_flight: 3_000,
        ..PointPlan::new(0, load, course)
    };
    let mut replica = Replica::with_pace(&engine.profile, Pace::steady(pace));
    let mut next_s = 120.0;
    let measured = run_point(&mut replica, &setting, &plan, |books, opened, now| {
        let open_s = now.seconds() - opened.seconds();
        if open_s < next_s {
            return Look::Wait;
        }
        next_s = 1.3 * open_s;
        let seen = books.so_far(opened, now);
        if matches!(at, At::Micro(_)) {
            let enough = seen.met + seen.missed >= 20_000;
            return if enough {
                Look::Close(Why::Settled)
            } else {
                Look::Wait
            };
        }
        match seen.goodput() {
            Some(g) if g.standard_error <= accuracy * g.value.max(1.0) => Look::Close(Why::Settled),
            _ => Look::Wait,
        }
    });
    let seen = measured
        .books
        .so_far(measured.window.start, measured.window.end);
    let (goodput, judged) = (seen.goodput(), seen.met + seen.missed);
    let attainment = seen.attainment();
    let ttft = measured.books.distribution(Latency::Ttft);
    let ttft = ttft.quantiles(&[0.5, 0.99]);
    True {
        ttft_ms: [0, 1].map(|i| ttft[i].map_or(f64::NAN, |ns| ns / 1e6)),
        goodput: goodput.map_or(0.0, |g| g.value),
        goodput_error: goodput.map_or(0.0, |g| g.standard_error),
        attainment: seen.met as f64 / judged.max(1) as f64,
        attainment_error: attainment.map_or(0.0, |a| a.standard_error),
        judged: judged as f64,
        seconds: seen.open_s,
    }
}
