//! What an engine says of itself at one instant.

use crate::time::Timestamp;

/// One look at one replica's own counters. `None`: the engine has no such counter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineSample {
    /// When it was taken.
    pub at: Timestamp,
    /// Which replica, by position in the run's header.
    pub replica: u16,
    /// Sequences in the running batch.
    pub running: Option<u32>,
    /// Requests waiting for admission.
    pub waiting: Option<u32>,
    /// Share of the KV cache in use, 0 to 1.
    pub kv_used: Option<f64>,
    /// Preemptions since the engine started.
    pub preemptions: Option<u64>,
    /// Tokens looked up in the prefix cache since the engine started.
    pub prefix_queries: Option<u64>,
    /// Of these, tokens found.
    pub prefix_hits: Option<u64>,
    /// Requests ended since the engine started, by its own count.
    pub requests_ended: Option<u64>,
    /// When its process began, seconds since 1970, by its own account.
    pub started_unix_s: Option<f64>,
}
