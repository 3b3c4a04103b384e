//! `ShareGPT`: conversations of texts. The texts are counted and left behind.

use serde::Deserialize;
use serde_json::Value;

use super::{Broken, RawRequest, Read, ReadOptions, Reader, TraceError};

#[derive(Deserialize)]
struct Row {
    id: Option<Value>,
    #[serde(default)]
    conversations: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    #[serde(alias = "role")]
    from: String,
    #[serde(alias = "content")]
    value: String,
}

enum Speaker {
    System,
    User,
    Answer,
}

impl Turn {
    fn speaker(&self) -> Result<Speaker, Broken> {
        match self.from.to_ascii_lowercase().as_str() {
            "system" => Ok(Speaker::System),
            "human" | "user" | "tool" | "function" => Ok(Speaker::User),
            "gpt" | "assistant" | "chatgpt" | "bard" | "bing" | "model" => Ok(Speaker::Answer),
            other => Err(Broken::new(
                format!("a turn from `{other}`"),
                "system, human or gpt",
            )),
        }
    }
}

pub(super) fn read(
    bytes: &[u8],
    options: ReadOptions<'_>,
    reader: &mut Reader,
) -> Result<(), TraceError> {
    let array = bytes.trim_ascii_start().first() == Some(&b'[');
    if array {
        let rows: Vec<Value> = match serde_json::from_slice(bytes) {
            Ok(rows) => rows,
            Err(error) => {
                // Nothing can be saved of an array that does not end: it has no rows.
                return Err(TraceError::Row {
                    format: reader.format(),
                    row: error.line() as u64,
                    what: error.to_string(),
                    expected: "one JSON array of conversations (row is the line here)".to_owned(),
                });
            }
        };
        for (number, row) in (1..).zip(rows) {
            let row = serde_json::from_value(row).map_err(|error| broken(&error));
            take(number, row, options, reader)?;
        }
        return Ok(());
    }
    for (number, line) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
        if !line.trim_ascii().is_empty() {
            let row = serde_json::from_slice(line).map_err(|error| broken(&error));
            take(number, row, options, reader)?;
        }
    }
    Ok(())
}

fn broken(error: &serde_json::Error) -> Broken {
    Broken::new(
        error.to_string(),
        "{\"id\": .., \"conversations\": [{\"from\": .., \"value\": ..}]}",
    )
}

fn take(
    number: u64,
    row: Result<Row, Broken>,
    options: ReadOptions<'_>,
    reader: &mut Reader,
) -> Result<(), TraceError> {
    let row = match row {
        Ok(row) => row,
        Err(error) => return reader.broken(number, error),
    };
    let id = row
        .id
        .as_ref()
        .map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
    match requests(&row.conversations, options) {
        Err(error) => reader.broken(number, error),
        Ok(Err(reason)) => {
            reader.rows += 1;
            reader.skip(number, id, reason);
            Ok(())
        }
        Ok(Ok(turns)) => {
            let alone = turns.len() == 1;
            for (input_tokens, output_tokens) in turns {
                let request = RawRequest {
                    input_tokens,
                    output_tokens,
                    session: (!alone).then(|| number.to_string()),
                    ..RawRequest::default()
                };
                reader.row(number, Ok(Read::Request(request)))?;
            }
            Ok(())
        }
    }
}

/// Lengths of prompt (the history included) and answer of each request, or why there is none.
type Usable = Result<Vec<(u64, u64)>, &'static str>;

fn requests(turns: &[Turn], options: ReadOptions<'_>) -> Result<Usable, Broken> {
    let mut requests = Vec::new();
    let (mut context, mut asked) = (0_u64, false);
    for turn in turns {
        let tokens = u64::from((options.count)(&turn.value));
        match turn.speaker()? {
            Speaker::System => context += tokens,
            Speaker::User => {
                if turn.value.trim().is_empty() && requests.is_empty() {
                    return Ok(Err("empty prompt"));
                }
                context += tokens;
                asked = true;
            }
            Speaker::Answer => {
                if asked && tokens > 0 {
                    requests.push((context, tokens));
                    if !options.all_turns {
                        break;
                    }
                } else if requests.is_empty() && !asked {
                    let later = turns
                        .iter()
                        .any(|t| matches!(t.speaker(), Ok(Speaker::User)));
                    return Ok(Err(if later {
                        "begins with an answer"
                    } else {
                        "no user turn"
                    }));
                }
                context += tokens;
                asked = false;
            }
        }
    }
    Ok(match (requests.is_empty(), turns.is_empty(), asked) {
        (false, ..) => Ok(requests),
        (true, true, _) => Err("no turns"),
        (true, false, true) => Err("no answer"),
        (true, false, false) => Err("no user turn"),
    })
}
