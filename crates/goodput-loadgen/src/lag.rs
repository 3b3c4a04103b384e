//! The load thread's own lag.

use std::{cell::RefCell, rc::Rc, time::Duration};

use goodput_record::{Timestamp, nanos};
use goodput_stats::Distribution;

use crate::{clock::Clock, timer::Timer};

/// Distance of the ticks whose lateness is the load thread's own lag.
const TICK: Duration = Duration::from_millis(10);

/// Records how late a regular tick is.
pub(crate) async fn watch_loop(mut timer: Timer, clock: Clock, lag: Rc<RefCell<Distribution>>) {
    let mut due = clock.now().after(TICK);
    loop {
        let Ok(woken) = timer.until(due).await else {
            return;
        };
        for late in ticks_missed(due, woken) {
            lag.borrow_mut().record(nanos(late));
            due = due.after(TICK);
        }
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
}
