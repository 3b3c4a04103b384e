//! A request as somebody else recorded it.

use std::time::Duration;

use crate::{
    request::{Arrival, End, RequestSummary},
    time::Timestamp,
};

/// The instants of a request that another tool wrote down. What it did not write is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToldInstants {
    /// When it was sent.
    pub sent: Option<Timestamp>,
    /// When the response's first byte was read.
    pub first_byte: Option<Timestamp>,
    /// First token event of any channel.
    pub first_token: Option<Timestamp>,
    /// First token event that is not reasoning.
    pub first_answer: Option<Timestamp>,
    /// Last token event.
    pub last_token: Option<Timestamp>,
    /// When the request was over.
    pub ended: Timestamp,
}

impl RequestSummary {
    /// A request of which the gaps between token events are not known: it has no longest gap, no
    /// median gap and no percentile of them.
    ///
    /// `events` is how many token events the other tool saw. Instants out of order are put right
    /// by moving the later one: no latency becomes negative.
    #[must_use]
    pub fn told(arrival: Arrival, at: &ToldInstants, events: u32, end: End) -> Self {
        let not_before = |at: Option<Timestamp>, floor: Timestamp| at.map(|at| at.max(floor));
        let origin = arrival.origin;
        let first_token = not_before(at.first_token, origin);
        let first = first_token.unwrap_or(origin);
        let last_token = not_before(at.last_token.filter(|_| first_token.is_some()), first);
        let first_answer = not_before(at.first_answer, first)
            .zip(last_token)
            .map(|(answer, last)| answer.min(last));
        let sent = not_before(at.sent, origin);
        let ended = [sent, at.first_byte, last_token]
            .into_iter()
            .flatten()
            .fold(at.ended.max(origin), Timestamp::max);
        Self {
            arrival,
            due: origin,
            sent,
            connect: None::<Duration>,
            dispatched: None,
            attempts: u8::from(sent.is_some()),
            first_byte: not_before(at.first_byte, origin),
            first_token,
            first_answer,
            last_token,
            ended,
            stall: None,
            tpot_median: None,
            itl_p99: None,
            events: if first_token.is_some() { events } else { 0 },
            bunched: 0,
            end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, SeriesId, TokenCount, Vantage};

    fn arrival() -> Arrival {
        Arrival {
            id: 1,
            origin: Timestamp::from_millis(100),
            series: SeriesId::default(),
            vantage: Vantage::Client,
            session: 0,
            step: 0,
            steps: 1,
            planned_input_tokens: 5,
            planned_cached_tokens: 0,
            planned_output_tokens: 11,
        }
    }

    fn end(tokens: u32) -> End {
        End {
            output_tokens: Some(TokenCount::Tokenizer(tokens)),
            ..End::of(Outcome::Ok)
        }
    }

    fn ms(at: u64) -> Timestamp {
        Timestamp::from_millis(at)
    }

    #[test]
    fn what_was_told_gives_latencies_and_what_was_not_gives_none() {
        let told = ToldInstants {
            sent: Some(ms(101)),
            first_token: Some(ms(150)),
            last_token: Some(ms(250)),
            ended: Timestamp::from_millis(251),
            ..ToldInstants::default()
        };
        let summary = RequestSummary::told(arrival(), &told, 11, end(11));
        assert_eq!(summary.ttft(), Some(Duration::from_millis(50)));
        assert_eq!(summary.tpot(), Some(Duration::from_millis(10)));
        assert_eq!(summary.e2e(), Some(Duration::from_millis(150)));
        assert_eq!(summary.send_lag(), Some(Duration::from_millis(1)));
        assert_eq!((summary.stall(), summary.tpot_median()), (None, None));
        assert_eq!((summary.ttft_answer(), summary.itl_p99()), (None, None));
        assert_eq!(summary.connect(), None);
    }

    #[test]
    fn without_a_first_token_there_is_no_latency_of_tokens() {
        let told = ToldInstants {
            last_token: Some(ms(250)),
            first_answer: Some(ms(200)),
            ended: Timestamp::from_millis(251),
            ..ToldInstants::default()
        };
        let summary = RequestSummary::told(arrival(), &told, 3, end(0));
        assert_eq!(
            (summary.ttft(), summary.tpot(), summary.e2e()),
            (None, None, None)
        );
        assert_eq!(summary.ttft_answer(), None);
        assert_eq!((summary.sent(), summary.events()), (None, 0));
    }

    #[test]
    fn a_clock_that_ran_backwards_makes_no_negative_latency() {
        let told = ToldInstants {
            sent: Some(ms(90)),
            first_byte: Some(ms(80)),
            first_token: Some(ms(95)),
            first_answer: Some(ms(20)),
            last_token: Some(ms(60)),
            ended: Timestamp::from_millis(10),
        };
        let summary = RequestSummary::told(arrival(), &told, 2, end(2));
        assert_eq!(summary.ttft(), Some(Duration::ZERO));
        assert_eq!(summary.ttft_answer(), Some(Duration::ZERO));
        assert_eq!(summary.e2e(), Some(Duration::ZERO));
        assert_eq!(summary.send_lag(), Some(Duration::ZERO));
        assert_eq!(summary.open_for(), Duration::ZERO);
    }
}
