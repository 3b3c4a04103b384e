//! Scrapes of real engines, and our own writing read back.

use goodput_record::{EngineSample, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::identity::EngineKind;

const VLLM: &str = include_str!("../../tests/fixtures/captures/vllm/metrics_under_preemption.prom");
const LLAMA: &str =
    include_str!("../../tests/fixtures/captures/llama.cpp/get_metrics_under_load_np1.http");

const AT: Timestamp = Timestamp::from_millis(5);

fn sample(text: &str) -> EngineSample {
    engine_sample(text, AT, 3)
}

#[test]
fn vllm_tells_everything() {
    assert_eq!(engine_of(VLLM), EngineKind::Vllm);
    let expected = EngineSample {
        at: AT,
        replica: 3,
        running: Some(8),
        waiting: Some(0),
        kv_used: Some(0.744_680_851_063_829_9),
        preemptions: Some(0),
        prefix_queries: Some(850),
        prefix_hits: Some(0),
        requests_ended: Some(12),
        started_unix_s: None,
    };
    assert_eq!(sample(VLLM), expected);
}

#[test]
fn llama_cpp_has_no_kv_gauge_and_no_preemption_counter() {
    assert_eq!(engine_of(LLAMA), EngineKind::LlamaCpp);
    let expected = EngineSample {
        at: AT,
        replica: 3,
        running: Some(1),
        waiting: Some(4),
        kv_used: None,
        preemptions: None,
        prefix_queries: Some(29),
        prefix_hits: Some(0),
        requests_ended: None,
        started_unix_s: None,
    };
    assert_eq!(sample(LLAMA), expected);
    // Its prompt tokens leave the cached ones out.
    let warm = "llamacpp:prompt_tokens_total 29\nllamacpp:prompt_tokens_cached_total 24\n";
    assert_eq!(
        (sample(warm).prefix_queries, sample(warm).prefix_hits),
        (Some(53), Some(24))
    );
    let old = sample("llamacpp:prompt_tokens_total 29\nllamacpp:kv_cache_usage_ratio 0.25\n");
    assert_eq!((old.prefix_queries, old.kv_used), (None, Some(0.25)));
}

#[test]
fn other_engines_names_are_known() {
    let sglang = "sglang:num_running_reqs{model_name=\"m\"} 3.0\nsglang:num_queue_reqs{} 2\n\
        sglang:token_usage 0.28\nsglang:num_retracted_requests_total 4\n\
        sglang:prompt_tokens_total 8.128902e+06\n\
        sglang:cached_tokens_total{cache_source=\"device\"} 100\n\
        sglang:cached_tokens_total{cache_source=\"host\"} 20\n";
    let seen = sample(sglang);
    assert_eq!(engine_of(sglang), EngineKind::Sglang);
    assert_eq!(
        (seen.running, seen.waiting, seen.kv_used),
        (Some(3), Some(2), Some(0.28))
    );
    assert_eq!(
        (seen.preemptions, seen.prefix_queries),
        (Some(4), Some(8_128_902))
    );
    assert_eq!((seen.prefix_hits, seen.requests_ended), (Some(120), None));
    let tgi = sample(
        "tgi_queue_size 7\ntgi_batch_current_size 4\ntgi_request_success{method=\"prefill\"} 9\n",
    );
    assert_eq!(
        (tgi.running, tgi.waiting, tgi.requests_ended),
        (Some(4), Some(7), Some(9))
    );
    assert_eq!(
        (tgi.kv_used, tgi.preemptions, tgi.prefix_hits),
        (None, None, None)
    );
    let triton = "nv_trt_llm_request_metrics{model=\"t\",request_type=\"waiting\",version=\"1\"} 5\n\
        nv_trt_llm_request_metrics{model=\"t\",request_type=\"scheduled\"} 2\n\
        nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"used\"} 40\n\
        nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\"} 0.5\n";
    let seen = sample(triton);
    assert_eq!(engine_of(triton), EngineKind::TensorRtLlm);
    assert_eq!(
        (seen.running, seen.waiting, seen.kv_used),
        (Some(2), Some(5), Some(0.5))
    );
    let serve = sample(
        "trtllm_kv_cache_utilization{model_name=\"l\"} 0.62\ntrtllm_num_requests_waiting 1\n",
    );
    assert_eq!(
        (serve.kv_used, serve.waiting, serve.running),
        (Some(0.62), Some(1), None)
    );
}

#[test]
fn ranks_are_summed_shares_averaged_and_renamed_series_counted_once() {
    let text = "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} 4\n\
        vllm:gpu_cache_usage_perc{engine=\"0\"} 0.9\n\
        vllm:kv_cache_usage_perc{engine=\"0\"} 0.2\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.4\n\
        vllm:gpu_cache_usage_perc{engine=\"1\"} 0.9\nvllm:num_requests_waiting NaN\n";
    let seen = sample(text);
    assert_eq!(seen.running, Some(7));
    assert!((seen.kv_used.unwrap() - 0.3).abs() < 1e-12);
    assert_eq!(seen.waiting, None, "NaN is no number");
}

#[test]
fn labels_with_braces_quotes_and_commas_are_read() {
    let line = r#"a_b:c{x="1,}{",model="say \"hi\" \\",z="9"} 1.5e3 1700000000"#;
    let metric = metrics(line).next().unwrap();
    assert_eq!((metric.name, metric.value), ("a_b:c", 1500.0));
    assert_eq!(metric.label("x"), Some("1,}{"));
    assert_eq!(metric.label("model"), Some(r#"say \"hi\" \\"#));
    assert_eq!((metric.label("z"), metric.label("el")), (Some("9"), None));
    let broken = "# HELP x\n\nx\nx{\ny{a=\"} 1\nz{} \nw +Inf\n";
    let seen: Vec<_> = metrics(broken).map(|m| (m.name, m.value)).collect();
    assert_eq!(seen, [("w", f64::INFINITY)]);
}

fn histograms() -> [MetricHistogram; 6] {
    [
        Bounds::FirstToken,
        Bounds::Token,
        Bounds::Token,
        Bounds::Request,
        Bounds::Request,
        Bounds::Step,
    ]
    .map(MetricHistogram::new)
}

fn page(
    sample: EngineSample,
    [ttft, itl, tpot, e2e, queue, step_tokens]: &[MetricHistogram; 6],
) -> String {
    let mut out = String::new();
    let metrics = VllmMetrics {
        model_name: "my \"model\"",
        sample,
        prompt_tokens: 850,
        cached_tokens: 0,
        generation_tokens: 1796,
        ended: [0, 12, 0],
        rejected: 0,
        block_tokens: 32,
        kv_blocks: 48,
        prefix_cache: true,
        ttft,
        itl,
        tpot,
        e2e,
        queue,
        step_tokens,
    };
    write_vllm_metrics(&mut out, &[metrics]);
    out
}

#[test]
fn our_names_and_types_are_those_of_vllm() {
    let ours = page(sample(VLLM), &histograms());
    for line in ours.lines().filter(|line| line.starts_with("# TYPE")) {
        assert!(VLLM.contains(line), "{line}");
    }
    let name = |line: &str| line.split(['{', ' ']).next().unwrap().to_owned();
    for line in ours.lines().filter(|line| !line.starts_with('#')) {
        assert!(
            VLLM.lines().any(|theirs| name(theirs) == name(line)) || line.contains("_bucket"),
            "{line}"
        );
    }
    let bounds = |text: &str, name: &str| -> Vec<String> {
        let name = format!("vllm:{name}_bucket");
        metrics(text)
            .filter(|m| m.name == name)
            .map(|m| m.label("le").unwrap().to_owned())
            .collect()
    };
    for name in [
        "time_to_first_token_seconds",
        "inter_token_latency_seconds",
        "e2e_request_latency_seconds",
        "iteration_tokens_total",
    ] {
        // The largest step bucket depends on the engine's own limits.
        assert_eq!(bounds(&ours, name), bounds(VLLM, name), "{name}");
    }
}

#[test]
fn a_histogram_counts_upwards_and_includes_its_bounds() {
    let mut all = histograms();
    for seconds in [0.0005, 0.001, 0.0011, 3000.0] {
        all[0].observe(seconds);
    }
    all[1].observe_many(0.02, 5);
    let text = page(EngineSample::default(), &all);
    let bucket = |le: &str| {
        let found = metrics(&text).find(|m| {
            m.name == "vllm:time_to_first_token_seconds_bucket" && m.label("le") == Some(le)
        });
        found.unwrap().value
    };
    assert_eq!(
        (
            bucket("0.001"),
            bucket("0.005"),
            bucket("2560.0"),
            bucket("+Inf")
        ),
        (2.0, 3.0, 3.0, 4.0)
    );
    let count = metrics(&text).find(|m| m.name == "vllm:inter_token_latency_seconds_count");
    assert_eq!((count.unwrap().value, all[1].count()), (5.0, 5));
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        running in prop::option::of(0_u32..10_000),
        waiting in prop::option::of(0_u32..10_000),
        kv_used in prop::option::of(0.0..=1.0),
        preemptions in prop::option::of(0_u64..1 << 50),
        prefix in prop::option::of((0_u64..1 << 50, 0_u64..1 << 50)),
        started_unix_s in prop::option::of(1e9..3e9),
    ) {
        let written = EngineSample {
            at: AT, replica: 3, running, waiting, kv_used, preemptions,
            prefix_queries: prefix.map(|p| p.0), prefix_hits: prefix.map(|p| p.1),
            requests_ended: Some(12), started_unix_s,
        };
        prop_assert_eq!(sample(&page(written, &histograms())), written);
    }
}
