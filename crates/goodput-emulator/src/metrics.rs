//! vLLM's metric names on `/metrics`.

use std::fmt::Write;

use goodput_record::{EngineSample, Timestamp};
use goodput_sim::{Counters, Profile};

use crate::{api::Finish, exchange::Exchange};

/// What one replica has counted beside its engine's own counters.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    /// Requests whose client left, or that a fault ended.
    pub(crate) aborted: u64,
    stopped: u64,
    at_limit: u64,
    ttft: Histogram,
    itl: Histogram,
    tpot: Histogram,
    e2e: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
    inference: Histogram,
    prompt_tokens: Histogram,
    generation_tokens: Histogram,
    preemptions: Histogram,
}

/// vLLM's bucket bounds.
const TTFT: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
const GAP: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];
const LATENCY: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];
const TOKENS: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0,
    20_000.0, 50_000.0, 100_000.0,
];
const PREEMPTIONS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0];

impl Default for Metrics {
    fn default() -> Self {
        Self {
            aborted: 0,
            stopped: 0,
            at_limit: 0,
            ttft: Histogram::new(TTFT),
            itl: Histogram::new(GAP),
            tpot: Histogram::new(GAP),
            e2e: Histogram::new(LATENCY),
            queue: Histogram::new(LATENCY),
            prefill: Histogram::new(LATENCY),
            decode: Histogram::new(LATENCY),
            inference: Histogram::new(LATENCY),
            prompt_tokens: Histogram::new(TOKENS),
            generation_tokens: Histogram::new(TOKENS),
            preemptions: Histogram::new(PREEMPTIONS),
        }
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.since(from).map_or(0.0, |span| span.as_secs_f64())
}

impl Metrics {
    /// A choice joins the batch for the first time.
    pub(crate) fn admitted(&mut self, exchange: &mut Exchange, choice: usize, at: Timestamp) {
        exchange.progress[choice].admitted = Some(at);
        self.queue.observe(seconds(exchange.arrived, at));
    }

    /// A choice has `count` more tokens.
    pub(crate) fn tokens(
        &mut self,
        exchange: &mut Exchange,
        choice: usize,
        at: Timestamp,
        count: u32,
    ) {
        let arrived = exchange.arrived;
        let progress = &mut exchange.progress[choice];
        match progress.last {
            None => {
                progress.first = Some(at);
                self.ttft.observe(seconds(arrived, at));
                let admitted = progress.admitted.unwrap_or(arrived);
                self.prefill.observe(seconds(admitted, at));
            }
            Some(last) => self
                .itl
                .observe(seconds(last, at) / f64::from(count.max(1))),
        }
        progress.last = Some(at);
    }

    /// Every choice of a request has ended.
    pub(crate) fn answered(&mut self, exchange: &Exchange) {
        for (choice, progress) in exchange.ask.choices.iter().zip(&exchange.progress) {
            match choice.finish {
                Finish::Length => self.at_limit += 1,
                Finish::Natural | Finish::StopString { .. } => self.stopped += 1,
            }
            let (Some(first), Some(last)) = (progress.first, progress.last) else {
                continue;
            };
            let admitted = progress.admitted.unwrap_or(exchange.arrived);
            self.e2e.observe(seconds(exchange.arrived, last));
            self.inference.observe(seconds(admitted, last));
            self.decode.observe(seconds(first, last));
            if let Some(gaps) = choice.output_tokens.checked_sub(1).filter(|&gaps| gaps > 0) {
                self.tpot.observe(seconds(first, last) / f64::from(gaps));
            }
            self.prompt_tokens.observe(f64::from(choice.input_tokens));
            self.generation_tokens
                .observe(f64::from(choice.output_tokens));
            self.preemptions.observe(f64::from(progress.preemptions));
        }
    }

    fn histograms(&self) -> [(&'static str, &Histogram); 11] {
        [
            ("time_to_first_token_seconds", &self.ttft),
            ("inter_token_latency_seconds", &self.itl),
            ("request_time_per_output_token_seconds", &self.tpot),
            ("e2e_request_latency_seconds", &self.e2e),
            ("request_queue_time_seconds", &self.queue),
            ("request_prefill_time_seconds", &self.prefill),
            ("request_decode_time_seconds", &self.decode),
            ("request_inference_time_seconds", &self.inference),
            ("request_prompt_tokens", &self.prompt_tokens),
            ("request_generation_tokens", &self.generation_tokens),
            ("request_num_preemptions", &self.preemptions),
        ]
    }
}

/// A Prometheus histogram.
#[derive(Clone, Debug)]
struct Histogram {
    bounds: &'static [f64],
    /// One a bound, and one for what is above them all; not summed up.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        }
    }

    fn observe(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }

    fn write(&self, out: &mut String, name: &str, labels: &str) -> std::fmt::Result {
        let mut count = 0;
        let bounds = self.bounds.iter().map(|bound| format!("{bound:?}"));
        for (bound, bucket) in bounds.chain([String::from("+Inf")]).zip(&self.counts) {
            count += bucket;
            writeln!(out, "vllm:{name}_bucket{{{labels},le=\"{bound}\"}} {count}")?;
        }
        writeln!(out, "vllm:{name}_count{{{labels}}} {count}")?;
        writeln!(out, "vllm:{name}_sum{{{labels}}} {}", self.sum)
    }
}

/// One replica's state for the exposition.
#[derive(Debug)]
pub(crate) struct Replica<'a> {
    pub(crate) sample: EngineSample,
    pub(crate) counters: &'a Counters,
    pub(crate) metrics: &'a Metrics,
}

/// The text of `/metrics`: every family once, each with a line for every replica.
pub(crate) fn exposition(profile: &Profile, replicas: &[Replica<'_>]) -> String {
    let mut out = String::with_capacity(16 * 1024 * replicas.len());
    write_exposition(&mut out, profile, replicas).expect("invariant: a String takes all text");
    out
}

fn write_exposition(
    out: &mut String,
    profile: &Profile,
    replicas: &[Replica<'_>],
) -> std::fmt::Result {
    let labels: Vec<String> = (0..replicas.len())
        .map(|engine| format!("engine=\"{engine}\",model_name=\"{}\"", profile.model_id))
        .collect();
    let mut family = |name: &str, kind: &str, value: &dyn Fn(&Replica<'_>) -> f64| {
        writeln!(out, "# TYPE vllm:{name} {kind}")?;
        for (replica, labels) in replicas.iter().zip(&labels) {
            writeln!(out, "vllm:{name}{{{labels}}} {:?}", value(replica))?;
        }
        Ok(())
    };
    gauges(&mut family)?;
    counters(&mut family)?;
    success(out, replicas, &labels)?;
    histograms(out, replicas, &labels)?;
    cache_config(out, profile, &labels)
}

type Family<'a> = dyn FnMut(&str, &str, &dyn Fn(&Replica<'_>) -> f64) -> std::fmt::Result + 'a;

fn gauges(family: &mut Family<'_>) -> std::fmt::Result {
    family("num_requests_running", "gauge", &|r| {
        f64::from(r.sample.running.unwrap_or(0))
    })?;
    family("num_requests_waiting", "gauge", &|r| {
        f64::from(r.sample.waiting.unwrap_or(0))
    })?;
    family("kv_cache_usage_perc", "gauge", &|r| {
        r.sample.kv_used.unwrap_or(0.0)
    })
}

fn counters(family: &mut Family<'_>) -> std::fmt::Result {
    family("num_preemptions_total", "counter", &|r| {
        r.counters.preemptions as f64
    })?;
    family("prefix_cache_queries_total", "counter", &|r| {
        r.counters.prefix_queries as f64
    })?;
    family("prefix_cache_hits_total", "counter", &|r| {
        r.counters.prefix_hits as f64
    })?;
    family("prompt_tokens_total", "counter", &|r| {
        r.counters.prefix_queries as f64
    })?;
    family("prompt_tokens_cached_total", "counter", &|r| {
        r.counters.prefix_hits as f64
    })?;
    family("generation_tokens_total", "counter", &|r| {
        r.counters.output_tokens as f64
    })
}

fn success(out: &mut String, replicas: &[Replica<'_>], labels: &[String]) -> std::fmt::Result {
    writeln!(out, "# TYPE vllm:request_success_total counter")?;
    for (replica, labels) in replicas.iter().zip(labels) {
        let reasons = [
            ("stop", replica.metrics.stopped),
            ("length", replica.metrics.at_limit),
            ("abort", replica.metrics.aborted),
            ("error", 0),
        ];
        for (reason, count) in reasons {
            let labels = format!("{labels},finished_reason=\"{reason}\"");
            writeln!(out, "vllm:request_success_total{{{labels}}} {count}")?;
        }
    }
    Ok(())
}

fn histograms(out: &mut String, replicas: &[Replica<'_>], labels: &[String]) -> std::fmt::Result {
    let Some(first) = replicas.first() else {
        return Ok(());
    };
    for (position, (name, _)) in first.metrics.histograms().into_iter().enumerate() {
        writeln!(out, "# TYPE vllm:{name} histogram")?;
        for (replica, labels) in replicas.iter().zip(labels) {
            let (_, histogram) = replica.metrics.histograms()[position];
            histogram.write(out, name, labels)?;
        }
    }
    Ok(())
}

fn cache_config(out: &mut String, profile: &Profile, labels: &[String]) -> std::fmt::Result {
    writeln!(out, "# TYPE vllm:cache_config_info gauge")?;
    let caching = if profile.prefix_cache {
        "True"
    } else {
        "False"
    };
    for (engine, _) in labels.iter().enumerate() {
        writeln!(
            out,
            "vllm:cache_config_info{{block_size=\"{}\",enable_prefix_caching=\"{caching}\",\
             engine=\"{engine}\",kv_cache_size_tokens=\"{}\",num_gpu_blocks=\"{}\"}} 1",
            profile.block_tokens,
            profile.kv_tokens(),
            profile.kv_blocks,
        )?;
    }
    Ok(())
}
