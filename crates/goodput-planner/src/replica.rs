//! What one replica does under an open load: simulated, or read off a measured curve.

use std::{sync::Arc, time::Duration};

use goodput_ledger::{Mode, PointRow};
use goodput_perf_model::{Demand as Work, Profile};
use goodput_record::Timestamp;
use goodput_slo::{Metric, Slo};
use goodput_stats::Interval;
use goodput_sweep::RunResult;
use goodput_workload::{Arrivals, Load, Shard, Workload, WorkloadSpec};
use serde::Serialize;

use crate::{
    books::hides_a_queue,
    mix::{ClassLoad, run_mix},
};

/// What was seen of one replica at one load. What is undefined is `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadFigures {
    /// Arrivals per second.
    pub rate_req_s: f64,
    /// Requests behind the figures.
    pub requests: u64,
    /// Share of them that must meet the SLO.
    pub objective: f64,
    /// Share of them that met it.
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
    /// From a row of a sweep, of which this share must meet the SLO.
    #[must_use]
    pub fn of_row(row: &PointRow, objective: f64) -> Self {
        let refused = row.outcomes.get("rejected").copied().unwrap_or(0);
        Self {
            rate_req_s: row.rate_req_s.unwrap_or(row.completed_req_s),
            requests: row.requests,
            objective,
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
    pub fn keeps(&self) -> bool {
        self.valid && self.interval.is_some_and(|i| i.low >= self.objective)
    }

    /// Whether it looks as if it did.
    #[must_use]
    pub fn seems_to_keep(&self) -> bool {
        self.valid && self.attainment.is_some_and(|a| a >= self.objective)
    }
}

/// One replica whose figures at a load can be asked for.
///
/// What stands behind it can change: one replica that is simulated by itself, or one of a pool behind
/// a dispatcher.
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
        let cv = (libm::sqrt(index) * 1e3).round() / 1e3;
        let arrivals = if cv > 1.0 {
            Arrivals::Gamma { cv }
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

    /// The rate that the mean field says it keeps up with. A class whose deadline is minutes away
    /// keeps it for minutes at any rate: a window does not show that it would wait for ever.
    fn keeps_up(&self) -> f64 {
        let capacity = self.work().and_then(|work| self.profile.capacity(&work));
        capacity.map_or(f64::INFINITY, |capacity| capacity.rate_req_s)
    }

    /// Where to begin to look for the highest rate that keeps the SLO, in requests per second: the
    /// mean field's answer. Percentiles ask for less. `None` where nothing limits the rate.
    #[must_use]
    pub fn guess(&self) -> Option<f64> {
        guess(&self.profile, &self.work()?, &self.slos[0])
    }
}

/// The mean-field limit on the rate: what keeps the SLO's bound on the time per output token in the
/// mean, or, without such a bound that any rate keeps, what the replica keeps up with.
pub(crate) fn guess(profile: &Profile, work: &Work, slo: &Slo) -> Option<f64> {
    guess_within(profile, work, pace(slo))
}

/// The bound of an SLO on the time per output token.
pub(crate) fn pace(slo: &Slo) -> Option<Duration> {
    slo.clauses().iter().find_map(|clause| {
        let pace = matches!(clause.metric, Metric::Tpot | Metric::TpotMedian);
        pace.then(|| clause.fixed_bound())?
    })
}

/// The same for a bound on the time per output token.
pub(crate) fn guess_within(profile: &Profile, work: &Work, pace: Option<Duration>) -> Option<f64> {
    // What keeps a pace is kept up with: one search is enough.
    let by_pace = pace.and_then(|bound| profile.mean_rate_within(work, bound));
    by_pace.or_else(|| Some(profile.capacity(work)?.rate_req_s))
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
        let class = ClassLoad {
            workload: &self.workload,
            slo: &self.slos[0],
            rate_req_s,
            priority: 0,
        };
        let window_s = f64::from(requests) / rate_req_s;
        let mut at = run_mix(&self.profile, &[class], window_s, self.seed).remove(0);
        if hides_a_queue(&self.slos[0], window_s) {
            at.valid &= rate_req_s <= self.keeps_up();
        }
        at
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
    let objective = result.objective();
    let figures = rows
        .into_iter()
        .map(|row| LoadFigures::of_row(row, objective));
    figures.collect()
}
