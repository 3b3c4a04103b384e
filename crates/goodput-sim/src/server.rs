//! An engine of either kind, as the profile says.

use goodput_perf_model::{Profile, Scheduler, StepTime};
use goodput_record::{EngineSample, StepRun, Timestamp};

use crate::{
    engine::{Counters, Engine, EngineEvents, EngineRequest, Refusal},
    slots::SlotEngine,
};

/// A simulated replica with the scheduler that its profile names.
#[derive(Clone, Debug)]
pub enum Server {
    /// Continuous batching over KV blocks.
    Continuous(Box<Engine>),
    /// Slots.
    Slots(Box<SlotEngine>),
}

/// Calls the same method of either.
macro_rules! either {
    ($server:expr, $engine:ident => $call:expr) => {
        match $server {
            Server::Continuous($engine) => $call,
            Server::Slots($engine) => $call,
        }
    };
}

impl Server {
    /// An idle engine.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        match profile.scheduler {
            Scheduler::Continuous => Self::Continuous(Box::new(Engine::new(profile))),
            Scheduler::Slots { .. } => Self::Slots(Box::new(SlotEngine::new(profile))),
        }
    }

    /// The same one, fast-forwarded where its kind can be ([`Engine::fast_forward`]).
    #[must_use]
    pub fn fast_forward(self) -> Self {
        match self {
            Self::Continuous(engine) => Self::Continuous(Box::new(engine.fast_forward())),
            Self::Slots(engine) => Self::Slots(engine),
        }
    }

    /// [`Engine::set_fast_forward`]; returns whether its kind can be.
    pub fn set_fast_forward(&mut self, fast: bool) -> bool {
        match self {
            Self::Continuous(engine) => engine.set_fast_forward(fast),
            Self::Slots(_) => return false,
        }
        true
    }

    /// [`Engine::submit`].
    pub fn submit(&mut self, now: Timestamp, request: EngineRequest) -> Result<(), Refusal> {
        either!(self, engine => engine.submit(now, request))
    }

    /// [`Engine::cancel`].
    pub fn cancel(&mut self, now: Timestamp, index: u64) -> bool {
        either!(self, engine => engine.cancel(now, index))
    }

    /// [`Engine::untold`].
    #[must_use]
    pub fn untold(&self, index: u64) -> Option<(u32, Timestamp)> {
        match self {
            Self::Continuous(engine) => engine.untold(index),
            Self::Slots(_) => None,
        }
    }

    /// [`Engine::steps_ended`]; `None` of slots.
    #[must_use]
    pub fn steps_ended(&self) -> Option<u64> {
        match self {
            Self::Continuous(engine) => Some(engine.steps_ended()),
            Self::Slots(_) => None,
        }
    }

    /// [`Engine::answering_in`].
    #[must_use]
    pub fn answering_in(&self, index: u64) -> Option<StepRun> {
        match self {
            Self::Continuous(engine) => engine.answering_in(index),
            Self::Slots(_) => None,
        }
    }

    /// [`Engine::set_step_time`].
    pub fn set_step_time(&mut self, step_time: StepTime) {
        either!(self, engine => engine.set_step_time(step_time));
    }

    /// [`Engine::next_event`].
    #[must_use]
    pub const fn next_event(&self) -> Option<Timestamp> {
        either!(self, engine => engine.next_event())
    }

    /// [`Engine::advance`].
    pub fn advance(&mut self, to: Timestamp, out: &mut impl EngineEvents) {
        either!(self, engine => engine.advance(to, out));
    }

    /// [`Engine::sample`].
    #[must_use]
    pub fn sample(&self) -> EngineSample {
        either!(self, engine => engine.sample())
    }

    /// [`Engine::counters`].
    #[must_use]
    pub fn counters(&self) -> Counters {
        either!(self, engine => engine.counters())
    }

    /// Requests in the running batch.
    #[must_use]
    pub fn running(&self) -> usize {
        either!(self, engine => engine.running())
    }

    /// Requests in the queue.
    #[must_use]
    pub fn waiting(&self) -> usize {
        either!(self, engine => engine.waiting())
    }
}
