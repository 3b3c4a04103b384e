//! Flags of `plan`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::queue::QueueFlags;

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
    /// Pools for several classes: separate, one for all, one with priorities
    #[command(
        after_help = "Example:\n  goodput plan pools pools.toml   # docs/planning.md shows one"
    )]
    Pools(PoolsFlags),
    /// An agent's deadline split over its steps
    #[command(after_help = "Example:\n  \
        goodput plan trajectory --steps 10 --deadline 10s --profile qwen3-8b-h100 --price 2.50")]
    Trajectory(TrajectoryFlags),
    /// How long requests wait: queueing formulas, and what each means for continuous batching
    #[command(after_help = "Examples:\n  \
        goodput plan queue --rate 7.5 --service 120ms\n  \
        goodput plan queue --rate 33 --service 120ms --servers 5 --scv-arrivals 4 --scv-service 2\n  \
        goodput plan queue --rate 20 --profile qwen3-8b-h100 --input 1020 --output 129")]
    Queue(QueueFlags),
}

/// Flags of `plan pools`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PoolsFlags {
    /// File with the classes and the configurations to choose from
    pub(crate) file: PathBuf,
    /// Demand times so much; several get a table each: 2, 1,2,4 or 1:3:0.5
    #[arg(long, value_name = "LIST")]
    pub(crate) scale: Option<String>,
    /// Change something of every configuration and workload.
    #[arg(
        long,
        value_name = "KEY=VALUE",
        help = "Change every configuration and workload: prompts=x2, kv_blocks=20000; the names of simulate \
                  --what-if; may be repeated"
    )]
    pub(crate) what_if: Vec<String>,
    /// Replicas of each pool that may fail at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) spare: u32,
    /// Price of one GPU for an hour, e.g. 2.50 or '€2.10'
    #[arg(long, value_name = "PRICE")]
    pub(crate) price: Option<String>,
    /// Requests simulated at each load, at least
    #[arg(long, value_name = "N", default_value_t = 4_000, hide_short_help = true,
          value_parser = clap::value_parser!(u32).range(200..=10_000_000))]
    pub(crate) requests: u32,
    /// Seed of lengths and arrivals
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    pub(crate) seed: u64,
    /// Folder for plan.json, plan.html and plan.md [default: none is written]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What stdout carries
    #[arg(long, value_enum, default_value_t = PlanFormat::Human)]
    pub(crate) format: PlanFormat,
}

/// Flags of `plan trajectory`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TrajectoryFlags {
    /// Steps of a trajectory
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) steps: u32,
    /// The whole time it may take
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) deadline: String,
    /// Share of trajectories that must keep it
    #[arg(long, value_name = "PERCENT", default_value = "95%")]
    pub(crate) objective: String,
    /// Engine profile: a built-in name, a file or MODEL@DEVICE
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) profile: String,
    /// Change something of the profile.
    #[arg(
        long,
        value_name = "KEY=VALUE",
        help = "Change something of the profile: kv_blocks=x0.5, bandwidth_share=0.8; may be repeated"
    )]
    pub(crate) what_if: Vec<String>,
    /// Tokens of the first prompt, the median
    #[arg(long, value_name = "TOKENS", default_value_t = 2_500)]
    pub(crate) first_input: u32,
    /// Tokens that each step adds, the median: a tool's result
    #[arg(long, value_name = "TOKENS", default_value_t = 400)]
    pub(crate) next_input: u32,
    /// Tokens of an answer, the median
    #[arg(long, value_name = "TOKENS", default_value_t = 80)]
    pub(crate) output: u32,
    /// Spread of all lengths: standard deviation of their logarithm
    #[arg(long, value_name = "SIGMA", default_value_t = 0.5)]
    pub(crate) sigma: f64,
    /// Time a tool takes between two steps
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub(crate) tool: String,
    /// Price of one GPU for an hour, e.g. 2.50 or '€2.10'
    #[arg(long, value_name = "PRICE")]
    pub(crate) price: Option<String>,
    /// Trajectories simulated at each load
    #[arg(long, value_name = "N", default_value_t = 1_000, hide_short_help = true,
          value_parser = clap::value_parser!(u32).range(50..=1_000_000))]
    pub(crate) trajectories: u32,
    /// Seed of lengths and arrivals
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    pub(crate) seed: u64,
    /// Folder for plan.json, plan.html and plan.md [default: none is written]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What stdout carries
    #[arg(long, value_enum, default_value_t = PlanFormat::Human)]
    pub(crate) format: PlanFormat,
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
    /// Change something, with --profile.
    #[arg(
        long,
        value_name = "KEY=VALUE",
        help_heading = REPLICA,
        conflicts_with = "from",
        help = "With --profile, plan for another workload or replica: prompts=x2, outputs=x1.5, max_num_seqs=64, \
                bandwidth_share=0.8; the names of simulate --what-if; may be repeated"
    )]
    pub(crate) what_if: Vec<String>,
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
