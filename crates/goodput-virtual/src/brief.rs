//! A load point of an open loop told in brief: of each request its first and its last token.
//!
//! The course, the requests and every figure that needs no more are those of [`crate::run_point`].

#[cfg(test)]
mod tests;

use std::time::Duration;

use goodput_ledger::PointBooks;
use goodput_perf_model::StepTime;
use goodput_record::{
    Answer, EngineSample, Gaps, Phase, RequestRecord, RequestSummary, Timestamp, nanos,
};
use goodput_sim::Refusal;
use goodput_sweep::auto::Look;
use goodput_workload::{Course, Load, point_seed};

use crate::{
    lane::{Clerk, Lane, LaneClass, Told, plain_arrival},
    pace::Pace,
    point::{
        Detail, LOOK_EVERY, Measured, PointPlan, REFUSED_IN_A_ROW, Setting, all_refused,
        refused_in_a_row,
    },
    replica::Replica,
    witness::{Sampled, Witness},
};

/// Runs the point, if it can be told in brief: an open loop whose requests share nothing, judged by
/// clauses that need no single gap.
pub(crate) fn run<W: Witness>(
    replica: &mut Replica,
    setting: &Setting<'_>,
    plan: &PointPlan,
    witness: &W,
    look: impl FnMut(&PointBooks, Timestamp, Timestamp) -> Look,
) -> Option<Measured> {
    match setting.detail {
        Detail::EveryToken => None,
        Detail::Ends if !W::HEARS => run_by::<W, false>(replica, setting, plan, witness, look),
        // Drafts bring another number of tokens a step.
        Detail::Ends | Detail::Bins if replica.step_time.speculation.is_some() => None,
        Detail::Ends | Detail::Bins => run_by::<W, true>(replica, setting, plan, witness, look),
    }
}

/// The same with books that know of each token in which bin it came (`STEPS`), or not.
fn run_by<W: Witness, const STEPS: bool>(
    replica: &mut Replica,
    setting: &Setting<'_>,
    plan: &PointPlan,
    witness: &W,
    mut look: impl FnMut(&PointBooks, Timestamp, Timestamp) -> Look,
) -> Option<Measured> {
    let Load::Open { per_second } = plan.load else {
        return None;
    };
    if setting.needs_gaps() || plan.warm_up || witness.needs_whole_records() {
        return None;
    }
    let mut books = PointBooks::new(setting.slos, setting.bin);
    let mut own_blocks = 0;
    if STEPS {
        books.count_steps(replica.now, replica.engine.steps_ended()?);
        own_blocks = replica.block_tokens;
    }
    let class = LaneClass {
        workload: setting.workload,
        rate_req_s: per_second,
        seed: point_seed(setting.seed, plan.place),
        priority: 0,
    };
    let booker = Booker::<W, STEPS> {
        books,
        course: Course::new(&plan.course, None, replica.now),
        witness,
        closed: 0,
    };
    let (when, first) = ((replica.now, nanos(replica.ingest)), replica.requests);
    let mut run = Run {
        lane: Lane::new(&mut replica.engine, &[class], when, first, booker)?
            .with_own_blocks(own_blocks),
        plan,
        pace: &replica.pace,
        step_time: replica.step_time,
        first,
        start: replica.now,
        now: replica.now,
        look_at: Timestamp::FAR_FUTURE,
        sample_at: Timestamp::FAR_FUTURE,
        arrivals_due: 0,
        taken: 0,
        refused_in_a_row: 0,
        refusal: None,
        gave_up: None,
    };
    run.sample();
    while !run.lane.clerk().course.over() {
        run.look(&mut look);
        run.step();
    }
    let (measured, next) = run.finish();
    replica.now = measured.span.end;
    replica.requests = next;
    Some(measured)
}

/// Books what ends, and tells the course and the witness of it.
struct Booker<'w, W, const STEPS: bool> {
    books: PointBooks,
    course: Course,
    witness: &'w W,
    /// Requests ended.
    closed: u64,
}

impl<W: Witness, const STEPS: bool> Booker<'_, W, STEPS> {
    fn post(&mut self, told: Told<'_>, summary: &RequestSummary) {
        let verdicts = self.books.post_in_steps(summary, told.steps, told.phase);
        if W::HEARS {
            let record = RequestRecord {
                summary: *summary,
                gaps: Gaps::NotKept,
            };
            self.witness.ended(&record, told.phase, &verdicts);
        }
    }
}

impl<W: Witness, const STEPS: bool> Clerk for Booker<'_, W, STEPS> {
    const STEPS: bool = STEPS;

    #[inline]
    fn arrived(&mut self, _class: usize, origin: Timestamp) {
        self.books.arrived_at(origin);
    }

    #[inline]
    fn answered(&mut self, told: Told<'_>, answer: &Answer) {
        if STEPS {
            let lengths = (answer.input_tokens, answer.tokens);
            let arrival = plain_arrival(told.index, answer.origin, lengths);
            self.post(told, &answer.summary(arrival));
        } else {
            self.books.post_answer(answer, told.phase);
        }
        self.closed += 1;
        self.course.end(told.phase, answer.last);
    }

    fn failed(&mut self, told: Told<'_>, summary: &RequestSummary) {
        if STEPS {
            self.post(told, summary);
        } else {
            self.books.post_brief(summary, told.phase);
        }
        self.closed += 1;
        self.course.end(told.phase, summary.ended());
    }

    #[inline]
    fn next_count(&self) -> Timestamp {
        self.books.next_bin()
    }

    #[inline]
    fn count(&mut self, steps_ended: u64) {
        self.books.begin_bin(steps_ended);
    }
}

/// A load point under way.
struct Run<'a, W: Witness, const STEPS: bool> {
    lane: Lane<'a, Booker<'a, W, STEPS>>,
    plan: &'a PointPlan,
    pace: &'a Pace,
    /// Of the replica at its profile's pace.
    step_time: StepTime,
    /// The number of its first request.
    first: u64,
    start: Timestamp,
    now: Timestamp,
    /// When it is looked at next.
    look_at: Timestamp,
    /// When the replica's counters are read next.
    sample_at: Timestamp,
    arrivals_due: u64,
    taken: u64,
    refused_in_a_row: u32,
    refusal: Option<Refusal>,
    gave_up: Option<String>,
}

impl<W: Witness, const STEPS: bool> Run<'_, W, STEPS> {
    /// Looks at it, if it is time.
    fn look(&mut self, look: &mut impl FnMut(&PointBooks, Timestamp, Timestamp) -> Look) {
        let Booker { books, course, .. } = self.lane.clerk();
        let Some(opened) = course.window_start().filter(|_| course.measuring()) else {
            self.look_at = Timestamp::FAR_FUTURE;
            return;
        };
        if self.look_at == Timestamp::FAR_FUTURE {
            self.look_at = opened.after(self.plan.look_from);
        } else if self.look_at <= self.now {
            books.settle();
            match look(books, opened, self.now) {
                Look::Wait => {}
                Look::GoOn => books.looked(),
                Look::Close(_) => course.close_early(self.now),
            }
            self.look_at = self.now.after(LOOK_EVERY);
        }
    }

    /// Reads the replica's counters, if anyone wants to know.
    fn sample(&mut self) {
        let witness = self.lane.clerk().witness;
        let Some(every) = witness.sample_every() else {
            return;
        };
        let now = self.now;
        self.lane.advance(now);
        let in_flight = self.lane.in_flight();
        let engine = self.lane.engine();
        let output_tokens = engine.counters().output_tokens;
        // Of requests on their way the engine has heard already, as of an instant to come.
        let sample = EngineSample {
            at: now,
            ..engine.sample()
        };
        let ended = self.lane.clerk().closed;
        witness.sampled(&Sampled {
            sample,
            output_tokens,
            in_flight,
            ended,
        });
        self.sample_at = now.after(every.max(Duration::from_millis(1)));
        let course = &mut self.lane.clerk().course;
        if witness.stops() && !course.interrupted() {
            course.interrupt(now);
        }
    }

    /// Goes on over all arrivals before anything else is to be done, and then to that; once nobody
    /// arrives, to the next end.
    fn step(&mut self) {
        let change = self.pace.next_change(self.now);
        let course = &self.lane.clerk().course;
        // While it drains, every end may be the last one that counts.
        let (measuring, sending) = (course.measuring(), course.sending());
        let draining = course.window_start().is_some() && !measuring;
        let mut next = course.next_change().min(self.look_at);
        next = next.min(change.unwrap_or(Timestamp::FAR_FUTURE));
        if sending && !draining && self.arrivals_before(next, measuring) {
            // The course has turned: what is next is another thing now.
            return;
        }
        let due = Some(self.lane.due()).filter(|&due| sending && due != Timestamp::FAR_FUTURE);
        next = next.min(due.unwrap_or(Timestamp::FAR_FUTURE));
        if (draining || due.is_none())
            && let Some(event) = self.lane.engine().next_event()
        {
            next = next.min(event);
        }
        // All that happens at the instant of a sample comes before it.
        if self.sample_at < next && next != Timestamp::FAR_FUTURE {
            self.now = self.sample_at;
            return self.sample();
        }
        if next == Timestamp::FAR_FUTURE {
            let now = self.now;
            let course = &mut self.lane.clerk().course;
            course.exhausted(now);
            return course.give_up(now);
        }
        self.now = next.max(self.now);
        if change.is_some_and(|at| at <= self.now) {
            // Steps that begin before are as long as they were.
            let before = self.now.nanos().saturating_sub(1);
            self.lane.advance(Timestamp::from_nanos(before));
            let step_time = self.step_time.slowed(self.pace.at(self.now));
            self.lane.engine().set_step_time(step_time);
        }
        if due == Some(next) {
            self.arrive(self.now);
        } else {
            self.lane.advance(self.now);
            self.lane.clerk().course.tick(self.now);
        }
    }

    /// Lets those arrive who are due before `next`, as long as the course is `measuring` or not; returns
    /// whether that has changed.
    fn arrivals_before(&mut self, next: Timestamp, measuring: bool) -> bool {
        while self.lane.due() < next && self.lane.due() <= self.sample_at {
            self.now = self.lane.due().max(self.now);
            self.arrive(self.now);
            let course = &self.lane.clerk().course;
            if course.measuring() != measuring || !course.sending() {
                return true;
            }
        }
        false
    }

    fn arrive(&mut self, now: Timestamp) {
        self.lane.advance_to_due();
        match self.lane.clerk().course.arrive(now, false) {
            None => self.lane.skip(),
            Some(phase) => {
                self.arrivals_due += u64::from(phase == Phase::Measured);
                match self.lane.arrive(phase) {
                    Ok(()) => {
                        self.taken += 1;
                        self.refused_in_a_row = 0;
                    }
                    Err(refusal) => self.refused(now, refusal),
                }
            }
        }
        if self.lane.in_flight() > self.plan.most_in_flight && self.gave_up.is_none() {
            let in_flight = self.lane.in_flight();
            self.give_up(now, format!("{in_flight} requests in flight: saturated"));
        }
    }

    fn refused(&mut self, now: Timestamp, refusal: Refusal) {
        self.refusal = Some(refusal);
        self.refused_in_a_row += 1;
        if self.refused_in_a_row >= REFUSED_IN_A_ROW && self.gave_up.is_none() {
            self.give_up(now, refused_in_a_row(refusal));
        }
    }

    fn give_up(&mut self, now: Timestamp, why: String) {
        self.gave_up = Some(why);
        self.lane.clerk().course.give_up(now);
    }

    /// Cancels what is still open and closes the books; with the number of the next request.
    fn finish(mut self) -> (Measured, u64) {
        let next = self.lane.next_index();
        self.lane.cancel_all(self.now);
        if let (0, Some(refusal)) = (self.taken, self.refusal) {
            self.gave_up = Some(all_refused(next - self.first, refusal));
        }
        self.sample();
        let in_flight_peak = self.lane.in_flight_peak();
        let Booker {
            mut books, course, ..
        } = self.lane.finish();
        books.settle();
        let mut invalid: Vec<String> = self.gave_up.iter().cloned().collect();
        if books.measured() == 0 {
            invalid.push("no request was measured".to_owned());
        }
        let measured = Measured {
            window: course.window().0,
            span: self.start..self.now,
            in_flight_peak,
            in_flight_at_end: course.in_flight_at_end(),
            arrivals_due: self.arrivals_due,
            taken: self.taken,
            ran_dry: course.ran_dry(),
            interrupted: course.interrupted(),
            gave_up: self.gave_up,
            books,
            invalid,
        };
        (measured, next)
    }
}
