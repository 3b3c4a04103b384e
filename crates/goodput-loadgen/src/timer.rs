//! An absolute timer good to some tens of microseconds.
//!
//! tokio's own `sleep_until` counts in milliseconds and is about 1 ms late at the median, which
//! would sit in every open-loop latency. A timerfd armed with an absolute time on
//! `CLOCK_MONOTONIC` is late only by the wake-up of the thread.

use std::{
    io,
    os::fd::OwnedFd,
    task::{Context, Poll, ready},
    time::Duration,
};

use goodput_record::Timestamp;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use crate::clock::Clock;

/// A timer for one waiting task.
#[derive(Debug)]
pub struct Timer {
    clock: Clock,
    fd: AsyncFd<OwnedFd>,
    /// What the kernel's timer is set to; `None` while it is not set.
    armed: Option<Timestamp>,
    busy_tail: Duration,
}

impl Timer {
    /// Makes a timer. Must be called inside a tokio runtime.
    ///
    /// `busy_tail`: the kernel's timer is set this much early and the rest is spun away, which
    /// trades CPU of the load thread for the last tens of microseconds. Zero: no spinning.
    pub fn new(clock: Clock, busy_tail: Duration) -> io::Result<Self> {
        let fd = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        #[expect(
            deprecated,
            reason = "its replacement is unsafe, for types whose descriptor may change; an OwnedFd's cannot"
        )]
        let fd = AsyncFd::new(fd)?;
        Ok(Self {
            clock,
            fd,
            armed: None,
            busy_tail,
        })
    }

    /// Waits until `at` and returns the instant of the wake-up, which is never earlier.
    pub async fn until(&mut self, at: Timestamp) -> io::Result<Timestamp> {
        std::future::poll_fn(|cx| self.poll_until(cx, at)).await
    }

    /// Ready once it is `at` or later. May be asked about another instant every time.
    pub fn poll_until(
        &mut self,
        cx: &mut Context<'_>,
        at: Timestamp,
    ) -> Poll<io::Result<Timestamp>> {
        let early = nanos_before(at, self.busy_tail);
        loop {
            let now = self.clock.now();
            if now >= early {
                return Poll::Ready(Ok(self.spin(at, now)));
            }
            if at == Timestamp::FAR_FUTURE {
                return Poll::Pending;
            }
            if self.armed != Some(early) {
                self.arm(early)?;
            }
            let mut guard = ready!(self.fd.poll_read_ready(cx))?;
            let mut expirations = [0_u8; 8];
            // The count says nothing that the clock does not; reading it only disarms the fd.
            match rustix::io::read(self.fd.get_ref(), &mut expirations) {
                Ok(_) => self.armed = None,
                Err(rustix::io::Errno::AGAIN) => guard.clear_ready(),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    fn arm(&mut self, at: Timestamp) -> io::Result<()> {
        let spec = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: self.clock.monotonic(at),
        };
        timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::ABSTIME, &spec)?;
        self.armed = Some(at);
        Ok(())
    }

    fn spin(&self, at: Timestamp, mut now: Timestamp) -> Timestamp {
        while now < at {
            std::hint::spin_loop();
            now = self.clock.now();
        }
        now
    }
}

fn nanos_before(at: Timestamp, span: Duration) -> Timestamp {
    Timestamp::from_nanos(at.nanos().saturating_sub(goodput_record::nanos(span)))
}
