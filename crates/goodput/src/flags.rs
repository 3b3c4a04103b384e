//! The command line as typed. What it means is decided where it is used.

mod compare;

use std::{num::NonZeroU16, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use compare::{CompareFlags, CompareFormat, Undecided};

/// How much load can this LLM server take before users notice?
#[derive(Debug, Parser)]
#[command(
    name = "goodput",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 yes, 1 no (SLO missed by every load, gate failed), 2 usage or \
                  configuration, 3 not carried out or not to be trusted, 129/130/143 after a signal.\n\
                  Data goes to stdout, talk to stderr. Nothing is sent anywhere but to --url."
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
pub(crate) struct Talk {
    /// Say nothing but errors on stderr.
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Say more on stderr.
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
    /// Colour: auto follows the terminal and `NO_COLOR`.
    #[arg(long, global = true, value_enum, default_value_t = ColorWhen::Auto)]
    pub(crate) color: ColorWhen,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
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
    /// Put two results side by side, or hold rules against their difference
    #[command(after_help = "Examples:\n  \
        goodput compare runs/before runs/after\n  \
        goodput compare main branch --fail-on 'goodput_tok_s < -3%' --fail-on 'ttft_p99_ms > +10%'\n  \
        goodput compare main branch --rules gate.toml --junit gate.xml --format markdown")]
    Compare(CompareFlags),
    /// Render a result folder again, read another tool's result, or merge shards
    #[command(after_help = "Examples:\n  \
        goodput report runs/chat-1130\n  \
        goodput report runs/before runs/after --html both.html\n  \
        goodput report --import vllm-16qps.json --slo chat --out runs/vllm\n  \
        goodput report --merge shard-1 shard-2 shard-3 --out runs/whole")]
    Report(ReportFlags),
    /// Inspect or convert a trace
    #[command(subcommand)]
    Trace(TraceVerb),
    /// Check SLO files, print presets
    #[command(subcommand)]
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
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write man pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder.
        out: PathBuf,
    },
}

/// What sweep and bench share: the server, the SLO, the workload, the result.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunFlags {
    /// SLO: a preset, a file, or clauses such as ttft=500ms,tpot=50ms; several are tiers, the first
    /// decides
    #[arg(
        long,
        value_name = "FILE|PRESET",
        default_value = "chat",
        value_delimiter = ';'
    )]
    pub(crate) slo: Vec<String>,
    /// Workload: a preset, a file, or a recorded trace (see trace inspect) [default: the SLO's own, on the emulator chat-short]
    #[arg(long, value_name = "FILE|PRESET")]
    pub(crate) workload: Option<String>,
    /// Stop a point after N measured requests instead of after a time
    #[arg(long, value_name = "N")]
    pub(crate) requests: Option<u64>,
    /// Length of a point's window [default: from the workload]
    #[arg(long, value_name = "DURATION")]
    pub(crate) duration: Option<String>,
    /// Warm the server up before the first point: a number of requests or a time; with 0 and
    /// --requests N exactly N requests are sent and all are measured
    #[arg(long, value_name = "N|DURATION")]
    pub(crate) warmup: Option<String>,
    /// Spread the first requests of a closed loop's users over this time; 0s starts all at once
    /// [default: 10 ms a user, at most 5s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) ramp: Option<String>,
    /// Load threads, each with its share of the users or of the schedule: one core is enough for
    /// thousands of streams
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) threads: std::num::NonZeroU16,
    /// Seed of schedule, lengths and prompts [default: fresh, and printed]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Carry this share of the load, e.g. 3/8: eight processes with the same flags and one each are
    /// one run, which report --merge puts together
    #[arg(long, value_name = "I/N", requires = "start_at")]
    pub(crate) shard: Option<String>,
    /// When the first point of a shard begins, the same for all: 2026-11-30T14:00:00Z or seconds
    /// since 1970
    #[arg(long, value_name = "INSTANT", requires = "shard")]
    pub(crate) start_at: Option<String>,
    /// GPUs behind the endpoint, for figures per GPU
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) gpus: Option<u32>,
    /// The accelerators' name, e.g. H100-SXM (`list` prints all): checks TPOT against what their
    /// memory can do; needs --gpus
    #[arg(long, value_name = "NAME")]
    pub(crate) accelerator: Option<String>,
    /// Bits of the served weights [default: from the model's name, else as published]
    #[arg(long, value_name = "BITS", requires = "accelerator", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub(crate) weight_bits: Option<u32>,
    /// Output length at which end-to-end times are stated
    #[arg(long, value_name = "TOKENS", default_value_t = 250)]
    pub(crate) e2e_at: u32,
    /// Keep the answers' text in requests.jsonl
    #[arg(long)]
    pub(crate) keep_text: bool,
    /// Keep every gap between token events in requests.jsonl
    #[arg(long)]
    pub(crate) keep_gaps: bool,
    /// Result folder [default: runs/NAME-DATE]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What stdout carries
    #[arg(long, value_enum, default_value_t = Format::Human)]
    pub(crate) format: Format,
    /// A warning about SLO and workload is an error (exit 2)
    #[arg(long)]
    pub(crate) strict: bool,
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
        help = "Base URL as clients know it, e.g. http://host:8000/v1; none: the emulated replica"
    )]
    pub(crate) url: Option<String>,
    /// Model id [default: the only one served]
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Which endpoint
    #[arg(long, value_enum, default_value_t = Api::Chat)]
    pub(crate) api: Api,
    /// Ask for whole answers instead of streams
    #[arg(long)]
    pub(crate) no_stream: bool,
    /// Environment variable that holds the bearer key
    #[arg(long, value_name = "NAME", default_value = "OPENAI_API_KEY")]
    pub(crate) api_key_env: String,
    /// File that holds the bearer key
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// The bearer key itself; others can read it in the process list: prefer the environment
    #[arg(long, value_name = "KEY", hide_short_help = true)]
    pub(crate) api_key: Option<String>,
    /// Extra header, e.g. 'x-team: search'; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// Extra field of the request body, e.g. temperature=0; may be repeated
    #[arg(long = "body", value_name = "KEY=JSON")]
    pub(crate) body: Vec<String>,
    /// HTTP version
    #[arg(long, value_enum, default_value_t = Http::V1)]
    pub(crate) http: Http,
    /// Trust these certificates (PEM) beside the public ones
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// tokenizer.json that counts where the server does not (needs a build with it)
    #[arg(long, value_name = "FILE")]
    pub(crate) tokenizer: Option<PathBuf>,
    /// Limit on the set-up of a connection
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub(crate) timeout_connect: String,
    /// Limit on the wait for the first token [default: none]
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout_first_token: Option<String>,
    /// Limit on the silence within a stream [default: none]
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout_idle: Option<String>,
    /// Limit on the whole request [default: none]
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout_total: Option<String>,
    /// Load a server on a public address
    #[arg(long)]
    pub(crate) yes_load: bool,
}

/// The built-in replica.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Emulated replica")]
pub(crate) struct EmulatorFlags {
    /// Engine profile: a built-in name, a file, or `list`, which prints all
    #[arg(long, value_name = "NAME|FILE", default_value = "laptop")]
    pub(crate) profile: String,
    /// Fault to inject, e.g. errors=5%; may be repeated; `list` prints all
    #[arg(long = "fault", value_name = "FAULT")]
    pub(crate) faults: Vec<String>,
    /// Replicas behind the one URL, as behind a balancer that spreads all that is asked
    #[arg(long, value_name = "N", default_value_t = NonZeroU16::MIN)]
    pub(crate) replicas: NonZeroU16,
}

/// Flags of `sweep`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SweepFlags {
    /// Users to try: auto searches; none leaves the closed loop out; a list such as 1,2,4 or 50:100:10
    /// or 1..128x2 is tried as it is
    #[arg(long, value_name = "auto|none|LIST", default_value = "auto")]
    pub(crate) concurrency: String,
    /// Arrival rates to try, requests a second: auto searches; none leaves the open loop out; a list is
    /// tried as it is
    #[arg(long, value_name = "auto|none|LIST", default_value = "auto")]
    pub(crate) rate: String,
    /// After a list of users, search on around the best of them
    #[arg(long)]
    pub(crate) refine: bool,
    /// The largest closed loop that auto tries
    #[arg(long, value_name = "USERS", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) most: u32,
    /// What the windows of each search may last together [default: 6m; on the emulator 32s for the
    /// closed loop, 105s for the open one]
    #[arg(long, value_name = "DURATION")]
    pub(crate) budget: Option<String>,
    /// Measure on so many boots of the server, which is restarted in between; with --resume, that many
    /// in all
    #[arg(long, value_name = "N", conflicts_with = "shard")]
    pub(crate) boots: Option<std::num::NonZeroU32>,
    /// Measure one more boot of the sweep in this folder, or up to --boots of them
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "seed", "dry_run", "shard"])]
    pub(crate) resume: Option<PathBuf>,
    /// Command of the shell that restarts the server between boots [default: you do, and the next boot
    /// begins when it answers again]
    #[arg(long, value_name = "COMMAND")]
    pub(crate) restart_cmd: Option<String>,
    /// Print what would be run and how long it takes, then stop
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) run: RunFlags,
}

/// Flags of `bench`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchFlags {
    /// Users of a closed loop
    #[arg(long, value_name = "N", conflicts_with = "rate")]
    pub(crate) concurrency: Option<u32>,
    /// Arrivals a second of an open loop
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<f64>,
    #[command(flatten)]
    pub(crate) run: RunFlags,
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
        #[command(flatten)]
        trace: TraceFlags,
        /// The workload file to write
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
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
    Presets {
        /// What stdout carries
        #[arg(long, value_enum, default_value_t = Format::Human)]
        format: Format,
    },
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

/// Which endpoint is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Api {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completions,
}

/// HTTP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Http {
    /// HTTP/1.1.
    #[value(name = "1.1")]
    V1,
    /// HTTP/2.
    #[value(name = "2")]
    V2,
}
