//! The run of a pool: one event after the other.

use std::{cmp::Reverse, collections::BinaryHeap, rc::Rc, time::Duration};

use goodput_dispatch::{Dispatcher, Event, Offer, Policy, Role, Route, Ticket, Tournament};
use goodput_ledger::PointBooks;
use goodput_record::{Arrival, Outcome, Phase, SeriesId, Timestamp, Vantage};
use goodput_sim::EngineRequest;
use goodput_workload::{Course, Load, point_seed};

use crate::{
    point::Detail,
    pool::{
        desk::{Heard, PoolDesk, place_of},
        filing::Filing,
        outcome::{Abandoned, PoolRun, ReplicaRun, StreamRun},
        plan::{PoolFault, PoolPlan},
        replica::PoolReplica,
        source::{Planned, Requests},
        work::WorkRule,
    },
};

/// Runs a pool to the end of its course.
pub fn run_pool(plan: &PoolPlan) -> Result<PoolRun, PoolFault> {
    plan.check()?;
    let mut run = Run::begin(plan)?;
    while !run.course.over() && run.step() {}
    Ok(run.finish())
}

/// What happens to a replica at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    Up,
    Pace,
    Drain,
}

/// Whose patience ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Limit {
    FirstToken,
    Total,
    Leaves,
}

/// A pool under way.
pub(super) struct Run<'a> {
    pub(super) plan: &'a PoolPlan,
    pub(super) dispatcher: Dispatcher,
    pub(super) replicas: Vec<PoolReplica>,
    /// When each engine does something next.
    pub(super) clock: Tournament<Timestamp>,
    pub(super) sources: Vec<Requests>,
    pub(super) users: Vec<Option<u32>>,
    pub(super) filings: Vec<Rc<Filing>>,
    pub(super) course: Course,
    pub(super) desk: PoolDesk,
    pub(super) changes: BinaryHeap<Reverse<(Timestamp, usize, Change)>>,
    pub(super) limits: BinaryHeap<Reverse<(Timestamp, u64, Limit)>>,
    pub(super) transfers: BinaryHeap<Reverse<(Timestamp, u64, usize)>>,
    pub(super) probes: Vec<Timestamp>,
    pub(super) work: WorkRule,
    /// Tokens of a block, where somebody asks for the content of blocks.
    pub(super) block_tokens: Option<u32>,
    pub(super) now: Timestamp,
    pub(super) requests: u64,
    pub(super) probe_count: u64,
    /// By stream: requests of the window that are open, and that were when it closed.
    pub(super) measured_open: Vec<u32>,
    pub(super) open_at_end: Vec<u32>,
    pub(super) abandoned: Abandoned,
    pub(super) gave_up: Option<String>,
}

impl<'a> Run<'a> {
    pub(super) fn begin(plan: &'a PoolPlan) -> Result<Self, PoolFault> {
        let mut dispatcher = Dispatcher::new(plan.dispatch.clone())?;
        // Where no clause asks for single gaps, nobody has to hear of every token.
        let fast = plan.streams.iter().all(|s| !plan.grain(s).is_zero());
        let mut replicas = Vec::new();
        let mut changes = BinaryHeap::new();
        for (place, replica) in plan.replicas.iter().enumerate() {
            let joined = dispatcher.join(replica.role, replica.limits, replica.weight);
            let id = joined.ok_or(PoolFault::TooMany)?;
            replicas.push(PoolReplica::new(id, replica, fast));
            changes.push(Reverse((replica.up_at, place, Change::Up)));
            if let Some(at) = replica.pace.next_change(Timestamp::ZERO) {
                changes.push(Reverse((at, place, Change::Pace)));
            }
            if let Some(at) = replica.drain_at {
                changes.push(Reverse((at, place, Change::Drain)));
            }
        }
        let (mut filings, mut grains, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for (number, stream) in (0..).zip(&plan.streams) {
            if let Some(terms) = stream.terms {
                dispatcher.set_terms(stream.tenant, terms)?;
            }
            let books = PointBooks::new(&stream.slos, plan.bin);
            let filing = Rc::new(Filing::new(books));
            let is_brief = fast && plan.detail == Detail::Ends;
            let grain = (!is_brief).then(|| plan.grain(stream));
            grains.push((Rc::clone(&filing), grain));
            filings.push(filing);
            let seed = point_seed(plan.seed, number);
            sources.push(Requests::new(stream, seed));
        }
        let users: Vec<Option<u32>> = plan.streams.iter().map(|s| users_of(s.load)).collect();
        let all_users = users.iter().copied().sum::<Option<u32>>();
        let prefixes = plan.replicas.iter().any(|r| r.profile.prefix_cache)
            || matches!(plan.dispatch.policy, Policy::PrefixAffinity(_));
        Ok(Self {
            clock: Tournament::new(),
            course: Course::new(&plan.course, all_users, Timestamp::ZERO),
            desk: PoolDesk::new(grains),
            limits: BinaryHeap::new(),
            transfers: BinaryHeap::new(),
            probes: vec![Timestamp::ZERO; replicas.len()],
            work: plan
                .work
                .unwrap_or_else(|| WorkRule::of(&plan.replicas[0].profile)),
            block_tokens: prefixes.then(|| replicas[0].block_tokens),
            now: Timestamp::ZERO,
            requests: 0,
            probe_count: 0,
            measured_open: vec![0; plan.streams.len()],
            open_at_end: vec![0; plan.streams.len()],
            abandoned: Abandoned::default(),
            gave_up: None,
            plan,
            dispatcher,
            replicas,
            sources,
            users,
            filings,
            changes,
        })
    }

    /// Goes on to the next thing that happens. `false`: nothing ever will.
    pub(super) fn step(&mut self) -> bool {
        let sending = self.course.sending();
        let dues = self.sources.iter().filter_map(Requests::next_due);
        let due = dues.min().filter(|_| sending);
        let change = self.changes.peek().map(|c| c.0.0);
        let transfer = self.transfers.peek().map(|t| t.0.0);
        let limit = self.limits.peek().map(|l| l.0.0);
        let event = self.dispatcher.next_event();
        let mut others = self.course.next_change();
        for at in [due, change, transfer, limit, event].into_iter().flatten() {
            others = others.min(at);
        }
        if self.engines_before(others) {
            self.after_event(self.now);
            return true;
        }
        let engine = self.clock.first();
        let next = engine.map_or(others, |engine| others.min(engine.1));
        if next == Timestamp::FAR_FUTURE {
            self.course.exhausted(self.now);
            return self.course.over();
        }
        let now = next.max(self.now);
        self.now = now;
        let is_due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        if is_due(change) {
            self.change(now);
        } else if is_due(due) {
            self.arrivals(now);
        } else if let Some((place, at)) = engine
            && at <= now
        {
            self.advance(place, now);
        } else if is_due(transfer) {
            self.end_transfer(now);
        } else if is_due(limit) {
            self.end_patience(now);
        }
        self.after_event(now);
        true
    }

    /// Lets engines do what they do before anything else happens, up to the first thing of which
    /// others have to hear. Whether there was such a thing.
    fn engines_before(&mut self, others: Timestamp) -> bool {
        while let Some((place, at)) = self.clock.first()
            && at < others
        {
            self.now = self.now.max(at);
            if self.advance(place, self.now) {
                return true;
            }
        }
        false
    }

    fn after_event(&mut self, now: Timestamp) {
        self.follow(now);
        self.settle_ends();
        self.tick(now);
    }

    fn tick(&mut self, now: Timestamp) {
        self.course.tick(now);
        if self.desk.in_flight > self.plan.most_open && self.gave_up.is_none() {
            let open = self.desk.in_flight;
            self.gave_up = Some(format!("{open} requests open: saturated"));
            self.course.give_up(now);
        }
        if self.course.measuring() {
            self.open_at_end.copy_from_slice(&self.measured_open);
        }
    }

    fn change(&mut self, now: Timestamp) {
        let Some(Reverse((_, place, change))) = self.changes.pop() else {
            return;
        };
        let id = self.replicas[place].id;
        match change {
            Change::Up => self.dispatcher.up(now, id),
            Change::Drain => self.dispatcher.drain(now, id),
            Change::Pace => {
                // Steps that have begun by now keep their length.
                self.advance(place, now);
                let replica = &mut self.replicas[place];
                if let Some(at) = replica.set_pace(now) {
                    self.changes.push(Reverse((at, place, Change::Pace)));
                }
                self.clock.set(place, replica.engine.next_event());
            }
        }
    }

    fn arrivals(&mut self, now: Timestamp) {
        for stream in 0..self.sources.len() {
            while self.course.sending()
                && let Some(planned) = self.sources[stream].take(now, self.block_tokens)
            {
                self.arrive(now, stream, planned);
            }
        }
    }

    fn arrive(&mut self, now: Timestamp, stream: usize, planned: Planned) {
        let due = planned.due;
        let first = planned.step == 0 && self.users[stream].is_some_and(|u| planned.session < u);
        let Some(phase) = self.course.arrive(due, first) else {
            return;
        };
        self.measured_open[stream] += u32::from(phase == Phase::Measured);
        let index = self.requests;
        self.requests += 1;
        let arrival = Arrival {
            id: index,
            origin: due,
            series: SeriesId::default(),
            vantage: Vantage::Gateway,
            session: planned.session,
            step: planned.step,
            steps: planned.steps,
            planned_input_tokens: planned.input_tokens,
            planned_cached_tokens: planned.cached_tokens,
            planned_output_tokens: planned.output_tokens,
        };
        let rules = &self.plan.streams[stream];
        let output = rules.expected_output.unwrap_or(planned.output_tokens);
        let (prefill_work, decode_work) = self.work.of_request(planned.input_tokens, output);
        let session = u64::from(planned.session) << 16 | u64::try_from(stream).unwrap_or(0);
        let offer = Offer {
            id: index,
            class: rules.class,
            tenant: rules.tenant,
            session: (planned.steps > 1).then_some(session),
            prefill_work,
            decode_work,
            deadline: rules.deadline.map(|span| due.after(span)),
            prefix: planned.blocks.runs(),
        };
        let route = self.dispatcher.offer(now, &offer);
        let request = EngineRequest {
            index,
            input_tokens: planned.input_tokens,
            output_tokens: planned.output_tokens,
            priority: rules.priority,
            blocks: planned.blocks,
        };
        self.desk.arrive(stream, arrival, phase, request);
        self.watch_patience(index, due, stream);
        match route {
            Route::Send { ticket, replica } => {
                self.hold(index, ticket);
                self.submit(now, index, place_of(replica));
            }
            Route::Wait { ticket, .. } => self.hold(index, ticket),
            Route::Shed { retry_after, .. } => self.desk.shed(now, index, retry_after),
        }
    }

    fn hold(&mut self, index: u64, ticket: Ticket) {
        if let Some(open) = self.desk.get_mut(index) {
            open.ticket = Some(ticket);
        }
    }

    /// Lets an engine do what it does up to now. Whether others have to hear of something.
    fn advance(&mut self, place: usize, now: Timestamp) -> bool {
        let replica = &mut self.replicas[place];
        replica.advance(now, &mut self.desk);
        if self.desk.heard.is_empty() {
            let next = self.replicas[place].engine.next_event();
            self.clock.set(place, next);
            return false;
        }
        let mut heard = std::mem::take(&mut self.desk.heard);
        for heard in heard.drain(..) {
            match heard {
                Heard::FirstToken { index, at } => self.first_token(index, at),
                Heard::EngineDone { index, at, outcome } => {
                    self.replicas[place].served(at);
                    self.engine_done(index, at, outcome);
                }
                Heard::ProbeDone { at } => {
                    self.replicas[place].served(at);
                    let (id, sent) = (self.replicas[place].id, self.probes[place]);
                    self.dispatcher.probed(at, id, at.since(sent));
                }
            }
        }
        self.desk.heard = heard;
        self.clock
            .set(place, self.replicas[place].engine.next_event());
        true
    }

    /// Does what the dispatcher says.
    fn follow(&mut self, now: Timestamp) {
        while let Some(event) = self.dispatcher.poll(now) {
            match event {
                Event::Send { id, replica, .. } => {
                    let place = place_of(replica);
                    if self.replicas[place].role == Role::Decode {
                        self.begin_transfer(now, id, replica);
                    } else {
                        self.submit(now, id, place);
                    }
                }
                Event::Shed {
                    id, retry_after, ..
                }
                | Event::Expired { id, retry_after } => self.desk.shed(now, id, retry_after),
                Event::Probe { replica } => self.probe(now, place_of(replica)),
                Event::Ready { .. } | Event::LeftOut { .. } | Event::Drained { .. } => {}
            }
        }
    }

    /// Tells course and workloads of what has ended.
    fn settle_ends(&mut self) {
        let mut ends = std::mem::take(&mut self.desk.ended);
        for ended in ends.drain(..) {
            self.course.end(ended.phase, ended.at);
            self.measured_open[ended.stream] -= u32::from(ended.phase == Phase::Measured);
            let source = &mut self.sources[ended.stream];
            match ended.outcome {
                Outcome::Ok => source.ended(ended.session, ended.at),
                _ => source.abandoned(ended.session, ended.at.after(ended.again_after)),
            }
        }
        self.desk.ended = ends;
    }

    /// Cancels what is still open and closes the books.
    pub(super) fn finish(mut self) -> PoolRun {
        let now = self.now;
        let abandoned = self.abandoned;
        for index in self.desk.all() {
            self.give_up(now, index, Outcome::Cancelled, None);
        }
        let (window, _) = self.course.window();
        let mut invalid: Vec<String> = self.gave_up.into_iter().collect();
        let empty = || PointBooks::new(&[], Duration::from_secs(1));
        let books: Vec<PointBooks> = self
            .filings
            .iter()
            .map(|f| f.books.replace(empty()))
            .collect();
        for (number, books) in books.iter().enumerate() {
            if books.measured() == 0 {
                invalid.push(format!("stream {number}: no request was measured"));
            }
        }
        let streams = books.into_iter().zip(self.open_at_end);
        PoolRun {
            streams: streams
                .map(|(books, in_flight_at_end)| StreamRun {
                    books,
                    in_flight_at_end,
                })
                .collect(),
            replicas: self
                .replicas
                .iter()
                .map(|r| ReplicaRun {
                    counters: r.engine.counters(),
                    sent: r.sent,
                })
                .collect(),
            dispatch: *self.dispatcher.counters(),
            abandoned,
            window,
            ended: now,
            in_flight_peak: self.desk.in_flight_peak,
            invalid,
        }
    }
}

fn users_of(load: Load) -> Option<u32> {
    match load {
        Load::Closed(users) => Some(users.get()),
        Load::Open { .. } => None,
    }
}
