//! What a workload hands out: planned requests, for a load and a share of the clients.

use std::{num::NonZeroU32, sync::Arc};

use goodput_record::{Arrival, SeriesId, Timestamp, Vantage};
use goodput_stats::mix;

use crate::prompt::Prompt;

/// How much load a point puts on the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Closed loop: this many users, each with one request in flight, refilled at once. Think and
    /// tool time are left out, so that the number in flight is the number of users.
    Closed(NonZeroU32),
    /// Open loop: this many requests a second (all steps of sessions counted), due by the
    /// workload's own arrival process whatever the server does.
    Open {
        /// Requests per second; finite and above 0.
        per_second: f64,
    },
}

/// One of several equal shares of a workload, for clients on several cores or machines. The
/// requests of all shares together are those of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u16,
    of: u16,
}

impl Shard {
    /// All of it.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Share `index`, from 0, of `of`. `None` unless `index < of`.
    #[must_use]
    pub fn new(index: u16, of: u16) -> Option<Self> {
        (index < of).then_some(Self { index, of })
    }

    /// Part `index`, from 0, of `of` equal parts of this share. `None` unless `index < of`, or where
    /// there would be too many shares.
    #[must_use]
    pub fn part(self, index: u16, of: u16) -> Option<Self> {
        let place = self.of.checked_mul(index)?.checked_add(self.index)?;
        Self::new(place, self.of.checked_mul(of)?).filter(|_| index < of)
    }

    /// How many shares there are.
    #[must_use]
    pub const fn of(self) -> u16 {
        self.of
    }

    /// How many of the numbers 0 to `total - 1` are part of the share.
    #[must_use]
    pub fn count(self, total: u32) -> u32 {
        let (index, of) = (u32::from(self.index), u32::from(self.of));
        total / of + u32::from(index < total % of)
    }

    /// Whether the session, or the user of a closed loop, with this number is part of the share.
    #[must_use]
    pub fn has(self, number: u64) -> bool {
        number % u64::from(self.of) == u64::from(self.index)
    }
}

/// The seed of one load point of a run: points of one run share no unique prompt, and neither do
/// runs with different seeds.
#[must_use]
pub fn point_seed(run_seed: u64, point: u32) -> u64 {
    mix(mix(run_seed).wrapping_add(u64::from(point)))
}

/// An earlier answer of the same session, inside a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Which segment of the prompt it is.
    pub segment: u32,
    /// The step of the session that it answered.
    pub step: u16,
}

/// A request that is to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedRequest {
    /// Its number, unique within the load point: sessions count up, their steps lie within.
    pub index: u64,
    /// When it is due; latencies count from here.
    pub due: Timestamp,
    /// Class of the work, where the workload names one.
    pub class: Option<Arc<str>>,
    /// Tenant, where the workload names one.
    pub tenant: Option<Arc<str>>,
    /// The session it is part of; a request of its own is a session of one step.
    pub session: u32,
    /// Place in the session, from 0.
    pub step: u16,
    /// Steps of the whole session, at least 1.
    pub steps: u16,
    /// Tokens of the prompt: what `prompt.tokens()` says.
    pub input_tokens: u32,
    /// Output tokens asked for, at least 1.
    pub output_tokens: u32,
    /// Of the input tokens, those that a cache which never forgets would hold: the longest prefix
    /// already asked for within this load point, cut to whole blocks, the last token never among
    /// them. Sharing with other shards of a closed loop is not seen.
    pub cached_tokens: u32,
    /// The prompt, history included.
    pub prompt: Prompt,
    /// Which of its segments are earlier answers of this session.
    pub replies: Vec<Reply>,
}

impl PlannedRequest {
    /// Its arrival as number `id` of a run, due at `origin`, as this watcher sees it.
    #[must_use]
    pub fn arrival(
        &self,
        id: u64,
        origin: Timestamp,
        series: SeriesId,
        vantage: Vantage,
    ) -> Arrival {
        Arrival {
            id,
            origin,
            series,
            vantage,
            session: self.session,
            step: self.step,
            steps: self.steps,
            planned_input_tokens: self.input_tokens,
            planned_cached_tokens: self.cached_tokens,
            planned_output_tokens: self.output_tokens,
        }
    }
}
