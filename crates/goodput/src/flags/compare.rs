//! Flags of `compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

// The group of --help.
const GATE: &str = "Gate";

/// Flags of `compare`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompareFlags {
    /// The base: a result folder or its result.json
    pub(crate) base: PathBuf,
    /// The other one
    pub(crate) other: PathBuf,
    /// Rules.
    #[arg(
        long,
        value_name = "RULE",
        help_heading = GATE,
        help = "Fail (exit 1) where this holds, e.g. 'goodput_tok_s < -3%' or 'ttft_p99_ms > 500ms at 16'; may be repeated"
    )]
    pub(crate) fail_on: Vec<String>,
    /// More rules.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = GATE,
        help = "File of rules: fail_on = [\"...\", \"...\"], undecided = \"fail\""
    )]
    pub(crate) rules: Option<PathBuf>,
    /// What a rule comes to that the intervals do not decide [default: pass, with a warning]
    #[arg(long, value_enum, help_heading = GATE)]
    pub(crate) undecided: Option<Undecided>,
    /// Where to write them.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = GATE,
        help = "Write the rules' verdicts as JUnit XML"
    )]
    pub(crate) junit: Option<PathBuf>,
    /// Compare across models, SLOs or workloads; models are then ranked by characters a second
    #[arg(long)]
    pub(crate) across: bool,
    /// What stdout carries
    #[arg(long, value_enum, default_value_t = CompareFormat::Human)]
    pub(crate) format: CompareFormat,
}

/// What an undecided rule comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Undecided {
    /// It passes, with a warning.
    Pass,
    /// It fails.
    Fail,
}

/// What stdout carries of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    /// Text for people.
    Human,
    /// One JSON document.
    Json,
    /// Rows of CSV.
    Csv,
    /// Markdown for a pull request.
    Markdown,
}
