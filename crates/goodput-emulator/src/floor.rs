//! Where engine events meet connections: whose tokens they are, what is written, what is counted.

use std::{collections::HashMap, rc::Rc};

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
    report, wire,
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
}

impl Floor {
    pub(crate) fn new(
        clock: Clock,
        faults: Faults,
        model_id: Rc<str>,
        replicas: usize,
        max_backlog: usize,
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
        let mut dirty = std::mem::take(&mut self.dirty);
        for slot in dirty.drain(..) {
            self.flush_one(slot);
        }
        debug_assert!(self.dirty.is_empty(), "a flush puts nothing to write");
        self.dirty = dirty;
    }

    fn flush_one(&mut self, slot: usize) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        connection.dirty = false;
        let held = self.faults.buffer.filter(|_| connection.exchange.is_some());
        if held.is_some_and(|held| connection.backlog() < held) {
            connection.due = None;
            return;
        }
        let due = connection.due.take();
        let gone = match connection.write() {
            Ok(WriteEnd::Whole) => {
                if let Some(due) = due {
                    self.lateness.record(due, self.clock.now());
                }
                connection.after == After::Cut
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
