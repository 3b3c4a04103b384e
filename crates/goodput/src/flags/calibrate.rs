//! Flags of `calibrate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Flags of `calibrate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CalibrateFlags {
    /// Result folders, best measured with --keep-gaps
    #[arg(value_name = "DIR", required = true)]
    pub(crate) folders: Vec<PathBuf>,
    /// File to write the engine profile to
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Profile with the engine's limits and names, which records do not tell
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) base: Option<String>,
    /// Take the base's coefficients as known to a half before, for what the records do not settle
    #[arg(long, requires = "base")]
    pub(crate) trust_base: bool,
    /// Limit of the engine.
    #[arg(
        long = "set",
        value_name = "KEY=VALUE",
        help = "Limit of the engine, e.g. max_num_seqs=64; may be repeated"
    )]
    pub(crate) set: Vec<String>,
    /// Refine with the simulator in the loop: at most N replays of the measured requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(20..=100_000))]
    pub(crate) refine: Option<u32>,
    /// Refits for the intervals
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(200..=100_000),
        hide_short_help = true)]
    pub(crate) resamples: u32,
    /// Seed of these
    #[arg(long, value_name = "N", default_value_t = 1, hide_short_help = true)]
    pub(crate) seed: u64,
    /// What stdout carries
    #[arg(long, value_enum, default_value_t = CalibrateFormat::Human)]
    pub(crate) format: CalibrateFormat,
}

/// What stdout carries of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CalibrateFormat {
    /// Text for people.
    Human,
    /// One JSON document.
    Json,
}
