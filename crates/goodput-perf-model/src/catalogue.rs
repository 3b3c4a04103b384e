//! Facts of a few accelerators and models, each with its source.

use goodput_config::{ConfigError, parse};
use serde::Deserialize;

use super::KvShape;

/// One device, by its data sheet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accelerator {
    /// Its name, such as `H100-SXM`.
    pub name: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Memory bandwidth in bytes per second.
    pub bandwidth_bytes_per_s: f64,
    /// Dense bf16 peak in operations per second.
    pub bf16_flops: Option<f64>,
    /// Dense fp8 peak in operations per second. `None`: it has no fp8, or the figure no source.
    pub fp8_flops: Option<f64>,
    /// Where the figures were read.
    pub source: String,
    /// What to know of them.
    pub note: Option<String>,
}

/// The shape of one model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Its id on the Hugging Face hub.
    pub name: String,
    /// Layers.
    pub layers: u32,
    /// Hidden size.
    pub hidden: u32,
    /// Attention heads.
    pub heads: u32,
    /// Key-value heads.
    pub kv_heads: u32,
    /// Values in a head, where the config says so.
    pub head_dim: Option<u32>,
    /// Values a layer caches for a token under latent attention; `None` without it.
    pub latent_values: Option<u32>,
    /// Routed experts in a layer; `None` for a dense model.
    pub experts: Option<u32>,
    /// Of these, how many one token is sent to.
    pub experts_per_token: Option<u32>,
    /// Parameters of all routed experts of all layers.
    pub expert_parameters: Option<u64>,
    /// All parameters.
    pub parameters: u64,
    /// Parameters that one token goes through.
    pub active_parameters: u64,
    /// Bits of most weights as published, where these are not 16.
    pub weight_bits: Option<u32>,
    /// The longest context its config allows, in tokens.
    pub context_limit: u32,
    /// Where the shape was read.
    pub source: String,
}

impl ModelConfig {
    /// What a token leaves in the KV cache. An explicit head size comes first; hidden size over
    /// heads is only the fallback.
    #[must_use]
    pub fn kv_shape(&self) -> KvShape {
        let layers = self.layers;
        match self.latent_values {
            Some(values) => KvShape::Latent { layers, values },
            None => KvShape::Heads {
                layers,
                kv_heads: self.kv_heads,
                head_dim: self.head_dim.unwrap_or(self.hidden / self.heads.max(1)),
            },
        }
    }

    /// Bytes of all weights at `bytes_per_parameter`: what must fit into memory, whichever experts
    /// are woken.
    #[must_use]
    pub const fn weight_bytes(&self, bytes_per_parameter: u64) -> u64 {
        self.parameters * bytes_per_parameter
    }

    /// Seconds in which `count` of these devices read, at `bits` a weight, what one token goes
    /// through: no decode step is shorter, whatever the engine does.
    #[must_use]
    pub fn weight_read_s(&self, device: &Accelerator, count: u32, bits: u32) -> f64 {
        let bytes = self.active_parameters as f64 * f64::from(bits) / 8.0;
        bytes / (device.bandwidth_bytes_per_s * f64::from(count.max(1)))
    }

    /// Whether a server that calls its model `id` serves this one: the same name, apart from who
    /// publishes it, or followed only by words for a tuning, a date or a number format.
    fn is_served_as(&self, id: &str) -> bool {
        let (mine, theirs) = (plain_name(&self.name), plain_name(id));
        theirs.strip_prefix(&mine).is_some_and(|rest| {
            let same_word = rest.is_empty() || rest.starts_with('-');
            same_word && rest.split('-').all(is_variant)
        })
    }
}

/// The name without its publisher, in lower case.
fn plain_name(id: &str) -> String {
    let name = id.rsplit('/').next().unwrap_or(id).to_ascii_lowercase();
    let name = name.replace('_', "-");
    name.strip_prefix("meta-").unwrap_or(&name).to_owned()
}

/// Whether a word of a model's name changes no number of its parameters.
fn is_variant(word: &str) -> bool {
    const WORDS: [&str; 22] = [
        "", "instruct", "chat", "it", "base", "hf", "thinking", "bf16", "fp16", "fp8", "fp4",
        "nvfp4", "mxfp4", "int8", "int4", "awq", "gptq", "w8a8", "w8a16", "w4a16", "dynamic",
        "static",
    ];
    let date = word.len() >= 4 && word.bytes().all(|b| b.is_ascii_digit());
    date || WORDS.contains(&word)
}

/// The built-in facts.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    /// Devices.
    pub accelerators: Vec<Accelerator>,
    /// Models.
    pub models: Vec<ModelConfig>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Accelerators {
    accelerator: Vec<Accelerator>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Models {
    model: Vec<ModelConfig>,
}

impl Catalogue {
    /// Reads the built-in catalogue. It fails only if the program was built from a broken one.
    pub fn builtin() -> Result<Self, ConfigError> {
        Self::parse(
            include_str!("../catalogue/accelerators.toml"),
            include_str!("../catalogue/models.toml"),
        )
    }

    /// Reads a catalogue of the same form: the devices' file and the models' file.
    pub fn parse(accelerators: &str, models: &str) -> Result<Self, ConfigError> {
        Ok(Self {
            accelerators: parse::<Accelerators>("accelerators.toml", accelerators)?.accelerator,
            models: parse::<Models>("models.toml", models)?.model,
        })
    }

    /// The device of this name.
    #[must_use]
    pub fn accelerator(&self, name: &str) -> Option<&Accelerator> {
        self.accelerators.iter().find(|a| a.name == name)
    }

    /// The model that a server calls `id`. It is none where the name has a word more that may
    /// stand for other parameters (`DeepSeek-R1-Distill-Llama-8B`).
    #[must_use]
    pub fn model_served_as(&self, id: &str) -> Option<&ModelConfig> {
        self.models.iter().find(|m| m.is_served_as(id))
    }

    /// The model of this id.
    #[must_use]
    pub fn model(&self, name: &str) -> Option<&ModelConfig> {
        self.models.iter().find(|m| m.name == name)
    }
}
