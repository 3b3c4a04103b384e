//! Files as the tools wrote them (`samples/README.md`): what is read in has the figures that the tool
//! itself printed, wherever both mean the same.

use std::path::{Path, PathBuf};

use goodput_record::RequestRow;
use serde_json::Value;

use super::{Got, evidence, import, slos};
use crate::import::ImportAsk;

fn sample(name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("src/import/tests/samples").join(name)
}

/// What a tool wrote beside its requests.
fn json(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(sample(name)).unwrap()).unwrap()
}

fn read(name: &str) -> Got {
    let slos = slos("ttft=8ms,tpot=4.3ms");
    import(&[sample(name)], &ImportAsk::default(), &slos).unwrap()
}

#[track_caller]
fn same(ours: Option<f64>, theirs: &Value) {
    let (ours, theirs) = (ours.unwrap(), theirs.as_f64().unwrap());
    assert!(
        (ours - theirs).abs() <= 1e-6 * theirs.abs() + 2e-6,
        "{ours} {theirs}"
    );
}

fn outcomes(got: &Got, point: usize) -> Vec<(&str, u64)> {
    let outcomes = got.points[point].outcomes.iter();
    outcomes.map(|(name, n)| (name.as_str(), *n)).collect()
}

/// From the send to the end, in ms.
fn to_the_end(row: &RequestRow) -> f64 {
    (row.end_ns - row.sent_ns.unwrap()) as f64 / 1e6
}

#[test]
fn vllm_bench_prints_the_same_latencies_and_the_same_goodput() {
    let (got, printed) = (read("vllm-0.32.0.json"), json("vllm-0.32.0.json"));
    let point = &got.points[0];
    for (ours, theirs) in [
        (point.ttft_p50_ms, "p50_ttft_ms"),
        (point.ttft_p99_ms, "p99_ttft_ms"),
        (point.tpot_p50_ms, "p50_tpot_ms"),
        (point.tpot_p99_ms, "p99_tpot_ms"),
        (point.tpot_mean_ms, "mean_tpot_ms"),
        (point.e2e_p50_ms, "p50_e2el_ms"),
        (point.e2e_p99_ms, "p99_e2el_ms"),
    ] {
        same(ours, &printed[theirs]);
    }
    let answers = [("failed", 2), ("ok", 18), ("rejected", 2), ("truncated", 2)];
    assert_eq!(outcomes(&got, 0), answers);
    assert_eq!(printed["completed"], 18);
    // Requests a second there, of a run with a duration of its own.
    let good = printed["request_goodput"].as_f64().unwrap() * printed["duration"].as_f64().unwrap();
    assert!(
        (point.first_slo().unwrap().met as f64 - good).abs() < 1e-6,
        "{good}"
    );
    assert_eq!((point.concurrency, point.valid), (Some(3), true));
    // The chunk with the role comes with the first token and is a gap of its own there.
    let first = got.requests[0].gap_ns.as_ref().unwrap();
    assert_eq!((first.len(), got.requests[0].output_tokens), (6, Some(6)));
}

#[test]
fn aiperf_prints_the_same_latencies_over_a_count_of_its_own() {
    let name = "aiperf-0.13.0/profile_export.jsonl";
    let (got, printed) = (read(name), json("aiperf-0.13.0/profile_export_aiperf.json"));
    let point = &got.points[0];
    for (ours, metric, theirs) in [
        (point.ttft_p50_ms, "time_to_first_token", "p50"),
        (point.ttft_p99_ms, "time_to_first_token", "p99"),
        (point.e2e_p50_ms, "request_latency", "p50"),
        (point.e2e_p99_ms, "request_latency", "p99"),
        (point.lengths.output_mean, "usage_completion_tokens", "avg"),
    ] {
        same(ours, &printed[metric][theirs]);
    }
    assert_eq!(
        (point.concurrency, got.model.as_deref()),
        (Some(3), Some("goodput/laptop"))
    );
    let errors = point.requests - point.outcomes["ok"];
    assert_eq!(printed["error_request_count"]["avg"], errors as f64);
    // The time between the first and the last token is the same, what it is divided by is not.
    let lines = std::fs::read_to_string(sample(name)).unwrap();
    for (line, row) in lines.lines().zip(&got.requests) {
        let told: Value = serde_json::from_str(line).unwrap();
        let value = |name: &str| told["metrics"][name]["value"].as_f64();
        let (Some(gap), Some(own)) = (
            value("inter_token_latency"),
            value("output_sequence_length"),
        ) else {
            continue;
        };
        assert_eq!(row.tokenizer_tokens.map(f64::from), Some(own));
        // Tokens that all came at one instant have no pace here; there it is 0.
        assert_eq!(row.one_burst, gap.abs() < f64::EPSILON);
        if row.one_burst {
            assert_eq!(row.tpot_ms, None);
            continue;
        }
        same(row.tpot_ms.map(|ms| ms * 5.0), &(gap * (own - 1.0)).into());
    }
    let told = evidence(&got, "another-tpot").unwrap();
    assert!(
        told.contains("187 in all; the server's usage has 72"),
        "{told}"
    );
}

#[test]
fn guidellm_of_either_form_has_the_same_latencies_of_every_request() {
    for (name, users, answers) in [
        ("guidellm-0.8.1.json", 3, vec![("ok", 10), ("rejected", 2)]),
        ("guidellm-0.3.1.json", 2, vec![("ok", 6)]),
    ] {
        let (got, printed) = (read(name), json(name));
        assert_eq!(got.points[0].concurrency, Some(users), "{name}");
        assert_eq!(outcomes(&got, 0), answers, "{name}");
        assert_eq!(got.model.as_deref(), Some("goodput/laptop"));
        let told = printed["benchmarks"][0]["requests"]["successful"]
            .as_array()
            .unwrap();
        for request in told {
            let row = got
                .requests
                .iter()
                .find(|r| request["request_id"] == r.id.as_str());
            let row = row.unwrap();
            // Its instants are seconds since 1970, of which the last digits are lost.
            let near = |ours: Option<f64>, theirs: &Value| {
                let off = ours.unwrap() - theirs.as_f64().unwrap();
                assert!(off.abs() < 1e-3, "{name}: {off}");
            };
            near(row.ttft_ms, &request["time_to_first_token_ms"]);
            near(row.tpot_ms, &request["inter_token_latency_ms"]);
            let seconds = request["request_latency"].as_f64().unwrap();
            near(Some(to_the_end(row)), &(seconds * 1e3).into());
        }
        assert!(evidence(&got, "another-tpot").is_some());
    }
}

#[test]
fn inference_perf_is_split_into_its_stages() {
    let got = read("inference-perf-0.7.0/per_request_lifecycle_metrics.json");
    let users: Vec<Option<u32>> = got.points.iter().map(|p| p.concurrency).collect();
    assert_eq!(users, [Some(2), Some(3)]);
    for (number, point) in got.points.iter().enumerate() {
        let stage = json(&format!(
            "inference-perf-0.7.0/stage_{number}_lifecycle_metrics.json"
        ));
        assert_eq!(stage["load_summary"]["count"], point.requests);
        assert_eq!(stage["successes"]["count"], point.outcomes["ok"]);
        let ttft = &stage["successes"]["latency"]["time_to_first_token"];
        for (ours, theirs) in [(point.ttft_p50_ms, "median"), (point.ttft_p99_ms, "p99")] {
            same(ours.map(|ms| ms / 1e3), &ttft[theirs]);
        }
        // Its latency runs to the end of the stream.
        let rows = got.requests.iter().filter(|r| r.point as usize == number);
        let ended = rows.filter(|r| r.ttft_ms.is_some()).map(to_the_end);
        let latest = ended.fold(0.0, f64::max);
        same(
            Some(latest / 1e3),
            &stage["successes"]["latency"]["request_latency"]["max"],
        );
    }
    let failed = got.requests.iter().filter(|r| r.ttft_ms.is_none());
    assert!(failed.clone().count() == 7 && failed.clone().all(|r| r.input_tokens.is_none()));
}

#[test]
fn llmperf_has_its_load_its_length_and_its_latencies() {
    let got = read("llmperf-f1d6bed/goodput-laptop_60_6_individual_responses.json");
    let printed = json("llmperf-f1d6bed/goodput-laptop_60_6_summary.json");
    let point = &got.points[0];
    assert_eq!(point.concurrency, Some(2));
    for (ours, theirs) in [
        (point.ttft_p50_ms, "results_ttft_s_quantiles_p50"),
        (point.ttft_p99_ms, "results_ttft_s_quantiles_p99"),
        (
            point.e2e_p50_ms,
            "results_end_to_end_latency_s_quantiles_p50",
        ),
        (
            point.e2e_p99_ms,
            "results_end_to_end_latency_s_quantiles_p99",
        ),
    ] {
        same(ours.map(|ms| ms / 1e3), &printed[theirs]);
    }
    assert_eq!(
        printed["results_num_completed_requests"],
        point.outcomes["ok"]
    );
    assert!(evidence(&got, "failures-may-be-missing").is_some());
    // Its clients pause between requests: without the run's own length it would look quick.
    let tokens: u32 = got.requests.iter().filter_map(|r| r.output_tokens).sum();
    let rate = f64::from(tokens) / point.window_s;
    same(
        Some(rate),
        &printed["results_mean_output_throughput_token_per_s"],
    );
}
