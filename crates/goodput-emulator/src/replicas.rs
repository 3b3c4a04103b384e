//! The engines behind the one address, their time, and the long prompts of a convoy.

use std::time::Duration;

use goodput_perf_model::Profile;
use goodput_record::{EngineSample, Timestamp, nanos};
use goodput_sim::{Counters, EngineEvents, EngineRequest, Refusal, Server};

use crate::{
    clock::Warp,
    faults::{Convoy, Faults},
};

#[derive(Debug)]
pub(crate) struct Replicas {
    engines: Vec<Server>,
    warp: Warp,
    strangers: Vec<Stranger>,
    context_limit: u32,
    next_index: u64,
}

/// Requests of someone else, at regular times.
#[derive(Clone, Copy, Debug)]
struct Stranger {
    every: Duration,
    input_tokens: u32,
    output_tokens: u32,
    sent: u64,
}

impl Stranger {
    /// When its next request is due.
    fn due(&self) -> Timestamp {
        Timestamp::from_nanos(nanos(self.every).saturating_mul(self.sent + 1))
    }
}

/// Told of what engine `replica` does, in real time.
pub(crate) trait ReplicaEvents {
    fn admitted(&mut self, replica: usize, at: Timestamp, index: u64, cached_tokens: u32);
    fn tokens(&mut self, replica: usize, at: Timestamp, index: u64, count: u32);
    fn stepped(&mut self, replica: usize, counters: &Counters);
}

struct Told<'a, E> {
    replica: usize,
    warp: Warp,
    events: &'a mut E,
}

impl<E: ReplicaEvents> EngineEvents for Told<'_, E> {
    fn admitted(&mut self, at: Timestamp, index: u64, cached_tokens: u32) {
        let at = self.warp.real(at);
        self.events.admitted(self.replica, at, index, cached_tokens);
    }

    fn tokens(&mut self, at: Timestamp, index: u64, count: u32) {
        let at = self.warp.real(at);
        self.events.tokens(self.replica, at, index, count);
    }

    fn ended(&mut self, _: Timestamp, _: u64, _: goodput_record::Outcome) {}
}

fn strangers(faults: &Faults) -> Vec<Stranger> {
    let convoy = faults.convoy.map(|Convoy { every, tokens }| Stranger {
        every,
        input_tokens: tokens,
        output_tokens: 1,
        sent: 0,
    });
    let foreign = faults.foreign.map(|Convoy { every, tokens }| Stranger {
        every,
        input_tokens: tokens,
        output_tokens: tokens,
        sent: 0,
    });
    convoy.into_iter().chain(foreign).collect()
}

impl Replicas {
    pub(crate) fn new(profile: &Profile, faults: &Faults, count: u16, context_limit: u32) -> Self {
        Self {
            engines: vec![engine(profile); usize::from(count)],
            warp: Warp::new(faults.slow_start, faults.stall, faults.slowdown),
            strangers: strangers(faults),
            context_limit,
            next_index: 0,
        }
    }

    /// The real instant at which something happens next.
    pub(crate) fn next_due(&self) -> Timestamp {
        let engines = self.engines.iter().filter_map(Server::next_event);
        let engines = engines
            .min()
            .map_or(Timestamp::FAR_FUTURE, |at| self.warp.real(at));
        engines.min(self.next_stranger().unwrap_or(Timestamp::FAR_FUTURE))
    }

    fn next_stranger(&self) -> Option<Timestamp> {
        self.strangers.iter().map(Stranger::due).min()
    }

    /// Moves all engines on to the real instant `now`.
    pub(crate) fn advance(&mut self, now: Timestamp, events: &mut impl ReplicaEvents) {
        while let Some(at) = self.next_stranger().filter(|&at| at <= now) {
            self.advance_engines(at, events);
            self.submit_strangers(at);
        }
        self.advance_engines(now, events);
    }

    fn advance_engines(&mut self, now: Timestamp, events: &mut impl ReplicaEvents) {
        let to = self.warp.engine(now);
        for (replica, engine) in self.engines.iter_mut().enumerate() {
            let warp = self.warp;
            let next = engine.next_event();
            if next.is_some_and(|at| at <= to) {
                engine.advance(
                    to,
                    &mut Told {
                        replica,
                        warp,
                        events,
                    },
                );
                events.stepped(replica, &engine.counters());
            }
        }
    }

    fn submit_strangers(&mut self, at: Timestamp) {
        for i in 0..self.strangers.len() {
            if self.strangers[i].due() > at {
                continue;
            }
            self.strangers[i].sent += 1;
            let Stranger {
                input_tokens,
                output_tokens,
                sent,
                ..
            } = self.strangers[i];
            let index = self.take_indices(1);
            let room = self.context_limit.saturating_sub(output_tokens);
            let request = EngineRequest::new(index, input_tokens.min(room).max(1), output_tokens);
            let replica = usize::try_from(sent).unwrap_or(0) % self.engines.len();
            // What an engine without room for it refuses is no load.
            let _ = self.engines[replica].submit(self.warp.engine(at), request);
        }
    }

    /// Forgets all, as a new process does.
    pub(crate) fn restart(&mut self, profile: &Profile) {
        self.engines.fill(engine(profile));
    }

    /// The engine with the fewest requests, the first of these.
    pub(crate) fn least_loaded(&self) -> usize {
        let load = |engine: &Server| engine.running() + engine.waiting();
        let loads = self.engines.iter().map(load).enumerate();
        loads
            .min_by_key(|&(_, load)| load)
            .map_or(0, |(replica, _)| replica)
    }

    /// Reserves `count` numbers for requests and returns the first.
    pub(crate) fn take_indices(&mut self, count: u64) -> u64 {
        let first = self.next_index;
        self.next_index += count;
        first
    }

    /// Puts a request into an engine that was advanced to `now`.
    pub(crate) fn submit(
        &mut self,
        replica: usize,
        now: Timestamp,
        request: EngineRequest,
    ) -> Result<(), Refusal> {
        self.engines[replica].submit(self.warp.engine(now), request)
    }

    /// Gives a request up; one that has ended is no matter.
    pub(crate) fn cancel(&mut self, replica: usize, now: Timestamp, index: u64) {
        self.engines[replica].cancel(self.warp.engine(now), index);
    }

    pub(crate) fn samples(&self) -> impl Iterator<Item = (EngineSample, Counters)> {
        self.engines
            .iter()
            .map(|engine| (engine.sample(), engine.counters()))
    }
}

/// An engine that takes prompts as they were tokenized, their template included.
fn engine(profile: &Profile) -> Server {
    Server::new(&Profile {
        template_tokens: 0,
        ..profile.clone()
    })
}
