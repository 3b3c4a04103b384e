//! Several classes through one simulated replica.
//!
//! The one place where a plan meets the simulator.

use std::{cell::RefCell, ops::Range, rc::Rc, sync::Arc, time::Duration};

use goodput_ledger::{Mode, PointBooks, PointFacts};
use goodput_perf_model::Profile;
use goodput_record::{
    Arrival, Outcome, Phase, RequestRecord, SeriesId, Sink, Timestamp, Vantage, millis, span_of,
};
use goodput_sim::{
    Engine, EngineRequest,
    drive::{Due, Plan, Source, run},
};
use goodput_slo::{Metric, Slo};
use goodput_stats::{CONFIDENCE, wilson};
use goodput_workload::{Load, Shard, Workload, WorkloadSpec, point_seed};

use crate::replica::LoadFigures;

/// A class of requests at one replica.
#[derive(Clone, Debug)]
pub struct ClassLoad<'a> {
    /// What is asked.
    pub workload: &'a Arc<WorkloadSpec>,
    /// How it is judged.
    pub slo: &'a Slo,
    /// Requests per second of the class.
    pub rate_req_s: f64,
    /// Whose prompts come first: 0 before 1.
    pub priority: u8,
}

/// The share of a window for which the load runs before it opens: without it a short run is too
/// kind, since its queues have had no time to form.
const SETTLE_SHARE: f64 = 0.2;
/// The same after it: the last requests of a window are to meet the load that the others met.
const HOLD_SHARE: f64 = 0.1;
/// A run is given up once a class has this many times the misses that its window may have.
const LOST: f64 = 3.0;
/// Requests that may be open at the end of a window more than at its beginning, as a share of all.
const GROWTH: f64 = 0.01;
/// An answer that is not there so long after the window is late by any SLO: it is cut, and a miss.
const DRAIN: Duration = Duration::from_hours(1);

/// What each class gets from one replica, over a window of `window_s` seconds of virtual time.
///
/// A run in which a class has missed three times as much as its SLO allows is given up: its figures
/// then are of what was seen up to there.
#[must_use]
pub fn run_mix(
    profile: &Profile,
    classes: &[ClassLoad<'_>],
    window_s: f64,
    seed: u64,
) -> Vec<LoadFigures> {
    run_watched(profile, classes, window_s, seed, |_, _| {})
}

/// The same, with every measured record shown to `watch` together with its class.
pub(crate) fn run_watched(
    profile: &Profile,
    classes: &[ClassLoad<'_>],
    window_s: f64,
    seed: u64,
    watch: impl FnMut(usize, &RequestRecord) + 'static,
) -> Vec<LoadFigures> {
    let settle = span_of(window_s * SETTLE_SHARE);
    let window = Timestamp::ZERO.after(settle)..Timestamp::ZERO.after(settle + span_of(window_s));
    let filing = Rc::new(Filing::new(classes, &window, window_s, watch));
    let mut source = Mixed::new(profile, classes, seed, Rc::clone(&filing));
    let mut engine = Engine::new(profile);
    if !classes.iter().any(|class| needs_every_token(class.slo)) {
        engine = engine.fast_forward();
    }
    let plan = Plan {
        stop_arrivals: window.end.after(span_of(window_s * HOLD_SHARE)),
        cut: window.end.after(DRAIN),
        sample_every: None,
    };
    run(&mut engine, &mut source, &filing, &plan, |_| {});
    filing.figures(classes)
}

/// Whether a clause speaks of single gaps. A median gap is judged as the mean one, which takes a
/// tenth of the time: the prompts of others lengthen a few gaps of an answer, so the mean is the
/// stricter of the two.
fn needs_every_token(slo: &Slo) -> bool {
    let per_gap = |metric| {
        matches!(
            metric,
            Metric::TimeToToken(_) | Metric::ItlP99 | Metric::Stall
        )
    };
    slo.clauses().iter().any(|clause| per_gap(clause.metric))
}

/// Whether 99 % of the requests stay within half of every bound. Where that is so and none missed, no
/// queue was near to making a crowd late together: requests then count as independent.
fn is_far_from_its_bounds(at: &LoadFigures, slo: &Slo) -> bool {
    slo.clauses().iter().all(|clause| {
        let tail = match clause.metric {
            Metric::Ttft => at.ttft_p99_ms,
            Metric::Tpot | Metric::TpotMedian => at.tpot_p99_ms,
            Metric::E2e => at.e2e_p99_ms,
            _ => None,
        };
        let bound = clause.fixed_bound().map(millis);
        matches!((tail, bound), (Some(tail), Some(bound)) if tail <= bound / 2.0)
    })
}

/// The tightest of the bounds, in seconds. Against one that is short beside the window a growing queue
/// shows as misses; against others it must be looked for.
fn tightest_bound_s(slo: &Slo) -> f64 {
    let bounds = slo
        .clauses()
        .iter()
        .filter_map(goodput_slo::Clause::fixed_bound);
    bounds
        .map(|bound| bound.as_secs_f64())
        .fold(f64::INFINITY, f64::min)
}

type Watch = Box<dyn FnMut(usize, &RequestRecord)>;

/// The books of all classes. A request's class is its session's number modulo the classes.
struct Filing {
    books: RefCell<Vec<Books>>,
    window: Range<Timestamp>,
    watch: RefCell<Watch>,
}

struct Books {
    of: PointBooks,
    missed: f64,
    may_miss: f64,
    until: Timestamp,
    /// Requests open when the window opened, and when it closed.
    open_at: [f64; 2],
}

impl Books {
    /// Whether more came than was served: the requests open have grown by more than chance lets
    /// them. A deadline of minutes is kept for minutes by a queue that only grows.
    fn grows(&self) -> bool {
        let measured = self.of.measured() as f64;
        let grown = self.open_at[1] - self.open_at[0];
        grown > GROWTH * measured + 2.0 * libm::sqrt(measured)
    }
}

impl Filing {
    fn new(
        classes: &[ClassLoad<'_>],
        window: &Range<Timestamp>,
        window_s: f64,
        watch: impl FnMut(usize, &RequestRecord) + 'static,
    ) -> Self {
        let bin = span_of((window_s / 2_000.0).clamp(0.1, 60.0));
        let books = classes.iter().map(|class| {
            let expected = class.rate_req_s * window_s;
            Books {
                of: PointBooks::new(std::slice::from_ref(class.slo), bin),
                missed: 0.0,
                may_miss: LOST * (1.0 - class.slo.objective().share) * expected + 30.0,
                until: window.start,
                open_at: [0.0; 2],
            }
        });
        Self {
            books: RefCell::new(books.collect()),
            window: window.clone(),
            watch: RefCell::new(Box::new(watch)),
        }
    }

    fn class(&self, session: u32) -> usize {
        session as usize % self.books.borrow().len()
    }

    fn phase(&self, origin: Timestamp) -> Phase {
        if origin < self.window.start {
            Phase::Settling
        } else if origin < self.window.end {
            Phase::Measured
        } else {
            Phase::Drain
        }
    }

    /// Whether a class has missed more than it could make good.
    fn is_lost(&self) -> bool {
        self.books
            .borrow()
            .iter()
            .any(|books| books.missed > books.may_miss)
    }

    fn figures(&self, classes: &[ClassLoad<'_>]) -> Vec<LoadFigures> {
        let lost = self.is_lost();
        let window_s = self.window.end.seconds() - self.window.start.seconds();
        let books = self.books.borrow();
        let each = books.iter().zip(classes).map(|(books, class)| {
            // Where the run was given up, no arrivals came after that.
            let end = if lost {
                books
                    .until
                    .max(self.window.start.after(Duration::from_secs(1)))
            } else {
                self.window.end
            };
            let row = books.of.row(&PointFacts {
                rate_req_s: Some(class.rate_req_s),
                sent_share: Some(1.0),
                invalid: Vec::new(),
                ..PointFacts::new(0, Mode::Open, self.window.start..end)
            });
            let mut figures = LoadFigures::of_row(&row, class.slo.objective().share);
            figures.rate_req_s = class.rate_req_s;
            if figures.attainment == Some(1.0) && is_far_from_its_bounds(&figures, class.slo) {
                figures.interval = wilson(figures.requests, figures.requests, CONFIDENCE);
            }
            let hidden = tightest_bound_s(class.slo) > window_s / 20.0;
            figures.valid &= figures.requests > 0 && !(hidden && books.grows());
            figures
        });
        each.collect()
    }
}

impl Sink for Filing {
    fn arrived(&self, arrival: &Arrival) {
        let class = self.class(arrival.session);
        let books = &mut self.books.borrow_mut()[class];
        books.until = books.until.max(arrival.origin);
        books.of.arrived(arrival);
    }

    fn ended(&self, record: RequestRecord) {
        let class = self.class(record.summary.arrival().session);
        let phase = self.phase(record.summary.origin());
        {
            let books = &mut self.books.borrow_mut()[class];
            let life = record.summary.origin()..record.summary.ended();
            for (open, at) in books
                .open_at
                .iter_mut()
                .zip([self.window.start, self.window.end])
            {
                *open += f64::from(u8::from(life.contains(&at)));
            }
            let verdicts = books.of.post(&record.summary, &record.gaps, phase);
            if phase == Phase::Measured
                && verdicts
                    .first()
                    .is_some_and(|v| matches!(v, goodput_slo::Verdict::Missed(_)))
            {
                books.missed += 1.0;
            }
        }
        if phase == Phase::Measured {
            (self.watch.borrow_mut())(class, &record);
        }
    }
}

/// The workloads of all classes as one source.
struct Mixed {
    workloads: Vec<(Workload, u8)>,
    filing: Rc<Filing>,
    /// Tokens of a block whose reuse matters; `None` without a prefix cache.
    block_tokens: Option<u32>,
    index: u64,
}

impl Mixed {
    fn new(profile: &Profile, classes: &[ClassLoad<'_>], seed: u64, filing: Rc<Filing>) -> Self {
        let workloads = classes.iter().zip(0..).map(|(class, number)| {
            let load = Load::Open {
                per_second: class.rate_req_s,
            };
            let seed = point_seed(seed, number);
            let workload = Workload::new(class.workload, load, seed, Shard::WHOLE);
            (workload, class.priority)
        });
        Self {
            workloads: workloads.collect(),
            filing,
            block_tokens: profile.prefix_cache.then_some(profile.block_tokens.get()),
            index: 0,
        }
    }

    fn next(&self) -> Option<(Timestamp, usize)> {
        let due = self
            .workloads
            .iter()
            .map(|(workload, _)| workload.next_due());
        due.zip(0..)
            .filter_map(|(due, class)| Some((due?, class)))
            .min()
    }
}

impl Source for Mixed {
    fn next_due(&self) -> Option<Timestamp> {
        if self.filing.is_lost() {
            return None;
        }
        Some(self.next()?.0)
    }

    fn take(&mut self, now: Timestamp) -> Option<Due> {
        let (_, class) = self.next().filter(|(due, _)| *due <= now)?;
        let classes = u32::try_from(self.workloads.len()).ok()?;
        let (workload, priority) = &mut self.workloads[class];
        let planned = workload.take(now)?;
        let index = self.index;
        self.index += 1;
        let blocks = self
            .block_tokens
            .map(|tokens| planned.prompt.blocks(tokens));
        let request = EngineRequest {
            priority: *priority,
            blocks: blocks.unwrap_or_default(),
            ..EngineRequest::new(index, planned.input_tokens, planned.output_tokens)
        };
        let mut arrival = planned.arrival(index, planned.due, SeriesId::default(), Vantage::Engine);
        arrival.session = planned.session * classes + u32::try_from(class).ok()?;
        Some(Due { arrival, request })
    }

    fn ended(&mut self, session: u32, at: Timestamp, outcome: Outcome) {
        let Ok(classes) = u32::try_from(self.workloads.len()) else {
            return;
        };
        let class = session % classes;
        let (workload, _) = &mut self.workloads[class as usize];
        match outcome {
            Outcome::Ok => workload.ended(session / classes, at),
            _ => workload.abandoned(session / classes, at),
        }
    }
}
