//! Every format is read, what cannot be is told, and facts come out right.

use std::{fmt::Write as _, num::NonZeroU32, sync::Arc};

use proptest::prelude::*;

use super::{KeyOfNames, ReadOptions, Trace, TraceError, TraceFormat};
use crate::{Load, Shard, Workload, WorkloadSpec};

const ODD_CHATS: &[u8] = include_bytes!("../../tests/fixtures/sharegpt-odd.json");
const MILLISECONDS: &[u8] = include_bytes!("../../tests/fixtures/trace-ms.csv");

fn read(text: &str) -> Result<Trace, TraceError> {
    Trace::read(text.as_bytes(), ReadOptions::default())
}

#[track_caller]
fn check(text: &str, format: TraceFormat, rows: &[(u64, u32, u32)]) -> Trace {
    let trace = read(text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(trace.format, format);
    let got: Vec<_> = trace
        .requests
        .iter()
        .map(|r| (r.arrival_ns / 1_000_000, r.input_tokens, r.output_tokens))
        .collect();
    assert_eq!(got, rows);
    trace
}

#[test]
fn every_format_is_told_and_read() {
    let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n\
        2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109\r\n";
    check(
        azure,
        TraceFormat::Azure,
        &[(0, 374, 44), (4_314, 396, 109)],
    );
    let azure_2024 = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
        2024-05-10 00:00:00+00:00,2162,5\n2024-05-10 00:00:00.017335+00:00,2399,6\n";
    check(
        azure_2024,
        TraceFormat::Azure,
        &[(0, 2162, 5), (17, 2399, 6)],
    );
    let burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
        5,ChatGPT,472,18,490,Conversation log\n45.5,GPT-4,1087,230,1317,API log\n\
        118,ChatGPT,417,0,417,Conversation log\n";
    let trace = check(
        burst,
        TraceFormat::BurstGpt,
        &[(0, 472, 18), (40_500, 1087, 230)],
    );
    assert_eq!(trace.skipped[0].row, 4);
    assert_eq!(trace.skipped_by_reason()["no answer: a failed request"], 1);
    let newer = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
        1,abc,2.5,GPT-4,10,4,14,Conversation log\n9,abc,3,GPT-4,30,5,35,Conversation log\n";
    let trace = check(newer, TraceFormat::BurstGpt, &[(0, 10, 4), (8_000, 30, 5)]);
    assert_eq!(trace.requests[1].session, Some(0));
    assert_eq!(trace.requests[0].duration_ns, Some(2_500_000_000));
    let plain = "arrival_s,input_tokens,output_tokens\n0.25,7,8\n0.125,5,6\n";
    check(plain, TraceFormat::Plain, &[(0, 5, 6), (125, 7, 8)]);
    let mooncake = r#"{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}
        {"timestamp": 30535, "input_length": 700, "output_length": 26, "hash_ids": [46, 2353]}"#;
    let trace = check(
        mooncake,
        TraceFormat::Mooncake,
        &[(0, 6955, 52), (3_053, 700, 26)],
    );
    assert_eq!(
        (trace.block_tokens, &*trace.requests[0].blocks),
        (Some(512), &[46, 47][..])
    );
    let bailian = r#"{"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 521, "output_length": 132, "type": "text", "turn": 1, "hash_ids": [1, 2]}
        {"chat_id": 160, "parent_chat_id": 159, "timestamp": 70.0, "input_length": 700, "output_length": 10, "type": "text", "turn": 2, "hash_ids": [1, 2, 3]}"#;
    let trace = check(
        bailian,
        TraceFormat::QwenBailian,
        &[(0, 521, 132), (8_886, 700, 10)],
    );
    assert_eq!(trace.block_tokens, Some(16));
    assert_eq!(trace.requests[0].session, trace.requests[1].session);
}

#[test]
fn own_records_are_a_trace() {
    use goodput_record::{
        Arrival, End, Outcome, Phase, RequestRow, RowContext, Series, Timestamp, TokenCount,
        testing,
    };
    let series = Series::default();
    let mut lines = String::new();
    for (i, step) in [(0_u64, 0), (1, 1)] {
        let arrival = Arrival {
            id: i,
            session: 4,
            steps: 2,
            step,
            planned_input_tokens: 100 + 50 * u32::from(step),
            planned_output_tokens: 30,
            ..testing::arrival(Timestamp::from_millis(2_000 + 5_000 * i))
        };
        let end = End {
            output_tokens: Some(TokenCount::Usage(20)),
            ..End::of(Outcome::Ok)
        };
        let ended = Timestamp::from_millis(3_500 + 5_000 * i);
        let record = testing::record(arrival, [], ended, end);
        let context = RowContext {
            run: "r",
            point: 0,
            series: &series,
            phase: Phase::Measured,
            verdicts: std::collections::BTreeMap::new(),
            keep_gaps: false,
            text: None,
            error: None,
        };
        lines += &serde_json::to_string(&RequestRow::new(&record, context)).unwrap();
        lines.push('\n');
    }
    let trace = check(
        &lines,
        TraceFormat::Records,
        &[(0, 100, 20), (5_000, 150, 20)],
    );
    let text = trace.convert("mine", KeyOfNames([1, 2]));
    let rows: Vec<&str> = text.lines().filter(|line| line.contains(" 20 ")).collect();
    assert_eq!(
        rows,
        ["0 100 20 0", "+3500000000 150 20 0"],
        "the answer took 1.5 of 5 s"
    );
}

/// Case O-WL-06: no digit of an instant is lost, whatever its form, and ties keep their order.
#[test]
fn instants_are_exact() {
    let trace = Trace::read(MILLISECONDS, ReadOptions::default()).unwrap();
    let at: Vec<u64> = trace.requests.iter().map(|r| r.arrival_ns).collect();
    assert_eq!(at, [0, 1_000_000, 8_000_000, 10_000_000, 1_000_250_000]);
    let forms = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
        2024-05-10 00:00:03,1,1\n\
        2024-05-10T00:00:01.000000002Z,2,1\n\
        2024-05-10 01:00:01.000000001+01:00,3,1\n\
        2024-05-10 00:00:03.00000000099,4,1\n\
        2024-05-09T23:59:59,5,1\n";
    let trace = read(forms).unwrap();
    let got: Vec<_> = trace
        .requests
        .iter()
        .map(|r| (r.arrival_ns, r.input_tokens))
        .collect();
    assert_eq!(
        got,
        [
            (0, 5),
            (2_000_000_001, 3),
            (2_000_000_002, 2),
            (4_000_000_000, 1),
            (4_000_000_000, 4)
        ]
    );
}

/// Case O-WL-04: every chat is used or counted with its reason, and too few are not stretched in
/// silence.
#[test]
fn odd_chats_are_counted_with_their_reasons() {
    let trace = Trace::read(ODD_CHATS, ReadOptions::default()).unwrap();
    assert_eq!(
        (trace.format, trace.requests.len()),
        (TraceFormat::ShareGpt, 2)
    );
    let skipped: Vec<_> = trace
        .skipped
        .iter()
        .map(|row| (row.id.as_deref().unwrap(), row.reason.as_str()))
        .collect();
    assert_eq!(
        skipped,
        [
            ("b", "no turns"),
            ("c", "no user turn"),
            ("e", "empty prompt"),
            ("f", "no turns")
        ]
    );
    // "d" carries its system text: 8 characters and 4 are 2 + 1 tokens by the rule of thumb.
    assert_eq!(trace.requests[1].input_tokens, 3);
    let text = trace.convert("odd", KeyOfNames([1, 2]));
    let spec = WorkloadSpec::parse("odd.toml", &text).unwrap();
    let error = spec.check_available(6).unwrap_err();
    assert_eq!((error.asked, error.available), (6, 2));
    let repeated = text.replace("repeat = false", "repeat = true");
    assert!((spec.repeat_share(6) - 4.0 / 6.0).abs() < 1e-12);
    assert!(spec.repeat_share(2).abs() < 1e-12);
    assert!(
        WorkloadSpec::parse("odd.toml", &repeated)
            .unwrap()
            .check_available(6)
            .is_ok()
    );
    let all = ReadOptions {
        all_turns: true,
        ..ReadOptions::default()
    };
    let trace = Trace::read(ODD_CHATS, all).unwrap();
    assert_eq!(trace.requests.len(), 3);
    assert_eq!(trace.requests[1].session, trace.requests[2].session);
    assert!(trace.requests[2].input_tokens > trace.requests[1].input_tokens);
}

#[test]
fn a_row_that_cannot_be_read_is_told_with_its_place() {
    let table = "arrival_s,input_tokens,output_tokens\n0,1,2\n1,many,2\n2,3,4\n3,3\n";
    let error = read(table).unwrap_err().to_string();
    assert_eq!(
        error,
        "csv trace, row 3: input tokens are `many`; expected a whole number"
    );
    let skip = ReadOptions {
        skip_broken: true,
        ..ReadOptions::default()
    };
    let trace = Trace::read(table.as_bytes(), skip).unwrap();
    assert_eq!(trace.requests.len(), 2);
    let rows: Vec<_> = trace
        .skipped
        .iter()
        .map(|row| (row.row, row.broken))
        .collect();
    assert_eq!(rows, [(3, true), (5, true)]);
    let lines =
        "{\"timestamp\": 1, \"input_length\": 4, \"output_length\": 4}\n{\"timestamp\": 2, \"inp\n";
    let error = read(lines).unwrap_err().to_string();
    assert!(
        error.starts_with("mooncake trace, row 2: EOF while parsing"),
        "{error}"
    );
    let error = read("<html>no such file</html>").unwrap_err().to_string();
    assert!(error.contains("<html>no such file"), "{error}");
    let error = read("arrival_s,input_tokens,output_tokens\n")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no request that can be replayed, of 0 rows"),
        "{error}"
    );
    let error = read("[{\"id\": 1, \"conversations\": [").unwrap_err();
    assert!(matches!(error, TraceError::Row { .. }));
    let wrong = ReadOptions {
        format: Some(TraceFormat::Azure),
        ..ReadOptions::default()
    };
    let renamed = table.replace("1,many,2\n", "").replace("3,3\n", "");
    let read = Trace::read(renamed.as_bytes(), wrong);
    assert!(
        read.is_ok(),
        "the columns are there, whatever they are called"
    );
    let error = Trace::read(b"a,b\n1,2\n", wrong).unwrap_err().to_string();
    assert!(error.contains("TIMESTAMP,ContextTokens"), "{error}");
}

#[test]
fn ticks_are_spread_in_order() {
    let mut lines = String::new();
    for i in 0..600_u64 {
        let timestamp = i / 10 * 3_000;
        writeln!(
            lines,
            "{{\"timestamp\": {timestamp}, \"input_length\": {}, \"output_length\": 1}}",
            i + 1
        )
        .unwrap();
    }
    let trace = read(&lines).unwrap();
    let first = trace.requests[0].arrival_ns;
    assert_eq!(first, 0);
    for (i, request) in trace.requests.iter().enumerate() {
        assert_eq!(
            request.input_tokens as usize,
            i + 1,
            "in the order of the file"
        );
    }
    let facts = trace.inspect();
    assert!(
        (facts.gap_cv.unwrap() - 1.0).abs() < 0.15,
        "{:?}",
        facts.gap_cv
    );
    assert!((facts.rate_req_s.unwrap() - 3.33).abs() < 0.1);
}

#[test]
fn facts_of_a_small_trace_are_exact() {
    let mut lines = String::new();
    for (at, input, output, blocks) in [
        (0, 1024, 10, "1,2"),
        (1_000, 1500, 20, "1,2,3"),
        (2_000, 600, 30, "4,5"),
        (3_500, 1024, 40, "1,2"),
    ] {
        writeln!(lines,
            "{{\"timestamp\": {at}, \"input_length\": {input}, \"output_length\": {output}, \"hash_ids\": [{blocks}]}}"
        ).unwrap();
    }
    let facts = read(&lines).unwrap().inspect();
    assert_eq!(facts.span_s, Some(3.5));
    assert_eq!(facts.rate_req_s, Some(3.0 / 3.5));
    assert!((facts.input_tokens.unwrap().p50 - 1024.0).abs() < 1e-9);
    let reuse = facts.reuse.unwrap();
    assert_eq!(reuse.distinct_blocks, Some(5));
    let reused = 2.0 * 1024.0 / (1024.0 + 1500.0 + 600.0 + 1024.0);
    assert!((reuse.unbounded_token_share - reused).abs() < 1e-12);
    let sessions = "arrival_s,input_tokens,output_tokens,session\n0,10,5,a\n1,9,1,b\n5,40,2,a\n";
    let facts = read(sessions).unwrap().inspect();
    assert_eq!((facts.sessions, facts.steps_mean), (Some(2), Some(1.5)));
    assert!((facts.reuse.unwrap().unbounded_token_share - 15.0 / 59.0).abs() < 1e-12);
}

/// What is converted has the arrivals, lengths and shared blocks, and not one name.
#[test]
fn a_converted_trace_plans_what_was_recorded() {
    let mut lines = String::new();
    for i in 0..40_u64 {
        writeln!(lines,
            "{{\"timestamp\": {}, \"input_length\": {}, \"output_length\": {}, \"hash_ids\": [7777, {}, {}]}}",
            i * 400 + i % 3,
            1_500,
            i + 1,
            8_000 + i % 5,
            9_000 + i
        ).unwrap();
    }
    let trace = read(&lines).unwrap();
    let text = trace.convert("small", KeyOfNames([11, 12]));
    assert!(!text.contains("7777") && !text.contains(&format!("{:x}", 7777)));
    assert_ne!(text, trace.convert("small", KeyOfNames([11, 13])));
    let spec = Arc::new(WorkloadSpec::parse("small", &text).unwrap());
    let rate = spec.recorded_rate().unwrap();
    assert!((rate - trace.inspect().rate_req_s.unwrap()).abs() < 1e-9);
    let load = Load::Open { per_second: rate };
    let mut workload = Workload::new(&spec, load, 5, Shard::WHOLE);
    let (mut cached, mut input) = (0, 0);
    for recorded in &trace.requests {
        let due = workload.next_due().unwrap();
        let planned = workload.take(due).unwrap();
        assert!(due.nanos().abs_diff(recorded.arrival_ns) <= 1);
        assert_eq!(planned.input_tokens, recorded.input_tokens);
        assert_eq!(planned.output_tokens, recorded.output_tokens);
        cached += planned.cached_tokens;
        input += planned.input_tokens;
        workload.ended(planned.session, due);
    }
    assert_eq!(workload.next_due(), None);
    assert!(workload.exhausted());
    let share = f64::from(cached) / f64::from(input);
    assert!((share - trace.inspect().reuse.unwrap().unbounded_token_share).abs() < 1e-12);
    let users = Load::Closed(NonZeroU32::new(3).unwrap());
    let mut workload = Workload::new(&spec, users, 5, Shard::WHOLE);
    let far = goodput_record::Timestamp::from_seconds(99.0);
    let lengths: Vec<_> = std::iter::from_fn(|| workload.take(far))
        .map(|r| r.output_tokens)
        .collect();
    assert_eq!(lengths, [1, 2, 3], "a closed loop takes the rows in order");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_bytes_bring_a_reader_down(
        head in prop::sample::select(vec![
            "", "[", "{", "TIMESTAMP,ContextTokens,GeneratedTokens\n",
            "{\"timestamp\": 1, \"input_length\": 4, \"output_length\": 4}\n",
            "{\"origin_ns\": 1}\n", "{\"conversations\": []}\n",
        ]),
        body in prop::collection::vec(any::<u8>(), 0..200),
        skip_broken in any::<bool>(),
    ) {
        let bytes = [head.as_bytes(), &body].concat();
        let _ = Trace::read(&bytes, ReadOptions { skip_broken, ..ReadOptions::default() });
    }

    #[test]
    fn conversion_and_reading_back_agree(
        rows in prop::collection::vec((0_u64..50_000, 1_u32..9_000, 1_u32..900, 0_u8..4), 1..40)
    ) {
        let mut table = "arrival_s,input_tokens,output_tokens,session\n".to_owned();
        for (at, input, output, session) in &rows {
            writeln!(table, "{}.{:03},{input},{output},{session}", at / 1_000, at % 1_000).unwrap();
        }
        let trace = read(&table).unwrap();
        let text = trace.convert("any", KeyOfNames([0, 0]));
        let spec = WorkloadSpec::parse("any", &text).unwrap();
        prop_assert_eq!(spec.available(), Some(rows.len() as u64));
        let sum: u64 = spec.describe().requests.into();
        prop_assert_eq!(sum, rows.len() as u64);
    }
}
