//! `goodput plan`.

mod queue;

use crate::{
    exit::{Exit, Failure},
    flags::{PlanFlags, PlanVerb},
    talk::Voice,
};

/// Does what the flags ask.
pub(crate) fn plan(flags: &PlanFlags, voice: Voice) -> Result<Exit, Failure> {
    match &flags.verb {
        PlanVerb::Queue(flags) => queue::queue(flags, voice),
    }
}
