//! What one replica does under an open load: simulated, or read off a measured curve.

use std::{sync::Arc, time::Duration};

use goodput_ledger::{Mode, PointRow};
use goodput_perf_model::{Demand as Work, Profile};
use goodput_record::{Timestamp, span_of};
use goodput_slo::{Metric, Slo};
use goodput_stats::Interval;
use goodput_sweep::{
    RunResult,
    auto::{Look, Why},
};
use goodput_virtual::{Detail, PointPlan, Replica, Setting, run_point};
use goodput_workload::{Arrivals, CoursePlan, Load, Settle, Shard, Window, Workload, WorkloadSpec};
use serde::Serialize;

/// What was seen of one replica at one load. What is undefined is `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadFigures {
    /// Arrivals per second.
    pub rate_req_s: f64,
    /// Requests behind the figures.
    pub requests: u64,
    /// Share of them that met the SLO.
    pub attainment: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
    /// TTFT percentiles, in ms.
    pub ttft_p50_ms: Option<f64>,
    /// The same at 95 %.
    pub ttft_p95_ms: Option<f64>,
    /// The same at 99 %.
    pub ttft_p99_ms: Option<f64>,
    /// TPOT percentiles across requests, in ms.
    pub tpot_p50_ms: Option<f64>,
    /// The same at 95 %.
    pub tpot_p95_ms: Option<f64>,
    /// The same at 99 %.
    pub tpot_p99_ms: Option<f64>,
    /// Median of the end-to-end time, in ms.
    pub e2e_p50_ms: Option<f64>,
    /// The same at 99 %.
    pub e2e_p99_ms: Option<f64>,
    /// Output tokens per second of requests that met the SLO.
    pub goodput_tok_s: f64,
    /// Requests per second that met it.
    pub goodput_req_s: f64,
    /// Requests in flight, on average.
    pub in_flight_mean: f64,
    /// Share of requests that the replica refused: they never fit.
    pub refused_share: f64,
    /// Whether the point may be used: not given up, not empty.
    pub valid: bool,
}

impl LoadFigures {
    /// From a row of a sweep.
    #[must_use]
    pub fn of_row(row: &PointRow) -> Self {
        let refused = row.outcomes.get("rejected").copied().unwrap_or(0);
        Self {
            rate_req_s: row.rate_req_s.unwrap_or(row.completed_req_s),
            requests: row.requests,
            attainment: row.slo_attainment,
            interval: row.attainment_interval.map(Interval::from),
            ttft_p50_ms: row.ttft_p50_ms,
            ttft_p95_ms: row.ttft_p95_ms,
            ttft_p99_ms: row.ttft_p99_ms,
            tpot_p50_ms: row.tpot_p50_ms,
            tpot_p95_ms: row.tpot_p95_ms,
            tpot_p99_ms: row.tpot_p99_ms,
            e2e_p50_ms: row.e2e_p50_ms,
            e2e_p99_ms: row.e2e_p99_ms,
            goodput_tok_s: row.goodput_tok_s,
            goodput_req_s: row.goodput_req_s,
            in_flight_mean: row.in_flight_mean,
            refused_share: refused as f64 / row.requests.max(1) as f64,
            valid: row.valid,
        }
    }

    /// Whether it surely keeps the objective: the lower end of the interval does.
    #[must_use]
    pub fn keeps(&self, objective: f64) -> bool {
        self.valid && self.interval.is_some_and(|i| i.low >= objective)
    }

    /// Whether it looks as if it did.
    #[must_use]
    pub fn seems_to_keep(&self, objective: f64) -> bool {
        self.valid && self.attainment.is_some_and(|a| a >= objective)
    }
}

/// One replica whose figures at a load can be asked for.
///
/// The one place where a plan meets a simulator: a quicker one, or a pool behind a dispatcher, takes
/// its place here.
pub trait ReplicaModel {
    /// What it does at `rate_req_s`, seen over about so many requests.
    fn at(&mut self, rate_req_s: f64, requests: u32) -> LoadFigures;
}

/// A simulated replica: every load is met by an idle one, under the same random numbers.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Its engine.
    pub profile: Profile,
    /// What is asked of it.
    pub workload: Arc<WorkloadSpec>,
    /// How it is judged: one SLO.
    pub slos: [Slo; 1],
    /// The seed of lengths and arrivals.
    pub seed: u64,
}

/// The share of a window for which the load runs before it opens: without it a short run is too
/// kind, since its queues have had no time to form.
const SETTLE_SHARE: f64 = 0.2;
/// How often a point under way is looked at: this share of its window.
const LOOK_SHARE: f64 = 0.04;
/// A point is closed once it has this many times the misses its whole window may have.
const LOST: f64 = 3.0;

impl Simulated {
    /// A replica of this profile under this workload, judged by this SLO.
    #[must_use]
    pub fn new(profile: Profile, workload: Arc<WorkloadSpec>, slo: Slo, seed: u64) -> Self {
        Self {
            profile,
            workload,
            slos: [slo],
            seed,
        }
    }

    /// The same as one of `replicas` among which arrivals are spread at random, where counts of the
    /// whole have this index of dispersion.
    ///
    /// Of a process whose counts have the index I, a random share of one in R has
    /// `1 + (I - 1) / R`. A renewal process of gaps with that squared coefficient of variation has
    /// the same index in the long run: so come the arrivals here. A dispatcher that knows which
    /// replica is least busy spreads better.
    #[must_use]
    pub fn one_of(&self, replicas: u64, dispersion: f64) -> Self {
        let index = 1.0 + (dispersion - 1.0).max(0.0) / replicas.max(1) as f64;
        let arrivals = if index > 1.0 {
            Arrivals::Gamma {
                cv: libm::sqrt(index),
            }
        } else {
            Arrivals::Poisson
        };
        let workload = self.workload.as_ref().clone().with_arrivals(arrivals);
        Self {
            workload: Arc::new(workload),
            ..self.clone()
        }
    }

    /// The index of dispersion of the workload's own arrivals; `None` for those of a trace, which
    /// only the trace knows.
    #[must_use]
    pub fn own_dispersion(&self) -> Option<f64> {
        match self.workload.arrivals() {
            Arrivals::Poisson => Some(1.0),
            Arrivals::Gamma { cv } => Some(cv * cv),
            Arrivals::Trace => None,
        }
    }

    /// The mean request's work, as its first requests have it.
    #[must_use]
    pub fn work(&self) -> Option<Work> {
        work_of(&self.workload, self.seed)
    }

    /// Where to begin to look for the highest rate that keeps the SLO, in requests per second: the
    /// mean field's answer (limits of TPOT, slots and KV), which is too high by some percent where
    /// it holds at all. `None` where nothing limits the rate.
    #[must_use]
    pub fn guess(&self) -> Option<f64> {
        let work = self.work()?;
        let tpot = self.slos[0].clauses().iter().find_map(|clause| {
            matches!(clause.metric, Metric::Tpot | Metric::TpotMedian)
                .then(|| clause.fixed_bound())?
        });
        guess(&self.profile, &work, tpot)
    }
}

/// The mean-field limit on the rate: `min` over the TPOT bound, the slots and the KV cache.
pub(crate) fn guess(profile: &Profile, work: &Work, tpot: Option<Duration>) -> Option<f64> {
    let step = &profile.step_time;
    let mut step = *step;
    // Arithmetic that outgrows the weight reads is work of each token; counted whole, since a guess
    // that is too low costs a look more and one that is too high a saturated one.
    step.prefill_s += step.compute_s;
    let idle_s = step.overhead_s + step.weights_s + step.experts.map_or(0.0, |e| e.read_s);
    let saturation = step.saturation_rate(work);
    let by_tpot = tpot.and_then(|bound| {
        let share = 1.0 - idle_s / bound.as_secs_f64();
        (share > 0.0).then(|| saturation.map(|limit| limit * share))?
    });
    // Little's law on what a sequence holds: rate x tokens x a / (1 - rate / saturation) = most.
    let by_room = |most: f64| {
        let alone = idle_s * work.output_tokens / most;
        1.0 / (alone + saturation.map_or(0.0, |limit| 1.0 / limit))
    };
    let slots = by_room(f64::from(profile.max_num_seqs.get()));
    let kv = by_room(profile.kv_tokens() as f64 / work.context_tokens.max(1.0));
    let limits = [by_tpot, Some(slots), Some(kv), saturation];
    let least = limits.into_iter().flatten().fold(f64::INFINITY, f64::min);
    (least.is_finite() && least > 0.0).then_some(least)
}

/// How many requests the mean is taken over.
const SAMPLE: usize = 2_000;

/// The work of a workload's mean request; what a cache would hold by plan is not computed.
pub(crate) fn work_of(spec: &Arc<WorkloadSpec>, seed: u64) -> Option<Work> {
    let load = Load::Open { per_second: 1.0 };
    let mut workload = Workload::new(spec, load, seed, Shard::WHOLE);
    let (mut count, mut sum) = (0, [0.0; 4]);
    while count < SAMPLE
        && let Some(request) = workload.take(Timestamp::FAR_FUTURE)
    {
        workload.ended(request.session, request.due);
        let (whole, held) = (
            f64::from(request.input_tokens),
            f64::from(request.cached_tokens),
        );
        let (new, l) = (whole - held, f64::from(request.output_tokens));
        let pairs = new * held + new * (new + 1.0) / 2.0;
        let of = [new, pairs, l, l * (whole + l / 2.0)];
        for (sum, of) in sum.iter_mut().zip(of) {
            *sum += of;
        }
        count += 1;
    }
    let mean = sum.map(|sum| sum / count as f64);
    (count > 0).then(|| Work {
        prefill_tokens: mean[0],
        prefill_pairs: mean[1],
        output_tokens: mean[2],
        context_tokens: mean[3] / mean[2],
    })
}

impl ReplicaModel for Simulated {
    fn at(&mut self, rate_req_s: f64, requests: u32) -> LoadFigures {
        let window_s = f64::from(requests) / rate_req_s;
        let setting = Setting {
            bin: span_of((window_s / 2_000.0).clamp(0.1, 60.0)),
            detail: Detail::Bins,
            ..Setting::new(&self.workload, &self.slos, self.seed)
        };
        let load = Load::Open {
            per_second: rate_req_s,
        };
        let course = CoursePlan {
            // An answer of hours is late by any SLO; what is cut counts as missed.
            drain: Duration::from_hours(1),
            ..CoursePlan::new(
                Settle::Fixed(span_of(window_s * SETTLE_SHARE)),
                Window::Duration(span_of(window_s)),
            )
        };
        let plan = PointPlan {
            look_from: span_of(window_s * LOOK_SHARE),
            most_in_flight: 2_000 + 8 * self.profile.max_num_seqs.get(),
            ..PointPlan::new(0, load, course)
        };
        let may_miss = (1.0 - self.slos[0].objective().share) * f64::from(requests);
        let every = span_of(window_s * LOOK_SHARE);
        let mut next = Timestamp::ZERO;
        let mut replica = Replica::new(&self.profile);
        let measured = run_point(&mut replica, &setting, &plan, |books, opened, now| {
            if now < next {
                return Look::Wait;
            }
            next = now.after(every);
            let missed = books.so_far(opened, now).missed as f64;
            if missed > LOST * may_miss + 10.0 {
                Look::Close(Why::Breaks)
            } else {
                Look::Wait
            }
        });
        LoadFigures::of_row(&measured.row(&plan))
    }
}

/// The open-loop points of a result under the workload's own arrivals, by rising rate. Of a rate
/// measured twice the longer point stands.
#[must_use]
pub fn measured(result: &RunResult) -> Vec<LoadFigures> {
    let mut rows: Vec<&PointRow> = result.points.iter().collect();
    rows.retain(|row| row.mode == Mode::Open && row.valid && row.other_arrivals.is_none());
    rows.sort_by(|a, b| {
        a.load()
            .total_cmp(&b.load())
            .then(b.requests.cmp(&a.requests))
    });
    rows.dedup_by(|later, kept| later.load().total_cmp(&kept.load()).is_eq());
    rows.into_iter().map(LoadFigures::of_row).collect()
}
