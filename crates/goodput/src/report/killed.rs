//! What a run leaves that was killed at its first load point: requests and no row.

use std::path::Path;

use goodput_record::Phase;
use goodput_results::{Folder, ResultsError, each_request, read_result};
use goodput_sweep::RunResult;

use crate::exit::Failure;

/// Requests of a run, and how many of them were measured.
struct Left {
    requests: u64,
    measured: u64,
}

fn left(folder: &Folder) -> Result<Left, Failure> {
    let mut left = Left {
        requests: 0,
        measured: 0,
    };
    let file = folder.file("requests.jsonl");
    if file.exists() {
        each_request(&file, |row| {
            left.requests += 1;
            left.measured += u64::from(row.phase == Phase::Measured);
        })?;
    }
    Ok(left)
}

/// Says of a folder whose document has no point yet what there is, and how to read it.
pub(super) fn what_is_left(folder: &Folder, result: &RunResult) -> Result<String, Failure> {
    let Left { requests, measured } = left(folder)?;
    let head = format!(
        "no load point came to its end; {measured} measured requests of {requests} are in requests.jsonl"
    );
    if measured == 0 {
        return Ok(head);
    }
    let slo = result.settings.get("slo").map_or("chat", String::as_str);
    let at = result.under_way.and_then(|at| {
        let users = at.concurrency.map(|n| format!(" --concurrency {n}"));
        users.or_else(|| at.rate_req_s.map(|rate| format!(" --rate {rate}")))
    });
    Ok(format!(
        "{head}\nhint: they are judged by {}",
        command(folder, slo, &at.unwrap_or_default())
    ))
}

/// A folder's document; where a killed run has left none, what it has left.
pub(crate) fn result_of(path: &Path) -> Result<RunResult, Failure> {
    match read_result(path) {
        Err(missing @ ResultsError::Missing(_)) => {
            Err(without_result(&Folder::open(path)).unwrap_or_else(|| missing.into()))
        }
        read => Ok(read?),
    }
}

/// The same of a folder without a document: it says neither what the SLO was nor the load.
fn without_result(folder: &Folder) -> Option<Failure> {
    let Left { requests, measured } = left(folder).ok()?;
    (requests > 0).then(|| {
        Failure::untrusted(format!(
            "INCOMPLETE: {} has no result.json, its run was killed; {measured} measured requests of {requests} are in requests.jsonl",
            folder.path().display()
        ))
        .hint(format!(
            "they are judged by {}; --concurrency or --rate says what the load was",
            command(folder, "chat", "")
        ))
    })
}

/// The command that judges the requests of a folder.
fn command(folder: &Folder, slo: &str, load: &str) -> String {
    let file = folder.file("requests.jsonl").display().to_string();
    format!(
        "goodput report --import {} --slo {}{load}",
        quoted(&file),
        quoted(slo)
    )
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_in_a_shell() {
        assert_eq!(quoted("runs/a-1"), "runs/a-1");
        assert_eq!(quoted("chat;voice"), "'chat;voice'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
