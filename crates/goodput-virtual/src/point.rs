//! One load point in virtual time.

use std::{collections::VecDeque, ops::Range, rc::Rc, sync::Arc, time::Duration};

use goodput_ledger::{Mode, PointBooks, PointFacts, PointRow};
use goodput_record::{Outcome, Phase, Timestamp, Vantage};
use goodput_sim::{EngineRequest, Refusal};
use goodput_slo::{Metric, Slo};
use goodput_sweep::auto::Look;
use goodput_workload::{
    Course, CoursePlan, Load, PlannedRequest, Shard, Workload, WorkloadSpec, point_seed,
};

use crate::{
    brief,
    desk::{Desk, Filing},
    replica::Replica,
    witness::{Sampled, Witness},
};

/// A user whose request was refused waits this long before the next one: a refusal takes no time in
/// the engine, and without a pause a closed loop would ask for ever at one instant.
const AFTER_REFUSAL: Duration = Duration::from_millis(1);
/// Requests refused in a row at which a point is given up: a replica that can take none is not
/// measured.
pub(crate) const REFUSED_IN_A_ROW: u32 = 1_000;
/// How often a point is looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How much of the tokens' times is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Every token's: all figures of the row are exact.
    EveryToken,
    /// First and last token of a request, and how many came in each bin between, unless a clause
    /// needs more. Several times as fast; all figures are the same but those of single gaps (stall,
    /// median, ITL) and of token events, which are not known: [`PointRow::forget_gaps`]. In an open
    /// loop whose requests share no prefix the engine is fast-forwarded.
    Bins,
    /// First and last token of a request, its longest gap, and nothing in between: where an open loop
    /// has no witness, its requests share no prefix and no clause needs more, at the least cost. What
    /// needs more than that is not known, and a request that is preempted computes its whole prompt
    /// again, even with a prefix cache. Else as [`Detail::Bins`]. For pools see
    /// [`crate::pool::PoolPlan::detail`].
    Ends,
}

/// What all points of a sweep share.
#[derive(Clone, Debug)]
pub struct Setting<'a> {
    /// What is asked of the replica.
    pub workload: &'a Arc<WorkloadSpec>,
    /// How it is judged.
    pub slos: &'a [Slo],
    /// The seed of the run.
    pub seed: u64,
    /// Width of the books' bins.
    pub bin: Duration,
    /// How much of the tokens' times is kept.
    pub detail: Detail,
}

impl<'a> Setting<'a> {
    /// Bins of 100 ms, every token by itself.
    #[must_use]
    pub const fn new(workload: &'a Arc<WorkloadSpec>, slos: &'a [Slo], seed: u64) -> Self {
        Self {
            workload,
            slos,
            seed,
            bin: Duration::from_millis(100),
            detail: Detail::EveryToken,
        }
    }

    /// Whether a clause needs the time of each token.
    pub(crate) fn needs_gaps(&self) -> bool {
        let per_gap = |metric| {
            matches!(
                metric,
                Metric::TimeToToken(_) | Metric::TpotMedian | Metric::ItlP99 | Metric::Stall
            )
        };
        let mut clauses = self.slos.iter().flat_map(Slo::clauses);
        clauses.any(|clause| per_gap(clause.metric))
    }

    fn grain(&self) -> Duration {
        if self.detail == Detail::EveryToken || self.needs_gaps() {
            Duration::ZERO
        } else {
            self.bin
        }
    }
}

/// One load point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointPlan {
    /// Its number within the run.
    pub point: u32,
    /// What the workload's seed depends on, beside the run's.
    pub place: u32,
    /// The load.
    pub load: Load,
    /// Its course.
    pub course: CoursePlan,
    /// Nobody looks at it before its window has been open for this long.
    pub look_from: Duration,
    /// Requests in flight at which it is given up.
    pub most_in_flight: u32,
    /// Over how long the users of a closed loop start; `None`: as the workload spreads them.
    pub ramp: Option<Duration>,
    /// Whether all of it only warms the replica up: every record says so, and none is measured.
    pub warm_up: bool,
}

impl PointPlan {
    /// A point of this course, with up to 100,000 requests in flight.
    #[must_use]
    pub const fn new(point: u32, load: Load, course: CoursePlan) -> Self {
        Self {
            point,
            place: point,
            load,
            course,
            look_from: Duration::ZERO,
            most_in_flight: 100_000,
            ramp: None,
            warm_up: false,
        }
    }
}

/// What a load point came to.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its books.
    pub books: PointBooks,
    /// Its window.
    pub window: Range<Timestamp>,
    /// From its first request to the end of its drain.
    pub span: Range<Timestamp>,
    /// Most requests in flight at once.
    pub in_flight_peak: u32,
    /// Requests of the window in flight when it closed.
    pub in_flight_at_end: u32,
    /// Arrivals due inside the window.
    pub arrivals_due: u64,
    /// Whether the workload had fewer requests than the window was to have.
    pub ran_dry: bool,
    /// Whether it was ended before its time by its [`Witness`].
    pub interrupted: bool,
    /// Requests that the engine took.
    pub taken: u64,
    /// Why it was given up, or measured nothing, if so.
    pub gave_up: Option<String>,
    /// Why it may not be used.
    pub invalid: Vec<String>,
}

impl Measured {
    /// Its row.
    #[must_use]
    pub fn row(&self, plan: &PointPlan) -> PointRow {
        let (mode, concurrency, rate_req_s) = match plan.load {
            Load::Closed(users) => (Mode::Closed, Some(users.get()), None),
            Load::Open { per_second } => (Mode::Open, None, Some(per_second)),
        };
        self.books.row(&PointFacts {
            concurrency,
            rate_req_s,
            in_flight_peak: Some(self.in_flight_peak),
            in_flight_at_end: self.in_flight_at_end,
            sent_share: Some(1.0),
            invalid: self.invalid.clone(),
            ..PointFacts::new(plan.point, mode, self.window.clone())
        })
    }
}

/// Drives one load point to its end. `look` is called about once a second of the window.
pub fn run_point(
    replica: &mut Replica,
    setting: &Setting<'_>,
    plan: &PointPlan,
    look: impl FnMut(&PointBooks, Timestamp, Timestamp) -> Look,
) -> Measured {
    run_point_before(replica, setting, plan, &(), look)
}

/// The same before a witness, who hears of every request and of the replica's counters.
pub fn run_point_before<W: Witness>(
    replica: &mut Replica,
    setting: &Setting<'_>,
    plan: &PointPlan,
    witness: &W,
    mut look: impl FnMut(&PointBooks, Timestamp, Timestamp) -> Look,
) -> Measured {
    if let Some(measured) = brief::run(replica, setting, plan, witness, &mut look) {
        return measured;
    }
    let mut run = Run::begin(replica, setting, plan, witness);
    let mut look_at = Timestamp::FAR_FUTURE;
    run.sample();
    while !run.course.over() {
        let opened = run.course.window_start().filter(|_| run.course.measuring());
        match opened {
            None => look_at = Timestamp::FAR_FUTURE,
            Some(opened) if look_at == Timestamp::FAR_FUTURE => {
                look_at = opened.after(plan.look_from);
            }
            Some(opened) if look_at <= run.replica.now => {
                let now = run.replica.now;
                let mut books = run.filing.books.borrow_mut();
                match look(&books, opened, now) {
                    Look::Wait => {}
                    Look::GoOn => books.looked(),
                    Look::Close(_) => run.course.close_early(now),
                }
                look_at = now.after(LOOK_EVERY);
            }
            Some(_) => {}
        }
        if !run.step(look_at) {
            break;
        }
    }
    run.finish()
}

/// A load point under way.
struct Run<'a, W: Witness> {
    replica: &'a mut Replica,
    plan: &'a PointPlan,
    workload: Workload,
    course: Course,
    filing: Rc<Filing<'a, W>>,
    desk: Desk<'a, W>,
    /// When the replica's counters are read next.
    sample_at: Timestamp,
    start: Timestamp,
    users: Option<u32>,
    /// Requests that the engine has not seen yet, and when it will.
    on_their_way: VecDeque<(Timestamp, EngineRequest)>,
    /// Measured arrivals.
    arrivals_due: u64,
    /// Why the last refused request was refused.
    refusal: Option<Refusal>,
    /// Why the point was given up.
    gave_up: Option<String>,
}

impl<'a, W: Witness> Run<'a, W> {
    fn begin(
        replica: &'a mut Replica,
        setting: &Setting<'_>,
        plan: &'a PointPlan,
        witness: &'a W,
    ) -> Self {
        let start = replica.now;
        let users = match plan.load {
            Load::Closed(users) => Some(users.get()),
            Load::Open { .. } => None,
        };
        let books = PointBooks::new(setting.slos, setting.bin);
        let filing = Rc::new(Filing::new(books, witness, plan.warm_up));
        let seed = point_seed(setting.seed, plan.place);
        let (spec, load) = (setting.workload, plan.load);
        Self {
            workload: match plan.ramp {
                None => Workload::new(spec, load, seed, Shard::WHOLE),
                Some(ramp) => Workload::with_ramp(spec, load, seed, Shard::WHOLE, ramp),
            },
            course: Course::new(&plan.course, users, start),
            desk: Desk::new(Rc::clone(&filing), replica.requests, setting.grain()),
            filing,
            replica,
            plan,
            start,
            users,
            sample_at: Timestamp::FAR_FUTURE,
            on_their_way: VecDeque::new(),
            arrivals_due: 0,
            refusal: None,
            gave_up: None,
        }
    }

    /// Reads the replica's counters, if anyone wants to know.
    fn sample(&mut self) {
        let Some(every) = self.filing.witness.sample_every() else {
            return;
        };
        let now = self.replica.now;
        self.replica.engine.advance(now, &mut self.desk);
        self.settle_ends();
        self.filing.witness.sampled(&Sampled {
            sample: self.replica.engine.sample(),
            output_tokens: self.replica.engine.counters().output_tokens,
            in_flight: self.desk.in_flight,
            ended: self.desk.closed,
        });
        self.sample_at = now.after(every.max(Duration::from_millis(1)));
        if self.filing.witness.stops() && !self.course.interrupted() {
            self.course.interrupt(now);
        }
    }

    fn absolute(&self, due: Timestamp) -> Timestamp {
        self.start.after(Duration::from_nanos(due.nanos()))
    }

    fn relative(&self, at: Timestamp) -> Timestamp {
        Timestamp::ZERO.after(at.since(self.start).unwrap_or_default())
    }

    /// Goes on to the next thing that happens, at `look_at` at the latest. `false`: nothing ever
    /// will.
    fn step(&mut self, look_at: Timestamp) -> bool {
        let due = self.workload.next_due().filter(|_| self.course.sending());
        let due = due.map(|due| self.absolute(due));
        let seen = self.on_their_way.front().map(|(at, _)| *at);
        let event = self.replica.engine.next_event();
        let change = self.replica.next_change();
        let others = [Some(self.course.next_change()), Some(look_at), change];
        let next = [due, seen, event].into_iter();
        let next = next.chain(others).flatten().min();
        let Some(next) = next.filter(|&at| at != Timestamp::FAR_FUTURE) else {
            self.course.exhausted(self.replica.now);
            return self.course.over();
        };
        // All that happens at the instant of a sample comes before it.
        if self.sample_at < next {
            self.replica.now = self.sample_at;
            self.sample();
            return true;
        }
        let now = next.max(self.replica.now);
        self.replica.now = now;
        if change.is_some_and(|at| at <= now) {
            self.replica.set_pace();
        }
        if due.is_some_and(|due| due <= now) {
            // Whoever is due at the instant of a step's start takes part in it.
            while self.course.sending()
                && let Some(planned) = self.workload.take(self.relative(now))
            {
                self.arrive(now, &planned);
            }
        } else if seen.is_some_and(|at| at <= now) {
            while let Some((_, request)) = self.on_their_way.pop_front_if(|(at, _)| *at <= now) {
                self.submit(now, request);
            }
        } else {
            self.replica.engine.advance(now, &mut self.desk);
        }
        self.settle_ends();
        self.course.tick(now);
        if self.desk.in_flight > self.plan.most_in_flight && self.gave_up.is_none() {
            self.gave_up = Some(format!(
                "{} requests in flight: saturated",
                self.desk.in_flight
            ));
            self.course.give_up(now);
        }
        true
    }

    fn arrive(&mut self, now: Timestamp, planned: &PlannedRequest) {
        let due = self.absolute(planned.due);
        let first = planned.step == 0 && self.users.is_some_and(|users| planned.session < users);
        let Some(phase) = self.course.arrive(due, first) else {
            return;
        };
        self.arrivals_due += u64::from(phase == Phase::Measured);
        let index = self.replica.requests;
        self.replica.requests += 1;
        let (series, vantage) = (self.filing.witness.series(planned), Vantage::Engine);
        let arrival = planned.arrival(index, due, series, vantage);
        self.desk.arrive(arrival, phase);
        let request = EngineRequest {
            blocks: planned.prompt.blocks(self.replica.block_tokens),
            ..EngineRequest::new(index, planned.input_tokens, planned.output_tokens)
        };
        if self.replica.ingest.is_zero() {
            self.submit(now, request);
        } else {
            let seen = now.after(self.replica.ingest);
            self.on_their_way.push_back((seen, request));
        }
    }

    /// Hands a request to the engine.
    fn submit(&mut self, now: Timestamp, request: EngineRequest) {
        let index = request.index;
        match self.replica.engine.submit(now, request) {
            Ok(()) => {
                self.desk.taken += 1;
                self.desk.refused_in_a_row = 0;
            }
            Err(refusal) => {
                self.refusal = Some(refusal);
                self.desk.close(now, index, Outcome::Rejected);
                self.desk.refused_in_a_row += 1;
                if self.desk.refused_in_a_row >= REFUSED_IN_A_ROW && self.gave_up.is_none() {
                    self.gave_up = Some(refused_in_a_row(refusal));
                    self.course.give_up(now);
                }
            }
        }
    }

    /// Tells course and workload of what has ended.
    fn settle_ends(&mut self) {
        for ended in std::mem::take(&mut self.desk.ended) {
            self.course.end(ended.phase, ended.at);
            let at = self.relative(ended.at);
            match ended.outcome {
                Outcome::Ok => self.workload.ended(ended.session, at),
                // A conversation does not go on after an answer that never came.
                _ => self
                    .workload
                    .abandoned(ended.session, at.after(AFTER_REFUSAL)),
            }
        }
    }

    /// Cancels what is still open and closes the books.
    fn finish(mut self) -> Measured {
        let now = self.replica.now;
        for index in self.desk.all() {
            self.replica.engine.cancel(now, index);
            self.desk.close(now, index, Outcome::Cancelled);
        }
        self.sample();
        if let (0, Some(refusal)) = (self.desk.taken, self.refusal) {
            self.gave_up = Some(all_refused(self.desk.closed, refusal));
        }
        let (window, _) = self.course.window();
        let books = self
            .filing
            .books
            .replace(PointBooks::new(&[], Duration::from_secs(1)));
        let mut invalid: Vec<String> = self.gave_up.iter().cloned().collect();
        if books.measured() == 0 && !self.plan.warm_up {
            invalid.push("no request was measured".to_owned());
        }
        Measured {
            window,
            span: self.start..now,
            in_flight_peak: self.desk.in_flight_peak,
            in_flight_at_end: self.course.in_flight_at_end(),
            arrivals_due: self.arrivals_due,
            ran_dry: self.course.ran_dry(),
            interrupted: self.course.interrupted(),
            taken: self.desk.taken,
            gave_up: self.gave_up,
            books,
            invalid,
        }
    }
}

/// Why a point is given up whose requests were refused so often.
pub(crate) fn refused_in_a_row(last: Refusal) -> String {
    format!("{REFUSED_IN_A_ROW} requests in a row were refused; the last one {last}")
}

/// Why a point measured nothing.
pub(crate) fn all_refused(all: u64, last: Refusal) -> String {
    format!("all of {all} requests were refused; the last one {last}")
}
