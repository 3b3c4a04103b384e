//! Flags of `simulate`.

use clap::Args;

use super::measure::{AskFlags, LoadsFlags};

/// Flags of `simulate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SimulateFlags {
    /// Engine profile: a built-in name, a file, MODEL@DEVICE, or `list`, which prints all
    #[arg(
        long,
        value_name = "NAME|FILE",
        default_value = "laptop",
        display_order = 1
    )]
    pub(crate) profile: String,
    #[command(flatten)]
    pub(crate) loads: LoadsFlags,
    /// Simulate a variant beside the base.
    #[arg(
        long,
        value_name = "KEY=VALUE",
        display_order = 9,
        help = "Simulate a variant beside the base, such as max_num_seqs=64 or prompts=x2; several values are \
                several variants, 'max_num_seqs=64;kv_blocks=x2' is one; may be repeated"
    )]
    pub(crate) what_if: Vec<String>,
    /// Keep no records: faster; what is said of single gaps between tokens is then left out
    #[arg(long, help_heading = "What is kept")]
    pub(crate) no_records: bool,
    /// Refused with a word on where it belongs.
    #[arg(long, hide = true)]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) ask: AskFlags,
}
