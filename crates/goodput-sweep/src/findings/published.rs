//! Faults of published results, named: where the data are at hand, in the folder `published/` of the
//! one that the environment variable `GOODPUT_DATA` names. Without it the tests say so and hold
//! nothing.

use std::{collections::BTreeMap, path::PathBuf};

use goodput_ledger::{Mode, PointRow};

use crate::{HardwareFacts, HoldsFor, Question, answers, findings, tests::plain_row};

/// 8.03 G parameters of two bytes at 3.35 TB/s.
const LLAMA_8B_MS: f64 = 4.794;

type Record = BTreeMap<String, String>;

#[expect(
    clippy::disallowed_methods,
    reason = "what others published is not part of the project"
)]
fn records(name: &str) -> Option<Vec<Record>> {
    let Some(folder) = std::env::var_os("GOODPUT_DATA") else {
        println!("skipped: GOODPUT_DATA names no folder with published results");
        return None;
    };
    let path = PathBuf::from(folder).join("published").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines = text.lines();
    let heading: Vec<String> = lines
        .next()
        .unwrap()
        .split(',')
        .map(str::to_owned)
        .collect();
    let record = |line: &str| -> Record {
        let values = line.split(',').map(str::to_owned);
        heading.iter().cloned().zip(values).collect()
    };
    Some(lines.map(record).collect())
}

fn number(record: &Record, column: &str) -> f64 {
    record[column].parse().unwrap()
}

fn names(row: PointRow, weight_read_ms: f64) -> Vec<String> {
    let question = Question {
        objective: 0.9,
        e2e_at_tokens: 250,
    };
    let holds_for = HoldsFor {
        hardware: Some(HardwareFacts {
            accelerator: "H100-SXM".to_owned(),
            count: 1,
            weight_bits: 16,
            bits_known: true,
            weight_read_ms,
            source: "3.35 TB/s".to_owned(),
        }),
        ..HoldsFor::default()
    };
    let points = [row];
    let found = findings(&points, &answers(&points, question), &holds_for);
    found.into_iter().map(|f| f.name).collect()
}

/// The harness counted two stream events a token, and at the higher rates it was a closed loop.
#[test]
fn half_a_tpot_and_a_loop_that_is_not_open() {
    let Some(records) = records("inference_perf_kubecon.csv") else {
        return;
    };
    let mut half_named = 0;
    for record in &records {
        let rate = number(record, "rate_requested");
        let sent = (number(record, "rate_sent") / rate).min(1.0);
        let row = |tpot_ms| {
            let mut row = plain_row();
            (row.mode, row.concurrency) = (Mode::Open, None);
            (row.rate_req_s, row.sent_share) = (Some(rate), Some(sent));
            row.tpot_p50_ms = Some(tpot_ms);
            row
        };
        let has = |names: &[String], name: &str| names.iter().any(|n| n == name);
        let reported = names(
            row(number(record, "tpot_reported_median_s") * 1e3),
            LLAMA_8B_MS,
        );
        let decode_s = number(record, "e2e_mean_s") - number(record, "ttft_mean_s");
        let tokens = number(record, "output_len_mean") - 1.0;
        let truth = names(row(decode_s / tokens * 1e3), LLAMA_8B_MS);
        assert!(!has(&truth, "tpot-under-floor"), "{record:?}");
        assert_eq!(has(&truth, "open-loop-not-open"), sent < 0.98, "{record:?}");
        half_named += u32::from(has(&reported, "tpot-under-floor"));
    }
    // The stages at light load; at heavy load half of the truth is possible by itself.
    assert!(half_named >= 8, "{half_named} of {}", records.len());
    let variants = records.iter().filter(|r| number(r, "stage") == 0.0).count();
    assert_eq!(variants, 3);
}

/// All users start at once, and a run is five requests a user: the TTFT tail is that of the start.
#[test]
fn five_requests_a_user() {
    let Some(records) = records("silybench_sweep.csv") else {
        return;
    };
    let (mut few, mut under) = (0, 0);
    for record in &records {
        let users: u32 = record["concurrency"].parse().unwrap();
        let prompts: u64 = record["num_prompts"].parse().unwrap();
        let mut row = plain_row();
        row.concurrency = Some(users);
        row.in_flight_mean = f64::from(users);
        row.requests = prompts;
        row.checks.first_wave_measured = u64::from(users);
        row.tpot_p50_ms = Some(number(record, "tpot_p95_ms"));
        // 8.19 G parameters of two bytes.
        let found = names(row, 4.890);
        let has = |name: &str| found.iter().any(|n| n == name);
        let few_each = prompts < 20 * u64::from(users);
        assert_eq!(has("few-requests-per-user"), users > 1 && few_each);
        few += u32::from(has("few-requests-per-user"));
        under += u32::from(has("tpot-under-floor"));
    }
    assert!(few as usize * 2 > records.len(), "{few}");
    assert_eq!(under, 0, "no false alarm on true times");
}
