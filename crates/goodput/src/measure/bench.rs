//! `goodput bench`: one load point.

use std::{num::NonZeroU32, ops::RangeInclusive};

use goodput_workload::Load;

use crate::{exit::Failure, flags::BenchFlags};

/// Arrivals a second that a schedule can be made of.
const RATES: RangeInclusive<f64> = 1e-6..=1e6;

/// The load of the one point: a rate, else users, else one user.
pub(crate) fn load(flags: &BenchFlags) -> Result<Load, Failure> {
    if let Some(per_second) = flags.rate {
        check_rate(per_second)?;
        return Ok(Load::Open { per_second });
    }
    let users = flags.concurrency.unwrap_or(1);
    NonZeroU32::new(users).map(Load::Closed).ok_or_else(|| {
        Failure::usage("--concurrency 0 sends nothing").hint("name at least one user")
    })
}

/// Refuses a rate of which no schedule can be made.
pub(crate) fn check_rate(per_second: f64) -> Result<(), Failure> {
    if RATES.contains(&per_second) {
        return Ok(());
    }
    let range = format!("{} to {}", RATES.start(), RATES.end());
    Err(Failure::usage(format!("--rate {per_second} is not a rate"))
        .hint(format!("name requests a second from {range}")))
}

/// The users of a closed loop.
pub(crate) fn users(load: Load) -> Option<NonZeroU32> {
    match load {
        Load::Closed(users) => Some(users),
        Load::Open { .. } => None,
    }
}
