//! `goodput trace`.
use std::path::Path;

use crate::{
    exit::{Exit, Failure},
    flags::TraceFlags,
    talk::Voice,
};

pub(crate) fn inspect(_flags: &TraceFlags, _voice: Voice) -> Result<Exit, Failure> {
    Err(Failure::usage("being built"))
}

pub(crate) fn convert(_flags: &TraceFlags, _out: &Path, _voice: Voice) -> Result<Exit, Failure> {
    Err(Failure::usage("being built"))
}
