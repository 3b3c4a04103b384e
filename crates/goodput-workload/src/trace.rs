//! Traces: what was asked of real servers, in the formats people have.
//!
//! Readers take bytes, already decompressed. A row that cannot be read stops them, unless it is
//! asked to go on; what it says is then counted. A row that can be read but not replayed (a failed
//! request, an empty prompt) is always counted, with its reason.

mod convert;
mod csv;
mod detect;
mod inspect;
mod instant;
mod json;
mod lru;
#[cfg(test)]
mod real_traces;
mod sharegpt;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use convert::KeyOfNames;
pub use detect::TraceFormat;
pub use inspect::{BurstFacts, CacheFacts, ReuseFacts, TraceFacts};

/// One recorded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// When it arrived, in nanoseconds since the first of the trace; 0 where the trace has no
    /// times.
    pub arrival_ns: u64,
    /// Tokens of the whole prompt, at least 1.
    pub input_tokens: u32,
    /// Tokens of the answer, at least 1.
    pub output_tokens: u32,
    /// The conversation it is part of, numbered from 0 in the order of the file.
    pub session: Option<u32>,
    /// How long it took, where the trace says so.
    pub duration_ns: Option<u64>,
    /// Names of the blocks of its prompt: equal names at the start are a shared prefix.
    pub blocks: Box<[u64]>,
}

/// A trace, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The format it was in.
    pub format: TraceFormat,
    /// Its requests by arrival; those of one instant in the order of the file.
    pub requests: Vec<TraceRequest>,
    /// Whether it says when requests arrived.
    pub timed: bool,
    /// Tokens of a block, where blocks are named.
    pub block_tokens: Option<u32>,
    /// Rows that are not among the requests.
    pub skipped: Vec<SkippedRow>,
}

/// A row that is not among the requests, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRow {
    /// Its line in the file, or its place in the array, from 1.
    pub row: u64,
    /// The name the row gives itself, if any.
    pub id: Option<String>,
    /// Why.
    pub reason: String,
    /// Whether it could not be read at all.
    pub broken: bool,
}

/// How to read.
#[derive(Clone, Copy)]
pub struct ReadOptions<'a> {
    /// The format; `None` to tell it from the first row.
    pub format: Option<TraceFormat>,
    /// Go on after a row that cannot be read, and count it.
    pub skip_broken: bool,
    /// Of conversations, every turn of the user instead of the first.
    pub all_turns: bool,
    /// Counts the tokens of a text, for formats that have texts and no counts.
    pub count: &'a dyn Fn(&str) -> u32,
}

impl std::fmt::Debug for ReadOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadOptions")
            .field("format", &self.format)
            .field("skip_broken", &self.skip_broken)
            .field("all_turns", &self.all_turns)
            .finish_non_exhaustive()
    }
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        Self {
            format: None,
            skip_broken: false,
            all_turns: false,
            count: &approximate_tokens,
        }
    }
}

/// A guess at the tokens of a text: one for every four characters, the rule of thumb for English.
#[must_use]
pub fn approximate_tokens(text: &str) -> u32 {
    u32::try_from(text.chars().count().div_ceil(4)).unwrap_or(u32::MAX)
}

/// Why a trace could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A row that cannot be read.
    #[error("{format} trace, row {row}: {what}; expected {expected}")]
    Row {
        /// The format it was read as.
        format: TraceFormat,
        /// Its line in the file, or its place in the array, from 1.
        row: u64,
        /// What is wrong with it.
        what: String,
        /// What would have been right.
        expected: String,
    },
    /// No format fits the first row.
    #[error("not a trace that is known: it begins with `{begin}`; expected {known}")]
    Unknown {
        /// The beginning of the first row.
        begin: String,
        /// The formats.
        known: String,
    },
    /// Nothing that can be replayed.
    #[error(
        "{format} trace: no request that can be replayed, of {rows} rows{}",
        first_reason(first.as_deref())
    )]
    Empty {
        /// The format it was read as.
        format: TraceFormat,
        /// Rows there were.
        rows: u64,
        /// Why the first of them was skipped.
        first: Option<String>,
    },
}

fn first_reason(first: Option<&str>) -> String {
    first.map_or_else(String::new, |why| format!("; the first one: {why}"))
}

/// What one row turned out to be.
pub(crate) enum Read {
    Request(RawRequest),
    /// It can be read, but not replayed.
    Unusable(&'static str),
}

/// A request as its row has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawRequest {
    /// Nanoseconds on whatever clock the trace has.
    pub(crate) at_ns: Option<i128>,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) session: Option<String>,
    pub(crate) duration_ns: Option<u64>,
    pub(crate) blocks: Vec<u64>,
}

/// What is wrong with a row, and what would have been right.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub(crate) what: String,
    pub(crate) expected: String,
}

impl Broken {
    pub(crate) fn new(what: impl Into<String>, expected: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            expected: expected.into(),
        }
    }
}

impl Trace {
    /// Reads a trace.
    pub fn read(bytes: &[u8], options: ReadOptions<'_>) -> Result<Self, TraceError> {
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let format = match options.format {
            Some(format) => format,
            None => detect::detect(bytes)?,
        };
        let mut reader = Reader::new(format, options.skip_broken);
        match format {
            TraceFormat::Azure | TraceFormat::BurstGpt | TraceFormat::Plain => {
                csv::read(bytes, &mut reader)?;
            }
            TraceFormat::Mooncake | TraceFormat::QwenBailian | TraceFormat::Records => {
                json::read(bytes, &mut reader)?;
            }
            TraceFormat::ShareGpt => sharegpt::read(bytes, options, &mut reader)?,
        }
        reader.finish()
    }

    /// How many rows were skipped, by reason.
    #[must_use]
    pub fn skipped_by_reason(&self) -> BTreeMap<&str, u64> {
        let mut counts = BTreeMap::new();
        for skipped in &self.skipped {
            *counts.entry(skipped.reason.as_str()).or_insert(0) += 1;
        }
        counts
    }
}

/// Gathers rows, whatever the format.
pub(crate) struct Reader {
    format: TraceFormat,
    skip_broken: bool,
    rows: u64,
    requests: Vec<RawRequest>,
    skipped: Vec<SkippedRow>,
}

impl Reader {
    fn new(format: TraceFormat, skip_broken: bool) -> Self {
        Self {
            format,
            skip_broken,
            rows: 0,
            requests: Vec::new(),
            skipped: Vec::new(),
        }
    }

    pub(crate) fn format(&self) -> TraceFormat {
        self.format
    }

    /// Takes in what row `row` turned out to be.
    pub(crate) fn row(&mut self, row: u64, read: Result<Read, Broken>) -> Result<(), TraceError> {
        match read {
            Ok(Read::Request(request)) => {
                self.rows += 1;
                if request.input_tokens == 0 {
                    self.skip(row, None, "empty prompt");
                } else if request.output_tokens == 0 {
                    self.skip(row, None, "no answer: a failed request");
                } else {
                    self.requests.push(request);
                }
                Ok(())
            }
            Ok(Read::Unusable(reason)) => {
                self.rows += 1;
                self.skip(row, None, reason);
                Ok(())
            }
            Err(broken) => self.broken(row, broken),
        }
    }

    /// Counts a row that can be read, but not replayed.
    pub(crate) fn skip(&mut self, row: u64, id: Option<String>, reason: &str) {
        self.skipped.push(SkippedRow {
            row,
            id,
            reason: reason.to_owned(),
            broken: false,
        });
    }

    /// Stops at a row that cannot be read, or counts it.
    pub(crate) fn broken(&mut self, row: u64, broken: Broken) -> Result<(), TraceError> {
        if !self.skip_broken {
            return Err(TraceError::Row {
                format: self.format,
                row,
                what: broken.what,
                expected: broken.expected,
            });
        }
        self.rows += 1;
        self.skipped.push(SkippedRow {
            row,
            id: None,
            reason: broken.what,
            broken: true,
        });
        Ok(())
    }

    fn finish(mut self) -> Result<Trace, TraceError> {
        if self.requests.is_empty() {
            return Err(TraceError::Empty {
                format: self.format,
                rows: self.rows,
                first: self.skipped.first().map(|row| row.reason.clone()),
            });
        }
        let timed = self.requests.iter().all(|request| request.at_ns.is_some());
        // Stable: requests of one instant keep their order.
        self.requests.sort_by_key(|request| request.at_ns);
        if self.format == TraceFormat::Mooncake {
            instant::spread_ticks(&mut self.requests);
        }
        let first = self.requests.first().and_then(|r| r.at_ns).unwrap_or(0);
        let mut sessions = BTreeMap::new();
        let requests: Vec<_> = self
            .requests
            .into_iter()
            .map(|raw| {
                let count = u32::try_from(sessions.len()).unwrap_or(u32::MAX);
                TraceRequest {
                    arrival_ns: u64::try_from(raw.at_ns.unwrap_or(first) - first).unwrap_or(0),
                    input_tokens: u32::try_from(raw.input_tokens).unwrap_or(u32::MAX),
                    output_tokens: u32::try_from(raw.output_tokens).unwrap_or(u32::MAX),
                    session: raw
                        .session
                        .map(|name| *sessions.entry(name).or_insert(count)),
                    duration_ns: raw.duration_ns,
                    blocks: raw.blocks.into_boxed_slice(),
                }
            })
            .collect();
        let blocks = requests.iter().any(|request| !request.blocks.is_empty());
        Ok(Trace {
            format: self.format,
            block_tokens: self.format.block_tokens().filter(|_| blocks),
            requests,
            timed,
            skipped: self.skipped,
        })
    }
}
