//! Result files of other tools, read into the same records and judged by the same books.
//!
//! Each reader turns one tool's file into [`Told`]: what that tool wrote down of each request, in
//! whole nanoseconds, with nothing filled in. What comes after is the same for all: the load is
//! chosen, requests become records, records are posted to books, books give a row. A file is read in
//! pieces and rows are handed on one by one: memory holds what is needed of a request, not its text.

mod aiperf;
mod book;
mod detect;
mod findings;
mod goodput;
mod guidellm;
mod inference_perf;
mod itl_lines;
mod llmperf;
mod load;
mod python;
mod request;
mod source;
#[cfg(test)]
mod tests;
mod vllm;

use std::path::{Path, PathBuf};

use goodput_ledger::PointRow;
use goodput_record::RequestRow;
use goodput_slo::Slo;
use goodput_sweep::{Finding, PointChart};

use crate::error::{Result, ResultsError};
pub use detect::Tool;
use load::Laid;
pub use load::ToldLoad;
use request::Foreign;
use source::Source;
pub(crate) use source::digest;

/// What the caller knows and a file may not tell.
#[derive(Clone, Debug, Default)]
pub struct ImportAsk {
    /// The tool that wrote the files. `None`: seen from the content.
    pub tool: Option<Tool>,
    /// Which of several runs in one file.
    pub run: Option<String>,
    /// How the load was made.
    pub load: Option<ToldLoad>,
    /// The model.
    pub model: Option<String>,
    /// GPUs behind the endpoint.
    pub gpus: Option<u32>,
}

/// What one or more files of one tool held, judged.
#[derive(Clone, Debug)]
pub struct Import {
    /// The tool.
    pub tool: Tool,
    /// The model, where a file or the caller names it.
    pub model: Option<String>,
    /// One row a load point.
    pub points: Vec<PointRow>,
    /// One chart a load point.
    pub charts: Vec<PointChart>,
    /// What is to be known of these figures because another tool took them.
    pub findings: Vec<Finding>,
    /// Input tokens over all requests: p50, p90, p99.
    pub input: [Option<f64>; 3],
    /// Output tokens over the answers that ended well: p50, p90, p99.
    pub output: [Option<f64>; 3],
    /// The longest point, in seconds.
    pub longest_s: f64,
    /// A number made of the files' bytes: an imported run has no seed, and two of them must not
    /// look as if they had the same.
    pub digest: u64,
}

/// One load point as a file tells it.
#[derive(Clone, Debug)]
struct Told {
    tool: Tool,
    model: Option<String>,
    load: Option<ToldLoad>,
    /// Whether the streams were chat completions, where the tool says so.
    chat: Option<bool>,
    requests: Vec<Foreign>,
    /// The window, where the tool measured in one, in ns on the axis of the requests.
    window: Option<(u64, u64)>,
    /// How long the tool says that the run took, in ns.
    duration: Option<u64>,
    /// The row of our own result beside a file of our own.
    own: Option<Box<PointRow>>,
    /// Whether the last line of the file was cut off.
    torn: bool,
    /// What else this tool's files say that a reader of the point should know.
    warnings: Vec<String>,
}

impl Told {
    const fn new(tool: Tool) -> Self {
        Self {
            tool,
            model: None,
            load: None,
            chat: None,
            requests: Vec::new(),
            window: None,
            duration: None,
            own: None,
            torn: false,
            warnings: Vec::new(),
        }
    }
}

/// Files of one tool, read and laid out in time; what is left is to judge their requests.
#[derive(Debug)]
pub struct ReadIn {
    tool: Tool,
    model: Option<String>,
    gpus: Option<u32>,
    points: Vec<(Told, Laid)>,
    digest: u64,
}

/// Reads files of one tool.
///
/// # Errors
/// If a file cannot be read, is of no known form, keeps no single requests, or does not tell how
/// its load was made and the caller does not either.
pub fn import(files: &[PathBuf], ask: &ImportAsk) -> Result<ReadIn> {
    let mut told = Vec::new();
    let mut digest = 0;
    for file in files {
        let source = Source::open(file)?;
        told.extend(read(&source, ask)?);
        digest = source.digest(digest)?;
    }
    let Some(tool) = told.first().map(|t| t.tool) else {
        return Err(ResultsError::import(
            files.first().map_or(Path::new(""), PathBuf::as_path),
            "no load point",
            "name the file that another tool wrote",
        ));
    };
    if let Some(other) = told.iter().find(|t| t.tool != tool) {
        return Err(ResultsError::import(
            &files[0],
            format!("{} and {} do not go into one result", tool, other.tool),
            "import them apart; `goodput compare` puts two results side by side",
        ));
    }
    let model = ask.model.clone();
    let model = model.or_else(|| told.iter().find_map(|t| t.model.clone()));
    let mut points = Vec::with_capacity(told.len());
    for point in told {
        let laid = load::lay(&point, ask.load).map_err(|trouble| ResultsError::Told {
            because: format!("{tool}: {}", trouble.message),
            hint: trouble.hint,
        })?;
        points.push((point, laid));
    }
    Ok(ReadIn {
        tool,
        model,
        gpus: ask.gpus,
        points,
        digest,
    })
}

impl ReadIn {
    /// Judges every request by `slos` and hands its row to `each`, point by point.
    ///
    /// # Errors
    /// If `each` gives up.
    pub fn judge<E>(
        self,
        slos: &[Slo],
        each: impl FnMut(RequestRow) -> std::result::Result<(), E>,
    ) -> std::result::Result<Import, E> {
        book::gather(self, slos, each)
    }
}

/// Reads one file.
fn read(source: &Source, ask: &ImportAsk) -> Result<Vec<Told>> {
    let file = source.path();
    let tool = match ask.tool {
        Some(tool) => tool,
        None => detect::tool(source)?,
    };
    let told = match tool {
        Tool::Vllm => vllm::read(source),
        Tool::AiPerf => aiperf::read(source),
        Tool::GuideLlm => guidellm::read(source),
        Tool::InferencePerf => inference_perf::read(source),
        Tool::LlmPerf => llmperf::read(source, ask.run.as_deref()),
        Tool::ItlLines => itl_lines::read(source),
        Tool::Goodput => goodput::read(source),
    };
    let told = told.map_err(|trouble| ResultsError::import(file, trouble.message, trouble.hint))?;
    if told.iter().all(|t| t.requests.is_empty()) {
        return Err(ResultsError::import(
            file,
            format!("no request is in this {tool} file"),
            tool.keeps_requests_with(),
        ));
    }
    let spans = told
        .iter()
        .flat_map(|t| t.requests.iter().map(Foreign::span));
    if let Some(longest) = spans.max().filter(|ns| *ns > LONGEST_REQUEST_NS) {
        return Err(ResultsError::import(
            file,
            format!(
                "a request of this {tool} file lasts {:.1e} s",
                longest as f64 / 1e9
            ),
            "no request lasts longer than a day: are its times in another unit than the tool writes?",
        ));
    }
    Ok(told)
}

/// A request that is said to last longer was not measured in the unit that it is read in.
const LONGEST_REQUEST_NS: u64 = 86_400_000_000_000;

/// Why a reader gave up.
#[derive(Debug)]
struct Trouble {
    message: String,
    hint: String,
}

impl Trouble {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// The file is not of the form it was taken for.
    fn form(tool: Tool, error: &serde_json::Error) -> Self {
        Self::new(
            format!("not as {tool} writes it: {error}"),
            "name the tool that wrote it with --from",
        )
    }

    /// A line of the file is not of that form.
    fn line(tool: Tool, number: u64, error: &serde_json::Error) -> Self {
        Self::new(
            format!("line {number} is not as {tool} writes it: {error}"),
            "name the tool that wrote it with --from",
        )
    }

    /// The file cannot be read to its end.
    fn unreadable(error: &std::io::Error) -> Self {
        Self::new(
            format!("cannot be read to its end: {error}"),
            "is it whole, and text or gzip of text?",
        )
    }
}

type Read = std::result::Result<Vec<Told>, Trouble>;
