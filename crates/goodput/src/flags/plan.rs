//! Flags of `plan`.

use clap::{Args, Subcommand};

use super::QueueFlags;

/// `plan` and its kinds.
#[derive(Clone, Debug, Args)]
pub(crate) struct PlanFlags {
    #[command(subcommand)]
    pub(crate) verb: PlanVerb,
}

/// Kinds of plans.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum PlanVerb {
    /// How long requests wait: queueing formulas, and what each means for continuous batching
    #[command(after_help = "Examples:\n  \
        goodput plan queue --rate 7.5 --service 120ms\n  \
        goodput plan queue --rate 33 --service 120ms --servers 5 --scv-arrivals 4 --scv-service 2\n  \
        goodput plan queue --rate 20 --profile qwen3-8b-h100 --input 1020 --output 129")]
    Queue(QueueFlags),
}
