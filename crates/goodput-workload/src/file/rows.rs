//! The rows of a workload file: one request a line, nothing of what was said in it.
//!
//! `ARRIVAL INPUT OUTPUT [SESSION [BLOCKS]]`, parted by blanks. The arrival is in nanoseconds
//! since the first; `+WAIT` stands for "so many nanoseconds after the end of the session's step
//! before". The session is any name, or `-` for a request of its own. Blocks are names in
//! hexadecimal, parted by commas: equal names at the start of two prompts are a shared prefix.
//! What follows a `#` is not read.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use goodput_config::TextError;

use crate::spec::{RowSession, RowStep};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    pub(crate) when: When,
    pub(crate) input_tokens: u32,
    pub(crate) output_tokens: u32,
    pub(crate) session: Option<&'a str>,
    pub(crate) blocks: Box<[u64]>,
}

/// When a row's request is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    At(u64),
    After(u64),
}

/// Reads the table. Complaints come with the bytes of the table they are about.
pub(super) fn sessions(
    table: &str,
    complaints: &mut Vec<(usize, usize, TextError)>,
) -> Vec<RowSession> {
    let mut sessions: Vec<RowSession> = Vec::new();
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    let mut offset = 0;
    for (number, line) in table.split_inclusive('\n').enumerate() {
        let start = offset;
        offset += line.len();
        let text = line.split('#').next().unwrap_or("").trim();
        if text.is_empty() {
            continue;
        }
        let booked = read_row(text).and_then(|row| book(&row, &mut sessions, &mut open));
        if let Err(mut error) = booked {
            error.message = format!("row {}: {}", number + 1, error.message);
            complaints.push((start, start + line.trim_end().len(), error));
        }
    }
    sessions.sort_by_key(|session| session.arrival_ns);
    let first = sessions.first().map_or(0, |session| session.arrival_ns);
    for session in &mut sessions {
        session.arrival_ns -= first;
    }
    sessions
}

fn book<'a>(
    row: &Row<'a>,
    sessions: &mut Vec<RowSession>,
    open: &mut BTreeMap<&'a str, usize>,
) -> Result<(), TextError> {
    let step = |wait| RowStep {
        input_tokens: row.input_tokens,
        output_tokens: row.output_tokens,
        wait: Duration::from_nanos(wait),
        blocks: row.blocks.clone(),
    };
    match (row.when, row.session) {
        (When::At(arrival_ns), session) => {
            if let Some(name) = session
                && open.insert(name, sessions.len()).is_some()
            {
                return Err(
                    TextError::new(format!("session {name} began in a row before"))
                        .hint("later steps say how long they wait: `+NANOSECONDS`"),
                );
            }
            sessions.push(RowSession {
                arrival_ns,
                steps: vec![step(0)],
            });
        }
        (When::After(wait), Some(name)) => {
            let place = open.get(name).ok_or_else(|| {
                TextError::new(format!("session {name} has no row before this one"))
                    .expected("its first row, with an arrival")
            })?;
            let steps = &mut sessions[*place].steps;
            if steps.len() >= usize::from(u16::MAX) {
                return Err(TextError::new("a session has at most 65535 steps"));
            }
            steps.push(step(wait));
        }
        (When::After(_), None) => {
            return Err(TextError::new("a wait without a session")
                .expected("an arrival, or the session it waits in"));
        }
    }
    Ok(())
}

fn read_row(line: &str) -> Result<Row<'_>, TextError> {
    let mut columns = line.split_whitespace();
    let mut column = |what: &str| {
        let missing = || TextError::new(format!("{what} is missing")).expected(COLUMNS);
        columns.next().ok_or_else(missing)
    };
    let when = column("the arrival")?;
    let when = match when.strip_prefix('+') {
        Some(wait) => When::After(number(wait, "the wait")?),
        None => When::At(number(when, "the arrival")?),
    };
    let input_tokens = tokens(column("the input length")?, "the input length")?;
    let output_tokens = tokens(column("the output length")?, "the output length")?;
    let session = columns.next().filter(|&name| name != "-");
    let blocks = columns.next().map_or(Ok(Vec::new()), |names| {
        names.split(',').map(block).collect()
    })?;
    if columns.next().is_some() {
        return Err(TextError::new("more than five columns").expected(COLUMNS));
    }
    Ok(Row {
        when,
        input_tokens,
        output_tokens,
        session,
        blocks: blocks.into_boxed_slice(),
    })
}

const COLUMNS: &str = "ARRIVAL INPUT OUTPUT [SESSION [BLOCKS]]";

fn number(text: &str, what: &str) -> Result<u64, TextError> {
    let refused = |_| TextError::new(format!("{what} is `{text}`")).expected("whole nanoseconds");
    text.parse().map_err(refused)
}

fn tokens(text: &str, what: &str) -> Result<u32, TextError> {
    let tokens = text.parse().ok().filter(|&tokens| tokens > 0);
    tokens.ok_or_else(|| {
        TextError::new(format!("{what} is `{text}`"))
            .expected("a whole number of tokens, at least 1")
    })
}

fn block(text: &str) -> Result<u64, TextError> {
    let refused = |_| TextError::new(format!("block `{text}`")).expected("a hexadecimal number");
    u64::from_str_radix(text, 16).map_err(refused)
}

/// Writes one line, as the reader takes it.
pub(crate) fn render_row(row: &Row<'_>, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = match row.when {
        When::At(at) => write!(out, "{at}"),
        When::After(wait) => write!(out, "+{wait}"),
    };
    let _ = write!(out, " {} {}", row.input_tokens, row.output_tokens);
    if row.session.is_some() || !row.blocks.is_empty() {
        let _ = write!(out, " {}", row.session.unwrap_or("-"));
    }
    for (i, block) in row.blocks.iter().enumerate() {
        let _ = write!(out, "{}{block:x}", if i == 0 { ' ' } else { ',' });
    }
    out.push('\n');
}
