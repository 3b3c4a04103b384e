//! Folders as shards write them, and what becomes of them.

mod attacks;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use goodput_ledger::{ClientRow, Mode, PointBooks, PointFacts, WatchRow};
use goodput_record::{Arrival, End, Outcome, Phase, RequestRecord, Timestamp, TokenCount, testing};
use goodput_slo::Slo;
use goodput_sweep::{HoldsFor, OperatingPoint, RunResult, SCHEMA_VERSION};

use super::*;
use crate::{Folder, JsonLines, ResultsError, error::Result};

const SLO: &str = "ttft=300ms,tpot=40ms";
const SECOND: u64 = 1_000_000_000;

/// Request `id` of the schedule: one every 100 ms, each a little slower than the last.
fn record(id: u64) -> RequestRecord {
    let origin = Timestamp::from_nanos(EPOCH_LEAD_NS + id * SECOND / 10);
    let arrival = Arrival {
        id,
        session: u32::try_from(id).unwrap(),
        ..testing::arrival(origin)
    };
    let token = |n: u64| origin.after(Duration::from_millis(100 + 9 * id + n * (20 + id)));
    let end = End {
        output_tokens: Some(TokenCount::Usage(3)),
        ..End::of(Outcome::Ok)
    };
    let ended = origin.after(Duration::from_secs(1));
    testing::record(arrival, (0..3).map(token), ended, end)
}

fn slos() -> Vec<Slo> {
    vec![Slo::from_argument(SLO).unwrap()]
}

/// The books of those requests of a point that `has` says.
fn books(has: impl Fn(u64) -> bool) -> PointBooks {
    let mut books = PointBooks::new(&slos(), Duration::from_millis(100));
    for record in (0..50).filter(|id| has(*id)).map(record) {
        books.arrived(record.summary.arrival());
        books.post(&record.summary, &record.gaps, Phase::Measured);
    }
    books
}

fn facts() -> PointFacts {
    let begin = Timestamp::from_nanos(EPOCH_LEAD_NS);
    let window = begin..Timestamp::from_nanos(EPOCH_LEAD_NS + 5 * SECOND);
    PointFacts {
        rate_req_s: Some(10.0),
        in_flight_peak: Some(4),
        in_flight_at_end: 2,
        sent_share: Some(1.0),
        loop_lag_p99_ns: Some(1e5),
        client_cpu_share: Some(0.1),
        server_timings: (1, 0, None),
        ..PointFacts::new(0, Mode::Open, window)
    }
}

struct Runs(PathBuf);

impl Runs {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("goodput-shards-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A share as its process would have left it.
struct Left {
    note: ShardNote,
    point: ShardPoint,
    result: RunResult,
    /// Whether it measured its point.
    measured: bool,
}

fn left(index: u16, of: u16) -> Left {
    Left {
        note: ShardNote {
            index,
            of,
            start_at_unix_ns: 7 * SECOND,
            slot_ns: 10 * SECOND,
            settle_ns: 0,
            window_ns: 5 * SECOND,
            seed: 3,
            workload_digest: 9,
            streamed: true,
            slos: vec![SloSource {
                argument: SLO.to_owned(),
                text: None,
            }],
        },
        point: ShardPoint {
            begun_late_ns: 0,
            due: 10,
            sent: 10,
            facts: facts(),
            server: None,
            books: books(|id| id % u64::from(of) == u64::from(index)).save(),
        },
        result: RunResult {
            schema_version: SCHEMA_VERSION,
            goodput_version: "0".to_owned(),
            kind: "sweep".to_owned(),
            run: format!("run{index}"),
            started: String::new(),
            epoch_unix_ns: 0,
            duration_s: f64::from(index),
            complete: true,
            incomplete_because: None,
            under_way: None,
            seed: 3,
            holds_for: HoldsFor::default(),
            points: Vec::new(),
            boots: Vec::new(),
            operating_point: OperatingPoint::default(),
            findings: Vec::new(),
            definitions: std::collections::BTreeMap::new(),
            charts: Vec::new(),
            settings: std::collections::BTreeMap::new(),
        },
        measured: true,
    }
}

impl Left {
    fn write(&self, runs: &Runs, name: &str) -> PathBuf {
        let folder = Folder::create(&runs.0.join(name)).unwrap();
        folder.write(SHARD_FILE, &json(&self.note)).unwrap();
        folder.write("result.json", &json(&self.result)).unwrap();
        let mut lines = JsonLines::create(&folder.file(BOOKS_FILE)).unwrap();
        if self.measured {
            lines.write(&self.point).unwrap();
        }
        lines.flush().unwrap();
        folder
            .write("requests.jsonl", &format!("{{\"of\":\"{name}\"}}\n"))
            .unwrap();
        folder.path().to_owned()
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

fn merged(name: &str, of: u16, change: impl Fn(u16, &mut Left)) -> Result<Merged> {
    let runs = Runs::new(name);
    let mut folders: Vec<PathBuf> = (0..of)
        .map(|index| {
            let mut left = left(index, of);
            change(index, &mut left);
            left.write(&runs, &index.to_string())
        })
        .collect();
    // The order in which they are named is nobody's business.
    folders.reverse();
    merge(&folders)
}

#[test]
fn eight_shards_give_the_row_of_the_whole_to_the_last_byte() {
    let whole = books(|_| true).row(&PointFacts {
        in_flight_peak: Some(32),
        in_flight_at_end: 16,
        server_timings: (8, 0, None),
        ..facts()
    });
    let merged = merged("whole", 8, |_, _| ()).unwrap();
    assert_eq!(json(&merged.points[0]), json(&whole));
    assert!(merged.points[0].valid);
    assert_eq!(merged.points.len(), 1);
    assert!((merged.duration_s - 7.0).abs() < 1e-9);
    assert_eq!(merged.incomplete_because, None);
    assert_eq!(merged.base.run, "run0");
}

#[test]
fn requests_of_all_shards_stand_in_one_file() {
    let runs = Runs::new("rows");
    let folders: Vec<PathBuf> = (0..3)
        .map(|index| left(index, 3).write(&runs, &index.to_string()))
        .collect();
    std::fs::write(folders[1].join("server_metrics.jsonl"), "{}\n").unwrap();
    let target = Folder::create(&runs.0.join("all")).unwrap();
    merge(&folders).unwrap().write_rows(&target).unwrap();
    let rows = std::fs::read_to_string(target.file("requests.jsonl")).unwrap();
    assert_eq!(rows, "{\"of\":\"0\"}\n{\"of\":\"1\"}\n{\"of\":\"2\"}\n");
    assert!(target.file("server_metrics.jsonl").exists());
}

#[test]
fn a_point_that_one_shard_could_not_trust_is_not_trusted() {
    let invalid = |name: &str, change: fn(&mut Left)| {
        let change = |index: u16, left: &mut Left| {
            if index == 1 {
                change(left);
            }
        };
        let row = merged(name, 3, change).unwrap().points.remove(0);
        assert!(!row.valid, "{:?}", row.warnings);
        row.warnings[0].clone()
    };
    let said = invalid("lag", |left| {
        left.point.facts.invalid.push("too late".to_owned());
    });
    assert_eq!(said, "shard 2/3: too late");
    let late = invalid("late", |left| left.point.begun_late_ns = SECOND);
    assert!(late.contains("shard 2/3 began 1000 ms late"), "{late}");
    let absent = invalid("absent", |left| left.measured = false);
    assert!(absent.contains("shard 2/3 did not measure it"), "{absent}");
    let short = invalid("short", |left| {
        left.point.facts.window.end = Timestamp::from_nanos(EPOCH_LEAD_NS + 2 * SECOND);
    });
    assert!(
        short.contains("shard 2/3 measured 2.0 s of the 5.0 s"),
        "{short}"
    );
    let foreign = |left: &mut Left| {
        left.point.server = Some(WatchRow::default());
    };
    let mixed = merged("some-looked", 3, |index, left| {
        if index == 1 {
            foreign(left);
        }
    });
    assert!(
        mixed.unwrap().points[0].valid,
        "two shares did not look: nothing is known"
    );
    let restarted = invalid("restart", |left| {
        left.point.server = Some(WatchRow {
            restarts: 1,
            ..WatchRow::default()
        });
    });
    assert!(restarted.contains("restarted"), "{restarted}");
    let other = invalid("other", |left| left.point.facts.rate_req_s = Some(11.0));
    assert!(other.contains("another load"), "{other}");
}

#[test]
fn traffic_of_the_other_shards_is_not_foreign_and_that_of_others_is() {
    let looked = |name: &str, ended: u64| {
        let merged = merged(name, 2, |_, left| {
            left.point.server = Some(WatchRow {
                ended_in_server: Some(ended),
                ended_ours: Some(25),
                replicas_seen: 1,
                ..WatchRow::default()
            });
        });
        merged.unwrap().points.remove(0)
    };
    assert!(looked("ours", 50).valid);
    let row = looked("others", 80);
    assert!(
        !row.valid && row.warnings[0].contains("worked for others"),
        "{:?}",
        row.warnings
    );
}

#[test]
fn what_shards_say_is_told_once_and_counts_are_added() {
    let merged = merged("said", 3, |index, left| {
        left.point.facts.client.waited_share = Some(0.1);
        left.point.facts.client.path_bytes_per_s = Some(9e6);
        left.point.facts.client.path_is_limit = Some(false);
        left.point.facts.warnings.push("slow names".to_owned());
        if index == 2 {
            left.point.facts.warnings.push("warm".to_owned());
            left.point.facts.client_cpu_share = Some(0.7);
            left.point.facts.client = ClientRow {
                waited_share: Some(0.2),
                path_bytes_per_s: Some(5e6),
                path_is_limit: Some(true),
                ..ClientRow::default()
            };
            left.point.sent = 4;
            left.result.incomplete_because = Some("stopped by signal 2".to_owned());
        }
    });
    let merged = merged.unwrap();
    let row = &merged.points[0];
    assert_eq!(row.warnings, ["every shard: slow names", "shard 3/3: warm"]);
    assert_eq!(row.client_cpu_share, Some(0.7));
    assert_eq!(row.client.waited_share, Some(0.2));
    assert_eq!(row.client.path_bytes_per_s, Some(5e6));
    assert_eq!(
        (row.client.path_is_limit, row.client.thread_cpu_share),
        (Some(true), None)
    );
    assert_eq!(row.sent_share, Some(24.0 / 30.0));
    assert_eq!((row.in_flight_peak, row.in_flight_at_end), (Some(12), 6));
    let why = merged.incomplete_because.unwrap();
    assert_eq!(why, "shard 3/3: stopped by signal 2");
}

#[test]
fn folders_that_do_not_belong_together_are_refused() {
    let refused = |name: &str, change: fn(&mut Left), because: &str| {
        let got = merged(name, 3, |index, left| {
            if index == 2 {
                change(left);
            }
        });
        let error = got.expect_err(because);
        assert!(error.to_string().contains(because), "{error}");
        assert!(error.is_usage() && error.hint().is_some());
    };
    refused(
        "seed",
        |left| left.note.seed = 4,
        "their seed differs: 3 | 4",
    );
    refused(
        "start",
        |left| left.note.start_at_unix_ns += 1,
        "their start differs",
    );
    refused(
        "slot",
        |left| left.note.window_ns += 1,
        "their timetable differs",
    );
    refused(
        "workload",
        |left| left.note.workload_digest = 1,
        "their workload differs",
    );
    refused(
        "of",
        |left| left.note.of = 4,
        "their number of shards differs: 3 | 4",
    );
    refused(
        "model",
        |left| left.result.holds_for.model = "m".to_owned(),
        "their model differs",
    );
    refused(
        "version",
        |left| left.result.goodput_version = "9".to_owned(),
        "their version differs",
    );
    refused(
        "stream",
        |left| left.note.streamed = false,
        "form of the answers",
    );
    let slo = |left: &mut Left| {
        left.result.holds_for.slos = vec![goodput_sweep::SloFacts {
            sentence: "another".to_owned(),
            ..goodput_sweep::SloFacts::default()
        }];
    };
    refused("slo", slo, "their SLO differs");
    refused("twice", |left| left.note.index = 1, "are both shard 2/3");
}

#[test]
fn missing_shards_are_named() {
    let runs = Runs::new("missing");
    let one = left(1, 4).write(&runs, "one");
    let three = left(3, 4).write(&runs, "three");
    let error = merge(&[three, one]).unwrap_err();
    assert!(
        error.to_string().contains("2 are missing: 1/4, 3/4"),
        "{error}"
    );
    assert!(merge(&[]).is_err());
}

#[test]
fn what_is_no_shard_or_was_changed_is_refused() {
    let runs = Runs::new("broken");
    let alone = left(0, 1).write(&runs, "alone");
    let says = |folder: &Path, words: &str| {
        let error = merge(&[folder.to_owned()]).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    };
    assert!(merge(std::slice::from_ref(&alone)).is_ok());
    let line = std::fs::read_to_string(alone.join(BOOKS_FILE)).unwrap();
    std::fs::write(alone.join(BOOKS_FILE), &line[..line.len() / 2]).unwrap();
    says(&alone, "not as `goodput --shard` writes it");
    let other = line.replace("ttft <= 300ms", "ttft <= 301ms");
    assert_ne!(other, line);
    std::fs::write(alone.join(BOOKS_FILE), other).unwrap();
    says(&alone, "other SLOs");
    std::fs::remove_file(alone.join(SHARD_FILE)).unwrap();
    says(&alone, "no shard of a run");
    let nowhere = merge(&[runs.0.join("nowhere")]);
    assert!(matches!(nowhere, Err(ResultsError::Missing(_))));
}
