//! `goodput bench`: one load point.

use std::num::NonZeroU32;

use goodput_workload::Load;

use crate::{exit::Failure, flags::BenchFlags};

/// The load of the one point: a rate, else users, else one user.
pub(crate) fn load(flags: &BenchFlags) -> Result<Load, Failure> {
    if let Some(per_second) = flags.rate {
        if !(per_second > 0.0 && per_second <= goodput_config::RATE_MOST) {
            return Err(
                Failure::usage(format!("--rate {per_second} is not a rate")).hint(format!(
                    "name requests a second above zero, at most {}",
                    goodput_config::RATE_MOST
                )),
            );
        }
        return Ok(Load::Open { per_second });
    }
    let users = flags.concurrency.unwrap_or(1);
    NonZeroU32::new(users).map(Load::Closed).ok_or_else(|| {
        Failure::usage("--concurrency 0 sends nothing").hint("name at least one user")
    })
}

/// The users of a closed loop.
pub(crate) fn users(load: Load) -> Option<NonZeroU32> {
    match load {
        Load::Closed(users) => Some(users),
        Load::Open { .. } => None,
    }
}
