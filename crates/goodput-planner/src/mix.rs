//! Several classes through one simulated replica.
//!
//! The one place where a plan meets the simulator: in brief where first and last tokens are enough, else
//! with whole records.

use std::{cell::RefCell, ops::Range, rc::Rc, sync::Arc, time::Duration};

use goodput_perf_model::Profile;
use goodput_record::{
    Answer, Arrival, Outcome, Phase, RequestRecord, RequestSummary, SeriesId, Sink, Timestamp,
    Vantage, nanos, span_of,
};
use goodput_sim::{
    Engine, EngineRequest, Server,
    drive::{Due, Plan, Source, run},
};
use goodput_slo::Slo;
use goodput_virtual::lane::{Clerk, Lane, LaneClass, Told};
use goodput_workload::{Load, Shard, Workload, WorkloadSpec, point_seed};

use crate::{
    books::{ClassBooks, needs_every_token},
    replica::LoadFigures,
};

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
/// An answer that is not there so long after the window is late by any SLO: it is cut, and a miss.
const DRAIN: Duration = Duration::from_hours(1);

/// What each class gets from one replica, over a window of `window_s` seconds of virtual time.
///
/// A run in which a class has missed three times as much as its SLO allows is given up: its figures
/// then are of what was seen up to there. A bound on the median gap is judged as one on the mean gap,
/// unless another clause needs every token.
#[must_use]
pub fn run_mix(
    profile: &Profile,
    classes: &[ClassLoad<'_>],
    window_s: f64,
    seed: u64,
) -> Vec<LoadFigures> {
    run_brief(profile, classes, window_s, seed)
        .unwrap_or_else(|| run_watched(profile, classes, window_s, seed, |_, _| {}))
}

/// The same, if it can be told in brief: requests that share nothing, judged by clauses that need no
/// single gap.
fn run_brief(
    profile: &Profile,
    classes: &[ClassLoad<'_>],
    window_s: f64,
    seed: u64,
) -> Option<Vec<LoadFigures>> {
    if classes.iter().any(|class| needs_every_token(class.slo)) {
        return None;
    }
    let (window, (stop, cut)) = course(window_s);
    let of_lane = classes.iter().zip(0..).map(|(class, number)| LaneClass {
        workload: class.workload,
        rate_req_s: class.rate_req_s,
        seed: point_seed(seed, number),
        priority: class.priority,
    });
    let of_lane: Vec<LaneClass<'_>> = of_lane.collect();
    let books = classes.iter().map(|class| ClassBooks::new(class, &window));
    let clerk = Brief {
        books: books.collect(),
        lost: false,
    };
    let mut engine = Server::new(profile);
    let start = (Timestamp::ZERO, nanos(span_of(profile.ingest_s)));
    let mut lane = Lane::new(&mut engine, &of_lane, start, 0, clerk)?;
    while lane.due() < stop && !lane.clerk().lost {
        let (due, class) = (lane.due(), lane.due_class());
        lane.advance_to_due();
        let phase = lane.clerk().books[class].phase(due);
        // A refusal is booked as any other end.
        let _ = lane.arrive(phase);
    }
    if lane.clerk().lost {
        lane.cancel_all(stop);
    } else {
        lane.advance(cut);
        lane.cancel_all(cut);
    }
    let Brief { mut books, lost } = lane.finish();
    Some(figures(&mut books, classes, lost))
}

/// The books of all classes of a run told in brief.
struct Brief {
    books: Vec<ClassBooks>,
    /// Whether a class has missed more than it could make good.
    lost: bool,
}

impl Clerk for Brief {
    fn arrived(&mut self, class: usize, origin: Timestamp) {
        self.books[class].arrived(origin);
    }

    fn answered(&mut self, told: Told<'_>, answer: &Answer) {
        let books = &mut self.books[told.class];
        books.post_answer(answer, told.phase);
        self.lost |= books.is_lost();
    }

    fn failed(&mut self, told: Told<'_>, summary: &RequestSummary) {
        let books = &mut self.books[told.class];
        books.post_brief(summary, told.phase);
        self.lost |= books.is_lost();
    }
}

fn figures(books: &mut [ClassBooks], classes: &[ClassLoad<'_>], lost: bool) -> Vec<LoadFigures> {
    let each = books.iter_mut().zip(classes);
    each.map(|(books, class)| books.figures(class.rate_req_s, lost))
        .collect()
}

/// The window, and when arrivals stop and what is open is cut.
fn course(window_s: f64) -> (Range<Timestamp>, (Timestamp, Timestamp)) {
    let start = Timestamp::ZERO.after(span_of(window_s * SETTLE_SHARE));
    let end = start.after(span_of(window_s));
    let stop = end.after(span_of(window_s * HOLD_SHARE));
    (start..end, (stop, stop.after(DRAIN)))
}

/// The same with whole records, each measured one shown to `watch` together with its class.
pub(crate) fn run_watched(
    profile: &Profile,
    classes: &[ClassLoad<'_>],
    window_s: f64,
    seed: u64,
    watch: impl FnMut(usize, &RequestRecord) + 'static,
) -> Vec<LoadFigures> {
    let (window, (stop_arrivals, cut)) = course(window_s);
    let filing = Rc::new(Filing::new(classes, &window, watch));
    let mut source = Mixed::new(profile, classes, seed, Rc::clone(&filing));
    let mut engine = Engine::new(profile);
    if !classes.iter().any(|class| needs_every_token(class.slo)) {
        engine = engine.fast_forward();
    }
    let plan = Plan {
        stop_arrivals,
        cut,
        sample_every: None,
    };
    run(&mut engine, &mut source, &filing, &plan, |_| {});
    filing.figures(classes)
}

type Watch = Box<dyn FnMut(usize, &RequestRecord)>;

/// The books of all classes. A request's class is its session's number modulo the classes.
struct Filing {
    books: RefCell<Vec<ClassBooks>>,
    watch: RefCell<Watch>,
}

impl Filing {
    fn new(
        classes: &[ClassLoad<'_>],
        window: &Range<Timestamp>,
        watch: impl FnMut(usize, &RequestRecord) + 'static,
    ) -> Self {
        let books = classes.iter().map(|class| ClassBooks::new(class, window));
        Self {
            books: RefCell::new(books.collect()),
            watch: RefCell::new(Box::new(watch)),
        }
    }

    fn class(&self, session: u32) -> usize {
        session as usize % self.books.borrow().len()
    }

    /// Whether a class has missed more than it could make good.
    fn is_lost(&self) -> bool {
        self.books.borrow().iter().any(ClassBooks::is_lost)
    }

    fn figures(&self, classes: &[ClassLoad<'_>]) -> Vec<LoadFigures> {
        let lost = self.is_lost();
        figures(&mut self.books.borrow_mut(), classes, lost)
    }
}

impl Sink for Filing {
    fn arrived(&self, arrival: &Arrival) {
        let class = self.class(arrival.session);
        self.books.borrow_mut()[class].arrived(arrival.origin);
    }

    fn ended(&self, record: RequestRecord) {
        let class = self.class(record.summary.arrival().session);
        let phase = self.books.borrow_mut()[class].post(&record);
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
    /// From a request's send to the engine's first sight of it.
    ingest: Duration,
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
            ingest: span_of(profile.ingest_s),
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
        Some(self.next()?.0.after(self.ingest))
    }

    fn take(&mut self, now: Timestamp) -> Option<Due> {
        let (due, class) = self
            .next()
            .filter(|(due, _)| due.after(self.ingest) <= now)?;
        let classes = u32::try_from(self.workloads.len()).ok()?;
        let (workload, priority) = &mut self.workloads[class];
        let planned = workload.take(due)?;
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
