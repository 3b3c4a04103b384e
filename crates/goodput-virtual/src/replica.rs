//! A simulated replica with a pace.

use std::time::Duration;

use goodput_perf_model::{Profile, StepTime};
use goodput_record::{Timestamp, span_of};
use goodput_sim::Server;

use crate::pace::Pace;

/// A simulated replica that lives through a whole sweep: what one point leaves in its cache the next
/// one finds, and its pace goes on.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(crate) engine: Server,
    /// Tokens of a block that may be found in the prefix cache; 0 without one.
    pub(crate) block_tokens: u32,
    /// From a client's send to the engine's first sight of a request.
    pub(crate) ingest: Duration,
    pub(crate) step_time: StepTime,
    pub(crate) pace: Pace,
    pub(crate) now: Timestamp,
    /// Numbers the engine's requests.
    pub(crate) requests: u64,
}

impl Replica {
    /// An idle replica at the profile's pace.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        Self::with_pace(profile, Pace::default())
    }

    /// An idle replica at a pace of its own.
    #[must_use]
    pub fn with_pace(profile: &Profile, pace: Pace) -> Self {
        let mut replica = Self {
            engine: Server::new(profile),
            block_tokens: if profile.prefix_cache {
                profile.block_tokens.get()
            } else {
                0
            },
            ingest: span_of(profile.ingest_s),
            step_time: profile.step_time,
            pace,
            now: Timestamp::ZERO,
            requests: 0,
        };
        replica.set_pace();
        replica
    }

    /// What time it is for the replica.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Its pace.
    #[must_use]
    pub const fn pace(&self) -> &Pace {
        &self.pace
    }

    /// When its pace changes next.
    pub(crate) fn next_change(&self) -> Option<Timestamp> {
        self.pace.next_change(self.now)
    }

    /// Takes on the pace that holds now.
    pub(crate) fn set_pace(&mut self) {
        let factor = self.pace.at(self.now);
        self.engine.set_step_time(self.step_time.slowed(factor));
    }
}
