//! Real time, the engines' time, and an alarm at an absolute instant.

use std::time::Duration;

use goodput_record::{Timestamp, nanos};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::faults::{SlowStart, Slowdown, Stall};

/// The monotonic clock since the emulator was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    base_ns: u64,
    unix_seconds: u64,
}

impl Clock {
    /// Starts the clock: this instant is [`Timestamp::ZERO`].
    pub(crate) fn start() -> Self {
        Self {
            base_ns: nanos_of_timespec(clock_gettime(ClockId::Monotonic)),
            unix_seconds: nanos_of_timespec(clock_gettime(ClockId::Realtime)) / 1_000_000_000,
        }
    }

    /// The time now.
    pub(crate) fn now(self) -> Timestamp {
        let now = nanos_of_timespec(clock_gettime(ClockId::Monotonic));
        Timestamp::from_nanos(now.saturating_sub(self.base_ns))
    }

    /// Seconds since 1970 at `at`, for the `created` fields.
    pub(crate) fn unix_seconds(self, at: Timestamp) -> u64 {
        self.unix_seconds + at.nanos() / 1_000_000_000
    }
}

fn nanos_of_timespec(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds * 1_000_000_000 + rest
}

/// How the engines' time runs against real time: more slowly after a cold start or once it was slowed
/// down, not at all during a stall, else alike.
///
/// Both maps are exact and monotone, and `engine(real(t)) == t`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Warp {
    slow: Option<(u64, u64)>,
    stall: Option<(u64, u64)>,
    /// From when on, and how many hundredths of real time one of the engines' time takes.
    slowed: Option<(u64, u64)>,
}

impl Warp {
    /// The warp of these faults.
    pub(crate) fn new(
        slow: Option<SlowStart>,
        stall: Option<Stall>,
        slowdown: Option<Slowdown>,
    ) -> Self {
        Self {
            slow: slow.map(|slow| {
                let factor = u64::from(slow.factor.get());
                (nanos(slow.lasting) / factor * factor, factor)
            }),
            stall: stall.map(|stall| (nanos(stall.every), nanos(stall.lasting))),
            slowed: slowdown.map(|slowdown| {
                (
                    nanos(slowdown.after),
                    100 + u64::from(slowdown.percent.get()),
                )
            }),
        }
    }

    /// The engines' time at the real instant `at`.
    pub(crate) fn engine(&self, at: Timestamp) -> Timestamp {
        let mut t = at.nanos();
        if let Some((from, hundredths)) = self.slowed {
            t = t.min(from) + scaled(t.saturating_sub(from), 100, hundredths, false);
        }
        if let Some((lasting, factor)) = self.slow {
            t = t.min(lasting) / factor + t.saturating_sub(lasting);
        }
        if let Some((every, lasting)) = self.stall {
            let past = t / every;
            if past > 0 {
                let stalled = (t - past * every).min(lasting) + (past - 1) * lasting;
                t -= stalled;
            }
        }
        Timestamp::from_nanos(t)
    }

    /// The first real instant at which the engines' time is `at`.
    pub(crate) fn real(&self, at: Timestamp) -> Timestamp {
        if at == Timestamp::FAR_FUTURE {
            return at;
        }
        let mut t = at.nanos();
        if let Some((every, lasting)) = self.stall {
            let beyond = t.saturating_sub(every);
            if beyond > 0 {
                t += (1 + (beyond - 1) / (every - lasting)) * lasting;
            }
        }
        if let Some((lasting, factor)) = self.slow {
            let slow = lasting / factor;
            t = t.min(slow) * factor + t.saturating_sub(slow);
        }
        if let Some((from, hundredths)) = self.slowed {
            t = t.min(from) + scaled(t.saturating_sub(from), hundredths, 100, true);
        }
        Timestamp::from_nanos(t)
    }
}

/// `span` times `by` over `over`, rounded up or down: down undoes up where `by` was above `over`.
fn scaled(span: u64, by: u64, over: u64, up: bool) -> u64 {
    let product = u128::from(span) * u128::from(by);
    let scaled = if up {
        product.div_ceil(u128::from(over))
    } else {
        product / u128::from(over)
    };
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Wakes the poll at an absolute instant of the monotonic clock.
///
/// On Linux a timer descriptor in the poll: the poll's own timeout counts in milliseconds and
/// rounds up. Elsewhere that timeout.
#[derive(Debug)]
pub(crate) struct Alarm {
    clock: Clock,
    #[cfg(target_os = "linux")]
    timer: std::os::fd::OwnedFd,
}

#[cfg(target_os = "linux")]
impl Alarm {
    /// Makes the alarm and registers it with `registry` under `token`.
    pub(crate) fn new(
        clock: Clock,
        registry: &mio::Registry,
        token: mio::Token,
    ) -> std::io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        use std::os::fd::AsRawFd;

        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        let mut source = mio::unix::SourceFd(&timer.as_raw_fd());
        registry.register(&mut source, token, mio::Interest::READABLE)?;
        Ok(Self { clock, timer })
    }

    /// Sets the alarm, and returns how long the poll may wait: `None` until it is woken.
    pub(crate) fn set(&self, at: Timestamp) -> std::io::Result<Option<Duration>> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, timerfd_settime};

        if at <= self.clock.now() {
            return Ok(Some(Duration::ZERO));
        }
        let never = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let at = if at == Timestamp::FAR_FUTURE {
            never
        } else {
            let nanos = self.clock.base_ns.saturating_add(at.nanos());
            Timespec {
                tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
                tv_nsec: i64::try_from(nanos % 1_000_000_000).unwrap_or(0),
            }
        };
        let timer = Itimerspec {
            it_interval: never,
            it_value: at,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &timer)?;
        Ok(None)
    }
}

#[cfg(not(target_os = "linux"))]
impl Alarm {
    /// Makes the alarm.
    pub(crate) fn new(clock: Clock, _: &mio::Registry, _: mio::Token) -> std::io::Result<Self> {
        Ok(Self { clock })
    }

    /// Returns how long the poll may wait: `None` until it is woken.
    pub(crate) fn set(&self, at: Timestamp) -> std::io::Result<Option<Duration>> {
        let wait = at.since(self.clock.now()).unwrap_or(Duration::ZERO);
        Ok((at != Timestamp::FAR_FUTURE).then_some(wait))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    const SLOW: Option<SlowStart> = Some(SlowStart {
        lasting: Duration::from_secs(20),
        factor: NonZeroU32::new(3).unwrap(),
    });

    const SLOWED: Option<Slowdown> = Some(Slowdown {
        after: Duration::from_secs(15),
        percent: NonZeroU32::new(20).unwrap(),
    });

    const STALL: Option<Stall> = Some(Stall {
        every: Duration::from_secs(10),
        lasting: Duration::from_secs(2),
    });

    #[test]
    fn engine_time_is_the_inverse_of_real_time() {
        for warp in [
            Warp::default(),
            Warp::new(SLOW, None, None),
            Warp::new(None, STALL, None),
            Warp::new(None, None, SLOWED),
            Warp::new(SLOW, STALL, SLOWED),
        ] {
            let mut last = Timestamp::ZERO;
            for step in 0..120_000_u64 {
                let at = Timestamp::from_nanos(step * 997_333);
                let real = warp.real(at);
                assert_eq!(warp.engine(real), at);
                assert!(real >= last);
                last = real;
            }
        }
    }

    #[test]
    fn a_stall_holds_the_engine_and_a_cold_start_slows_it() {
        let at = |seconds: f64| Timestamp::from_seconds(seconds);
        let warp = Warp::new(None, STALL, None);
        assert_eq!(warp.engine(at(10.0)), at(10.0));
        assert_eq!(warp.engine(at(11.5)), at(10.0));
        assert_eq!(warp.engine(at(12.0)), at(10.0));
        assert_eq!(warp.engine(at(13.0)), at(11.0));
        assert_eq!(warp.engine(at(21.0)), at(18.0));
        let warp = Warp::new(SLOW, None, None);
        assert_eq!(warp.engine(at(3.0)), at(1.0));
        assert_eq!(warp.real(at(1.0)), at(3.0));
        assert_eq!(warp.real(Timestamp::FAR_FUTURE), Timestamp::FAR_FUTURE);
        let warp = Warp::new(None, None, SLOWED);
        assert_eq!(warp.engine(at(15.0)), at(15.0));
        assert_eq!(warp.engine(at(27.0)), at(25.0));
        assert_eq!(warp.real(at(25.0)), at(27.0));
    }
}
