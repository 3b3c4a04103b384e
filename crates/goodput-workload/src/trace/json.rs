//! JSON lines: Mooncake, Qwen-Bailian and our own records.

use std::collections::BTreeMap;

use goodput_record::{Phase, RequestRow};
use serde::Deserialize;
use serde_json::value::Number;

use super::{Broken, RawRequest, Read, Reader, TraceError, detect::TraceFormat, instant};

/// A row of Mooncake or of Qwen-Bailian.
#[derive(Deserialize)]
struct Row {
    timestamp: Option<Number>,
    input_length: u64,
    output_length: u64,
    #[serde(default)]
    hash_ids: Vec<u64>,
    chat_id: Option<i64>,
    parent_chat_id: Option<i64>,
}

pub(super) fn read(bytes: &[u8], reader: &mut Reader) -> Result<(), TraceError> {
    // The first chat of each conversation, by the chats that follow it.
    let mut roots = BTreeMap::new();
    for (number, line) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let row = match reader.format() {
            TraceFormat::Records => record(line),
            TraceFormat::QwenBailian => parse::<Row>(line).and_then(|row| bailian(row, &mut roots)),
            _ => parse::<Row>(line).and_then(mooncake),
        };
        reader.row(number, row)?;
    }
    Ok(())
}

fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, Broken> {
    serde_json::from_slice(line).map_err(|error| {
        let what = error.to_string();
        // Every row is a line of its own: serde's line number would mislead.
        let what = what.replace(" at line 1 column ", ", at character ");
        Broken::new(what, "a row like those before it")
    })
}

fn mooncake(row: Row) -> Result<Read, Broken> {
    let at_ns = match &row.timestamp {
        // Milliseconds: the digits of seconds, three places to the left.
        Some(ms) => Some(instant::parse(&ms.to_string())? / 1_000),
        None => None,
    };
    Ok(request(row, at_ns, None))
}

fn bailian(row: Row, roots: &mut BTreeMap<i64, i64>) -> Result<Read, Broken> {
    let at_ns = match &row.timestamp {
        Some(s) => Some(instant::parse(&s.to_string())?),
        None => None,
    };
    let session = row.chat_id.map(|chat| {
        let parent = row.parent_chat_id.filter(|&parent| parent >= 0);
        let root = parent.map_or(chat, |parent| roots.get(&parent).copied().unwrap_or(parent));
        roots.insert(chat, root);
        root.to_string()
    });
    Ok(request(row, at_ns, session))
}

fn request(row: Row, at_ns: Option<i128>, session: Option<String>) -> Read {
    Read::Request(RawRequest {
        at_ns,
        input_tokens: row.input_length,
        output_tokens: row.output_length,
        session,
        duration_ns: None,
        blocks: row.hash_ids,
    })
}

/// A request of our own records: by the server's counts where it gave them, else as planned.
fn record(line: &[u8]) -> Result<Read, Broken> {
    let row: RequestRow = parse(line)?;
    if row.phase == Phase::Warmup {
        return Ok(Read::Unusable("sent to warm the server up"));
    }
    let planned = u64::from(row.planned_output_tokens);
    let output = row
        .output_tokens
        .map(u64::from)
        .filter(|&tokens| tokens > 0);
    Ok(Read::Request(RawRequest {
        at_ns: Some(i128::from(row.origin_ns)),
        input_tokens: u64::from(row.input_tokens.unwrap_or(row.planned_input_tokens)),
        output_tokens: output.unwrap_or(planned),
        session: Some(format!("{}-{}", row.point, row.session)),
        duration_ns: row.end_ns.checked_sub(row.origin_ns),
        blocks: Vec::new(),
    }))
}
