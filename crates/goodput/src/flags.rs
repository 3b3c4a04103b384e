//! The command line as typed. What it means is decided where it is used.

mod calibrate;
mod compare;
mod measure;
mod plan;
mod queue;
mod simulate;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub(crate) use calibrate::{CalibrateFlags, CalibrateFormat};
pub(crate) use compare::{CompareFlags, CompareFormat, Undecided};
pub(crate) use measure::{
    Api, AskFlags, BenchFlags, EmulateFlags, EmulatorFlags, Http, LoadsFlags, RunFlags,
    ServerFlags, SweepFlags,
};
pub(crate) use queue::{QueueFlags, QueueFormat};
pub(crate) use simulate::SimulateFlags;

pub(crate) use plan::{
    CapacityFlags, PlanFlags, PlanFormat, PlanPage, PlanVerb, PoolsFlags, TrajectoryFlags,
};

/// How much load can this LLM server take before users notice?
#[derive(Debug, Parser)]
#[command(
    name = "goodput",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    // Ours stand at the end, under a heading of their own.
    disable_help_flag = true,
    disable_version_flag = true,
    after_help = "Exit codes: 0 yes, 1 no (SLO missed by every load, gate failed), 2 usage or \
                  configuration, 3 not carried out or not to be trusted, 129/130/143 after a signal.\n\
                  Data goes to stdout, talk to stderr. Nothing is sent anywhere but to --url.\n\n\
                  Examples:\n  \
        goodput sweep                                  # on the built-in emulated replica\n  \
        goodput sweep --url http://vllm:8000/v1 --slo chat\n  \
        goodput compare runs/before runs/after --fail-on 'goodput_tok_s < -3%'"
)]
pub(crate) struct Flags {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
    /// What all verbs share.
    #[command(flatten)]
    pub(crate) talk: Talk,
}

/// How much the program says, and how.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Talk {
    /// Say nothing but errors on stderr
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Say more on stderr
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
    /// Colour; auto follows the terminal and `NO_COLOR`
    #[arg(long, global = true, value_enum, default_value_t = ColorWhen::Auto, hide_short_help = true)]
    pub(crate) color: ColorWhen,
    /// Print help: the flags that most runs need (-h) or all of them (--help)
    #[arg(long, short, global = true, action = ArgAction::Help)]
    help: Option<bool>,
    /// Print the version
    #[arg(long, short = 'V', global = true, action = ArgAction::Version, hide_short_help = true)]
    version: Option<bool>,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    // On a terminal, unless `NO_COLOR` is set.
    Auto,
    Always,
    Never,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Find the operating point: many load points, one goodput curve, three answers
    #[command(after_help = "Examples:\n  \
        goodput sweep                                  # on the built-in emulated replica\n  \
        goodput sweep --url http://vllm:8000/v1 --slo chat\n  \
        goodput sweep --url http://vllm:8000/v1 --slo slo.toml --workload azure-code --gpus 2\n  \
        goodput sweep --concurrency 1,4,8,12,16 --rate none\n  \
        goodput sweep --url http://vllm:8000/v1 --boots 3 --restart-cmd 'docker restart vllm'\n  \
        goodput sweep --resume runs/chat-1130          # one more boot, after a restart")]
    Sweep(SweepFlags),
    /// Measure one load point
    #[command(after_help = "Examples:\n  \
        goodput bench --url http://vllm:8000/v1 --concurrency 16 --duration 60s\n  \
        goodput bench --url http://vllm:8000/v1 --rate 5 --slo chat\n  \
        goodput bench --requests 1 --concurrency 1 --warmup 0   # exactly one request")]
    Bench(BenchFlags),
    /// Sweep a simulated replica in virtual time: the same answers in seconds, as good as its profile
    #[command(after_help = "Examples:\n  \
        goodput simulate --profile qwen3-8b-h100 --slo chat\n  \
        goodput simulate --profile mine.toml --concurrency 1,8,32,64 --rate 5,10,20\n  \
        goodput simulate --profile qwen3-8b-h100 --what-if max_num_seqs=64,128 --what-if prompts=x2")]
    Simulate(SimulateFlags),
    /// Put two results side by side, or hold rules against their difference
    #[command(after_help = "Examples:\n  \
        goodput compare runs/before runs/after\n  \
        goodput compare main branch --fail-on 'goodput_tok_s < -3%' --fail-on 'ttft_p99_ms > +10%'\n  \
        goodput compare main branch --rules gate.toml --junit gate.xml --format markdown")]
    Compare(CompareFlags),
    /// Fit an engine profile to what was measured
    #[command(after_help = "Examples:\n  \
        goodput sweep --url http://vllm:8000/v1 --concurrency 1,4,16 --rate none --keep-gaps --out runs/low\n  \
        goodput calibrate runs/low --set max_num_seqs=256 --set max_batched_tokens=8192 --out engine.toml\n  \
        goodput calibrate runs/low runs/long --base qwen3-8b-h100 --out engine.toml")]
    Calibrate(CalibrateFlags),
    /// Plan: how many replicas a demand needs, with headroom, evidence and cost
    #[command(after_help = "Examples:\n  \
        goodput plan --rate 95 --from runs/chat-1130 --price 2.50\n  \
        goodput plan --trace prod.jsonl --profile qwen3-8b-h100 --slo chat --growth 8% --months 0,6,12\n  \
        goodput plan --rate 95 --profile qwen3-8b-h100 --page pm")]
    Plan(PlanFlags),
    /// Render a result folder again, read another tool's result, or merge shards
    #[command(after_help = "Examples:\n  \
        goodput report runs/chat-1130\n  \
        goodput report runs/before runs/after --html both.html\n  \
        goodput report runs/measured --overlay runs/simulated   # error of the prediction\n  \
        goodput report --import vllm-16qps.json --slo chat --out runs/vllm\n  \
        goodput report --merge shard-1 shard-2 shard-3 --out runs/whole")]
    Report(ReportFlags),
    /// Inspect or convert a trace
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        goodput trace inspect mooncake.jsonl.gz\n  \
        goodput trace convert prod.jsonl --out prod.toml"
    )]
    Trace(TraceVerb),
    /// Check SLO files, print presets
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        goodput slo check slo.toml\n  \
        goodput slo presets"
    )]
    Slo(SloVerb),
    /// Serve an emulated replica.
    #[command(
        about = "Serve an emulated replica: continuous batching on a virtual GPU, OpenAI API",
        after_help = "Examples:\n  \
        goodput emulate --listen 127.0.0.1:8000\n  \
        goodput emulate --profile list\n  \
        goodput emulate --profile laptop --fault errors=5% --fault 'stall=every 10s,2s'"
    )]
    Emulate(EmulateFlags),
    /// Print shell completions
    #[command(after_help = "Example:\n  goodput completions bash > /etc/bash_completion.d/goodput")]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write man pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder
        out: PathBuf,
    },
}

/// Flags of `report`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportFlags {
    /// The result folder, or several for one page with --html; with --import files of another tool,
    /// with --merge the shards' folders
    #[arg(value_name = "DIR|FILE", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Where to write the page [default: report.html in the folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Lay a simulated result over the measured one, with the error of the prediction at every load
    /// [page: overlay.html in the simulated folder]
    #[arg(long, value_name = "SIMULATED", conflicts_with_all = ["import", "merge", "out"])]
    pub(crate) overlay: Option<PathBuf>,
    /// Merge the folders of all shards of one run, exactly, into --out
    #[arg(long, conflicts_with = "import", requires = "out")]
    pub(crate) merge: bool,
    /// Result folder to write [default of --import: runs/import-NAME-DATE]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What stdout carries
    #[arg(long, value_enum, default_value_t = Format::Human)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) foreign: ForeignFlags,
}

/// Files of other tools.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Other tools' files")]
pub(crate) struct ForeignFlags {
    /// Read result files of another tool and judge their requests by --slo
    #[arg(long)]
    pub(crate) import: bool,
    /// The tool: vllm, aiperf, guidellm, inference-perf, llmperf, dstack or goodput [default: seen
    /// from the content]
    #[arg(long, value_name = "TOOL", requires = "import")]
    pub(crate) from: Option<String>,
    /// SLO to judge by: a preset, a file, or clauses; several are tiers [default: chat]
    #[arg(
        long,
        value_name = "FILE|PRESET",
        value_delimiter = ';',
        requires = "import"
    )]
    pub(crate) slo: Vec<String>,
    /// Which run, where a file holds several
    #[arg(long, value_name = "NAME", requires = "import")]
    pub(crate) run: Option<String>,
    /// The load was this many users, where the file does not tell
    #[arg(long, value_name = "N", requires = "import", conflicts_with = "rate",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: Option<u32>,
    /// The load was this many arrivals a second, where the file does not tell
    #[arg(long, value_name = "RATE", requires = "import")]
    pub(crate) rate: Option<f64>,
    /// The model, where the file does not tell
    #[arg(long, requires = "import")]
    pub(crate) model: Option<String>,
    /// GPUs behind the endpoint, for figures per GPU
    #[arg(long, value_name = "N", requires = "import",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) gpus: Option<u32>,
}

/// Verbs on traces.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceVerb {
    /// Print rate, burstiness, lengths and reusable prefixes of a trace
    #[command(after_help = "Example:\n  goodput trace inspect mooncake.jsonl.gz")]
    Inspect(TraceFlags),
    /// Write a workload from a trace: arrivals, lengths, keyed block hashes, sessions, no text
    #[command(after_help = "Example:\n  goodput trace convert prod.jsonl --out prod.toml")]
    Convert {
        /// The workload file to write
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        #[command(flatten)]
        trace: TraceFlags,
    },
}

/// A trace to read.
#[derive(Clone, Debug, Args)]
pub(crate) struct TraceFlags {
    /// The file, gzip or plain
    pub(crate) file: PathBuf,
    /// Its form [default: seen from the file]
    #[arg(long, value_name = "FORM")]
    pub(crate) form: Option<String>,
    /// Leave broken rows out and count them, instead of stopping at the first
    #[arg(long)]
    pub(crate) skip_broken: bool,
    /// What stdout carries
    #[arg(long, value_enum, default_value_t = Format::Human)]
    pub(crate) format: Format,
}

/// Verbs on SLOs.
#[derive(Debug, Subcommand)]
pub(crate) enum SloVerb {
    /// Check an SLO file and say it in sentences
    #[command(after_help = "Example:\n  goodput slo check slo.toml")]
    Check {
        /// The file, a preset or clauses
        slo: String,
    },
    /// Print the presets with their clauses, workloads and reasons
    #[command(after_help = "Examples:\n  \
        goodput slo presets\n  \
        goodput slo presets --format json")]
    Presets {
        /// What stdout carries
        #[arg(long, value_enum, default_value_t = Format::Human)]
        format: Format,
    },
}

/// What stdout carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people.
    Human,
    /// One JSON document.
    Json,
    /// Rows of CSV.
    Csv,
}
