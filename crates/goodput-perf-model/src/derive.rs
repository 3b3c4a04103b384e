//! A profile from first principles: a model's shape on a device's data sheet.

use std::{fmt::Write as _, num::NonZeroU32};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Accelerator, Experts, KvMemory, KvShape, ModelConfig, Profile, StepTime, Window};

#[cfg(test)]
mod tests;

/// Number formats of weights and arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 16 bits for both; fp16 costs the same.
    Bf16,
    /// 8 bits for both.
    Fp8,
    /// 4 bits for both (NVFP4, MXFP4).
    Fp4,
    /// Weights of 8 bits, arithmetic of 16.
    W8a16,
    /// Weights of 4 bits, arithmetic of 16 (AWQ, GPTQ).
    W4a16,
}

impl Precision {
    /// The precision a name means: `bf16`, `fp8`, `nvfp4`, `awq` and so on.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "bf16" | "fp16" | "float16" | "bfloat16" => Self::Bf16,
            "fp8" | "w8a8" => Self::Fp8,
            "fp4" | "nvfp4" | "mxfp4" => Self::Fp4,
            "w8a16" | "int8" => Self::W8a16,
            "w4a16" | "int4" | "awq" | "gptq" => Self::W4a16,
            _ => return None,
        })
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Fp4 => "fp4",
            Self::W8a16 => "w8a16",
            Self::W4a16 => "w4a16",
        }
    }

    /// Bits of one weight. Scales of groups, and layers that stay at 16 bits, are not counted.
    #[must_use]
    pub const fn weight_bits(self) -> u32 {
        match self {
            Self::Bf16 => 16,
            Self::Fp8 | Self::W8a16 => 8,
            Self::Fp4 | Self::W4a16 => 4,
        }
    }

    const fn peak(self, device: &Accelerator) -> Option<f64> {
        match self {
            Self::Bf16 | Self::W8a16 | Self::W4a16 => device.bf16_flops,
            Self::Fp8 => device.fp8_flops,
            Self::Fp4 => device.fp4_flops,
        }
    }
}

/// What a data sheet does not say: how much of it an engine gets, and what else a step costs.
///
/// The defaults come from published measurements, named at each. They hold for one engine (vLLM on
/// NVIDIA GPUs) and are a first guess elsewhere; a fit on a few measured loads is better.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Assumptions {
    /// Share of the memory the engine may use, above 0 and at most 1. Default 0.9, as in vLLM.
    pub memory_utilization: f64,
    /// Bytes on each device for activations, graphs and the rest. Default 2 GiB.
    pub other_bytes: u64,
    /// Bytes of one value in the KV cache, 1 or 2. Default 2.
    pub kv_value_bytes: u32,
    /// Share of the memory bandwidth that reads of weights and KV get, above 0 and at most 1.
    /// Default 0.92: fits of Llama-70B and Qwen3-8B on H100 over published concurrency sweeps.
    pub bandwidth_share: f64,
    /// Share of the peak that matrix products get, above 0 and at most 1. Default 0.69: 22.1 us a
    /// prompt token of Qwen3-8B in bf16 on an H100 (silybench, concurrency 1), whose peak needs
    /// 15.3 us; it puts the end of the memory floor at 221 sequences, where 216 to 267 were seen.
    pub flops_share: f64,
    /// The same of attention over a prompt. Default 0.32: 1.84 ns a pair in the same data, whose
    /// peak needs 0.60 ns.
    pub attention_share: f64,
    /// Seconds of overhead a layer adds to every step. Default 61 us: 2.2 ms over the weight floor
    /// at 36 layers on one GPU (the same data).
    pub layer_overhead_s: f64,
    /// Seconds one all-reduce takes, however small. Default 7 us: Llama-70B (80 layers, two
    /// all-reduces each) has 6 ms of overhead on 2 to 8 GPUs, of which its layers explain 4.9 ms.
    pub all_reduce_s: f64,
    /// Seconds each decoding sequence adds. Default 9 us: the same fits.
    pub sequence_s: f64,
    /// Seconds from a client's send to the engine. Default 0: it depends on the server's machine.
    pub ingest_s: f64,
}

impl Default for Assumptions {
    fn default() -> Self {
        Self {
            memory_utilization: 0.9,
            other_bytes: 2 << 30,
            kv_value_bytes: 2,
            bandwidth_share: 0.92,
            flops_share: 0.69,
            attention_share: 0.32,
            layer_overhead_s: 61e-6,
            all_reduce_s: 7e-6,
            sequence_s: 9e-6,
            ingest_s: 0.0,
        }
    }
}

/// The facts a profile was computed from, so that it can be computed again for another number of
/// devices.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Derived {
    /// Of weights and arithmetic.
    pub precision: Precision,
    /// What was assumed.
    pub assumptions: Assumptions,
    /// The device.
    pub accelerator: Accelerator,
    /// The model.
    pub model: ModelConfig,
}

/// Why a model cannot be served so.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum DeriveError {
    /// The weights, and what else must be there, are larger than the memory.
    #[error(
        "{model} in {precision} needs {needs_gb:.1} GB on each of {gpus} x {accelerator}, which may use {has_gb:.1} GB"
    )]
    DoesNotFit {
        /// The model's name.
        model: String,
        /// The precision's name.
        precision: &'static str,
        /// The device's name.
        accelerator: String,
        /// How many there are.
        gpus: u32,
        /// Weights and the rest on one device, with one KV block, in GB of 10^9 bytes.
        needs_gb: f64,
        /// What the engine may use of one device's memory.
        has_gb: f64,
    },
    /// The device has no arithmetic of this kind, or its speed has no source.
    #[error(
        "the catalogue has no {precision} peak for {accelerator}: it lacks {precision}, or the figure has no source"
    )]
    NoPeak {
        /// The precision's name.
        precision: &'static str,
        /// The device's name.
        accelerator: String,
    },
    /// The heads cannot be shared out evenly.
    #[error(
        "{model} has {heads} attention heads and {kv_heads} KV heads: they cannot be split over {gpus} devices"
    )]
    Uneven {
        /// The model's name.
        model: String,
        /// Attention heads.
        heads: u32,
        /// KV heads.
        kv_heads: u32,
        /// Devices.
        gpus: u32,
    },
    /// Devices must talk to each other, and how fast they do is not known.
    #[error("the catalogue has no link speed for {accelerator}, which {gpus} of them need")]
    NoLink {
        /// The device's name.
        accelerator: String,
        /// Devices.
        gpus: u32,
    },
    /// An assumption is out of its range.
    #[error("{name} of {value} is out of range")]
    Assumption {
        /// The field of [`Assumptions`].
        name: &'static str,
        /// Its value.
        value: f64,
    },
}

impl DeriveError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::DoesNotFit { .. } => "take more devices, larger ones, or fewer bits a weight",
            Self::NoPeak { .. } => {
                "take another precision (weights alone can have fewer bits: w8a16, w4a16), or add the figure in a catalogue file of your own"
            }
            Self::Uneven { .. } => {
                "take a number of devices that divides the attention heads, and divides or is a multiple of the KV heads"
            }
            Self::NoLink { .. } => {
                "add link_bytes_per_s in a catalogue file of your own, or use one device"
            }
            Self::Assumption { .. } => "shares lie above 0 and at most 1, seconds are 0 or more",
        }
    }
}

impl Profile {
    /// The profile of `model` on `gpus` devices (tensor-parallel) from first principles: each
    /// coefficient is a number of bytes or operations over what the device does in a second. The
    /// derivation stands in [`Profile::source`].
    ///
    /// The engine's limits are vLLM's defaults: 256 sequences, 8192 tokens a step, chunked prefill,
    /// a prefix cache of blocks of 16. KV blocks are what the memory has beside the weights. Layers
    /// with a window are counted there as if they kept all of the context: an engine that frees
    /// what is out of the window has room for more.
    pub fn from_catalogue(
        model: &ModelConfig,
        accelerator: &Accelerator,
        gpus: NonZeroU32,
        precision: Precision,
        assumptions: &Assumptions,
    ) -> Result<Self, DeriveError> {
        let facts = Derived {
            precision,
            assumptions: *assumptions,
            accelerator: accelerator.clone(),
            model: model.clone(),
        };
        facts.profile(gpus)
    }
}

impl Derived {
    /// The profile these facts give on `gpus` devices.
    pub fn profile(&self, gpus: NonZeroU32) -> Result<Profile, DeriveError> {
        let (model, device) = (&self.model, &self.accelerator);
        self.assumptions.check()?;
        self.check_split(gpus.get())?;
        let step_time = self.step_time(gpus.get())?;
        let kv_blocks = self.kv_blocks(gpus.get())?;
        let short = model.name.rsplit('/').next().unwrap_or(&model.name);
        let count = match gpus.get() {
            1 => String::new(),
            n => format!("{n}x"),
        };
        let precision = self.precision.name();
        let name = format!("{short}-{precision}-{count}{}", device.name);
        Ok(Profile {
            name: name.to_ascii_lowercase(),
            model_id: model.name.clone(),
            gpu: device.name.clone(),
            gpus,
            precision: precision.to_owned(),
            source: self.told(&step_time, gpus.get(), kv_blocks),
            step_time,
            max_num_seqs: SEQUENCES,
            max_batched_tokens: BATCHED,
            chunked_prefill: true,
            prefix_cache: true,
            scheduler: crate::Scheduler::Continuous,
            kv_blocks,
            block_tokens: BLOCK,
            context_limit: model.context_limit,
            weight_bytes: Some(self.weight_bytes(model.parameters)),
            bandwidth_bytes_per_s: Some(device.bandwidth_bytes_per_s * f64::from(gpus.get())),
            ingest_s: self.assumptions.ingest_s,
            template_tokens: 0,
            intervals: Vec::new(),
            fitted_on: None,
            derived: Some(Box::new(self.clone())),
        })
    }

    fn check_split(&self, gpus: u32) -> Result<(), DeriveError> {
        let model = &self.model;
        let kv_split = model.latent_values.is_some()
            || model.kv_heads.is_multiple_of(gpus)
            || gpus.is_multiple_of(model.kv_heads);
        if model.heads.is_multiple_of(gpus) && kv_split {
            return Ok(());
        }
        Err(DeriveError::Uneven {
            model: model.name.clone(),
            heads: model.heads,
            kv_heads: model.kv_heads,
            gpus,
        })
    }

    fn weight_bytes(&self, parameters: u64) -> u64 {
        // Whole bytes, rounded up.
        (parameters * u64::from(self.precision.weight_bits())).div_ceil(8)
    }

    fn step_time(&self, gpus: u32) -> Result<StepTime, DeriveError> {
        let (model, device, assumed) = (&self.model, &self.accelerator, &self.assumptions);
        let peak = self.precision.peak(device);
        let peak = peak.ok_or_else(|| DeriveError::NoPeak {
            precision: self.precision.name(),
            accelerator: device.name.clone(),
        })?;
        let devices = f64::from(gpus);
        let reads = device.bandwidth_bytes_per_s * assumed.bandwidth_share;
        let expert_parameters = model.expert_parameters.unwrap_or(0);
        let looked_up = model.embedding_parameters.unwrap_or(0);
        let shared = model.parameters - expert_parameters - looked_up;
        let shared = self.weight_bytes(shared) as f64;
        let active = (model.active_parameters - looked_up) as f64;
        let compute_s = 2.0 * active / (peak * assumed.flops_share * devices);
        let read_kv = |shape: KvShape| {
            shape.bytes_per_token_per_device(assumed.kv_value_bytes, gpus) as f64 / reads
        };
        let pair_layers = |layers: u32| {
            let whole = 4.0 * f64::from(model.heads) * f64::from(model.head_values());
            let of_one = model.pair_operations.map_or(whole, |all| {
                all as f64 / f64::from(model.kv_layers.unwrap_or(model.layers))
            });
            f64::from(layers) * of_one / (peak * assumed.attention_share * devices)
        };
        let windowed = model.window_layers.unwrap_or(0);
        let full = model.kv_layers.unwrap_or(model.layers) - windowed;
        let (communication_s, communication_token_s) = self.communication(gpus)?;
        Ok(StepTime {
            overhead_s: assumed.layer_overhead_s * f64::from(model.layers),
            weights_s: shared / (reads * devices),
            experts: model
                .experts
                .zip(model.experts_per_token)
                .map(|(count, per_token)| Experts {
                    count,
                    per_token,
                    read_s: self.weight_bytes(expert_parameters) as f64 / (reads * devices),
                }),
            compute_s,
            tile_tokens: TILE,
            sequence_s: assumed.sequence_s,
            context_s: read_kv(model.full_kv_shape()),
            window: model.window_kv_shape().map(|(shape, tokens)| Window {
                tokens,
                context_s: read_kv(shape),
            }),
            prefill_s: compute_s
                + pair_layers(windowed) * f64::from(model.window_tokens.unwrap_or(0)),
            pair_s: pair_layers(full),
            communication_s,
            communication_token_s,
            speculation: None,
        })
    }

    /// Seconds of a step, and of a token, between the devices. Two all-reduces a layer, each of a
    /// token's hidden vector in 16 bits; in a ring a device sends `2 (g - 1) / g` of it.
    fn communication(&self, gpus: u32) -> Result<(f64, f64), DeriveError> {
        if gpus == 1 {
            return Ok((0.0, 0.0));
        }
        let device = &self.accelerator;
        let link = device.link_bytes_per_s.ok_or_else(|| DeriveError::NoLink {
            accelerator: device.name.clone(),
            gpus,
        })?;
        let reduces = 2.0 * f64::from(self.model.layers);
        let sent = 2.0 * f64::from(gpus - 1) / f64::from(gpus);
        let bytes = 2.0 * f64::from(self.model.hidden) * sent;
        let latency = reduces * self.assumptions.all_reduce_s;
        Ok((latency, reduces * bytes / link))
    }

    fn kv_blocks(&self, gpus: u32) -> Result<u32, DeriveError> {
        let assumed = &self.assumptions;
        let memory = KvMemory {
            device_bytes: self.accelerator.memory_bytes,
            utilization: assumed.memory_utilization,
            weight_bytes: self
                .weight_bytes(self.model.parameters)
                .div_ceil(gpus.into()),
            other_bytes: assumed.other_bytes,
        };
        let shape = self.model.kv_shape();
        let token = shape.bytes_per_token_per_device(assumed.kv_value_bytes, gpus);
        let blocks = memory.blocks(token, BLOCK.get());
        if blocks > 0 {
            return Ok(blocks);
        }
        let block = token * u64::from(BLOCK.get());
        Err(DeriveError::DoesNotFit {
            model: self.model.name.clone(),
            precision: self.precision.name(),
            accelerator: self.accelerator.name.clone(),
            gpus,
            needs_gb: (memory.weight_bytes + memory.other_bytes + block) as f64 / 1e9,
            has_gb: memory.device_bytes as f64 * memory.utilization / 1e9,
        })
    }

    /// How each number came about, in words.
    fn told(&self, step: &StepTime, gpus: u32, kv_blocks: u32) -> String {
        let (model, device, assumed) = (&self.model, &self.accelerator, &self.assumptions);
        let mut text = String::from(
            "Computed from the model's config and the device's data sheet, not measured.\n",
        );
        // Writing to a String cannot fail.
        let mut line = |line: std::fmt::Arguments<'_>| {
            let _ = text.write_fmt(line);
            text.push('\n');
        };
        let terabytes = device.bandwidth_bytes_per_s / 1e12;
        line(format_args!(
            "Reads at {} of {terabytes} TB/s on {gpus} device(s): weights {:.2} GB ({} bits), {} bytes of KV a token and device.",
            assumed.bandwidth_share,
            self.weight_bytes(model.parameters) as f64 / 1e9,
            self.precision.weight_bits(),
            model
                .kv_shape()
                .bytes_per_token_per_device(assumed.kv_value_bytes, gpus),
        ));
        line(format_args!(
            "Arithmetic of {:.2}e9 active parameters (without the input's table) at {} of the peak, attention at {}: {:.2} us a token, {:.3} ns a pair.",
            (model.active_parameters - model.embedding_parameters.unwrap_or(0)) as f64 / 1e9,
            assumed.flops_share,
            assumed.attention_share,
            step.compute_s * 1e6,
            step.pair_s * 1e9,
        ));
        line(format_args!(
            "Overhead of {} us a layer, {} us a sequence; {:.2} ms of all-reduces a step.",
            assumed.layer_overhead_s * 1e6,
            assumed.sequence_s * 1e6,
            step.communication_s * 1e3,
        ));
        line(format_args!(
            "KV: {kv_blocks} blocks of {BLOCK} tokens in {} of the memory less weights and {:.2} GiB.",
            assumed.memory_utilization,
            assumed.other_bytes as f64 / f64::from(1 << 30),
        ));
        line(format_args!("Model: {}", model.source));
        line(format_args!("Device: {}", device.source));
        for note in [&model.note, &device.note].into_iter().flatten() {
            line(format_args!("Note: {note}"));
        }
        text
    }
}

impl Assumptions {
    fn check(&self) -> Result<(), DeriveError> {
        let shares = [
            ("memory_utilization", self.memory_utilization),
            ("bandwidth_share", self.bandwidth_share),
            ("flops_share", self.flops_share),
            ("attention_share", self.attention_share),
        ];
        let times = [
            ("layer_overhead_s", self.layer_overhead_s),
            ("all_reduce_s", self.all_reduce_s),
            ("sequence_s", self.sequence_s),
            ("ingest_s", self.ingest_s),
        ];
        let share = |v: f64| v > 0.0 && v <= 1.0;
        let time = |v: f64| v.is_finite() && v >= 0.0;
        let wrong = shares.into_iter().filter(|(_, v)| !share(*v));
        let wrong = wrong.chain(times.into_iter().filter(|(_, v)| !time(*v)));
        match wrong.into_iter().next() {
            Some((name, value)) => Err(DeriveError::Assumption { name, value }),
            None if self.kv_value_bytes == 0 => Err(DeriveError::Assumption {
                name: "kv_value_bytes",
                value: 0.0,
            }),
            None => Ok(()),
        }
    }
}

/// Tokens of a tile of matrix products: jumps at its multiples are seen in published step times.
const TILE: u32 = 128;
const SEQUENCES: NonZeroU32 = NonZeroU32::new(256).expect("not 0");
const BATCHED: NonZeroU32 = NonZeroU32::new(8192).expect("not 0");
const BLOCK: NonZeroU32 = NonZeroU32::new(16).expect("not 0");
