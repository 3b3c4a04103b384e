//! Whether folders are the shares of one run, all of them and each once.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use goodput_sweep::RunResult;

use super::{BOOKS_FILE, SHARD_FILE, ShardNote, ShardPoint, clocks};
use crate::{
    error::{Result, ResultsError},
    folder::read_result,
};

/// A share's folder, read.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) path: PathBuf,
    pub(super) note: ShardNote,
    pub(super) points: BTreeMap<u32, ShardPoint>,
    pub(super) result: RunResult,
    /// How far its clock is ahead of the first share's, in ns, by the counters of the server.
    pub(super) clock_ahead_ns: Option<i64>,
}

impl Share {
    /// The share in words: `shard 3/8`.
    pub(super) fn called(&self) -> String {
        format!("shard {}/{}", self.note.index + 1, self.note.of)
    }
}

fn broken(path: &Path, because: impl std::fmt::Display) -> ResultsError {
    ResultsError::import(
        path,
        format!("not as `goodput --shard` writes it: {because}"),
        "measure that shard again, together with the others",
    )
}

fn read(path: &Path) -> Result<Share> {
    let note_path = path.join(SHARD_FILE);
    let text = match fs::read_to_string(&note_path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && path.is_dir() => {
            return Err(ResultsError::import(
                path,
                format!("no shard of a run: there is no {SHARD_FILE}"),
                "shards are written by `goodput sweep --shard 1/3 --start-at ...`",
            ));
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(ResultsError::Missing(path.to_owned()));
        }
        Err(e) => return Err(ResultsError::io("cannot read", &note_path, e)),
    };
    let note: ShardNote = serde_json::from_str(&text).map_err(|e| broken(&note_path, e))?;
    let books_path = path.join(BOOKS_FILE);
    let books = fs::read_to_string(&books_path).map_err(|e| unfinished(&books_path, e))?;
    let mut points = BTreeMap::new();
    for (line, number) in books.lines().zip(1..) {
        let point: ShardPoint = serde_json::from_str(line).map_err(|e| {
            let torn = e.is_eof() && !books.ends_with('\n');
            let what = if torn { "cut off, " } else { "" };
            broken(&books_path, format!("line {number}: {what}{e}"))
        })?;
        let at = point.facts.point;
        if points.insert(at, point).is_some() {
            return Err(broken(
                &books_path,
                format!("point {at} stands there twice"),
            ));
        }
    }
    let rows = path.join("requests.jsonl");
    fs::metadata(&rows).map_err(|e| unfinished(&rows, e))?;
    let result = read_result(path).map_err(|error| match error {
        ResultsError::Missing(file) => unfinished(&file, std::io::ErrorKind::NotFound.into()),
        other => other,
    })?;
    Ok(Share {
        path: path.to_owned(),
        note,
        points,
        result,
        clock_ahead_ns: None,
    })
}

/// A file that every share has at its end is not there.
fn unfinished(file: &Path, error: std::io::Error) -> ResultsError {
    if error.kind() != std::io::ErrorKind::NotFound {
        return ResultsError::io("cannot read", file, error);
    }
    ResultsError::import(
        file.parent().unwrap_or(file),
        format!(
            "this shard did not come to its end: there is no {}",
            file.file_name().unwrap_or_default().display()
        ),
        "without it the load was another one: measure all shards again, together",
    )
}

/// Reads the folders and puts them in the order of their shares, or says why they are no run.
pub(super) fn together(folders: &[PathBuf]) -> Result<Vec<Share>> {
    let mut shares = Vec::new();
    for folder in folders {
        shares.push(read(folder)?);
    }
    shares.sort_by_key(|share| share.note.index);
    let Some(first) = shares.first() else {
        return Err(apart(
            "no folder was named",
            "name the folders of all shards",
        ));
    };
    for share in &shares[1..] {
        same_run(first, share)?;
    }
    complete(&shares)?;
    let courses: Vec<clocks::Courses> = shares
        .iter()
        .map(|share| clocks::courses(&share.path.join("server_metrics.jsonl")))
        .collect();
    for (share, own) in shares.iter_mut().zip(&courses).skip(1) {
        share.clock_ahead_ns = clocks::ahead(&courses[0], own);
    }
    Ok(shares)
}

fn apart(because: impl Into<String>, hint: &str) -> ResultsError {
    ResultsError::Told {
        because: because.into(),
        hint: hint.to_owned(),
    }
}

/// Every share is there, and none twice.
fn complete(shares: &[Share]) -> Result<()> {
    let of = shares.first().map_or(0, |share| share.note.of);
    for pair in shares.windows(2) {
        if pair[0].note.index == pair[1].note.index {
            return Err(apart(
                format!(
                    "{} and {} are both {}: its requests would count twice",
                    pair[0].path.display(),
                    pair[1].path.display(),
                    pair[0].called()
                ),
                "name each shard once",
            ));
        }
    }
    let missing: Vec<String> = (0..of)
        .filter(|index| shares.iter().all(|share| share.note.index != *index))
        .map(|index| format!("{}/{of}", index + 1))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(apart(
        format!(
            "of {of} shards {} {} missing: {}",
            missing.len(),
            if missing.len() == 1 { "is" } else { "are" },
            missing.join(", ")
        ),
        "without them the load was another one; name the folders of all shards",
    ))
}

/// Whether two shares are of one run; what they must have in common, in the order of importance.
fn same_run(one: &Share, other: &Share) -> Result<()> {
    let (a, b) = (&one.note, &other.note);
    let (x, y) = (&one.result.holds_for, &other.result.holds_for);
    let facts: [(&str, String, String); 9] = [
        ("number of shards", a.of.to_string(), b.of.to_string()),
        ("seed", a.seed.to_string(), b.seed.to_string()),
        (
            "start",
            a.start_at_unix_ns.to_string(),
            b.start_at_unix_ns.to_string(),
        ),
        (
            "timetable",
            format!("{:?}", (a.slot_ns, a.settle_ns, a.window_ns)),
            format!("{:?}", (b.slot_ns, b.settle_ns, b.window_ns)),
        ),
        (
            "workload",
            format!("{} ({:016x})", x.workload.name, a.workload_digest),
            format!("{} ({:016x})", y.workload.name, b.workload_digest),
        ),
        ("SLO", slos(one), slos(other)),
        ("model", x.model.clone(), y.model.clone()),
        (
            "form of the answers",
            a.streamed.to_string(),
            b.streamed.to_string(),
        ),
        (
            "version",
            one.result.goodput_version.clone(),
            other.result.goodput_version.clone(),
        ),
    ];
    for (what, ours, theirs) in facts {
        if ours != theirs {
            return Err(apart(
                format!(
                    "{} and {} are no shards of one run: their {what} differs: {ours} | {theirs}",
                    one.path.display(),
                    other.path.display()
                ),
                "shards of one run are started with the same flags, --shard and --out apart",
            ));
        }
    }
    Ok(())
}

fn slos(share: &Share) -> String {
    let slos = &share.result.holds_for.slos;
    let sentences: Vec<&str> = slos.iter().map(|slo| slo.sentence.as_str()).collect();
    sentences.join("; ")
}
