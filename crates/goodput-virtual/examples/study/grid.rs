//! The sweep to beat: a fixed grid with fixed windows.

use std::{num::NonZeroU32, time::Duration};

use goodput_ledger::{PointRow, PointSoFar};
use goodput_sweep::auto::{Ask, Look, Measure, Strategy};
use goodput_workload::Load;

/// 1, 2, 4 to 128 users, 180 s each.
#[derive(Default)]
pub(crate) struct FixedGrid {
    rows: Vec<(u32, f64)>,
}

impl FixedGrid {
    pub(crate) fn best(&self) -> Option<u32> {
        let best = self.rows.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        best.filter(|row| row.1 > 0.0).map(|row| row.0)
    }
}

impl Strategy for FixedGrid {
    fn ask(&mut self) -> Ask {
        let users = 1_u32 << self.rows.len();
        match NonZeroU32::new(users).filter(|_| users <= 128) {
            Some(users) => Ask::Measure(Measure {
                load: Load::Closed(users),
                at_least: Duration::from_mins(3),
                at_most: Duration::from_mins(3),
            }),
            None => Ask::Done,
        }
    }

    fn look(&mut self, _: &PointSoFar) -> Look {
        Look::Wait
    }

    fn tell(&mut self, row: &PointRow) {
        let users = row.concurrency.unwrap_or_default();
        self.rows.push((users, row.goodput_tok_s));
    }
}
