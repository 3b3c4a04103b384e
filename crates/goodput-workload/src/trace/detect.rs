//! Which format a trace is in.

use std::fmt;

use serde_json::Value;

use super::{TraceError, csv::columns};

/// The formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceFormat {
    /// `AzurePublicDataset`, 2023 and 2024: TIMESTAMP, `ContextTokens`, `GeneratedTokens`.
    Azure,
    /// `BurstGPT`: Timestamp, Model, Request tokens, Response tokens, Total tokens, Log Type; newer
    /// files add Session ID and Elapsed time.
    BurstGpt,
    /// Any table with the columns `arrival_s` (or timestamp), `input_tokens`, `output_tokens` and,
    /// if there are sessions, session.
    Plain,
    /// Mooncake: JSON lines of `timestamp` (ms, in ticks), `input_length`, `output_length`,
    /// `hash_ids` of 512 tokens.
    Mooncake,
    /// Qwen-Bailian: JSON lines of `chat_id`, `parent_chat_id`, `timestamp` (s), lengths, `turn`,
    /// `hash_ids` of 16 tokens.
    QwenBailian,
    /// `ShareGPT`: conversations of texts with `from` and `value`.
    ShareGpt,
    /// Our own records: `requests.jsonl`.
    Records,
}

impl TraceFormat {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Azure,
        Self::BurstGpt,
        Self::Plain,
        Self::Mooncake,
        Self::QwenBailian,
        Self::ShareGpt,
        Self::Records,
    ];

    /// Its name, for flags and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Azure => "azure",
            Self::BurstGpt => "burstgpt",
            Self::Plain => "csv",
            Self::Mooncake => "mooncake",
            Self::QwenBailian => "qwen-bailian",
            Self::ShareGpt => "sharegpt",
            Self::Records => "records",
        }
    }

    /// The format of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Tokens of a block, where the format names blocks.
    pub(crate) const fn block_tokens(self) -> Option<u32> {
        match self {
            Self::Mooncake => Some(512),
            Self::QwenBailian => Some(16),
            _ => None,
        }
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Tells the format from the first row.
pub(super) fn detect(bytes: &[u8]) -> Result<TraceFormat, TraceError> {
    let begin = bytes.trim_ascii_start();
    let line = begin.split(|&byte| byte == b'\n').next().unwrap_or(begin);
    let line = String::from_utf8_lossy(line);
    let line = line.trim();
    let found = match begin.first() {
        Some(b'[') => Some(TraceFormat::ShareGpt),
        Some(b'{') => of_object(line),
        _ => of_header(line),
    };
    found.ok_or_else(|| TraceError::Unknown {
        begin: line.chars().take(60).collect(),
        known: "a CSV of azure, burstgpt or arrival_s,input_tokens,output_tokens; JSON lines of \
                mooncake, qwen-bailian or records; or a sharegpt array"
            .to_owned(),
    })
}

fn of_object(line: &str) -> Option<TraceFormat> {
    let row: Value = serde_json::from_str(line).ok()?;
    let has = |name: &str| row.get(name).is_some();
    if has("conversations") {
        Some(TraceFormat::ShareGpt)
    } else if has("origin_ns") {
        Some(TraceFormat::Records)
    } else if has("chat_id") && has("input_length") {
        Some(TraceFormat::QwenBailian)
    } else {
        has("input_length").then_some(TraceFormat::Mooncake)
    }
}

fn of_header(line: &str) -> Option<TraceFormat> {
    let names = columns(line);
    let has = |name: &str| names.iter().any(|column| column == name);
    if has("contexttokens") && has("generatedtokens") {
        Some(TraceFormat::Azure)
    } else if has("requesttokens") && has("responsetokens") {
        Some(TraceFormat::BurstGpt)
    } else {
        (has("inputtokens") && has("outputtokens")).then_some(TraceFormat::Plain)
    }
}
