use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use goodput_record::{
    Arrival, End, Outcome, Phase, RequestRow, Series, Timestamp, VerdictWord, testing,
};

use super::{MOST_WAITING, RowForm, RowJob, RowWriter};

fn job(id: u64) -> RowJob {
    let after = |ms: u64| Timestamp::from_millis(id + ms);
    let arrival = Arrival {
        id,
        ..testing::arrival(after(0))
    };
    RowJob {
        record: testing::record(arrival, [5, 7].map(after), after(8), End::of(Outcome::Ok)),
        point: 1,
        phase: Phase::Measured,
        series: Arc::new(Series::default()),
        verdicts: vec![VerdictWord::Met],
        text: None,
        error: None,
    }
}

fn form(keep_gaps: bool) -> RowForm {
    RowForm {
        run: "r".to_owned(),
        slos: vec!["chat".to_owned()],
        keep_gaps,
    }
}

fn place(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("goodput-rows-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join("requests.jsonl")
}

fn read(path: &PathBuf) -> Vec<RequestRow> {
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_row_is_written_in_order_and_reads_back() {
    for keep_gaps in [false, true] {
        let path = place(if keep_gaps { "gaps" } else { "plain" });
        let writer = RowWriter::start(&path, form(keep_gaps), || ()).unwrap();
        (0..2000).for_each(|id| writer.send(job(id)));
        assert_eq!(writer.finish(), None);
        let rows = read(&path);
        assert_eq!(rows.len(), 2000);
        assert!(
            rows.iter()
                .enumerate()
                .all(|(i, r)| r.id == format!("r-{i}"))
        );
        assert_eq!(rows[0].gap_ns, keep_gaps.then(|| vec![2_000_000]));
        assert_eq!(rows[0].verdicts["chat"], VerdictWord::Met);
    }
}

#[test]
fn a_disk_that_cannot_keep_up_stops_the_run_once_and_says_so() {
    let path = place("slow");
    let stopped = Arc::new(AtomicU32::new(0));
    let asked = Arc::clone(&stopped);
    let stop = move || {
        asked.fetch_add(1, Ordering::Relaxed);
    };
    // As if the disk had taken nothing: there is room for no row at all.
    let writer = RowWriter::with_room(&path, form(false), stop, 0).unwrap();
    (0..3).for_each(|id| writer.send(job(id)));
    let trouble = writer.finish().unwrap();
    assert!(trouble.contains("fast enough"), "{trouble}");
    assert_eq!(stopped.load(Ordering::Relaxed), 1);
    assert_eq!(read(&path).len(), 0);
}

#[test]
fn what_waits_is_a_small_part_of_a_machine() {
    let waiting = MOST_WAITING / job(0).bytes();
    assert!((30_000..200_000).contains(&waiting), "{waiting} rows");
}
