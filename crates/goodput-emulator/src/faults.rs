//! Faults on request: what can go wrong with a replica, switched on by name.
//!
//! Every fault that strikes single requests is drawn from the seed and the request's number in
//! order of arrival, so a run with the same seed and order has the same victims.

mod text;

use std::{num::NonZeroU32, time::Duration};

use goodput_stats::{Draws, Stream};

pub use text::{FAULTS, FaultError};

/// The faults of a replica. The default has none.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Faults {
    /// A cold replica: steps take a multiple of their time at first.
    pub slow_start: Option<SlowStart>,
    /// How long after the start everything is answered with 503.
    pub loading: Option<Duration>,
    /// Long prompts of someone else, at regular times.
    pub convoy: Option<Convoy>,
    /// Requests of someone else, at regular times, with as many output as input tokens.
    pub foreign: Option<Convoy>,
    /// From some time on steps take longer, for good.
    pub slowdown: Option<Slowdown>,
    /// The server dies and comes back, once.
    pub restart: Option<Restart>,
    /// Share of the KV blocks that is left, above 0 and up to 1.
    pub kv: Option<f64>,
    /// The engine stands still, at regular times.
    pub stall: Option<Stall>,
    /// Share of requests answered with 500, 0 to 1.
    pub errors: f64,
    /// Share of requests refused, 0 to 1, and with what.
    pub reject: f64,
    /// The status of a refusal: 429 or 503.
    pub reject_status: u16,
    /// Share of streams whose connection is cut in the middle, 0 to 1.
    pub cut: f64,
    /// Share of streams that end in an error event in the middle, 0 to 1.
    pub error_event: f64,
    /// Share of requests answered with a web page and status 200, 0 to 1.
    pub html: f64,
    /// Nothing is passed on before this many bytes have come together, as some proxies do.
    pub buffer: Option<usize>,
    /// Tokens in one event; a stream's last event may have fewer.
    pub tokens_per_event: NonZeroU32,
    /// When the role chunk of a chat stream is sent.
    pub role_chunk: RoleChunk,
    /// A comment line after this much silence.
    pub keepalive: Option<Duration>,
    /// Token counts are never sent.
    pub no_usage: bool,
    /// Streams end without `[DONE]`.
    pub no_done: bool,
    /// Answers have their natural length, whatever limit was asked.
    pub ignore_max_tokens: bool,
}

/// A cold replica: for the first `lasting`, steps take `factor` times as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowStart {
    /// How long after the start.
    pub lasting: Duration,
    /// How many times as long.
    pub factor: NonZeroU32,
}

/// A prompt of `tokens` tokens from nowhere, every `every`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convoy {
    /// The time between two.
    pub every: Duration,
    /// Input tokens of each; cut to what the context holds.
    pub tokens: u32,
}

/// Steps take `percent` per cent longer from `after` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slowdown {
    /// How long after the start.
    pub after: Duration,
    /// By how much longer, in whole per cent.
    pub percent: NonZeroU32,
}

/// At `after` every connection is cut and all is forgotten; for `loading` more everything is answered
/// with 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// How long after the start.
    pub after: Duration,
    /// How long it takes.
    pub loading: Duration,
}

/// The engine stands still for `lasting`, every `every`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// From the start of one to the start of the next.
    pub every: Duration,
    /// How long; shorter than `every`.
    pub lasting: Duration,
}

/// When the role chunk of a chat stream is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoleChunk {
    /// An event of its own right before the first token, as vLLM does.
    #[default]
    First,
    /// With the head of the response, long before the first token.
    Early,
    /// Never.
    Absent,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            slow_start: None,
            loading: None,
            convoy: None,
            foreign: None,
            slowdown: None,
            restart: None,
            kv: None,
            stall: None,
            errors: 0.0,
            reject: 0.0,
            reject_status: 429,
            cut: 0.0,
            error_event: 0.0,
            html: 0.0,
            buffer: None,
            tokens_per_event: NonZeroU32::MIN,
            role_chunk: RoleChunk::First,
            keepalive: None,
            no_usage: false,
            no_done: false,
            ignore_max_tokens: false,
        }
    }
}

impl Faults {
    /// What strikes request `index`, which will have `tokens` output tokens.
    pub(crate) fn strike(&self, seed: u64, index: u64, tokens: u32) -> Strike {
        let draw = |stream| Draws::new(seed, Stream(stream), index);
        let hits = |stream, share| share > 0.0 && draw(stream).unit() < share;
        if hits(HTML, self.html) {
            return Strike::Html;
        }
        if hits(REJECT, self.reject) {
            return Strike::Reject;
        }
        if hits(ERROR, self.errors) {
            return Strike::Error;
        }
        // Somewhere inside the answer: after at least one token and before the last.
        let after = |stream| {
            let room = u64::from(tokens.saturating_sub(1)).max(1);
            let draws = &mut draw(stream);
            draws.bits();
            u32::try_from(1 + draws.bits() % room).unwrap_or(1)
        };
        if hits(CUT, self.cut) {
            return Strike::Cut { after: after(CUT) };
        }
        if hits(ERROR_EVENT, self.error_event) {
            return Strike::ErrorEvent {
                after: after(ERROR_EVENT),
            };
        }
        Strike::None
    }
}

const HTML: u64 = 0x6661_756c_0001;
const REJECT: u64 = 0x6661_756c_0002;
const ERROR: u64 = 0x6661_756c_0003;
const CUT: u64 = 0x6661_756c_0004;
const ERROR_EVENT: u64 = 0x6661_756c_0005;

/// What strikes one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    None,
    Html,
    Reject,
    Error,
    /// The connection is cut after so many tokens.
    Cut {
        after: u32,
    },
    /// An error event comes after so many tokens.
    ErrorEvent {
        after: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_requests_is_struck_and_always_the_same() {
        let faults = Faults::parse(["errors=5%", "cut=3%"]).unwrap();
        let struck = |seed| -> Vec<Strike> {
            (0..10_000)
                .map(|index| faults.strike(seed, index, 100))
                .collect()
        };
        let strikes = struck(1);
        assert_eq!(strikes, struck(1));
        assert_ne!(strikes, struck(2));
        let errors = strikes.iter().filter(|s| **s == Strike::Error).count();
        assert!((400..600).contains(&errors), "{errors}");
        let cuts: Vec<u32> = strikes
            .iter()
            .filter_map(|strike| match strike {
                Strike::Cut { after } => Some(*after),
                _ => None,
            })
            .collect();
        assert!((200..400).contains(&cuts.len()), "{}", cuts.len());
        assert!(cuts.iter().all(|after| (1..100).contains(after)));
        assert!(cuts.iter().any(|after| *after > 50));
    }
}
