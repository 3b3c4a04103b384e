//! What a pool's run came to.

use std::ops::Range;

use goodput_dispatch::Counters as DispatchCounters;
use goodput_ledger::{Mode, PointBooks, PointFacts, PointRow};
use goodput_record::Timestamp;
use goodput_sim::Counters;
use goodput_workload::Load;

use crate::pool::plan::PoolPlan;

/// What one stream came to.
#[derive(Clone, Debug)]
pub struct StreamRun {
    /// Its books.
    pub books: PointBooks,
    /// Requests of its window open when that closed.
    pub in_flight_at_end: u32,
}

/// What one replica did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaRun {
    /// What its engine counted.
    pub counters: Counters,
    /// Requests sent to it, probes included.
    pub sent: u64,
}

/// Work for requests that nobody waited for any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abandoned {
    /// Requests given up after they were sent to a replica.
    pub requests: u64,
    /// Their prompt tokens, of those whose prompt was computed to the end.
    pub input_tokens: u64,
    /// Tokens they were answered.
    pub output_tokens: u64,
}

/// What a pool's run came to.
#[derive(Clone, Debug)]
pub struct PoolRun {
    /// By stream, in the plan's order.
    pub streams: Vec<StreamRun>,
    /// By replica, in the plan's order.
    pub replicas: Vec<ReplicaRun>,
    /// What the dispatcher counted, over the whole run.
    pub dispatch: DispatchCounters,
    /// Over the whole run.
    pub abandoned: Abandoned,
    /// The window, the same for all streams.
    pub window: Range<Timestamp>,
    /// When the drain was over.
    pub ended: Timestamp,
    /// Most requests open at once.
    pub in_flight_peak: u32,
    /// Why it may not be used.
    pub invalid: Vec<String>,
}

impl PoolRun {
    /// The row of one stream; `None`: there is no such stream.
    #[must_use]
    pub fn row(&self, plan: &PoolPlan, stream: usize) -> Option<PointRow> {
        let (run, planned) = (self.streams.get(stream)?, plan.streams.get(stream)?);
        let (mode, concurrency, rate_req_s) = match planned.load {
            Load::Closed(users) => (Mode::Closed, Some(users.get()), None),
            Load::Open { per_second } => (Mode::Open, None, Some(per_second)),
        };
        let number = u32::try_from(stream).unwrap_or(u32::MAX);
        Some(run.books.row(&PointFacts {
            concurrency,
            rate_req_s,
            in_flight_at_end: run.in_flight_at_end,
            sent_share: Some(1.0),
            invalid: self.invalid.clone(),
            ..PointFacts::new(number, mode, self.window.clone())
        }))
    }
}
