//! What a trace is like: rate, burstiness, lengths, how much of its prompts could be reused.

use std::collections::{BTreeMap, HashSet};

use goodput_stats::{cv, index_of_dispersion, pearson};
use serde::Serialize;

use super::{Trace, TraceRequest, lru::Lru};
use crate::facts::Percentiles;

/// What a trace is like. `None` is what it does not tell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceFacts {
    /// The format it was in.
    pub format: String,
    /// Requests that can be replayed.
    pub requests: u64,
    /// Rows that are not among them, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// From the first arrival to the last, in seconds; `None` without times.
    pub span_s: Option<f64>,
    /// Arrivals per second: gaps over the span.
    pub rate_req_s: Option<f64>,
    /// Coefficient of variation of the gaps between arrivals; 1 for a Poisson process.
    pub gap_cv: Option<f64>,
    /// Index of dispersion of counts: variance over mean in windows; 1 for a Poisson process.
    pub dispersion: Vec<BurstFacts>,
    /// Tokens of prompts.
    pub input_tokens: Option<Percentiles>,
    /// Tokens of answers.
    pub output_tokens: Option<Percentiles>,
    /// Pearson's correlation of the two; `None` if one does not vary.
    pub length_correlation: Option<f64>,
    /// Conversations, where the trace tells them.
    pub sessions: Option<u64>,
    /// Mean number of requests in one of them.
    pub steps_mean: Option<f64>,
    /// How much of the prompts earlier ones began with.
    pub reuse: Option<ReuseFacts>,
}

/// How much counts of arrivals vary, in windows of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BurstFacts {
    /// Length of a window, in seconds.
    pub window_s: u64,
    /// Variance over mean of the counts; `None` for fewer than two whole windows.
    pub index: Option<f64>,
}

/// How much of the prompts could have been read from a prefix cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReuseFacts {
    /// Tokens of a block; `None` where reuse is told from conversations, not from blocks.
    pub block_tokens: Option<u32>,
    /// Different blocks.
    pub distinct_blocks: Option<u64>,
    /// Share of all input tokens that a cache which never forgets would hold, 0 to 1.
    pub unbounded_token_share: f64,
    /// Caches of limited size that forget what was used longest ago, smallest first.
    pub by_cache: Vec<CacheFacts>,
}

/// One cache of limited size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CacheFacts {
    /// Blocks it holds.
    pub blocks: u64,
    /// Share of all blocks found in it, 0 to 1.
    pub block_share: f64,
    /// Share of all input tokens found in it, 0 to 1.
    pub token_share: f64,
}

/// Windows of the index of dispersion, in seconds.
const WINDOWS_S: [u64; 3] = [1, 10, 60];
/// Sizes of caches, in blocks; those that would hold everything are left out.
const CACHES: [u64; 7] = [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000];

impl Trace {
    /// What the trace is like.
    #[must_use]
    pub fn inspect(&self) -> TraceFacts {
        let requests = &self.requests;
        let lengths = |length: fn(&TraceRequest) -> u32| -> Vec<u64> {
            requests
                .iter()
                .map(|request| u64::from(length(request)))
                .collect()
        };
        let (input, output) = (lengths(|r| r.input_tokens), lengths(|r| r.output_tokens));
        let floats = |values: &[u64]| values.iter().map(|&v| v as f64).collect::<Vec<_>>();
        let times: Vec<u64> = requests.iter().map(|request| request.arrival_ns).collect();
        let times = if self.timed { times.as_slice() } else { &[] };
        let gaps: Vec<f64> = times
            .windows(2)
            .map(|t| (t[1] - t[0]) as f64 / 1e9)
            .collect();
        let span_s = times
            .last()
            .map(|&last| last as f64 / 1e9)
            .filter(|&span| span > 0.0);
        let sessions: HashSet<u32> = requests.iter().filter_map(|r| r.session).collect();
        let sessions = (!sessions.is_empty()).then_some(sessions.len() as u64);
        let skipped = self.skipped_by_reason().into_iter();
        TraceFacts {
            format: self.format.name().to_owned(),
            requests: requests.len() as u64,
            skipped: skipped
                .map(|(reason, count)| (reason.to_owned(), count))
                .collect(),
            span_s,
            rate_req_s: span_s.map(|span| gaps.len() as f64 / span),
            gap_cv: cv(&gaps),
            dispersion: dispersion(times),
            length_correlation: pearson(&floats(&input), &floats(&output)),
            input_tokens: Percentiles::of(input),
            output_tokens: Percentiles::of(output),
            steps_mean: sessions.map(|sessions| requests.len() as f64 / sessions as f64),
            sessions,
            reuse: match self.block_tokens {
                Some(tokens) => Some(self.reuse_of_blocks(tokens)),
                None => sessions.map(|_| self.reuse_of_sessions()),
            },
        }
    }

    fn input_tokens(&self) -> f64 {
        self.requests
            .iter()
            .map(|r| f64::from(r.input_tokens))
            .sum()
    }

    fn reuse_of_blocks(&self, block_tokens: u32) -> ReuseFacts {
        let blocks = self.requests.iter().flat_map(|r| r.blocks.iter());
        let distinct = blocks.collect::<HashSet<_>>().len() as u64;
        let unbounded = self.run_cache(distinct, block_tokens);
        let limited = CACHES.into_iter().filter(|&size| size < distinct);
        ReuseFacts {
            block_tokens: Some(block_tokens),
            distinct_blocks: Some(distinct),
            unbounded_token_share: unbounded.token_share,
            by_cache: limited
                .map(|size| self.run_cache(size, block_tokens))
                .collect(),
        }
    }

    fn run_cache(&self, size: u64, block_tokens: u32) -> CacheFacts {
        let mut cache = Lru::new(usize::try_from(size).unwrap_or(usize::MAX));
        let (mut found, mut all, mut tokens) = (0, 0, 0_u64);
        for request in &self.requests {
            let held = cache.request(&request.blocks);
            found += held;
            all += request.blocks.len();
            let held = held as u64 * u64::from(block_tokens);
            tokens += held.min(u64::from(request.input_tokens));
        }
        CacheFacts {
            blocks: size,
            block_share: found as f64 / all.max(1) as f64,
            token_share: tokens as f64 / self.input_tokens(),
        }
    }

    /// Without blocks only a conversation is known to repeat: its history, as long as it grows.
    fn reuse_of_sessions(&self) -> ReuseFacts {
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        let mut reused = 0;
        for request in &self.requests {
            let Some(session) = request.session else {
                continue;
            };
            let (input, output) = (
                u64::from(request.input_tokens),
                u64::from(request.output_tokens),
            );
            if let Some(history) = last.insert(session, input + output)
                && history < input
            {
                reused += history;
            }
        }
        ReuseFacts {
            block_tokens: None,
            distinct_blocks: None,
            unbounded_token_share: reused as f64 / self.input_tokens(),
            by_cache: Vec::new(),
        }
    }
}

fn dispersion(times_ns: &[u64]) -> Vec<BurstFacts> {
    let span = times_ns.last().copied().unwrap_or(0);
    let facts = WINDOWS_S.map(|window_s| {
        let window = window_s * 1_000_000_000;
        // A last window that is not whole would look like a lull.
        let whole = span / window;
        let mut counts = vec![0; usize::try_from(whole).unwrap_or(0)];
        for time in times_ns {
            if let Some(count) =
                counts.get_mut(usize::try_from(time / window).unwrap_or(usize::MAX))
            {
                *count += 1;
            }
        }
        BurstFacts {
            window_s,
            index: index_of_dispersion(&counts),
        }
    });
    facts.to_vec()
}
