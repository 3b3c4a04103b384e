//! Who answers: engine, version, model and limits, pieced together from what a server shows.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{answer::one_line, http::Head};

/// An inference engine.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// Hugging Face's Text Generation Inference.
    Tgi,
    /// llama.cpp's server.
    LlamaCpp,
    /// TensorRT-LLM.
    TensorRtLlm,
    /// Ollama.
    Ollama,
    /// goodput's own emulator.
    GoodputEmulator,
    /// Not known.
    #[default]
    Unknown,
}

impl EngineKind {
    /// The name people write.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
            Self::Tgi => "TGI",
            Self::LlamaCpp => "llama.cpp",
            Self::TensorRtLlm => "TensorRT-LLM",
            Self::Ollama => "Ollama",
            Self::GoodputEmulator => "goodput emulator",
            Self::Unknown => "unknown engine",
        }
    }
}

/// What is known of a server. `None` and empty: it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerIdentity {
    /// The engine.
    pub engine: EngineKind,
    /// Its version or build.
    pub version: Option<String>,
    /// The models it serves, in its order.
    pub models: Vec<String>,
    /// The longest context it takes, in tokens, of the first model.
    pub context_tokens: Option<u32>,
    /// Further facts that shape its speed (slots, weight format, file), by the server's names.
    pub flags: Vec<(String, String)>,
}

impl ServerIdentity {
    /// Adds what the head of any response tells.
    pub fn add_head(&mut self, head: &Head) {
        let Some(server) = &head.server else { return };
        let lower = server.to_ascii_lowercase();
        if lower.contains("goodput") {
            self.settle(EngineKind::GoodputEmulator);
            let version = server.split_once('/').map(|(_, version)| one_line(version));
            self.version = self.version.take().or(version);
        } else if lower.contains("llama.cpp") {
            self.settle(EngineKind::LlamaCpp);
        }
    }

    /// Adds the body of `GET /v1/models`. Whether it was one.
    pub fn add_models(&mut self, body: &[u8]) -> bool {
        let Ok(list) = serde_json::from_slice::<ModelList>(body) else {
            return false;
        };
        for model in &list.data {
            match model.owned_by.as_deref() {
                Some("vllm") => self.settle(EngineKind::Vllm),
                Some("sglang") => self.settle(EngineKind::Sglang),
                Some("llamacpp") => self.settle(EngineKind::LlamaCpp),
                Some("tensorrt_llm") => self.settle(EngineKind::TensorRtLlm),
                Some("goodput") => self.settle(EngineKind::GoodputEmulator),
                Some("library") => self.settle(EngineKind::Ollama),
                _ => {}
            }
            let context = model
                .max_model_len
                .or(model.meta.as_ref().and_then(|m| m.n_ctx));
            self.context_tokens = self.context_tokens.or(context);
            let format = model.meta.as_ref().and_then(|meta| meta.ftype.as_ref());
            self.flag("weights", format);
        }
        self.models = list.data.into_iter().map(|model| model.id).collect();
        true
    }

    /// Adds the body of `GET /version` (vLLM, SGLang, TensorRT-LLM, Ollama).
    pub fn add_version(&mut self, body: &[u8]) {
        if let Ok(version) = serde_json::from_slice::<Version>(body) {
            self.version = Some(one_line(&version.version));
        }
    }

    /// Adds the body of llama.cpp's `GET /props`.
    pub fn add_props(&mut self, body: &[u8]) {
        let Ok(props) = serde_json::from_slice::<Props>(body) else {
            return;
        };
        self.settle(EngineKind::LlamaCpp);
        let build = props.build_info.as_deref().map(one_line);
        self.version = build.or(self.version.take());
        let context = props.default_generation_settings.and_then(|s| s.n_ctx);
        self.context_tokens = context.or(self.context_tokens);
        self.flag("slots", Some(&props.total_slots.to_string()));
        self.flag("model_path", props.model_path.as_ref());
        self.flag("weights", props.model_ftype.as_ref());
    }

    /// Adds the body of TGI's `GET /info`, or of SGLang's `GET /get_server_info`.
    pub fn add_info(&mut self, body: &[u8]) {
        let Ok(info) = serde_json::from_slice::<Value>(body) else {
            return;
        };
        let text = |name: &str| info.get(name).map(plain);
        if info.get("model_id").is_some() && info.get("max_total_tokens").is_some() {
            self.settle(EngineKind::Tgi);
            self.context_tokens = info["max_total_tokens"]
                .as_u64()
                .and_then(|n| n.try_into().ok());
            self.models = text("model_id").into_iter().collect();
            for name in ["model_dtype", "model_sha", "max_concurrent_requests"] {
                self.flag(name, text(name).as_ref());
            }
        } else if info.get("model_path").is_some() {
            self.settle(EngineKind::Sglang);
            for name in [
                "tp_size",
                "dp_size",
                "quantization",
                "kv_cache_dtype",
                "max_running_requests",
            ] {
                self.flag(name, text(name).as_ref());
            }
        }
        let version = text("version").map(|version| one_line(&version));
        self.version = version.or(self.version.take());
    }

    /// Adds what the names in a scrape of `/metrics` tell, and vLLM's cache settings.
    pub fn add_metrics(&mut self, text: &str) {
        self.settle(crate::metrics::engine_of(text));
        let config = crate::metrics::metrics(text).find(|m| m.name == "vllm:cache_config_info");
        let Some(config) = config else { return };
        for name in [
            "block_size",
            "num_gpu_blocks",
            "cache_dtype",
            "enable_prefix_caching",
        ] {
            self.flag(name, config.label(name).map(str::to_owned).as_ref());
        }
    }

    /// Takes the engine's name, unless a better one is known: an emulator speaks as its model does.
    fn settle(&mut self, engine: EngineKind) {
        if self.engine == EngineKind::Unknown || engine == EngineKind::GoodputEmulator {
            self.engine = engine;
        }
    }

    fn flag(&mut self, name: &str, value: Option<&String>) {
        let Some(value) = value.filter(|value| !value.is_empty() && *value != "null") else {
            return;
        };
        if !self.flags.iter().any(|(known, _)| known == name) {
            self.flags.push((name.to_owned(), one_line(value)));
        }
    }
}

impl fmt::Display for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.engine.name())?;
        match &self.version {
            Some(version) => write!(f, " {version}"),
            None => Ok(()),
        }
    }
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_does_not_steer_the_terminal() {
        let mut identity = ServerIdentity::default();
        identity.add_version(br#"{"version":"1.0\u001b[2J\n"}"#);
        assert_eq!(identity.version.as_deref(), Some("1.0\u{fffd}[2J\u{fffd}"));
        identity.add_info(br#"{"model_path":"x","version":"2\u0007","quantization":"\u001b"}"#);
        assert_eq!(identity.version.as_deref(), Some("2\u{fffd}"));
        assert_eq!(identity.flags[0].1, "\u{fffd}");
    }
}

/// The answer to `GET /v1/models`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelList {
    /// The models.
    pub data: Vec<ModelCard>,
    /// Always `list`.
    #[serde(default)]
    pub object: String,
}

/// One model of a [`ModelList`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCard {
    /// The name to ask for.
    pub id: String,
    /// Always `model`.
    #[serde(default)]
    pub object: String,
    /// Seconds since 1970, as the server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<u64>,
    /// Who serves it; engines put their own name here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owned_by: Option<String>,
    /// The longest context, in tokens (vLLM, SGLang).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u32>,
    /// llama.cpp's facts of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<ModelMeta>,
}

/// llama.cpp's facts of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelMeta {
    /// The longest context, in tokens.
    #[serde(default)]
    pub n_ctx: Option<u32>,
    /// The weights' format.
    #[serde(default)]
    pub ftype: Option<String>,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct Props {
    total_slots: u32,
    default_generation_settings: Option<PropsSettings>,
    build_info: Option<String>,
    model_path: Option<String>,
    model_ftype: Option<String>,
}

#[derive(Deserialize)]
struct PropsSettings {
    n_ctx: Option<u32>,
}
