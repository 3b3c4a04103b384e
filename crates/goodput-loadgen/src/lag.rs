//! The load thread looks at itself: how late its ticks are, and what its sockets hold unread then.

use std::{cell::RefCell, rc::Rc, time::Duration};

use goodput_record::{Timestamp, nanos};
use goodput_stats::Distribution;

use crate::{client::Client, doubt::roughly, socket::Unread, timer::Timer};

/// Distance of the ticks whose lateness is the load thread's own lag.
const TICK: Duration = Duration::from_millis(10);
/// Sockets that are asked at a tick for what they hold unread: 64 of them cost the load thread
/// about 0.1 % of a core.
const SOCKETS_A_TICK: usize = 64;

/// What the load thread saw of itself, tick by tick.
#[derive(Clone, Debug)]
pub(crate) struct SelfSeen {
    /// How late each tick was, in ns: how late an event at an arbitrary instant is seen.
    pub(crate) lag: Distribution,
    ticks: u64,
    /// Bytes unread in all open sockets, summed over the ticks.
    unread_bytes: f64,
}

impl Default for SelfSeen {
    fn default() -> Self {
        Self {
            lag: roughly(),
            ticks: 0,
            unread_bytes: 0.0,
        }
    }
}

impl SelfSeen {
    /// Takes a look at the sockets that stands for this many ticks: while those before the last
    /// were missed, what lay there rose to what is seen now.
    fn look(&mut self, seen: Unread, ticks: u64) {
        self.ticks += ticks;
        if seen.looked_at > 0 {
            let each = seen.bytes as f64 / f64::from(seen.looked_at);
            let stands_for = if ticks > 1 { 0.5 * ticks as f64 } else { 1.0 };
            self.unread_bytes += each * f64::from(seen.open) * stands_for;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.lag.merge(&other.lag);
        // Two threads that look at the same instants: their sockets lie side by side.
        self.ticks = self.ticks.max(other.ticks);
        self.unread_bytes += other.unread_bytes;
    }

    /// How long a received byte lay in its socket, in the mean, by Little's law: bytes that lie
    /// there over bytes a second. `None` where nothing was received.
    ///
    /// Looks happen when the thread runs, so while it is kept from running they are late and find
    /// more than there was in the mean: too high by up to a factor of two then, never too low.
    pub(crate) fn unread_for(&self, bytes: u64, span: Duration) -> Option<Duration> {
        if bytes == 0 || self.ticks == 0 {
            return None;
        }
        let lying = self.unread_bytes / self.ticks as f64;
        let seconds = lying / bytes as f64 * span.as_secs_f64();
        Some(goodput_record::span_of(seconds))
    }
}

/// Looks at every tick until it is aborted.
pub(crate) async fn watch_self(client: Rc<Client>, mut timer: Timer, seen: Rc<RefCell<SelfSeen>>) {
    let mut due = client.clock().now().after(TICK);
    loop {
        let Ok(woken) = timer.until(due).await else {
            return;
        };
        let unread = client.sockets().unread(SOCKETS_A_TICK);
        let mut seen = seen.borrow_mut();
        let mut ticks = 0;
        for late in ticks_missed(due, woken) {
            seen.lag.record(nanos(late));
            ticks += 1;
        }
        seen.look(unread, ticks);
        due = due.after(TICK * u32::try_from(ticks).unwrap_or(u32::MAX));
    }
}

/// How late each tick from `due` on was, where the thread woke at `woken`. All that came due
/// meanwhile are told: a thread that stood still for three seconds was late three hundred times,
/// and so were the answers it did not read.
fn ticks_missed(due: Timestamp, woken: Timestamp) -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(due), |tick| Some(tick.after(TICK)))
        .map_while(move |tick| woken.since(tick))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_stood_still_was_late_at_every_tick_it_missed() {
        let at = Timestamp::from_millis;
        let late = |woken| ticks_missed(at(50), at(woken)).collect::<Vec<_>>();
        assert_eq!(late(50), [Duration::ZERO]);
        assert_eq!(late(59), [Duration::from_millis(9)]);
        assert_eq!(late(70), [20, 10, 0].map(Duration::from_millis));
        assert_eq!(late(3050).len(), 301);
    }

    /// Little's law: 1,000 bytes a second that lie 20 ms each are 20 bytes in the mean.
    #[test]
    fn what_lies_unread_tells_for_how_long_it_lies() {
        let mut seen = SelfSeen::default();
        for look in 0..1000 {
            // Half of the open sockets are looked at; every fiftieth look finds 500 bytes in them.
            let unread = Unread {
                looked_at: 10,
                open: 20,
                bytes: if look % 50 == 0 { 500 } else { 0 },
            };
            seen.look(unread, 1);
        }
        let lay = seen.unread_for(10_000, Duration::from_secs(10)).unwrap();
        assert_eq!(lay, Duration::from_millis(20));
        assert_eq!(seen.unread_for(0, Duration::from_secs(10)), None);
        assert_eq!(
            SelfSeen::default().unread_for(9, Duration::from_secs(1)),
            None
        );
    }
}
