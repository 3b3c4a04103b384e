//! Times that a server reports of itself, and whether they can be believed.

use std::time::Duration;

/// What an engine says it spent on one request. `None`: it did not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineTimings {
    /// Prompt tokens it computed; those from its cache are left out.
    pub prompt_tokens: Option<u32>,
    /// Output tokens it counted.
    pub output_tokens: Option<u32>,
    /// Time in prefill.
    pub prefill: Option<Duration>,
    /// Time in decode, from the first to the last token.
    pub decode: Option<Duration>,
}

/// How a server's own time compares with the client's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Plausibility {
    /// Within a factor of two: it may be shown beside the client's.
    Plausible,
    /// The server says `ratio` times what the client saw: another unit or another span. It is
    /// flagged as `server_timing_implausible` and not used.
    Implausible {
        /// Server's time over client's time.
        ratio: f64,
    },
}

impl Plausibility {
    /// The flag's name in files; `None` where there is nothing to flag.
    #[must_use]
    pub const fn flag(self) -> Option<&'static str> {
        match self {
            Self::Plausible => None,
            Self::Implausible { .. } => Some("server_timing_implausible"),
        }
    }
}

/// Compares a server-reported time with the client's for the same span; bounds of 0.5 and 2 are
/// inclusive. `None` if the client saw no time pass, so that nothing can be said.
#[must_use]
pub fn plausibility(server: Duration, client: Duration) -> Option<Plausibility> {
    if client.is_zero() {
        return None;
    }
    let ratio = server.as_secs_f64() / client.as_secs_f64();
    Some(if (0.5..=2.0).contains(&ratio) {
        Plausibility::Plausible
    } else {
        Plausibility::Implausible { ratio }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_the_wrong_unit_is_flagged() {
        // Case O-RP-04: 2000 meant as milliseconds, where nanoseconds are expected.
        let eval_duration = 2000;
        let server = Duration::from_nanos(eval_duration);
        let seen = plausibility(server, Duration::from_secs(2)).unwrap();
        assert_eq!(seen.flag(), Some("server_timing_implausible"));
        let good = plausibility(Duration::from_millis(1900), Duration::from_secs(2)).unwrap();
        assert_eq!(good, Plausibility::Plausible);
        assert_eq!(good.flag(), None);
    }

    #[test]
    fn the_bounds_are_inclusive_and_nothing_is_compared_with_nothing() {
        let one = Duration::from_secs(1);
        let at = |server| plausibility(server, one).unwrap().flag();
        assert_eq!(at(Duration::from_millis(500)), None);
        assert_eq!(at(Duration::from_secs(2)), None);
        assert!(at(Duration::from_micros(499_999)).is_some());
        assert!(at(Duration::from_micros(2_000_001)).is_some());
        assert_eq!(plausibility(one, Duration::ZERO), None);
    }
}
