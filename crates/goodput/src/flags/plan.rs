//! Flags of `plan`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

// Groups of --help.
const DEMAND: &str = "Demand";
const REPLICA: &str = "One replica";
const RULES: &str = "How sizes are chosen";

/// `plan` and its kinds; without a kind it is the capacity plan.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct PlanFlags {
    #[command(subcommand)]
    pub(crate) verb: Option<PlanVerb>,
    #[command(flatten)]
    pub(crate) capacity: CapacityFlags,
}

/// Kinds of plans.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum PlanVerb {
    /// Replicas for a demand (what `plan` does by itself)
    Capacity(CapacityFlags),
}

/// What stdout carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanFormat {
    /// Text for people.
    Human,
    /// One JSON document.
    Json,
    /// Rows of CSV.
    Csv,
    /// Markdown, for a pull request or a page.
    Markdown,
}

/// Which page of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanPage {
    // Everything.
    Full,
    // A page of plain words for a product manager.
    Pm,
}

/// Flags of the capacity plan.
#[derive(Clone, Debug, Args)]
pub(crate) struct CapacityFlags {
    /// Demand in requests a second; several get an answer each: 95, 40,80,120 or 20:200:20
    #[arg(long, value_name = "LIST", help_heading = DEMAND, conflicts_with = "trace")]
    pub(crate) rate: Option<String>,
    /// Demand as a recorded trace: its peak quarter hour drives the plan, its bursts are kept
    #[arg(long, value_name = "FILE", help_heading = DEMAND)]
    pub(crate) trace: Option<PathBuf>,
    /// Every request of the trace stands for so many
    #[arg(long, value_name = "X", default_value_t = 1.0, help_heading = DEMAND, requires = "trace")]
    pub(crate) scale: f64,
    /// Growth a month, e.g. 8%
    #[arg(long, value_name = "PERCENT", help_heading = DEMAND, requires = "months")]
    pub(crate) growth: Option<String>,
    /// Months ahead, several get an answer each: 0,6,12
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = DEMAND, requires = "growth")]
    pub(crate) months: Vec<f64>,
    /// Result folder of a sweep: the rate it found to sell is one replica's budget
    #[arg(long, value_name = "DIR", help_heading = REPLICA, conflicts_with_all = ["profile", "slo", "workload"])]
    pub(crate) from: Option<PathBuf>,
    /// Engine profile to simulate instead: a built-in name or a file
    #[arg(long, value_name = "NAME|FILE", help_heading = REPLICA)]
    pub(crate) profile: Option<String>,
    /// SLO, with --profile: a preset, a file, or clauses [default: chat]
    #[arg(long, value_name = "FILE|PRESET", help_heading = REPLICA)]
    pub(crate) slo: Option<String>,
    /// Workload, with --profile: a preset or a file [default: the trace, else the SLO's own]
    #[arg(long, value_name = "FILE|PRESET", help_heading = REPLICA)]
    pub(crate) workload: Option<String>,
    /// GPUs of one replica [default: as the folder or the profile says]
    #[arg(long, value_name = "N", help_heading = REPLICA,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) gpus: Option<u32>,
    /// Price of one GPU for an hour, e.g. 2.50 or '€2.10'
    #[arg(long, value_name = "PRICE", help_heading = RULES)]
    pub(crate) price: Option<String>,
    /// Share of the goodput budget to use [default: 0.70; 0.90 where nobody waits for a token]
    #[arg(long, value_name = "SHARE", help_heading = RULES)]
    pub(crate) target: Option<f64>,
    /// Replicas that may fail at once
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = RULES)]
    pub(crate) spare: u32,
    /// Replica counts there may be, e.g. 2,4,8,16 [default: any]
    #[arg(long, value_name = "LIST", help_heading = RULES)]
    pub(crate) replicas: Option<String>,
    /// How long a replica takes from its order to its first good answer
    #[arg(long, value_name = "DURATION", default_value = "2min", help_heading = RULES)]
    pub(crate) cold_start: String,
    /// Output length at which end-to-end times are stated
    #[arg(
        long,
        value_name = "TOKENS",
        default_value_t = 250,
        hide_short_help = true
    )]
    pub(crate) e2e_at: u32,
    /// Requests simulated at each load, at least
    #[arg(long, value_name = "N", hide_short_help = true,
          value_parser = clap::value_parser!(u32).range(200..=10_000_000))]
    pub(crate) requests: Option<u32>,
    /// Seed of lengths and arrivals
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) faces: PlanFaces,
}

/// How a plan is shown.
#[derive(Clone, Debug, Args)]
pub(crate) struct PlanFaces {
    /// Folder for plan.json, plan.html and plan.md [default: none is written]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What stdout carries
    #[arg(long, value_enum, default_value_t = PlanFormat::Human)]
    pub(crate) format: PlanFormat,
    /// The whole plan, or a page of plain words for a product manager
    #[arg(long, value_enum, default_value_t = PlanPage::Full)]
    pub(crate) page: PlanPage,
}
