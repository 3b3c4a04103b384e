//! What an engine is made from: the numbers of one model on one kind of GPU.

use std::num::NonZeroU32;

use goodput_config::{ConfigError, Reading, TextError, read};

use crate::{CoefficientInterval, Derived, FittedOn, StepTime};
use file::Raw;

mod file;
mod knobs;
#[cfg(test)]
mod tests;

/// How an engine puts its batches together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// As vLLM: blocks of KV cache, preemption, a prefix cache that all share.
    #[default]
    Continuous,
    /// As llama.cpp: fixed slots, each with the KV cells of its last prompt, and no preemption.
    Slots {
        /// Whether all slots share the KV cells, and all requests fail when these run out; else
        /// each slot has its part.
        unified_kv: bool,
    },
}

/// The numbers of one replica.
///
/// The fields are open, so that one of them can be changed for a what-if; an engine made of any
/// values runs and ends, if only by refusing what cannot fit. What is read from TOML is checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name, as asked for on a command line.
    pub name: String,
    /// The served model's id.
    pub model_id: String,
    /// The accelerator's name in the catalogue, or of an imagined one.
    pub gpu: String,
    /// Accelerators of one replica.
    pub gpus: NonZeroU32,
    /// Of weights and arithmetic: `bf16`, `fp8`.
    pub precision: String,
    /// Where the numbers come from.
    pub source: String,
    /// The step time's coefficients.
    pub step_time: StepTime,
    /// By whose rules its batches are made.
    pub scheduler: Scheduler,
    /// Most sequences in the running batch; slots, where the scheduler has them.
    pub max_num_seqs: NonZeroU32,
    /// Most tokens in a step.
    pub max_batched_tokens: NonZeroU32,
    /// Whether a prompt may be computed in several steps.
    pub chunked_prefill: bool,
    /// Whether KV blocks of earlier prompts are reused.
    pub prefix_cache: bool,
    /// Blocks in the KV cache.
    pub kv_blocks: u32,
    /// Tokens in a block.
    pub block_tokens: NonZeroU32,
    /// Most tokens of prompt and answer together.
    pub context_limit: u32,
    /// Bytes of all weights over all accelerators; `None` for an imagined replica.
    pub weight_bytes: Option<u64>,
    /// Memory bandwidth of all accelerators together, in bytes per second.
    pub bandwidth_bytes_per_s: Option<f64>,
    /// Seconds from a client's send to the engine's first sight of the request: the way, HTTP,
    /// tokenizing. It is part of every TTFT and of no step.
    ///
    /// Nothing is kept for the way back. A cost for each token on its way out (46 us in BLIS's fits)
    /// cannot be told from `sequence_s` by what a client sees, and is part of it.
    pub ingest_s: f64,
    /// Tokens that the server puts around every prompt, its chat template: they are computed, kept and
    /// counted as the prompt's own, and no workload plans them.
    pub template_tokens: u32,
    /// What a fit says of the coefficients; empty where nothing was fitted.
    pub intervals: Vec<CoefficientInterval>,
    /// The loads a fit has seen; `None` where nothing was fitted.
    pub fitted_on: Option<FittedOn>,
    /// The facts it was computed from; `None` where it was fitted or written by hand.
    pub derived: Option<Box<Derived>>,
}

const BUILTIN: [(&str, &str); 7] = [
    ("laptop", include_str!("../../profiles/laptop.toml")),
    (
        "qwen3-8b-h100",
        include_str!("../../profiles/qwen3-8b-h100.toml"),
    ),
    (
        "qwen3-8b-h100-shared",
        include_str!("../../profiles/qwen3-8b-h100-shared.toml"),
    ),
    (
        "llama-3.1-8b-h200",
        include_str!("../../profiles/llama-3.1-8b-h200.toml"),
    ),
    (
        "qwen3-32b-fp8-h200",
        include_str!("../../profiles/qwen3-32b-fp8-h200.toml"),
    ),
    (
        "llama-3.3-70b-fp8-2xh100",
        include_str!("../../profiles/llama-3.3-70b-fp8-2xh100.toml"),
    ),
    (
        "qwen3-30b-a3b-h100",
        include_str!("../../profiles/qwen3-30b-a3b-h100.toml"),
    ),
];

impl Profile {
    /// The names of the built-in profiles, the default one first.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// A built-in profile; `None` if there is none of this name. (A test reads every one.)
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        let (name, text) = BUILTIN.iter().find(|b| b.0 == name)?;
        Self::parse(name, text).ok()
    }

    /// Reads a profile from TOML; `name` is its file's, for errors.
    #[expect(
        clippy::missing_panics_doc,
        reason = "a reading without a value has a problem"
    )]
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        let Reading { raw, mut problems } = read::<Raw>(text);
        if let Some(raw) = &raw {
            raw.check(&mut problems);
        }
        let raw = ConfigError::unless_empty(name, problems, raw)?;
        Ok(raw
            .expect("invariant: a reading without a value has a problem")
            .profile())
    }

    /// The profile as a file that [`Profile::parse`] reads back to the same bits.
    ///
    /// A coefficient stands in the readable unit of the shipped profiles where that loses nothing,
    /// else in seconds.
    #[expect(clippy::missing_panics_doc, reason = "see the invariant")]
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(&Raw::of(self))
            .expect("invariant: a profile is made of tables, numbers and texts")
    }

    /// Whether its limits fit each other, as [`Profile::parse`] checks them. For use after the last
    /// [`Profile::with`].
    pub fn check(&self) -> Result<(), TextError> {
        let limits = Limits {
            max_num_seqs: self.max_num_seqs.get(),
            max_batched_tokens: self.max_batched_tokens.get(),
            chunked_prefill: self.chunked_prefill,
            context_limit: self.context_limit,
        };
        limits.objections().next().map_or(Ok(()), Err)
    }

    /// Tokens the KV cache holds.
    #[must_use]
    pub fn kv_tokens(&self) -> u64 {
        u64::from(self.kv_blocks) * u64::from(self.block_tokens.get())
    }

    /// Seconds to read all weights once: of a dense model, no step is shorter. `None` where the
    /// bytes or the bandwidth are not known.
    #[must_use]
    pub fn weight_floor_s(&self) -> Option<f64> {
        Some(self.weight_bytes? as f64 / self.bandwidth_bytes_per_s?)
    }
}

/// The limits that must fit each other.
#[derive(Clone, Copy)]
struct Limits {
    max_num_seqs: u32,
    max_batched_tokens: u32,
    chunked_prefill: bool,
    context_limit: u32,
}

impl Limits {
    /// What is wrong with them; all of it is about `max_batched_tokens`.
    fn objections(self) -> impl Iterator<Item = TextError> {
        let (seqs, batched, limit) = (
            self.max_num_seqs,
            self.max_batched_tokens,
            self.context_limit,
        );
        let narrow = (batched < seqs).then(|| {
            TextError::new(format!(
                "a step of {batched} tokens cannot hold {seqs} sequences"
            ))
            .expected("at least max_num_seqs")
        });
        let unchunked = (!self.chunked_prefill && batched < limit).then(|| {
            TextError::new(format!(
                "a whole prompt of up to {limit} tokens does not fit into a step"
            ))
            .expected("at least context_limit, where chunked_prefill is off")
            .hint("raise max_batched_tokens, lower context_limit or turn chunked_prefill on")
        });
        narrow.into_iter().chain(unchunked)
    }
}
