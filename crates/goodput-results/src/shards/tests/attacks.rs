//! Folders that are cut off, empty, or were measured at another time than they say.

use std::path::{Path, PathBuf};

use super::{Left, Runs, SECOND, books, left, merged};
use crate::{
    Folder, JsonLines,
    shards::{BOOKS_FILE, EPOCH_LEAD_NS, merge},
};

#[test]
fn a_row_that_was_cut_off_is_left_out_and_the_next_shards_rows_stay_whole() {
    let runs = Runs::new("torn");
    let folders: Vec<PathBuf> = (0..3)
        .map(|index| left(index, 3).write(&runs, &index.to_string()))
        .collect();
    std::fs::write(folders[0].join("requests.jsonl"), "{\"of\":\"0\"}\n{\"of").unwrap();
    std::fs::write(folders[1].join("requests.jsonl"), "").unwrap();
    let target = Folder::create(&runs.0.join("all")).unwrap();
    let merged = merge(&folders).unwrap();
    merged.write_rows(&target).unwrap();
    let rows = std::fs::read_to_string(target.file("requests.jsonl")).unwrap();
    assert_eq!(rows, "{\"of\":\"0\"}\n{\"of\":\"2\"}\n");
    let why = merged.incomplete_because.unwrap();
    assert!(why.starts_with("shard 1/3: the last line"), "{why}");
}

#[test]
fn a_shard_that_did_not_come_to_its_end_is_named_before_anything_is_written() {
    for file in ["result.json", "requests.jsonl", BOOKS_FILE] {
        let runs = Runs::new(&format!("unfinished-{file}"));
        let one = left(0, 2).write(&runs, "one");
        let two = left(1, 2).write(&runs, "two");
        std::fs::remove_file(two.join(file)).unwrap();
        let error = merge(&[one, two]).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("two: ") && said.contains(file), "{said}");
        assert!(error.is_usage() && error.hint().is_some());
    }
}

/// What a shard whose clock is `ahead_s` ahead saw of the server's tokens, once a second.
fn looked(folder: &Path, ahead_s: u64) {
    let mut lines = JsonLines::create(&folder.join("server_metrics.jsonl")).unwrap();
    for at in 0..30 {
        let look = serde_json::json!({"t_ns": EPOCH_LEAD_NS + (at + ahead_s) * SECOND,
            "replica": 0, "name": "vllm:generation_tokens_total{}", "value": at * 100});
        lines.write(&look).unwrap();
    }
    lines.flush().unwrap();
}

#[test]
fn clocks_that_are_apart_show_in_the_servers_counters() {
    let with = |name: &str, ahead_s: u64| {
        let runs = Runs::new(name);
        let folders: Vec<PathBuf> = (0..2)
            .map(|index| left(index, 2).write(&runs, &index.to_string()))
            .collect();
        looked(&folders[0], 0);
        looked(&folders[1], ahead_s);
        merge(&folders).unwrap().points.remove(0)
    };
    assert!(with("together", 0).valid);
    let row = with("apart", 3);
    let why = &row.warnings[0];
    assert!(!row.valid, "{row:?}");
    assert!(
        why.contains("clock of shard 2/2 is 3.0 s ahead of that of shard 1/2"),
        "{why}"
    );
}

#[test]
fn shards_that_loaded_servers_of_other_names_say_so() {
    let merged = merged("urls", 2, |index, left| {
        left.result.holds_for.server.url = format!("http://server-{index}/v1");
    });
    let row = merged.unwrap().points.remove(0);
    assert!(row.valid);
    assert!(
        row.warnings[0].contains("shard 1/2 loaded http://server-0/v1"),
        "{:?}",
        row.warnings
    );
}

#[test]
fn a_shard_without_a_request_and_a_run_without_one_are_no_figures() {
    let empty = |_: u16, left: &mut Left| {
        left.point.books = books(|_| false).save();
        left.point.due = 0;
        left.point.sent = 0;
    };
    let one = merged("one-empty", 2, |index, left| {
        if index == 1 {
            empty(index, left);
        }
    });
    let row = one.unwrap().points.remove(0);
    assert!(row.requests > 0 && row.slo_attainment.is_some());
    let row = merged("all-empty", 2, empty).unwrap().points.remove(0);
    assert_eq!((row.requests, row.slo_attainment), (0, None));
    assert!(!row.valid, "no request was measured: {:?}", row.warnings);
    let none = merged("no-points", 2, |_, left| left.measured = false).unwrap();
    assert!(none.points.is_empty());
}

#[test]
fn a_point_that_stands_twice_in_a_shards_books_is_not_counted_once_or_twice() {
    let runs = Runs::new("twice-in-one");
    let folder = left(0, 1).write(&runs, "one");
    let books = folder.join(BOOKS_FILE);
    let line = std::fs::read_to_string(&books).unwrap();
    std::fs::write(&books, line.repeat(2)).unwrap();
    let said = merge(std::slice::from_ref(&folder))
        .unwrap_err()
        .to_string();
    assert!(said.contains("point 0 stands there twice"), "{said}");
    std::fs::write(&books, &line[..line.len() - 30]).unwrap();
    let said = merge(&[folder]).unwrap_err().to_string();
    assert!(said.contains("line 1: cut off"), "{said}");
}
