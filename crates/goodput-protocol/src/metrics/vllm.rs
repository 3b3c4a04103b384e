//! vLLM's metrics, written: the names, types and labels of its V1 engine.

use std::fmt::{self, Write};

use goodput_record::EngineSample;

/// The bucket bounds of one of vLLM's histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// Time to first token, in seconds.
    FirstToken,
    /// Gaps between tokens and time per output token, in seconds.
    Token,
    /// Spans of a whole request, in seconds.
    Request,
    /// Tokens of one engine step.
    Step,
}

const FIRST_TOKEN: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
const TOKEN: [f64; 19] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];
const REQUEST: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];
const STEP: [f64; 13] = [
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0,
];

impl Bounds {
    const fn upper(self) -> &'static [f64] {
        match self {
            Self::FirstToken => &FIRST_TOKEN,
            Self::Token => &TOKEN,
            Self::Request => &REQUEST,
            Self::Step => &STEP,
        }
    }
}

/// A Prometheus histogram with the bounds of one of vLLM's.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricHistogram {
    bounds: Bounds,
    counts: Vec<u64>,
    count: u64,
    sum: f64,
}

impl MetricHistogram {
    /// An empty histogram.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.upper().len()],
            count: 0,
            sum: 0.0,
        }
    }

    /// Adds one value, in seconds or tokens.
    pub fn observe(&mut self, value: f64) {
        self.observe_many(value, 1);
    }

    /// Adds the same value `times` times.
    pub fn observe_many(&mut self, value: f64, times: u64) {
        let bucket = self.bounds.upper().iter().position(|bound| value <= *bound);
        if let Some(bucket) = bucket {
            self.counts[bucket] += times;
        }
        self.count += times;
        self.sum += value * times as f64;
    }

    /// How many values there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }
}

/// Everything one vLLM-like engine exposes.
#[derive(Clone, Debug)]
pub struct VllmMetrics<'a> {
    /// The model's name, a label of every series.
    pub model_name: &'a str,
    /// Gauges and counters; what is `None` is left out.
    pub sample: EngineSample,
    /// Prompt tokens of admitted requests, cached ones included.
    pub prompt_tokens: u64,
    /// Of these, tokens found in the prefix cache.
    pub cached_tokens: u64,
    /// Tokens generated.
    pub generation_tokens: u64,
    /// Requests that ended at their natural end, at their limit, by a client that left.
    pub ended: [u64; 3],
    /// Requests turned away because the queue was full.
    pub rejected: u64,
    /// Tokens of one KV block, and blocks of the cache.
    pub block_tokens: u32,
    /// Blocks of the KV cache.
    pub kv_blocks: u32,
    /// Whether prefixes are cached.
    pub prefix_cache: bool,
    /// Time to first token, with [`Bounds::FirstToken`].
    pub ttft: &'a MetricHistogram,
    /// Gaps between tokens, with [`Bounds::Token`].
    pub itl: &'a MetricHistogram,
    /// Time per output token of whole requests, with [`Bounds::Token`].
    pub tpot: &'a MetricHistogram,
    /// End-to-end time, with [`Bounds::Request`].
    pub e2e: &'a MetricHistogram,
    /// Time in the queue, with [`Bounds::Request`].
    pub queue: &'a MetricHistogram,
    /// Tokens of each engine step, with [`Bounds::Step`].
    pub step_tokens: &'a MetricHistogram,
}

/// Appends an exposition with vLLM's names and types to `out`: every family once, with the series of
/// each engine, which are numbered in order.
pub fn write_vllm_metrics(out: &mut String, engines: &[VllmMetrics<'_>]) {
    // Writing to a string cannot fail.
    let _ = Page::new(out, engines).write();
}

struct Page<'a, 'm> {
    out: &'a mut String,
    /// Each engine and the labels of all its series.
    engines: Vec<(String, &'a VllmMetrics<'m>)>,
}

impl<'a, 'm> Page<'a, 'm> {
    fn new(out: &'a mut String, engines: &'a [VllmMetrics<'m>]) -> Self {
        let labelled = engines.iter().enumerate().map(|(engine, metrics)| {
            let model = metrics.model_name.replace('\\', "\\\\");
            let model = model.replace('"', "\\\"").replace('\n', "\\n");
            (
                format!("engine=\"{engine}\",model_name=\"{model}\""),
                metrics,
            )
        });
        Self {
            out,
            engines: labelled.collect(),
        }
    }

    fn write(&mut self) -> fmt::Result {
        self.gauges()?;
        self.counters()?;
        self.histograms()?;
        self.cache_config()?;
        self.process()
    }

    /// The process that all engines share, so that the first one tells.
    fn process(&mut self) -> fmt::Result {
        let first = self.engines.first();
        let Some(started) = first.and_then(|(_, m)| m.sample.started_unix_s) else {
            return Ok(());
        };
        let name = "process_start_time_seconds";
        writeln!(
            self.out,
            "# HELP {name} Start time of the process since unix epoch in seconds.\n\
             # TYPE {name} gauge\n{name} {started:?}"
        )
    }

    fn gauges(&mut self) -> fmt::Result {
        self.single(
            "num_requests_running",
            "Number of requests in model execution batches.",
            "gauge",
            |m| m.sample.running.map(f64::from),
        )?;
        self.single(
            "num_requests_waiting",
            "Number of requests waiting to be processed.",
            "gauge",
            |m| m.sample.waiting.map(f64::from),
        )?;
        self.single(
            "kv_cache_usage_perc",
            "KV-cache usage. 1 means 100 percent usage.",
            "gauge",
            |m| m.sample.kv_used,
        )
    }

    fn counters(&mut self) -> fmt::Result {
        type Read = fn(&VllmMetrics<'_>) -> Option<u64>;
        let counters: [(&str, &str, Read); 6] = [
            (
                "num_preemptions_total",
                "Cumulative number of preemption from the engine.",
                |m| m.sample.preemptions,
            ),
            (
                "prefix_cache_queries_total",
                "Prefix cache queries, in terms of number of queried tokens.",
                |m| m.sample.prefix_queries,
            ),
            (
                "prefix_cache_hits_total",
                "Prefix cache hits, in terms of number of cached tokens.",
                |m| m.sample.prefix_hits,
            ),
            (
                "prompt_tokens_total",
                "Number of prefill tokens processed.",
                |m| Some(m.prompt_tokens),
            ),
            (
                "prompt_tokens_cached_total",
                "Number of cached prompt tokens (local + external).",
                |m| Some(m.cached_tokens),
            ),
            (
                "generation_tokens_total",
                "Number of generation tokens processed.",
                |m| Some(m.generation_tokens),
            ),
        ];
        for (name, help, read) in counters {
            self.single(name, help, "counter", |m| read(m).map(|value| value as f64))?;
        }
        let name = "request_success_total";
        self.head(name, "Count of successfully processed requests.", "counter")?;
        for (labels, m) in &self.engines {
            for (reason, ended) in ["stop", "length", "abort"].iter().zip(m.ended) {
                let label = format!("finished_reason=\"{reason}\"");
                series(self.out, name, labels, &label, ended as f64)?;
            }
        }
        let name = "admission_rejections_total";
        let help = "Number of admission attempts rejected by a queue limit, by reason.";
        self.head(name, help, "counter")?;
        for (labels, m) in &self.engines {
            let label = "reason=\"max_num_queued_reqs\"";
            series(self.out, name, labels, label, m.rejected as f64)?;
        }
        Ok(())
    }

    fn histograms(&mut self) -> fmt::Result {
        type Read = for<'x> fn(&'x VllmMetrics<'_>) -> &'x MetricHistogram;
        let histograms: [(&str, &str, Read); 6] = [
            (
                "iteration_tokens_total",
                "Histogram of number of tokens per engine_step.",
                |m| m.step_tokens,
            ),
            (
                "time_to_first_token_seconds",
                "Histogram of time to first token in seconds.",
                |m| m.ttft,
            ),
            (
                "inter_token_latency_seconds",
                "Histogram of inter-token latency in seconds.",
                |m| m.itl,
            ),
            (
                "request_time_per_output_token_seconds",
                "Histogram of time_per_output_token_seconds per request.",
                |m| m.tpot,
            ),
            (
                "e2e_request_latency_seconds",
                "Histogram of e2e request latency in seconds.",
                |m| m.e2e,
            ),
            (
                "request_queue_time_seconds",
                "Histogram of time spent in WAITING phase for request.",
                |m| m.queue,
            ),
        ];
        for (name, help, read) in histograms {
            self.head(name, help, "histogram")?;
            for (labels, m) in &self.engines {
                histogram(self.out, name, labels, read(m))?;
            }
        }
        Ok(())
    }

    fn cache_config(&mut self) -> fmt::Result {
        let name = "cache_config_info";
        self.head(name, "Information of the LLMEngine CacheConfig", "gauge")?;
        for (labels, m) in &self.engines {
            let tokens = u64::from(m.block_tokens) * u64::from(m.kv_blocks);
            let caching = if m.prefix_cache { "True" } else { "False" };
            let label = format!(
                "block_size=\"{}\",enable_prefix_caching=\"{caching}\",kv_cache_size_tokens=\"{tokens}\",num_gpu_blocks=\"{}\"",
                m.block_tokens, m.kv_blocks,
            );
            series(self.out, name, labels, &label, 1.0)?;
        }
        Ok(())
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) -> fmt::Result {
        writeln!(
            self.out,
            "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}"
        )
    }

    /// A metric of one series an engine; left out where there is no value.
    fn single(
        &mut self,
        name: &str,
        help: &str,
        kind: &str,
        read: impl Fn(&VllmMetrics<'_>) -> Option<f64>,
    ) -> fmt::Result {
        if self.engines.iter().all(|(_, m)| read(m).is_none()) {
            return Ok(());
        }
        self.head(name, help, kind)?;
        for (labels, m) in &self.engines {
            if let Some(value) = read(m) {
                series(self.out, name, labels, "", value)?;
            }
        }
        Ok(())
    }
}

fn series(out: &mut String, name: &str, labels: &str, label: &str, value: f64) -> fmt::Result {
    let comma = if label.is_empty() { "" } else { "," };
    let value = number(value);
    writeln!(out, "vllm:{name}{{{labels}{comma}{label}}} {value}")
}

fn histogram(out: &mut String, name: &str, labels: &str, of: &MetricHistogram) -> fmt::Result {
    let (bucket, mut below) = (format!("{name}_bucket"), 0);
    for (bound, count) in of.bounds.upper().iter().zip(&of.counts) {
        below += count;
        let label = format!("le=\"{}\"", number(*bound));
        series(out, &bucket, labels, &label, below as f64)?;
    }
    series(out, &bucket, labels, "le=\"+Inf\"", of.count as f64)?;
    series(out, &format!("{name}_count"), labels, "", of.count as f64)?;
    series(out, &format!("{name}_sum"), labels, "", of.sum)
}

/// A number as Python's client writes it: with a decimal point.
fn number(value: f64) -> String {
    format!("{value:?}")
}
