//! What an emulator tells of itself when it ends.

use serde::Serialize;

use crate::lateness::Lateness;

/// What an emulator did, told when it ends.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EmulatorReport {
    /// What was counted.
    pub counts: Counts,
    /// How late tokens were written.
    pub lateness: Lateness,
}

/// Requests and connections since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Connections accepted.
    pub connections: u64,
    /// Connections that could not be accepted yet because no descriptor was free.
    pub accepts_deferred: u64,
    /// Requests for an answer that were well formed.
    pub requests: u64,
    /// Requests that were answered in full.
    pub completed: u64,
    /// Requests whose client left before the end.
    pub cancelled: u64,
    /// Requests that a fault refused, failed or ended in the middle.
    pub struck: u64,
    /// Of these, requests refused with 429 or 503.
    pub rejected: u64,
    /// Requests that were answered with an error for a reason of their own.
    pub invalid: u64,
    /// Clients dropped because they did not read.
    pub too_slow: u64,
    /// Most requests open at one time.
    pub peak_in_flight: u32,
}
