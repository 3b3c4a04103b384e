//! How much work a second gets done: what a wait in the queue can be told from.

use std::time::Duration;

use goodput_record::{Timestamp, nanos, span_of};

/// Work done is counted over spans of this length; the last whole one and the one under way count.
const SPAN: Duration = Duration::from_secs(10);
/// Nobody is asked to come back sooner.
const SOONEST: Duration = Duration::from_secs(1);
/// Nobody is asked to stay away for longer.
const LATEST: Duration = Duration::from_mins(1);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    began: Timestamp,
    current: u64,
    before: Option<u64>,
}

impl Pace {
    pub(crate) fn done(&mut self, now: Timestamp, work: u64) {
        self.roll(now);
        self.current = self.current.saturating_add(work);
    }

    fn roll(&mut self, now: Timestamp) {
        let passed = nanos(now.since(self.began).unwrap_or_default());
        let spans = passed / nanos(SPAN);
        if spans == 0 {
            return;
        }
        self.before = Some(if spans == 1 { self.current } else { 0 });
        self.current = 0;
        self.began = self.began.after(Duration::from_nanos(spans * nanos(SPAN)));
    }

    /// How long the fleet needs for so much work at the pace of the last 10 to 20 s, within 1 s and
    /// a minute. Where nothing is known: 1 s.
    pub(crate) fn time_for(&mut self, now: Timestamp, work: u64) -> Duration {
        self.roll(now);
        let span = now.since(self.began).unwrap_or_default().as_secs_f64();
        let whole = if self.before.is_some() {
            SPAN.as_secs_f64()
        } else {
            0.0
        };
        let done = self.current.saturating_add(self.before.unwrap_or(0));
        if done == 0 {
            return SOONEST;
        }
        let rate = done as f64 / (span + whole).max(1e-3);
        span_of(work as f64 / rate).clamp(SOONEST, LATEST)
    }
}
