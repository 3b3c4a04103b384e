//! The time limits of one request, at no cost per event.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use goodput_record::{TimeoutPhase, Timestamp};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::{answering::Answering, clock::Clock, target::Limits};

/// How long the end of the framing is awaited behind the end mark.
const LINGER: Duration = Duration::from_millis(250);

/// Watches over one request. The runtime's timer is set once and looked at again only when it has
/// run out: an event merely moves a number.
#[derive(Debug)]
pub(crate) struct Watch {
    limits: Limits,
    phase: TimeoutPhase,
    phase_ends: Timestamp,
    total_ends: Timestamp,
    timer: Option<(Timestamp, Pin<Box<Sleep>>)>,
}

impl Watch {
    /// Begins with the set-up of a connection at `now`.
    pub(crate) fn new(limits: Limits, now: Timestamp) -> Self {
        Self {
            limits,
            phase: TimeoutPhase::Connect,
            phase_ends: ends(now, limits.connect),
            total_ends: ends(now, limits.total),
            timer: None,
        }
    }

    /// The request is on its way: the first token is awaited.
    pub(crate) fn sent(&mut self, now: Timestamp) {
        self.phase = TimeoutPhase::FirstToken;
        self.phase_ends = ends(now, self.limits.first_token);
    }

    /// Looks at how far the answer is: with a token, gaps count; behind the end mark only the end
    /// of the framing is awaited, so that the connection can be used again. That is worth a moment,
    /// no more.
    pub(crate) fn follow(&mut self, answering: &Answering) {
        if answering.is_settled() {
            self.phase_ends = answering.latest().after(LINGER);
        } else if self.limits.idle.is_some() && answering.flows() {
            self.phase = TimeoutPhase::Idle;
            self.phase_ends = ends(answering.latest(), self.limits.idle);
        } else if self.phase == TimeoutPhase::FirstToken && answering.flows() {
            self.phase_ends = Timestamp::FAR_FUTURE;
        }
    }

    /// The limit that strikes first, and when.
    fn next(&self) -> (Timestamp, TimeoutPhase) {
        if self.total_ends < self.phase_ends {
            (self.total_ends, TimeoutPhase::Total)
        } else {
            (self.phase_ends, self.phase)
        }
    }

    /// Which limit has struck, and its length, for the record and its reader.
    pub(crate) fn struck(&self) -> (TimeoutPhase, Duration) {
        let phase = self.next().1;
        let limit = match phase {
            TimeoutPhase::Connect => self.limits.connect,
            TimeoutPhase::FirstToken => self.limits.first_token,
            TimeoutPhase::Idle => self.limits.idle,
            TimeoutPhase::Total => self.limits.total,
        };
        (phase, limit.unwrap_or_default())
    }

    /// Ready once a limit has struck.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, clock: &Clock) -> Poll<()> {
        let (end, _) = self.next();
        if end == Timestamp::FAR_FUTURE {
            return Poll::Pending;
        }
        if self.timer.as_ref().is_none_or(|(set, _)| end < *set) {
            self.timer = Some((end, Box::pin(sleep_until(instant(end, clock)))));
        }
        let Some((set, timer)) = &mut self.timer else {
            return Poll::Pending;
        };
        while timer.as_mut().poll(cx).is_ready() {
            if clock.now() >= end {
                return Poll::Ready(());
            }
            *set = end;
            timer.as_mut().reset(instant(end, clock));
        }
        Poll::Pending
    }

    /// Runs `work` until it is done or a limit strikes (`None`).
    pub(crate) async fn over<T>(
        &mut self,
        clock: &Clock,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll(cx, clock).map(|()| None),
        })
        .await
    }
}

fn ends(now: Timestamp, limit: Option<Duration>) -> Timestamp {
    limit.map_or(Timestamp::FAR_FUTURE, |limit| now.after(limit))
}

fn instant(at: Timestamp, clock: &Clock) -> Instant {
    // The runtime's timer has a grain of a millisecond: one more, so that it never rings early.
    let left = at.since(clock.now()).unwrap_or_default();
    Instant::now() + left + Duration::from_millis(1)
}
