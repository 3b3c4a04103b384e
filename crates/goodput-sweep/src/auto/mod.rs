//! The sweep by itself: which load next, for how long, and when it is known.
//!
//! A strategy is passive. A driver asks it for a load point, lets the point run, shows it the point
//! about once a second of the point's time, and tells it the row when the point is over:
//!
//! ```text
//! while let Ask::Measure(next) = strategy.ask() {
//!     // settle by `settle(next.load, e2e_p95)`, then open a window of at most `next.at_most`
//!     //   once a second, from `next.at_least` on while the window is open:
//!     //     match strategy.look(&books.so_far(opened, now)) {
//!     //         Look::Wait => {}
//!     //         Look::GoOn => books.looked(),
//!     //         Look::Close(why) => course.close_early(now),
//!     //     }
//!     // drain, then
//!     strategy.tell(&books.row(&facts));
//! }
//! ```
//!
//! [`PeakSearch`] looks for the largest goodput in a closed loop, and for the last load that holds
//! every clause; [`RateSearch`] for the highest open-loop rate that keeps the objective. Run the
//! first, take its [`PeakSearch::first_rate`], run the second; once more with bursty arrivals is
//! another `RateSearch`. The rows of both go to [`crate::answers`] as ever, and
//! [`PeakSearch::found`] and [`RateSearch::found`] say what was resolved and what was not.
//!
//! Looking often and stopping when the result pleases makes plain intervals too narrow. Looks
//! therefore come on a geometric schedule, one after which the point went on is counted in the
//! books ([`goodput_ledger::PointBooks::looked`]), and every interval of the row is widened for
//! their number ([`goodput_stats::looks_confidence`]).

mod curve;
mod history;
mod peak;
mod rate;
mod schedule;
#[cfg(test)]
mod tests;

use std::time::Duration;

use goodput_ledger::{PointRow, PointSoFar};
use goodput_workload::{Load, Settle};

pub use peak::{Found, PeakPlan, PeakSearch};
pub use rate::{FoundRate, RatePlan, RateSearch, Tried, saturated};

/// A load point to be measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// The load.
    pub load: Load,
    /// The window is at least this long.
    pub at_least: Duration,
    /// And at most this long, if no look closes it before.
    pub at_most: Duration,
}

/// What a strategy wants next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ask {
    /// One more load point.
    Measure(Measure),
    /// Nothing: it has its answer, or its budget is spent.
    Done,
}

/// Why a point was closed before its longest window was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its interval is as narrow as the comparison needs.
    Settled,
    /// It is clearly worse than the best load so far.
    Worse,
    /// It surely keeps the objective.
    Keeps,
    /// It surely breaks the objective.
    Breaks,
    /// It will not be known to keep the objective in the time it has.
    OutOfReach,
    /// More comes than is served: what is in flight grows without end.
    Saturated,
}

impl Why {
    /// In a few words, for the talk beside a run.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Settled => "known well enough",
            Self::Worse => "clearly below the best",
            Self::Keeps => "keeps the objective",
            Self::Breaks => "breaks the objective",
            Self::OutOfReach => "cannot be proven in its time",
            Self::Saturated => "saturated",
        }
    }
}

/// What a strategy makes of a look at a running point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It was not time for a look: nothing could have been decided.
    Wait,
    /// The point goes on.
    GoOn,
    /// The window closes now.
    Close(Why),
}

/// Says which load is next, and when a point has said enough. See the module for who calls what.
pub trait Strategy {
    /// What is to be measured next. Asked again after every [`Strategy::tell`].
    fn ask(&mut self) -> Ask;
    /// Looks at the point under way.
    fn look(&mut self, seen: &PointSoFar) -> Look;
    /// Hears the row of the point that was asked for last. A row that is not valid counts as
    /// time spent and says nothing.
    fn tell(&mut self, row: &PointRow);
}

/// How a point of this load settles before its window opens, where requests are expected to take
/// `e2e_p95`: the first wave of a closed loop, twice the length of a request in an open one.
#[must_use]
pub fn settle(load: Load, e2e_p95: Duration) -> Settle {
    match load {
        Load::Closed(_) => Settle::FirstWave {
            at_most: (4 * e2e_p95).max(Duration::from_secs(10)),
        },
        Load::Open { .. } => {
            Settle::Fixed((2 * e2e_p95).clamp(Duration::from_secs(2), Duration::from_mins(1)))
        }
    }
}
