//! How an emulator is set up.

use std::{num::NonZeroU16, time::Duration};

use goodput_perf_model::Profile;

use crate::faults::Faults;

/// One emulated server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EmulatorConfig {
    /// The engine that is emulated: its step times, limits and model.
    pub profile: Profile,
    /// What goes wrong.
    pub faults: Faults,
    /// What answers, lengths and faults are drawn from.
    pub seed: u64,
    /// Engines behind the one address, each with its own queue and cache; a request goes to the
    /// one with the fewest requests.
    pub replicas: NonZeroU16,
    /// Whether `/metrics` is that of one replica, of another one at every look, as behind a balancer
    /// that spreads whatever is asked. Else it is that of all, as of one server of several engines.
    pub metrics_in_turn: bool,
    /// When answers end by themselves. `None`: they go on to the limit that the request states,
    /// so that a workload gets the lengths it asks for.
    pub natural: Option<NaturalLength>,
    /// The key that clients must send. `None`: any client may ask.
    pub api_key: Option<String>,
    /// How long open streams may go on after a graceful stop.
    pub grace: Duration,
    /// The most bytes held for a client that does not read; beyond it the client is dropped.
    pub max_backlog: usize,
}

/// The natural length of an answer: log-normal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NaturalLength {
    /// The median in tokens, above 0.
    pub median: f64,
    /// The standard deviation of the logarithm, 0 or more.
    pub sigma: f64,
}

impl EmulatorConfig {
    /// One healthy replica of `profile`.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            faults: Faults::default(),
            seed: 0,
            replicas: NonZeroU16::MIN,
            metrics_in_turn: false,
            natural: None,
            api_key: None,
            grace: Duration::from_secs(30),
            max_backlog: 4 * 1024 * 1024,
        }
    }
}
