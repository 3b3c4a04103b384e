//! A continuous-batching replica as a queue, in the three ways people put it.

use std::num::NonZeroU32;

use super::{ManyServers, QueueError, SingleServer};
use crate::{Demand, Profile};

/// One way to see a replica as servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// Servers.
    pub servers: NonZeroU32,
    /// Seconds of service that are put in.
    pub service_s: f64,
    /// Mean wait by M/M/1 or M/M/k in seconds, or why there is none.
    pub wait_s: Result<f64, QueueError>,
}

/// A replica under one load, as queueing formulas can see it; see [the module](super).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Views {
    /// One server that serves each request as if it were alone.
    pub alone: View,
    /// One server as fast as the replica is with all places taken.
    pub peak_rate: View,
    /// A server for each place, busy for a request's stay with all places taken.
    pub places: View,
    /// For comparison, the mean time to the first token in seconds by [`Profile::ttft_at`], of a prompt
    /// of the mean length; `None`: there is no steady state.
    pub ttft_s: Option<f64>,
}

/// The three views of `profile` with requests of `demand` at `rate_per_s`.
#[must_use]
pub fn views(profile: &Profile, demand: &Demand, rate_per_s: f64) -> Views {
    let single = |service_s: f64| View {
        servers: NonZeroU32::MIN,
        service_s,
        wait_s: SingleServer::new(rate_per_s, service_s).map(|load| load.mm1_wait_s()),
    };
    let alone = profile.closed_loop(demand, 1.0);
    let room = profile.kv_sequences(demand).max(1.0);
    let places = f64::from(profile.max_num_seqs.get()).min(room);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 1 and max_num_seqs"
    )]
    let servers = NonZeroU32::new(places as u32).unwrap_or(NonZeroU32::MIN);
    let full = profile.closed_loop(demand, f64::from(servers.get()));
    let stay_s = f64::from(servers.get()) / full.rate_req_s;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "tokens of a prompt, and the cast saturates"
    )]
    let prompt = demand.prefill_tokens.round() as u32;
    let ttft = profile.ttft_at(demand, rate_per_s, prompt);
    Views {
        ttft_s: ttft.map(|span| span.as_secs_f64()),
        alone: single(1.0 / alone.rate_req_s),
        peak_rate: single(1.0 / full.rate_req_s),
        places: View {
            servers,
            service_s: stay_s,
            wait_s: ManyServers::new(rate_per_s, stay_s, servers).map(|load| load.mmk_wait_s()),
        },
    }
}
