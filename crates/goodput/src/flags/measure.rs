//! Flags of `sweep`, `bench` and `emulate`: the load, the server, the built-in replica.

use std::{
    num::{NonZeroU16, NonZeroU32},
    path::PathBuf,
};

use clap::{Args, ValueEnum};

use super::Format;

// Groups of --help, below the flags that most runs need.
const POINTS: &str = "Load points";
const BOOTS: &str = "Boots of the server";
const HARDWARE: &str = "Hardware";
const PROCESSES: &str = "Load threads and machines";
const KEPT: &str = "What is kept";

// Places among the flags that most runs need. All others stand in the order of this file.
const URL: usize = 1;
const MODEL: usize = 2;
const SLO: usize = 3;
const WORKLOAD: usize = 4;
const CONCURRENCY: usize = 5;
const RATE: usize = 6;
const REQUESTS: usize = 7;
const DURATION: usize = 8;
const BUDGET: usize = 9;
const DRY_RUN: usize = 10;
const OUT: usize = 11;
const FORMAT: usize = 12;

/// Flags of `sweep`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SweepFlags {
    #[command(flatten)]
    pub(crate) loads: LoadsFlags,
    /// Print what would be run and how long it takes, then stop
    #[arg(long, display_order = DRY_RUN)]
    pub(crate) dry_run: bool,
    /// Measure on so many boots of the server, which is restarted in between; with --resume, that many
    /// in all
    #[arg(long, value_name = "N", conflicts_with = "shard", help_heading = BOOTS)]
    pub(crate) boots: Option<NonZeroU32>,
    /// Command of the shell that restarts the server between boots [default: you do, and the next boot
    /// begins when it answers again]
    #[arg(long, value_name = "COMMAND", help_heading = BOOTS)]
    pub(crate) restart_cmd: Option<String>,
    /// Measure one more boot of the sweep in this folder, or up to --boots of them
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "seed", "dry_run", "shard"],
          help_heading = BOOTS)]
    pub(crate) resume: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: RunFlags,
}

/// Which loads are tried.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoadsFlags {
    /// Users to try: auto searches; none leaves the closed loop out; a list such as 1,2,4 or 50:100:10
    /// or 1..128x2 is tried as it is
    #[arg(long, value_name = "auto|none|LIST", default_value = "auto", display_order = CONCURRENCY)]
    pub(crate) concurrency: String,
    /// Arrival rates to try, requests a second: auto searches; none leaves the open loop out; a list is
    /// tried as it is
    #[arg(long, value_name = "auto|none|LIST", default_value = "auto", display_order = RATE)]
    pub(crate) rate: String,
    /// What the windows of each search may last together [default: 6m; on the emulator 32s for the
    /// closed loop, 105s for the open one; simulated 20m and 1h]
    #[arg(long, value_name = "DURATION", display_order = BUDGET)]
    pub(crate) budget: Option<String>,
    /// The largest closed loop that auto tries
    #[arg(long, value_name = "USERS", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..),
          help_heading = POINTS, hide_short_help = true)]
    pub(crate) most: u32,
    /// After a list of users, search on around the best of them
    #[arg(long, help_heading = POINTS, hide_short_help = true)]
    pub(crate) refine: bool,
}

/// Flags of `bench`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchFlags {
    /// Users of a closed loop
    #[arg(long, value_name = "N", conflicts_with = "rate", display_order = CONCURRENCY)]
    pub(crate) concurrency: Option<u32>,
    /// Arrivals a second of an open loop
    #[arg(long, value_name = "RATE", display_order = RATE)]
    pub(crate) rate: Option<f64>,
    #[command(flatten)]
    pub(crate) run: RunFlags,
}

/// What is asked of a server, how it is judged and where the answer goes: the same for a server, an
/// emulated replica and one in virtual time.
#[derive(Clone, Debug, Args)]
pub(crate) struct AskFlags {
    /// SLO: a preset, a file, or clauses such as ttft=500ms,tpot=50ms; several are tiers, the first
    /// decides
    #[arg(
        long,
        value_name = "FILE|PRESET",
        default_value = "chat",
        value_delimiter = ';',
        display_order = SLO
    )]
    pub(crate) slo: Vec<String>,
    /// Workload: a preset, a file, or a recorded trace (see trace inspect) [default: the SLO's own, on the emulator chat-short]
    #[arg(long, value_name = "FILE|PRESET", display_order = WORKLOAD)]
    pub(crate) workload: Option<String>,
    /// Stop a point after N measured requests instead of after a time
    #[arg(long, value_name = "N", display_order = REQUESTS)]
    pub(crate) requests: Option<u64>,
    /// Length of a point's window [default: from the workload]
    #[arg(long, value_name = "DURATION", display_order = DURATION)]
    pub(crate) duration: Option<String>,
    /// Warm the server up before the first point: a number of requests or a time; with 0 and
    /// --requests N exactly N requests are sent and all are measured
    #[arg(long, value_name = "N|DURATION", help_heading = POINTS)]
    pub(crate) warmup: Option<String>,
    /// Spread the first requests of a closed loop's users over this time; 0s starts all at once
    /// [default: 10 ms a user, at most 5s]
    #[arg(long, value_name = "DURATION", help_heading = POINTS, hide_short_help = true)]
    pub(crate) ramp: Option<String>,
    /// Seed of schedule, lengths and prompts [default: fresh, and printed]
    #[arg(long, help_heading = POINTS)]
    pub(crate) seed: Option<u64>,
    /// GPUs behind the endpoint, for figures per GPU
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = HARDWARE)]
    pub(crate) gpus: Option<u32>,
    /// Output length at which end-to-end times are stated
    #[arg(long, value_name = "TOKENS", default_value_t = 250, help_heading = POINTS, hide_short_help = true)]
    pub(crate) e2e_at: u32,
    /// Keep every gap between token events in requests.jsonl
    #[arg(long, help_heading = KEPT, hide_short_help = true)]
    pub(crate) keep_gaps: bool,
    /// Result folder [default: runs/NAME-DATE]
    #[arg(long, value_name = "DIR", display_order = OUT)]
    pub(crate) out: Option<PathBuf>,
    /// What stdout carries
    #[arg(long, value_enum, default_value_t = Format::Human, display_order = FORMAT)]
    pub(crate) format: Format,
    /// A warning about SLO and workload is an error (exit 2)
    #[arg(long, help_heading = POINTS, hide_short_help = true)]
    pub(crate) strict: bool,
}

/// What sweep and bench share: the server, the SLO, the workload, the result.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunFlags {
    #[command(flatten)]
    pub(crate) ask: AskFlags,
    /// Load threads, each with its share of the users or of the schedule: one core is enough for
    /// thousands of streams
    #[arg(long, value_name = "N", default_value = "1", help_heading = PROCESSES, hide_short_help = true)]
    pub(crate) threads: NonZeroU16,
    /// Carry this share of the load, e.g. 3/8: eight processes with the same flags and one each are
    /// one run, which report --merge puts together
    #[arg(long, value_name = "I/N", requires = "start_at", help_heading = PROCESSES, hide_short_help = true)]
    pub(crate) shard: Option<String>,
    /// When the first point of a shard begins, the same for all: 2026-11-30T14:00:00Z or seconds
    /// since 1970
    #[arg(long, value_name = "INSTANT", requires = "shard", help_heading = PROCESSES, hide_short_help = true)]
    pub(crate) start_at: Option<String>,
    /// The accelerators' name, e.g. H100-SXM (`list` prints all): checks TPOT against what their
    /// memory can do; needs --gpus
    #[arg(long, value_name = "NAME", help_heading = HARDWARE)]
    pub(crate) accelerator: Option<String>,
    /// Bits of the served weights [default: from the model's name, else as published]
    #[arg(long, value_name = "BITS", requires = "accelerator", value_parser = clap::value_parser!(u32).range(1..=32),
          help_heading = HARDWARE, hide_short_help = true)]
    pub(crate) weight_bits: Option<u32>,
    /// Keep the answers' text in requests.jsonl
    #[arg(long, help_heading = KEPT, hide_short_help = true)]
    pub(crate) keep_text: bool,
    // Last: a group's heading in --help covers all that follows.
    #[command(flatten)]
    pub(crate) server: ServerFlags,
    #[command(flatten)]
    pub(crate) emulator: EmulatorFlags,
}

/// How to reach and speak to the server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerFlags {
    /// Base URL, as clients know it.
    #[arg(
        long,
        value_name = "URL",
        help_heading = None,
        display_order = URL,
        help = "Base URL as clients know it, e.g. http://host:8000/v1; none: the emulated replica"
    )]
    pub(crate) url: Option<String>,
    /// Model id [default: the only one served]
    #[arg(long, help_heading = None, display_order = MODEL)]
    pub(crate) model: Option<String>,
    /// Which endpoint: /v1/chat/completions or /v1/completions
    #[arg(long, value_enum, default_value_t = Api::Chat)]
    pub(crate) api: Api,
    /// Ask for whole answers instead of streams
    #[arg(long, hide_short_help = true)]
    pub(crate) no_stream: bool,
    /// Environment variable that holds the bearer key
    #[arg(long, value_name = "NAME", default_value = "OPENAI_API_KEY")]
    pub(crate) api_key_env: String,
    /// File that holds the bearer key
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) api_key_file: Option<PathBuf>,
    /// The bearer key itself; others can read it in the process list: prefer the environment
    #[arg(long, value_name = "KEY", hide_short_help = true)]
    pub(crate) api_key: Option<String>,
    /// Extra header, e.g. 'x-team: search'; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE", hide_short_help = true)]
    pub(crate) headers: Vec<String>,
    /// Extra field of the request body, e.g. temperature=0; may be repeated
    #[arg(long = "body", value_name = "KEY=JSON", hide_short_help = true)]
    pub(crate) body: Vec<String>,
    /// HTTP version
    #[arg(long, value_enum, default_value_t = Http::V1, hide_short_help = true)]
    pub(crate) http: Http,
    /// Trust these certificates (PEM) beside the public ones
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) ca_file: Option<PathBuf>,
    /// tokenizer.json that counts where the server does not (needs a build with it)
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) tokenizer: Option<PathBuf>,
    /// Limit on the set-up of a connection
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "30s",
        hide_short_help = true
    )]
    pub(crate) timeout_connect: String,
    /// Limit on the wait for the first token [default: none]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub(crate) timeout_first_token: Option<String>,
    /// Limit on the silence within a stream [default: none]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub(crate) timeout_idle: Option<String>,
    /// Limit on the whole request [default: none]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub(crate) timeout_total: Option<String>,
    /// Load a server on a public address
    #[arg(long)]
    pub(crate) yes_load: bool,
}

/// The built-in replica.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Emulated replica")]
pub(crate) struct EmulatorFlags {
    /// Engine profile: a built-in name, a file, MODEL@DEVICE, or `list`, which prints all
    #[arg(long, value_name = "NAME|FILE", default_value = "laptop")]
    pub(crate) profile: String,
    /// Fault to inject, e.g. errors=5%; may be repeated; `list` prints all
    #[arg(long = "fault", value_name = "FAULT")]
    pub(crate) faults: Vec<String>,
    /// Replicas behind the one URL, as behind a balancer that spreads all that is asked
    #[arg(long, value_name = "N", default_value_t = NonZeroU16::MIN)]
    pub(crate) replicas: NonZeroU16,
}

/// Flags of `emulate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct EmulateFlags {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8000")]
    pub(crate) listen: String,
    #[command(flatten)]
    pub(crate) emulator: EmulatorFlags,
    /// Seed of answers and faults
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Stop when stdin closes: for a parent process
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
}

/// Which endpoint is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Api {
    // `/v1/chat/completions`.
    Chat,
    // `/v1/completions`.
    Completions,
}

/// HTTP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Http {
    #[value(name = "1.1")]
    V1,
    #[value(name = "2")]
    V2,
}
