//! Facts of accelerators and models, each with its source.

use goodput_config::{ConfigError, Problem, Reading, Spanned, TextError, read};
use serde::{Deserialize, Serialize};

use super::KvShape;

/// One device, by its data sheet.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
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
    /// Dense fp4 peak in operations per second. `None`: it has no fp4, or the figure no source.
    pub fp4_flops: Option<f64>,
    /// Bandwidth to its neighbours in bytes per second, one way. `None`: no source.
    pub link_bytes_per_s: Option<f64>,
    /// Where the figures were read.
    pub source: String,
    /// What to know of them.
    pub note: Option<String>,
    /// Whether a figure comes from a third party that could not be checked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub low_confidence: bool,
}

/// The shape of one model.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
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
    /// Layers that keep a KV cache; `None`: all. Layers of linear attention or a state space keep
    /// none that grows.
    pub kv_layers: Option<u32>,
    /// Of the layers that keep a cache, how many look back over a window only; `None`: none.
    pub window_layers: Option<u32>,
    /// Tokens of that window.
    pub window_tokens: Option<u32>,
    /// Operations of one attention pair over all layers, where these are not four times heads and
    /// head size (latent attention).
    pub pair_operations: Option<u64>,
    /// Routed experts in a layer; `None` for a dense model.
    pub experts: Option<u32>,
    /// Of these, how many one token is sent to.
    pub experts_per_token: Option<u32>,
    /// Parameters of all routed experts of all layers.
    pub expert_parameters: Option<u64>,
    /// Of the parameters, the table that turns input tokens into vectors, where it is not the output's
    /// too: a token looks up one row of it. `None`: it is shared, or its size is not known.
    pub embedding_parameters: Option<u64>,
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
    /// What to know of it.
    pub note: Option<String>,
    /// Whether a figure is not computed from the shape: rounded, or from the model's name.
    #[serde(default, skip_serializing_if = "is_false")]
    pub low_confidence: bool,
}

impl ModelConfig {
    /// What a token leaves in the KV cache, every layer that keeps one keeping all of the context.
    /// An explicit head size comes first; hidden size over heads is only the fallback.
    #[must_use]
    pub fn kv_shape(&self) -> KvShape {
        self.kv_shape_of(self.kv_layers.unwrap_or(self.layers))
    }

    /// The same of the layers that read the whole context.
    #[must_use]
    pub fn full_kv_shape(&self) -> KvShape {
        let layers = self.kv_layers.unwrap_or(self.layers);
        self.kv_shape_of(layers.saturating_sub(self.window_layers.unwrap_or(0)))
    }

    /// The same of the layers with a window, and the tokens of this; `None` where there are none.
    #[must_use]
    pub fn window_kv_shape(&self) -> Option<(KvShape, u32)> {
        Some((self.kv_shape_of(self.window_layers?), self.window_tokens?))
    }

    fn kv_shape_of(&self, layers: u32) -> KvShape {
        match self.latent_values {
            Some(values) => KvShape::Latent { layers, values },
            None => KvShape::Heads {
                layers,
                kv_heads: self.kv_heads,
                head_dim: self.head_values(),
            },
        }
    }

    /// Values in a head.
    #[must_use]
    pub fn head_values(&self) -> u32 {
        self.head_dim.unwrap_or(self.hidden / self.heads.max(1))
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

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Facts of devices and models: the built-in ones, and what a user adds.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    /// Devices.
    pub accelerators: Vec<Accelerator>,
    /// Models.
    pub models: Vec<ModelConfig>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    accelerator: Vec<Spanned<Accelerator>>,
    #[serde(default)]
    model: Vec<Spanned<ModelConfig>>,
}

impl Catalogue {
    /// Reads the built-in catalogue. It fails only if the program was built from a broken one.
    pub fn builtin() -> Result<Self, ConfigError> {
        let mut catalogue = Self {
            accelerators: Vec::new(),
            models: Vec::new(),
        };
        let devices = include_str!("../catalogue/accelerators.toml");
        catalogue.with("accelerators.toml", devices)?;
        catalogue.with("models.toml", include_str!("../catalogue/models.toml"))?;
        Ok(catalogue)
    }

    /// Adds the `[[accelerator]]` and `[[model]]` tables of a text; one of a known name takes the
    /// place of what was known. `name` is the text's file, for errors; on one nothing is added.
    pub fn with(&mut self, name: &str, text: &str) -> Result<(), ConfigError> {
        let Reading { raw, mut problems } = read::<Raw>(text);
        for device in raw.iter().flat_map(|r| &r.accelerator) {
            device.get_ref().check(&device.span(), &mut problems);
        }
        for model in raw.iter().flat_map(|r| &r.model) {
            model.get_ref().check(&model.span(), &mut problems);
        }
        let Some(raw) = ConfigError::unless_empty(name, problems, raw)? else {
            return Ok(());
        };
        for device in raw.accelerator.into_iter().map(Spanned::into_inner) {
            let known = self.accelerators.iter_mut();
            match known.into_iter().find(|a| a.name == device.name) {
                Some(known) => *known = device,
                None => self.accelerators.push(device),
            }
        }
        for model in raw.model.into_iter().map(Spanned::into_inner) {
            match self.models.iter_mut().find(|m| m.name == model.name) {
                Some(known) => *known = model,
                None => self.models.push(model),
            }
        }
        Ok(())
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

/// Adds a problem of the entry `name` unless it `holds`.
fn demand(
    holds: bool,
    name: &str,
    what: &str,
    span: &std::ops::Range<usize>,
    problems: &mut Vec<Problem>,
) {
    if !holds {
        let error = TextError::new(format!("`{name}` cannot be: {what}"));
        problems.push(error.at(span.clone()));
    }
}

impl Accelerator {
    fn check(&self, span: &std::ops::Range<usize>, problems: &mut Vec<Problem>) {
        let speeds = [
            Some(self.bandwidth_bytes_per_s),
            self.bf16_flops,
            self.fp8_flops,
            self.fp4_flops,
            self.link_bytes_per_s,
        ];
        let positive = |v: f64| v.is_finite() && v > 0.0;
        let sound = speeds.into_iter().flatten().all(positive);
        let mut check = |holds, what| demand(holds, &self.name, what, span, problems);
        check(sound, "a speed is not a number above 0");
        check(self.memory_bytes > 0, "it has no memory");
    }
}

impl ModelConfig {
    fn check(&self, span: &std::ops::Range<usize>, problems: &mut Vec<Problem>) {
        let kept = self.kv_layers.unwrap_or(self.layers);
        let experts = (self.experts, self.experts_per_token, self.expert_parameters);
        let all_or_none = matches!(experts, (Some(_), Some(_), Some(_)) | (None, None, None));
        let mut check = |holds, what| demand(holds, &self.name, what, span, problems);
        check(
            self.layers > 0 && self.heads > 0 && self.kv_heads > 0 && self.head_values() > 0,
            "layers, heads, kv_heads and the head size are 1 or more",
        );
        check(
            self.active_parameters > 0 && self.active_parameters <= self.parameters,
            "active_parameters lie between 1 and parameters",
        );
        check(
            self.embedding_parameters.unwrap_or(0) < self.active_parameters,
            "embedding_parameters are some of the active_parameters",
        );
        check(
            all_or_none,
            "experts, experts_per_token and expert_parameters come together",
        );
        check(
            self.experts_per_token.unwrap_or(1) <= self.experts.unwrap_or(1)
                && self.experts_per_token != Some(0),
            "a token goes to at least one and at most all experts",
        );
        check(
            self.expert_parameters.unwrap_or(0) <= self.parameters,
            "experts have no more than all parameters",
        );
        check(
            kept <= self.layers && self.window_layers.unwrap_or(0) <= kept,
            "kv_layers are some of the layers, window_layers some of these",
        );
        check(
            self.window_layers.is_some() == self.window_tokens.is_some_and(|t| t > 0),
            "window_layers and window_tokens come together",
        );
    }
}
