//! Where engine events meet connections: whose tokens they are, what is written, what is counted.

use std::{collections::HashMap, io, rc::Rc};

use goodput_record::Timestamp;
use goodput_sim::Counters;

use crate::{
    clock::Clock,
    connection::{After, Connections, WriteEnd},
    exchange::{Exchange, Step},
    faults::Faults,
    lateness::Lateness,
    metrics::Metrics,
    replicas::ReplicaEvents,
    report,
    second_hand::{Job, SecondHand},
    wire,
};

/// All that is not an engine.
#[derive(Debug)]
pub(crate) struct Floor {
    pub(crate) clock: Clock,
    pub(crate) faults: Faults,
    pub(crate) model_id: Rc<str>,
    pub(crate) max_backlog: usize,
    pub(crate) connections: Connections,
    pub(crate) metrics: Vec<Metrics>,
    pub(crate) lateness: Lateness,
    pub(crate) counts: report::Counts,
    pub(crate) in_flight: u32,
    /// Whose each request in an engine is: connection and choice.
    owners: HashMap<u64, (usize, usize)>,
    /// Connections with something to write.
    dirty: Vec<usize>,
    /// Connections that may have a next request waiting.
    ready: Vec<usize>,
    /// Requests to be taken out of their engine.
    cancels: Vec<(usize, u64)>,
    second_hand: Option<SecondHand>,
    /// Empty between uses.
    jobs: Vec<Job>,
}

/// From so many connections on, a pass is shared with the second hand: below, waking it costs more
/// than it saves.
const SHARE_FROM: usize = 64;

impl Floor {
    pub(crate) fn new(
        clock: Clock,
        faults: Faults,
        model_id: Rc<str>,
        replicas: usize,
        max_backlog: usize,
        second_hand: Option<SecondHand>,
    ) -> Self {
        Self {
            clock,
            faults,
            model_id,
            max_backlog,
            connections: Connections::default(),
            metrics: vec![Metrics::default(); replicas],
            lateness: Lateness::default(),
            counts: report::Counts::default(),
            in_flight: 0,
            owners: HashMap::new(),
            dirty: Vec::new(),
            ready: Vec::new(),
            cancels: Vec::new(),
            second_hand,
            jobs: Vec::new(),
        }
    }

    /// Notes that `slot` has something to write.
    pub(crate) fn touch(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get(slot)
            && !connection.dirty
        {
            connection.dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Opens an exchange whose requests are in the engine.
    pub(crate) fn open(&mut self, slot: usize, mut exchange: Exchange) {
        for (choice, index) in exchange.indices().enumerate() {
            self.owners.insert(index, (slot, choice));
        }
        self.in_flight += 1;
        self.counts.peak_in_flight = self.counts.peak_in_flight.max(self.in_flight);
        if let Some(connection) = self.connections.get(slot) {
            exchange.begin(&self.faults, &mut connection.output);
            connection.last_put = exchange.arrived;
            connection.exchange = Some(Box::new(exchange));
        }
        self.touch(slot);
    }

    /// Takes the exchange of `slot` off the floor.
    fn close(&mut self, slot: usize) -> Option<Box<Exchange>> {
        let exchange = self.connections.get(slot)?.exchange.take()?;
        for index in exchange.indices() {
            self.owners.remove(&index);
        }
        self.in_flight -= 1;
        Some(exchange)
    }

    /// Drops a connection; what an engine does for it is cancelled.
    pub(crate) fn drop_connection(&mut self, slot: usize) {
        if let Some(exchange) = self.close(slot) {
            self.counts.cancelled += 1;
            self.abort(&exchange);
        }
        self.connections.remove(slot);
    }

    /// Drops every connection and all that was counted for `/metrics`.
    pub(crate) fn forget_all(&mut self) {
        let slots: Vec<usize> = self.connections.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.drop_connection(slot);
        }
        self.cancels.clear();
        self.metrics.fill(Metrics::default());
    }

    fn abort(&mut self, exchange: &Exchange) {
        let replica = exchange.replica;
        self.metrics[replica].aborted += 1;
        self.cancels
            .extend(exchange.indices().map(|index| (replica, index)));
    }

    /// Requests to be taken out of their engine now.
    pub(crate) fn take_cancels(&mut self) -> Vec<(usize, u64)> {
        std::mem::take(&mut self.cancels)
    }

    /// Connections whose answer has ended since the last call.
    pub(crate) fn take_ready(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.ready)
    }

    /// Writes what there is to write, one pass over the connections.
    pub(crate) fn flush(&mut self) {
        self.collect();
        let mut dirty = std::mem::take(&mut self.dirty);
        if let Some(hand) = &self.second_hand
            && dirty.len() >= SHARE_FROM
        {
            let half = dirty.len() / 2;
            for slot in dirty.drain(half..) {
                if let Some(connection) = self.connections.get(slot)
                    && connection.is_due(self.faults.buffer)
                {
                    self.jobs.push(connection.give(slot));
                }
            }
            hand.give(&mut self.jobs);
        }
        for slot in dirty.drain(..) {
            self.flush_one(slot);
        }
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
        if let Some(hand) = &self.second_hand {
            hand.help();
        }
        self.collect();
    }

    /// Whether something came that the last flush did not see.
    pub(crate) const fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Takes back what the second hand has written.
    fn collect(&mut self) {
        let Some(hand) = &self.second_hand else {
            return;
        };
        let mut done = std::mem::take(&mut self.jobs);
        hand.collect(&mut done);
        for job in done.drain(..) {
            let Some(connection) = self.connections.get(job.slot) else {
                continue;
            };
            let Some((end, at)) = job.result.filter(|_| connection.id() == job.id) else {
                continue;
            };
            connection.take_back(job.output, job.written);
            let (end, at) = match end {
                // That its window opened meanwhile was not seen, so it is tried once more.
                Ok(WriteEnd::Blocked) => (connection.write(), self.clock.now()),
                end => (end, at),
            };
            let more_came = matches!(end, Ok(WriteEnd::Whole)) && connection.backlog() > 0;
            self.written(job.slot, job.due, end, at);
            if more_came {
                self.touch(job.slot);
            }
        }
        self.jobs = done;
    }

    fn flush_one(&mut self, slot: usize) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        if connection.is_due(self.faults.buffer) {
            let due = connection.due.take();
            let end = connection.write();
            let at = self.clock.now();
            self.written(slot, due, end, at);
        }
    }

    /// A write of tokens due at `due` returned at `at`.
    fn written(
        &mut self,
        slot: usize,
        due: Option<Timestamp>,
        end: io::Result<WriteEnd>,
        at: Timestamp,
    ) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        let ended = end.and_then(|end| connection.tidy().map(|()| end));
        let gone = match ended {
            Ok(WriteEnd::Whole) => {
                if let Some(due) = due {
                    self.lateness.record(due, at);
                }
                connection.after == After::Cut && connection.backlog() == 0
            }
            Ok(WriteEnd::Blocked) => {
                if due.is_some() {
                    self.lateness.record_blocked();
                }
                let slow = connection.backlog() > self.max_backlog;
                self.counts.too_slow += u64::from(slow);
                slow || connection.after == After::Cut
            }
            Err(_) => true,
        };
        if gone {
            self.drop_connection(slot);
        }
    }

    /// Sends a comment on every stream that was silent for `span` at `now`; returns when the next
    /// one may be due.
    pub(crate) fn keep_alive(&mut self, now: Timestamp, span: std::time::Duration) -> Timestamp {
        let mut next = now.after(span);
        let mut silent = Vec::new();
        for (slot, connection) in self.connections.iter() {
            let Some(exchange) = &connection.exchange else {
                continue;
            };
            if !exchange.ask.stream {
                continue;
            }
            if connection.last_put.after(span) <= now {
                wire::comment(&mut connection.output);
                connection.last_put = now;
                silent.push(slot);
            }
            next = next.min(connection.last_put.after(span));
        }
        for slot in silent {
            self.touch(slot);
        }
        next
    }

    fn ended(&mut self, slot: usize) {
        let Some(exchange) = self.close(slot) else {
            return;
        };
        self.counts.completed += 1;
        let metrics = &mut self.metrics[exchange.replica];
        metrics.answered(&exchange);
        self.after_answer(slot, exchange.keep_alive);
    }

    fn struck(&mut self, slot: usize, cut: bool) {
        let Some(exchange) = self.close(slot) else {
            return;
        };
        self.counts.struck += 1;
        self.abort(&exchange);
        if cut {
            if let Some(connection) = self.connections.get(slot) {
                connection.after = After::Cut;
            }
            self.touch(slot);
        } else {
            self.after_answer(slot, exchange.keep_alive);
        }
    }

    /// What follows when the answer of `slot` has been put into its output.
    pub(crate) fn after_answer(&mut self, slot: usize, keep_alive: bool) {
        if let Some(connection) = self.connections.get(slot) {
            if keep_alive {
                self.ready.push(slot);
            } else {
                connection.after = After::Close;
            }
        }
        self.touch(slot);
    }
}

impl ReplicaEvents for Floor {
    fn admitted(&mut self, replica: usize, at: Timestamp, index: u64, cached_tokens: u32) {
        let Some(&(slot, choice)) = self.owners.get(&index) else {
            return;
        };
        let connection = self.connections.get(slot);
        let Some(exchange) = connection.and_then(|connection| connection.exchange.as_mut()) else {
            return;
        };
        let progress = &mut exchange.progress[choice];
        if progress.cached.is_none() {
            progress.cached = Some(cached_tokens);
            self.metrics[replica].admitted(exchange, choice, at);
        }
    }

    fn tokens(&mut self, replica: usize, at: Timestamp, index: u64, count: u32) {
        let Some(&(slot, choice)) = self.owners.get(&index) else {
            return;
        };
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        let Some(exchange) = connection.exchange.as_mut() else {
            return;
        };
        self.metrics[replica].tokens(exchange, choice, at, count);
        let before = connection.output.len();
        let step = exchange.tokens(choice, count, &self.faults, &mut connection.output);
        if connection.output.len() > before {
            connection.due.get_or_insert(at);
            connection.last_put = at;
            self.touch(slot);
        }
        match step {
            Step::GoesOn => {}
            Step::Ended => self.ended(slot),
            Step::Struck { cut } => self.struck(slot, cut),
        }
    }

    fn stepped(&mut self, replica: usize, counters: &Counters) {
        self.metrics[replica].stepped(counters);
    }
}
