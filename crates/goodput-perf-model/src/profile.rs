//! What an engine is made from: the numbers of one model on one kind of GPU.

use std::num::NonZeroU32;

use goodput_config::{ConfigError, Problem, Reading, Spanned, TextError, read};
use serde::Deserialize;

use crate::step::{Experts, StepTime};

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
    bandwidth_bytes_per_s: Option<Spanned<f64>>,
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
    max_batched_tokens: Spanned<NonZeroU32>,
    chunked_prefill: bool,
    prefix_cache: bool,
    kv_blocks: NonZeroU32,
    block_tokens: NonZeroU32,
    context_limit: NonZeroU32,
}

/// Coefficients in units that give readable numbers; the unit is in the name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStepTime {
    overhead_us: Spanned<f64>,
    weights_us: Spanned<f64>,
    compute_us_per_token: Option<Spanned<f64>>,
    us_per_sequence: Option<Spanned<f64>>,
    ns_per_context_token: Option<Spanned<f64>>,
    us_per_prefill_token: Option<Spanned<f64>>,
    ns_per_prefill_pair: Option<Spanned<f64>>,
    experts: Option<RawExperts>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExperts {
    count: NonZeroU32,
    per_token: Spanned<NonZeroU32>,
    read_us: Spanned<f64>,
}

impl Raw {
    fn check(&self, problems: &mut Vec<Problem>) {
        self.step_time.check(problems);
        if let Some(bandwidth) = &self.bandwidth_bytes_per_s
            && !(bandwidth.get_ref().is_finite() && *bandwidth.get_ref() > 0.0)
        {
            let fact = format!("{} bytes per second", bandwidth.get_ref());
            let error = TextError::new(fact).expected("a number above 0");
            problems.push(error.at(bandwidth.span()));
        }
        let (batched, seqs) = (&self.engine.max_batched_tokens, self.engine.max_num_seqs);
        if *batched.get_ref() < seqs {
            let fact = format!(
                "a step of {} tokens cannot hold {seqs} sequences",
                batched.get_ref()
            );
            let error = TextError::new(fact).expected("at least max_num_seqs");
            problems.push(error.at(batched.span()));
        }
        let limit = self.engine.context_limit.get();
        if !self.engine.chunked_prefill && batched.get_ref().get() < limit {
            let fact = format!("a whole prompt of up to {limit} tokens does not fit into a step");
            let error = TextError::new(fact)
                .expected("at least context_limit, where chunked_prefill is off")
                .hint("raise max_batched_tokens, lower context_limit or turn chunked_prefill on");
            problems.push(error.at(batched.span()));
        }
    }

    fn profile(self) -> Profile {
        let engine = self.engine;
        Profile {
            name: self.name,
            model_id: self.model_id,
            gpu: self.gpu,
            gpus: self.gpus,
            precision: self.precision,
            source: self.source,
            step_time: self.step_time.seconds(),
            max_num_seqs: engine.max_num_seqs,
            max_batched_tokens: engine.max_batched_tokens.into_inner(),
            chunked_prefill: engine.chunked_prefill,
            prefix_cache: engine.prefix_cache,
            kv_blocks: engine.kv_blocks.get(),
            block_tokens: engine.block_tokens,
            context_limit: engine.context_limit.get(),
            weight_bytes: self.weight_bytes,
            bandwidth_bytes_per_s: self.bandwidth_bytes_per_s.map(Spanned::into_inner),
        }
    }
}

impl RawStepTime {
    fn check(&self, problems: &mut Vec<Problem>) {
        let coefficients = [
            Some(&self.overhead_us),
            Some(&self.weights_us),
            self.compute_us_per_token.as_ref(),
            self.us_per_sequence.as_ref(),
            self.ns_per_context_token.as_ref(),
            self.us_per_prefill_token.as_ref(),
            self.ns_per_prefill_pair.as_ref(),
            self.experts.as_ref().map(|e| &e.read_us),
        ];
        for value in coefficients.into_iter().flatten() {
            let number = *value.get_ref();
            if !(number.is_finite() && number >= 0.0) {
                let error = TextError::new(format!("a step cannot take {number}"));
                problems.push(error.expected("a number of 0 or more").at(value.span()));
            }
        }
        if let Some(e) = &self.experts
            && *e.per_token.get_ref() > e.count
        {
            let error = TextError::new(format!("there are only {} experts", e.count));
            problems.push(error.expected("at most `count`").at(e.per_token.span()));
        }
    }

    fn seconds(self) -> StepTime {
        let micros = |value: Spanned<f64>| value.into_inner() * 1e-6;
        let nanos = |value: Spanned<f64>| value.into_inner() * 1e-9;
        StepTime {
            overhead_s: micros(self.overhead_us),
            weights_s: micros(self.weights_us),
            experts: self.experts.map(|e| Experts {
                count: e.count.get(),
                per_token: e.per_token.into_inner().get(),
                read_s: micros(e.read_us),
            }),
            compute_s: self.compute_us_per_token.map_or(0.0, micros),
            sequence_s: self.us_per_sequence.map_or(0.0, micros),
            context_s: self.ns_per_context_token.map_or(0.0, nanos),
            prefill_s: self.us_per_prefill_token.map_or(0.0, micros),
            pair_s: self.ns_per_prefill_pair.map_or(0.0, nanos),
            ..StepTime::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalogue, KvMemory};

    #[test]
    fn every_builtin_profile_can_be_read_and_bears_its_name() {
        for (name, text) in BUILTIN {
            let profile = Profile::parse(name, text).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(profile.name, name);
            assert_eq!(Profile::builtin(name), Some(profile));
        }
        assert_eq!(Profile::builtin("gpt-9"), None);
        assert_eq!(Profile::builtin_names().next(), Some("laptop"));
    }

    #[test]
    fn every_builtin_profile_of_a_real_gpu_agrees_with_the_catalogue() {
        let catalogue = Catalogue::builtin().unwrap();
        let real = BUILTIN.iter().filter_map(|(name, _)| {
            let profile = Profile::builtin(name)?;
            (profile.weight_bytes.is_some()).then_some(profile)
        });
        for profile in real {
            let gpu = catalogue.accelerator(&profile.gpu).unwrap();
            let bandwidth = gpu.bandwidth_bytes_per_s * f64::from(profile.gpus.get());
            assert_eq!(
                profile.bandwidth_bytes_per_s,
                Some(bandwidth),
                "{}",
                profile.name
            );
            let floor = profile.weight_floor_s().unwrap();
            let time = &profile.step_time;
            let reads = time.weights_s + time.experts.map_or(0.0, |e| e.read_s);
            assert!(reads > 0.995 * floor, "{}: {reads} < {floor}", profile.name);
        }
    }

    #[test]
    fn kv_blocks_are_what_is_left_beside_the_weights() {
        let catalogue = Catalogue::builtin().unwrap();
        let check = |name, model, utilization, other_gib: u64, kv_bytes| {
            let profile = Profile::builtin(name).unwrap();
            let model = catalogue.model(model).unwrap();
            let gpus = profile.gpus.get();
            let memory = KvMemory {
                device_bytes: catalogue.accelerator(&profile.gpu).unwrap().memory_bytes,
                utilization,
                weight_bytes: profile.weight_bytes.unwrap() / u64::from(gpus),
                other_bytes: other_gib << 30,
            };
            let token = model.kv_shape().bytes_per_token_per_device(kv_bytes, gpus);
            assert_eq!(memory.blocks(token, 16), profile.kv_blocks, "{name}");
        };
        check("qwen3-8b-h100", "Qwen/Qwen3-8B", 0.9, 2, 2);
        check("qwen3-8b-h100-shared", "Qwen/Qwen3-8B", 0.35, 2, 2);
        check(
            "llama-3.1-8b-h200",
            "meta-llama/Meta-Llama-3.1-8B",
            0.9,
            2,
            2,
        );
        check("qwen3-32b-fp8-h200", "Qwen/Qwen3-32B", 0.9, 3, 2);
        check(
            "llama-3.3-70b-fp8-2xh100",
            "meta-llama/Meta-Llama-3.1-70B",
            0.9,
            4,
            1,
        );
        check("qwen3-30b-a3b-h100", "Qwen/Qwen3-30B-A3B", 0.9, 2, 2);
    }

    #[test]
    fn a_profile_says_all_that_is_wrong_with_it() {
        let text = BUILTIN[0].1;
        let text = text.replace("overhead_us = 1000", "overhead_us = -1");
        let text = text.replace("weights_us = 3000", "weights_us = nan");
        let text = text.replace("chunked_prefill = true", "chunked_prefill = false");
        let text = text.replace("kv_blocks", "kv_block");
        let refused = Profile::parse("mine.toml", &text).unwrap_err();
        let told = refused.render("mine.toml", &text, false);
        for part in ["did you mean `kv_blocks`?", "mine.toml"] {
            assert!(told.contains(part), "{part} in\n{told}");
        }
        let text = text.replace("kv_block ", "kv_blocks ");
        let refused = Profile::parse("mine.toml", &text).unwrap_err();
        assert_eq!(refused.problems.len(), 3, "{refused}");
    }
}
