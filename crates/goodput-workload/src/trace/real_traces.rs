//! Facts of real traces, where they are at hand: a folder with `traces/` in it, named by the
//! environment variable `GOODPUT_DATA`. Without it the tests say so and hold nothing.

use std::{io::Read as _, path::PathBuf, sync::Arc};

use super::{KeyOfNames, ReadOptions, Trace, TraceFacts, TraceFormat};
use crate::{Load, Shard, Workload, WorkloadSpec};

#[expect(
    clippy::disallowed_methods,
    reason = "the traces are too large to be part of the project"
)]
fn trace(name: &str) -> Option<Trace> {
    let Some(folder) = std::env::var_os("GOODPUT_DATA") else {
        println!("skipped: GOODPUT_DATA names no folder with traces");
        return None;
    };
    let path = PathBuf::from(folder).join("traces").join(name);
    let packed = std::fs::read(&path).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice())
        .read_to_end(&mut bytes)
        .unwrap();
    Some(Trace::read(&bytes, ReadOptions::default()).unwrap())
}

#[track_caller]
fn near(got: f64, known: f64, relative: f64) {
    assert!((got / known - 1.0).abs() <= relative, "{got} for {known}");
}

fn percentiles(facts: &TraceFacts) -> [[f64; 3]; 2] {
    [facts.input_tokens, facts.output_tokens].map(|p| p.map(|p| [p.p50, p.p90, p.p99]).unwrap())
}

/// By an independent computation over the same half of the trace.
#[test]
fn azure_conversation() {
    let Some(trace) = trace("azure2023_conv_first_half.csv.gz") else {
        return;
    };
    let facts = trace.inspect();
    assert_eq!((trace.format, facts.requests), (TraceFormat::Plain, 9_739));
    near(facts.rate_req_s.unwrap(), 5.561_883, 1e-6);
    near(facts.gap_cv.unwrap(), 1.0727, 1e-3);
    let known = [[1035.0, 4075.0, 4122.0], [140.0, 428.0, 611.62]];
    for (got, known) in percentiles(&facts)
        .iter()
        .flatten()
        .zip(known.iter().flatten())
    {
        near(*got, *known, 1e-9);
    }
    assert!(facts.length_correlation.unwrap().abs() < 0.2);
    assert!(
        facts.dispersion[2].index.unwrap() > 5.0,
        "bursts over a minute"
    );
}

#[test]
fn azure_code() {
    let Some(trace) = trace("azure2023_code_first_half.csv.gz") else {
        return;
    };
    let facts = trace.inspect();
    near(facts.rate_req_s.unwrap(), 3.137_535, 1e-6);
    near(facts.gap_cv.unwrap(), 13.6376, 1e-3);
    near(percentiles(&facts)[0][0], 1465.0, 1e-9);
    assert!(facts.length_correlation.unwrap().abs() < 0.1);
    assert!(facts.dispersion[1].index.unwrap() > 40.0);
}

#[test]
fn mooncake_conversation() {
    let Some(trace) = trace("mooncake_conversation_first_half.jsonl.gz") else {
        return;
    };
    let facts = trace.inspect();
    assert_eq!(
        (trace.format, facts.requests),
        (TraceFormat::Mooncake, 5_606)
    );
    near(facts.rate_req_s.unwrap(), 3.4, 0.1);
    near(facts.gap_cv.unwrap(), 1.0, 0.1);
    let [input, output] = percentiles(&facts);
    near(input[0], 7_650.0, 0.01);
    near(output[0], 356.0, 0.01);
    let reuse = facts.reuse.as_ref().unwrap();
    near(reuse.unbounded_token_share, 0.346_508, 1e-5);
    let shares = [
        (0, 1_000, 0.043_208),
        (1, 3_000, 0.064_132),
        (2, 10_000, 0.206_217),
    ];
    for (place, blocks, share) in shares.into_iter().chain([(3, 30_000, 0.313_301)]) {
        assert_eq!(reuse.by_cache[place].blocks, blocks);
        near(reuse.by_cache[place].block_share, share, 1e-4);
    }
    // Replayed, its plan has the reuse that was recorded.
    let text = trace.convert("mooncake", KeyOfNames([1, 2]));
    let spec = Arc::new(WorkloadSpec::parse("mooncake", &text).unwrap());
    let per_second = spec.recorded_rate().unwrap();
    let mut workload = Workload::new(&spec, Load::Open { per_second }, 1, Shard::WHOLE);
    let (mut cached, mut input) = (0_u64, 0_u64);
    while let Some(due) = workload.next_due() {
        let request = workload.take(due).unwrap();
        cached += u64::from(request.cached_tokens);
        input += u64::from(request.input_tokens);
        workload.ended(request.session, due);
    }
    near(
        cached as f64 / input as f64,
        reuse.unbounded_token_share,
        0.01,
    );
}
