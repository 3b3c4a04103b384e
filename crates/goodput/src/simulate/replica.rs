//! A replica in virtual time as the source of a run's records.

use std::{
    cell::{Cell, RefCell},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use goodput_ledger::{ClientRow, Mode, PointFacts};
use goodput_loadgen::{Stop, Wish};
use goodput_perf_model::{FittedOn, Profile};
use goodput_record::{
    EngineSample, Gaps, Phase, RequestRecord, RequestSummary, Series, SeriesId, SeriesTable,
    Timestamp,
};
use goodput_results::{JsonLines, RowJob};
use goodput_slo::Verdict;
use goodput_sweep::RequestBar;
use goodput_virtual::{
    Detail, Measured, PointPlan, Replica, Sampled, Setting, Witness, run_point_before,
};
use goodput_workload::{CoursePlan, Load, PlannedRequest};

use crate::{
    exit::Failure,
    measure::{
        BARS, BIN, Failed, INTERRUPTED, MetricRow, Observed, PointOrder, Seen, cached_share,
        load_words, lock,
    },
};

/// What begins the warning of a point beyond what its profile was fitted on.
const EXTRAPOLATED: &str = "extrapolated";
/// How often the engine's own counters are read, in virtual time.
const EVERY: Duration = Duration::from_secs(1);

/// A simulated replica that lives through a whole run.
pub(crate) struct Virtual {
    replica: Replica,
    detail: Detail,
    /// The names behind the records, the model's among them.
    names: RefCell<Names>,
    /// Whether records are kept.
    records: bool,
    /// `server_metrics.jsonl`.
    metrics: Option<RefCell<JsonLines>>,
    /// The labels that vLLM puts on every metric.
    labels: String,
    /// The number of the signal that was caught, 0 for none.
    signal: Arc<AtomicU8>,
    /// What the profile was fitted on.
    fitted_on: Option<FittedOn>,
}

impl Virtual {
    /// An idle replica. Without `metrics` and records a run is several times as fast.
    pub(crate) fn new(
        profile: &Profile,
        records: bool,
        metrics: Option<JsonLines>,
        signal: &Arc<AtomicU8>,
    ) -> Self {
        Self {
            replica: Replica::new(profile),
            detail: if records {
                Detail::EveryToken
            } else {
                Detail::Bins
            },
            names: RefCell::new(Names::new(&profile.model_id)),
            records,
            metrics: metrics.map(RefCell::new),
            labels: format!("{{engine=\"0\",model_name=\"{}\"}}", profile.model_id),
            signal: Arc::clone(signal),
            fitted_on: profile.fitted_on,
        }
    }

    /// What time it is for the replica.
    pub(crate) const fn now(&self) -> Timestamp {
        self.replica.now()
    }

    /// The signal that was caught, if one was.
    pub(crate) fn caught(&self) -> Option<u8> {
        Some(self.signal.load(Ordering::Relaxed)).filter(|number| *number > 0)
    }

    /// Closes the files.
    pub(crate) fn close(&mut self) {
        self.metrics = None;
    }

    /// Carries a load point out.
    pub(crate) fn carry(&mut self, order: &PointOrder) -> Result<Observed, Failure> {
        let plan = plan(order);
        let setting = Setting {
            bin: BIN,
            detail: self.detail,
            ..Setting::new(&order.spec, &order.slos, order.seed)
        };
        let hearing = Hearing {
            order,
            names: &self.names,
            records: self.records,
            metrics: self.metrics.as_ref(),
            labels: &self.labels,
            bars: RefCell::default(),
            samples: RefCell::default(),
            trouble: Cell::new(None),
        };
        let strategy = order.looks.as_ref().map(|looks| &looks.0);
        let look = |books: &goodput_ledger::PointBooks, opened, now| match strategy {
            None => goodput_sweep::auto::Look::Wait,
            Some(strategy) => strategy.borrow_mut().look(&books.so_far(opened, now)),
        };
        let measured = run_point_before(&mut self.replica, &setting, &plan, &hearing, look);
        let (bars, samples, trouble) = hearing.into_parts();
        if let Some(trouble) = trouble {
            return Err(Failure::untrusted(trouble));
        }
        let mut facts = facts(order, &measured, &samples);
        if let Some(fitted) = &self.fitted_on {
            facts.warnings.extend(beyond(fitted, order.load, &samples));
        }
        Ok(Observed {
            bars: RequestBar::since_the_first(bars, BARS),
            facts,
            server: None,
            seen: Seen::ByEngine {
                every_gap: self.detail == Detail::EveryToken,
            },
            interrupted: measured.interrupted,
            failed: measured.gave_up.as_ref().map(|why| Failed {
                why: format!("at {}: {why}", load_words(order.load)),
                given_up: measured.taken == 0,
            }),
            books: measured.books,
        })
    }
}

fn plan(order: &PointOrder) -> PointPlan {
    PointPlan {
        place: order.place,
        look_from: order.looks.as_ref().map_or(Duration::ZERO, |looks| looks.1),
        ramp: order.ramp,
        warm_up: order.warm_up,
        ..PointPlan::new(
            order.point,
            order.load,
            CoursePlan::new(order.settle, order.window),
        )
    }
}

/// What the source says of a point. There is no client whose lateness could be told.
fn facts(order: &PointOrder, measured: &Measured, samples: &[EngineSample]) -> PointFacts {
    let (mode, concurrency, rate_req_s) = match order.load {
        Load::Closed(users) => (Mode::Closed, Some(users.get()), None),
        Load::Open { per_second } => (Mode::Open, None, Some(per_second)),
    };
    let seen = measured.window.end.since(measured.window.start);
    let window = match seen {
        Some(span) if span >= 2 * BIN => measured.window.clone(),
        // A point so short that it has no window is taken whole.
        _ => measured.span.clone(),
    };
    let mut warnings = Vec::new();
    if measured.interrupted {
        warnings.push(INTERRUPTED.to_owned());
    }
    warnings.extend(ran_dry(order, measured, seen.unwrap_or_default()));
    PointFacts {
        concurrency,
        rate_req_s,
        gpus: order.gpus,
        in_flight_peak: Some(measured.in_flight_peak),
        in_flight_at_end: measured.in_flight_at_end,
        server_cached_share: cached_share(samples, &window),
        client: ClientRow::default(),
        invalid: measured.invalid.clone(),
        warnings,
        ..PointFacts::new(order.point, mode, window)
    }
}

/// Where a point goes beyond the loads that its profile was fitted on.
fn beyond(fitted: &FittedOn, load: Load, samples: &[EngineSample]) -> Vec<String> {
    let most = samples.iter().filter_map(|sample| sample.running).max();
    let decodes = fitted
        .decodes
        .zip(most)
        .filter(|(e, n)| f64::from(*n) > e.max);
    let decodes = decodes.map(|(extent, n)| {
        format!(
            "{EXTRAPOLATED}: up to {n} sequences ran at once, the profile was fitted on {} to {}",
            extent.min, extent.max
        )
    });
    let rate = match load {
        Load::Open { per_second } => fitted.rate_req_s.filter(|extent| per_second > extent.max),
        Load::Closed(_) => None,
    };
    let rate = rate.map(|extent| {
        format!(
            "{EXTRAPOLATED}: the profile was fitted on up to {} req/s",
            extent.max
        )
    });
    decodes.into_iter().chain(rate).collect()
}

/// Says that a workload of given rows had fewer requests than the point was to have.
fn ran_dry(order: &PointOrder, measured: &Measured, seen: Duration) -> Option<String> {
    if !measured.ran_dry {
        return None;
    }
    crate::measure::dry_words(order.window, measured.arrivals_due, seen)
}

/// The names of a run's records.
struct Names {
    model: String,
    table: SeriesTable,
    /// The same, shared with the rows that wait for the disk.
    shared: Vec<Arc<Series>>,
}

impl Names {
    fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            table: SeriesTable::default(),
            shared: Vec::new(),
        }
    }

    fn of(&mut self, planned: &PlannedRequest) -> SeriesId {
        let name = |of: &Option<Arc<str>>| of.as_deref().unwrap_or_default().to_owned();
        let series = Series {
            tenant: name(&planned.tenant),
            class: name(&planned.class),
            model: self.model.clone(),
            ..Series::default()
        };
        let id = self.table.intern(&series);
        if id.index() == self.shared.len() {
            self.shared.push(Arc::new(series));
        }
        id
    }

    fn get(&self, id: SeriesId) -> Arc<Series> {
        self.shared.get(id.index()).cloned().unwrap_or_default()
    }
}

/// Keeps what happens at a point: rows, counters, a sample of its requests.
struct Hearing<'a> {
    order: &'a PointOrder,
    names: &'a RefCell<Names>,
    records: bool,
    metrics: Option<&'a RefCell<JsonLines>>,
    labels: &'a str,
    bars: RefCell<Vec<RequestBar>>,
    samples: RefCell<Vec<EngineSample>>,
    /// Why the counters cannot be kept.
    trouble: Cell<Option<String>>,
}

impl Hearing<'_> {
    fn into_parts(self) -> (Vec<RequestBar>, Vec<EngineSample>, Option<String>) {
        (
            self.bars.into_inner(),
            self.samples.into_inner(),
            self.trouble.into_inner(),
        )
    }

    fn keep_bar(&self, summary: &RequestSummary, met: bool) {
        let mut bars = self.bars.borrow_mut();
        if bars.len() < BARS {
            bars.push(RequestBar::of(summary, met));
        }
    }

    /// The counters under the names that vLLM gives them.
    fn write(&self, lines: &mut JsonLines, sampled: &Sampled) -> Result<(), String> {
        let sample = &sampled.sample;
        let values = [
            ("num_requests_running", sample.running.map(f64::from)),
            ("num_requests_waiting", sample.waiting.map(f64::from)),
            ("kv_cache_usage_perc", sample.kv_used),
            ("num_preemptions_total", sample.preemptions.map(count)),
            (
                "prefix_cache_queries_total",
                sample.prefix_queries.map(count),
            ),
            ("prefix_cache_hits_total", sample.prefix_hits.map(count)),
            (
                "generation_tokens_total",
                Some(count(sampled.output_tokens)),
            ),
        ];
        for (name, value) in values {
            let Some(value) = value else { continue };
            lines.write(&MetricRow {
                t_ns: sample.at.nanos(),
                replica: sample.replica,
                name: &format!("vllm:{name}{}", self.labels),
                value,
            })?;
        }
        Ok(())
    }
}

fn count(n: u64) -> f64 {
    n as f64
}

impl Witness for Hearing<'_> {
    fn series(&self, planned: &PlannedRequest) -> SeriesId {
        self.names.borrow_mut().of(planned)
    }

    fn ended(&self, record: &RequestRecord, phase: Phase, verdicts: &[Verdict]) {
        let met = verdicts.first() == Some(&Verdict::Met);
        let measured = phase == Phase::Measured;
        {
            let mut counts = lock(&self.order.counts);
            counts.ended += 1;
            counts.answered += u64::from(record.summary.first_token().is_some());
            counts.measured += u64::from(measured);
            counts.met += u64::from(measured && met);
        }
        if measured {
            self.keep_bar(&record.summary, met);
        }
        if !self.records {
            return;
        }
        let rows = &self.order.rows;
        let gaps = if rows.keeps_gaps() {
            record.gaps.clone()
        } else {
            Gaps::NotKept
        };
        rows.send_when_there_is_room(RowJob {
            record: RequestRecord {
                summary: record.summary,
                gaps,
            },
            point: self.order.point,
            phase,
            series: self.names.borrow().get(record.summary.arrival().series),
            verdicts: verdicts.iter().map(|v| v.word()).collect(),
            text: None,
            error: None,
        });
    }

    fn needs_whole_records(&self) -> bool {
        self.records
    }

    fn sample_every(&self) -> Option<Duration> {
        Some(EVERY)
    }

    fn sampled(&self, sampled: &Sampled) {
        let mut counts = lock(&self.order.counts);
        counts.arrived = counts.ended + u64::from(sampled.in_flight);
        drop(counts);
        self.samples.borrow_mut().push(sampled.sample);
        if let Some(lines) = self.metrics
            && let Err(trouble) = self.write(&mut lines.borrow_mut(), sampled)
        {
            self.trouble.set(Some(trouble));
        }
    }

    fn stops(&self) -> bool {
        self.order.stop.wish() != Wish::Run || self.order.rows.trouble().is_some()
    }
}

/// Has signals end the run: the first one is kept, and ends the point in virtual time at once.
pub(super) fn end_on_signals(stop: &Stop) -> Arc<AtomicU8> {
    let caught = Arc::new(AtomicU8::new(0));
    let (stop, seen) = (stop.clone(), Arc::clone(&caught));
    // Without the thread a signal ends the program as it would any other.
    let _ = std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                let Ok(mut signals) = crate::measure::Signals::listen() else {
                    return;
                };
                loop {
                    let number = signals.next().await;
                    let _ = seen.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
                    stop.ask();
                }
            });
        });
    caught
}
