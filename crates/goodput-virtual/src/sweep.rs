//! A whole strategy in virtual time.

use std::{ops::Range, time::Duration};

use goodput_ledger::PointRow;
use goodput_record::Timestamp;
use goodput_sweep::auto::{Ask, Strategy, settle};
use goodput_workload::{CoursePlan, Window};

use crate::{
    point::{PointPlan, Setting, run_point},
    replica::Replica,
};

/// Used for E2E before anything is known.
const E2E_GUESS: Duration = Duration::from_secs(3);

/// One point of a sweep.
#[derive(Clone, Debug)]
pub struct Swept {
    /// Its row.
    pub row: PointRow,
    /// Its window.
    pub window: Range<Timestamp>,
    /// From its first request to the end of its drain.
    pub span: Range<Timestamp>,
}

/// Runs `strategy` against `replica` until it wants no more; the points in the order in which they
/// were measured.
pub fn sweep(
    replica: &mut Replica,
    setting: &Setting<'_>,
    strategy: &mut impl Strategy,
) -> Vec<Swept> {
    let mut points: Vec<Swept> = Vec::new();
    let mut e2e_p95 = E2E_GUESS;
    while let Ask::Measure(next) = strategy.ask() {
        let number = u32::try_from(points.len()).unwrap_or(u32::MAX);
        let course = CoursePlan::new(settle(next.load, e2e_p95), Window::Duration(next.at_most));
        let plan = PointPlan {
            look_from: next.at_least,
            ..PointPlan::new(number, next.load, course)
        };
        let measured = run_point(replica, setting, &plan, |books, opened, now| {
            strategy.look(&books.so_far(opened, now))
        });
        let row = measured.row(&plan);
        if let Some(ms) = row.e2e_p95_ms {
            e2e_p95 = Duration::from_secs_f64(ms / 1e3);
        }
        strategy.tell(&row);
        points.push(Swept {
            row,
            window: measured.window,
            span: measured.span,
        });
    }
    points
}
