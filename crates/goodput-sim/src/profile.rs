//! What an engine is made from: the numbers of one model on one kind of GPU.

use std::num::NonZeroU32;

use serde::Deserialize;
use thiserror::Error;

use crate::perf_model::{Experts, StepTime};

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
    /// Most sequences in the running batch.
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
}

/// Why a profile cannot be used: every problem found, one a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("profile {name}: {}", problems.join("; "))]
pub struct ProfileError {
    /// The profile's or file's name.
    pub name: String,
    /// What is wrong, and what was expected.
    pub problems: Vec<String>,
}

const BUILTIN: [(&str, &str); 7] = [
    ("laptop", include_str!("../profiles/laptop.toml")),
    (
        "qwen3-8b-h100",
        include_str!("../profiles/qwen3-8b-h100.toml"),
    ),
    (
        "qwen3-8b-h100-shared",
        include_str!("../profiles/qwen3-8b-h100-shared.toml"),
    ),
    (
        "llama-3.1-8b-h200",
        include_str!("../profiles/llama-3.1-8b-h200.toml"),
    ),
    (
        "qwen3-32b-fp8-h200",
        include_str!("../profiles/qwen3-32b-fp8-h200.toml"),
    ),
    (
        "llama-3.3-70b-fp8-2xh100",
        include_str!("../profiles/llama-3.3-70b-fp8-2xh100.toml"),
    ),
    (
        "qwen3-30b-a3b-h100",
        include_str!("../profiles/qwen3-30b-a3b-h100.toml"),
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

    /// Reads a profile from TOML; `file` is named in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, ProfileError> {
        let raw: Raw = toml::from_str(text).map_err(|error| ProfileError {
            name: file.to_owned(),
            problems: vec![error.to_string().trim_end().to_owned()],
        })?;
        raw.check(file)
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: String,
    model_id: String,
    gpu: String,
    #[serde(default = "one")]
    gpus: NonZeroU32,
    precision: String,
    source: String,
    weight_bytes: Option<u64>,
    bandwidth_bytes_per_s: Option<f64>,
    engine: RawEngine,
    step_time: RawStepTime,
}

const fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEngine {
    max_num_seqs: NonZeroU32,
    max_batched_tokens: NonZeroU32,
    chunked_prefill: bool,
    prefix_cache: bool,
    kv_blocks: NonZeroU32,
    block_tokens: NonZeroU32,
    context_limit: NonZeroU32,
}

/// Coefficients in units that give readable numbers; the unit is in the name.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStepTime {
    overhead_us: f64,
    weights_us: f64,
    #[serde(default)]
    compute_us_per_token: f64,
    #[serde(default)]
    us_per_sequence: f64,
    #[serde(default)]
    ns_per_context_token: f64,
    #[serde(default)]
    us_per_prefill_token: f64,
    #[serde(default)]
    ns_per_prefill_pair: f64,
    experts: Option<RawExperts>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExperts {
    count: NonZeroU32,
    per_token: NonZeroU32,
    read_us: f64,
}

impl Raw {
    fn check(self, file: &str) -> Result<Profile, ProfileError> {
        let engine = &self.engine;
        let mut problems = self.step_time.problems();
        let bytes = u64::from(engine.kv_blocks.get()) * u64::from(engine.block_tokens.get());
        if bytes < 2 {
            problems.push("engine.kv_blocks: the cache holds less than two tokens".to_owned());
        }
        if let Some(bandwidth) = self.bandwidth_bytes_per_s
            && !(bandwidth.is_finite() && bandwidth > 0.0)
        {
            problems.push(format!(
                "bandwidth_bytes_per_s = {bandwidth}: expected a number above 0"
            ));
        }
        if !problems.is_empty() {
            let name = file.to_owned();
            return Err(ProfileError { name, problems });
        }
        Ok(Profile {
            name: self.name,
            model_id: self.model_id,
            gpu: self.gpu,
            gpus: self.gpus,
            precision: self.precision,
            source: self.source,
            step_time: self.step_time.seconds(),
            max_num_seqs: engine.max_num_seqs,
            max_batched_tokens: engine.max_batched_tokens,
            chunked_prefill: engine.chunked_prefill,
            prefix_cache: engine.prefix_cache,
            kv_blocks: engine.kv_blocks.get(),
            block_tokens: engine.block_tokens,
            context_limit: engine.context_limit.get(),
            weight_bytes: self.weight_bytes,
            bandwidth_bytes_per_s: self.bandwidth_bytes_per_s,
        })
    }
}

impl RawStepTime {
    fn problems(&self) -> Vec<String> {
        let fields = [
            ("overhead_us", self.overhead_us),
            ("weights_us", self.weights_us),
            ("compute_us_per_token", self.compute_us_per_token),
            ("us_per_sequence", self.us_per_sequence),
            ("ns_per_context_token", self.ns_per_context_token),
            ("us_per_prefill_token", self.us_per_prefill_token),
            ("ns_per_prefill_pair", self.ns_per_prefill_pair),
            ("experts.read_us", self.experts.map_or(0.0, |e| e.read_us)),
        ];
        let mut problems: Vec<String> = fields
            .into_iter()
            .filter(|(_, value)| !(value.is_finite() && *value >= 0.0))
            .map(|(name, value)| {
                format!("step_time.{name} = {value}: expected a number of 0 or more")
            })
            .collect();
        if let Some(e) = self.experts
            && e.per_token > e.count
        {
            problems.push(format!(
                "step_time.experts.per_token = {}: there are only {} experts",
                e.per_token, e.count
            ));
        }
        problems
    }

    fn seconds(self) -> StepTime {
        StepTime {
            overhead_s: self.overhead_us * 1e-6,
            weights_s: self.weights_us * 1e-6,
            experts: self.experts.map(|e| Experts {
                count: e.count.get(),
                per_token: e.per_token.get(),
                read_s: e.read_us * 1e-6,
            }),
            compute_s: self.compute_us_per_token * 1e-6,
            sequence_s: self.us_per_sequence * 1e-6,
            context_s: self.ns_per_context_token * 1e-9,
            prefill_s: self.us_per_prefill_token * 1e-6,
            pair_s: self.ns_per_prefill_pair * 1e-9,
        }
    }
}
