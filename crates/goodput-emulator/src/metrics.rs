//! What a replica counts for its `/metrics`, beside its engine's own counters.

use goodput_perf_model::Profile;
use goodput_protocol::{Bounds, MetricHistogram, VllmMetrics, write_vllm_metrics};
use goodput_record::{EngineSample, Timestamp};
use goodput_sim::Counters;

use crate::{api::Finish, exchange::Exchange};

#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    /// Requests whose client left, or that a fault ended.
    pub(crate) aborted: u64,
    prompt_tokens: u64,
    stopped: u64,
    at_limit: u64,
    ttft: MetricHistogram,
    itl: MetricHistogram,
    tpot: MetricHistogram,
    e2e: MetricHistogram,
    queue: MetricHistogram,
    step_tokens: MetricHistogram,
    /// Steps and their tokens that are in `step_tokens`.
    steps: (u64, u64),
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            aborted: 0,
            prompt_tokens: 0,
            stopped: 0,
            at_limit: 0,
            ttft: MetricHistogram::new(Bounds::FirstToken),
            itl: MetricHistogram::new(Bounds::Token),
            tpot: MetricHistogram::new(Bounds::Token),
            e2e: MetricHistogram::new(Bounds::Request),
            queue: MetricHistogram::new(Bounds::Request),
            step_tokens: MetricHistogram::new(Bounds::Step),
            steps: (0, 0),
        }
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.since(from).map_or(0.0, |span| span.as_secs_f64())
}

impl Metrics {
    /// A choice joins the batch for the first time.
    pub(crate) fn admitted(&mut self, exchange: &Exchange, choice: usize, at: Timestamp) {
        self.prompt_tokens += u64::from(exchange.ask.choices[choice].input_tokens);
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
        let progress = &mut exchange.progress[choice];
        match progress.last {
            None => {
                progress.first = Some(at);
                self.ttft.observe(seconds(exchange.arrived, at));
            }
            Some(last) => {
                let gap = seconds(last, at) / f64::from(count.max(1));
                self.itl.observe_many(gap, u64::from(count));
            }
        }
        progress.last = Some(at);
    }

    /// The engine has begun all the steps it counts.
    pub(crate) fn stepped(&mut self, counters: &Counters) {
        let tokens = counters.prefill_tokens + counters.output_tokens;
        let steps = counters.steps - self.steps.0;
        if steps > 0 {
            let mean = (tokens - self.steps.1) as f64 / steps as f64;
            self.step_tokens.observe_many(mean, steps);
            self.steps = (counters.steps, tokens);
        }
    }

    /// Requests that the engine has finished and no connection of ours had asked for.
    fn strangers(&self, counters: &Counters) -> u64 {
        counters
            .finished
            .saturating_sub(self.stopped + self.at_limit)
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
            self.e2e.observe(seconds(exchange.arrived, last));
            if let Some(gaps) = choice.output_tokens.checked_sub(1).filter(|&gaps| gaps > 0) {
                self.tpot.observe(seconds(first, last) / f64::from(gaps));
            }
        }
    }
}

/// The text of `/metrics` over all replicas.
pub(crate) fn exposition<'a>(
    profile: &Profile,
    rejected: u64,
    replicas: impl Iterator<Item = (EngineSample, Counters, &'a Metrics)>,
) -> String {
    let engines: Vec<_> = replicas
        .map(|(sample, counters, metrics)| VllmMetrics {
            model_name: &profile.model_id,
            sample,
            prompt_tokens: metrics.prompt_tokens,
            cached_tokens: counters.prefix_hits,
            generation_tokens: counters.output_tokens,
            ended: [
                metrics.stopped + metrics.strangers(&counters),
                metrics.at_limit,
                metrics.aborted,
            ],
            rejected,
            block_tokens: profile.block_tokens.get(),
            kv_blocks: profile.kv_blocks,
            prefix_cache: profile.prefix_cache,
            ttft: &metrics.ttft,
            itl: &metrics.itl,
            tpot: &metrics.tpot,
            e2e: &metrics.e2e,
            queue: &metrics.queue,
            step_tokens: &metrics.step_tokens,
        })
        .collect();
    let mut out = String::with_capacity(16 * 1024 * engines.len());
    write_vllm_metrics(&mut out, &engines);
    out
}
