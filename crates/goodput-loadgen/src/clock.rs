//! The run's clock: monotonic instants since the run's epoch.

use goodput_record::{Epoch, Timestamp};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The monotonic clock of a run, tied to the wall clock once, when it starts.
///
/// `CLOCK_MONOTONIC` itself (and not [`std::time::Instant`]) because the absolute timer is armed
/// on it, and because another process on the machine can compare its own log with ours.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// `CLOCK_MONOTONIC` at [`Timestamp::ZERO`], in nanoseconds.
    zero_ns: u64,
    epoch: Epoch,
}

impl Clock {
    /// Starts the clock: now is [`Timestamp::ZERO`].
    #[must_use]
    pub fn start() -> Self {
        let unix_ns = whole_nanos(clock_gettime(ClockId::Realtime));
        Self {
            zero_ns: whole_nanos(clock_gettime(ClockId::Monotonic)),
            epoch: Epoch::from_unix_nanos(unix_ns),
        }
    }

    /// A clock whose [`Timestamp::ZERO`] was at `epoch`, so that several processes count from the
    /// same instant. As punctual as the wall clock is now; what is done to that later moves nothing.
    ///
    /// `None` if `epoch` lies ahead, or before the machine was started.
    #[must_use]
    pub fn counting_from(epoch: Epoch) -> Option<Self> {
        let unix_ns = whole_nanos(clock_gettime(ClockId::Realtime));
        let gone = unix_ns.checked_sub(epoch.unix_nanos())?;
        let now = whole_nanos(clock_gettime(ClockId::Monotonic));
        Some(Self {
            zero_ns: now.checked_sub(gone)?,
            epoch,
        })
    }

    /// Nanoseconds since the run's epoch, as an instant. Costs about 20 ns: no system call.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let ns = whole_nanos(clock_gettime(ClockId::Monotonic));
        Timestamp::from_nanos(ns.saturating_sub(self.zero_ns))
    }

    /// The wall-clock time of [`Timestamp::ZERO`].
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// `CLOCK_MONOTONIC` at [`Timestamp::ZERO`], in nanoseconds: to join our records with the log
    /// of a server on the same machine.
    #[must_use]
    pub const fn monotonic_zero_ns(&self) -> u64 {
        self.zero_ns
    }

    /// `at` on `CLOCK_MONOTONIC`, as a timer wants it.
    pub(crate) fn monotonic(&self, at: Timestamp) -> Timespec {
        let ns = self.zero_ns.saturating_add(at.nanos());
        Timespec {
            tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
            // Below 10^9, so it fits every width that `tv_nsec` has.
            tv_nsec: (ns % 1_000_000_000).try_into().unwrap_or(999_999_999),
        }
    }
}

/// CPU time this process has used so far, user and system, all threads, in nanoseconds.
pub(crate) fn process_cpu_ns() -> u64 {
    whole_nanos(clock_gettime(ClockId::ProcessCPUTime))
}

/// CPU time the calling thread has used so far, user and system, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    whole_nanos(clock_gettime(ClockId::ThreadCPUTime))
}

fn whole_nanos(t: Timespec) -> u64 {
    let seconds = u64::try_from(t.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(t.tv_nsec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_count_from_one_epoch_agree() {
        let started = Clock::start();
        let ahead = Epoch::from_unix_nanos(u64::MAX);
        assert!(Clock::counting_from(ahead).is_none());
        assert!(
            Clock::counting_from(Epoch::from_unix_nanos(0)).is_none(),
            "no machine is that old"
        );
        let later = Clock::counting_from(started.epoch()).expect("the epoch has just been");
        assert_eq!(later.epoch(), started.epoch());
        // Both clocks of the machine were read one after the other; a second is far more than that.
        let apart = later
            .monotonic_zero_ns()
            .abs_diff(started.monotonic_zero_ns());
        assert!(apart < 1_000_000_000, "{apart} ns");
    }
}
