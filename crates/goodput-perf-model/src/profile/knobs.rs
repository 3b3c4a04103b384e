//! One number of a profile changed by name, for a what-if.

use std::num::NonZeroU32;

use goodput_config::{TextError, known_names, parse_duration, suggest};

use super::{Derived, Profile, Scheduler};
use crate::{Coefficient, Speculation};

/// Knobs beside the coefficients, each by its own name and by those engines use.
const NAMES: [(&str, &[&str]); 25] = [
    ("scheduler", &[]),
    ("unified_kv", &["kv_unified"]),
    ("gpus", &["tensor_parallel_size", "tp"]),
    ("memory_utilization", &["gpu_memory_utilization"]),
    ("other_bytes", &[]),
    ("kv_value_bytes", &[]),
    ("bandwidth_share", &[]),
    ("flops_share", &[]),
    ("attention_share", &[]),
    ("layer_overhead_s", &[]),
    ("all_reduce_s", &[]),
    ("max_num_seqs", &["slots"]),
    ("max_batched_tokens", &["max_num_batched_tokens"]),
    ("chunked_prefill", &["enable_chunked_prefill"]),
    ("prefix_cache", &["enable_prefix_caching"]),
    ("kv_blocks", &["num_gpu_blocks"]),
    ("block_tokens", &["block_size"]),
    ("context_limit", &["max_model_len"]),
    ("ingest_s", &[]),
    ("template_tokens", &[]),
    ("tile_tokens", &[]),
    ("window_tokens", &[]),
    ("draft_tokens", &["num_speculative_tokens"]),
    ("acceptance", &[]),
    ("speculation", &[]),
];

impl Profile {
    /// The names that [`Profile::with`] knows.
    #[must_use]
    pub fn knobs() -> Vec<&'static str> {
        let own = NAMES.iter().map(|(name, _)| *name);
        own.chain(Coefficient::ALL.map(Coefficient::name)).collect()
    }

    /// Changes one number: `max_num_seqs=128`, `kv_blocks=x0.5`, `chunked_prefill=false`,
    /// `step_time.prefill_s=19us`, `gpus=2`, `speculation=3,0.7` (draft tokens, acceptance) or
    /// `speculation=off`.
    ///
    /// A number may be a factor on what is there (`x2`); one that ends in `_s` is in seconds, or
    /// has a unit. The names engines use are known too (`max_num_batched_tokens`), and `step_time.`
    /// or `engine.` may stand before a name.
    ///
    /// `gpus` and what a derivation assumes ([`crate::Assumptions`]: `memory_utilization=0.8`,
    /// `bandwidth_share=x0.9`) compute step time and KV blocks again, which needs a profile
    /// from a catalogue ([`Profile::from_catalogue`]) in which neither was changed since.
    ///
    /// Limits that must fit each other are not compared here but by [`Profile::check`], after the
    /// last change. On an error nothing is changed.
    pub fn with(&mut self, assignment: &str) -> Result<(), TextError> {
        let Some((key, value)) = assignment.split_once('=') else {
            let fact = format!("`{assignment}` sets nothing");
            return Err(TextError::new(fact).expected("name=value, such as max_num_seqs=128"));
        };
        let (key, value) = (key.trim(), value.trim());
        let plain = key.strip_prefix("step_time.").unwrap_or(key);
        let plain = plain.strip_prefix("engine.").unwrap_or(plain);
        let plain = plain.replace(['-', '.'], "_");
        if let Some(coefficient) = Coefficient::named(&plain) {
            return self.set_coefficient(coefficient, value);
        }
        let known = |(name, others): &&(&str, &[&str])| {
            [plain.as_str(), plain.trim_start_matches("speculation_")]
                .iter()
                .any(|plain| name == plain || others.contains(plain))
        };
        match NAMES.iter().find(known) {
            Some((name, _)) => self.set(name, value),
            None => Err(unknown(key, &plain)),
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), TextError> {
        match name {
            "gpus" => {
                let gpus = positive(value, self.gpus.get())?;
                self.derive_again(|_| (), gpus)?;
            }
            "memory_utilization" | "other_bytes" | "kv_value_bytes" | "bandwidth_share"
            | "flops_share" | "attention_share" | "layer_overhead_s" | "all_reduce_s" => {
                self.set_assumption(name, value)?;
            }
            "max_num_seqs" => self.max_num_seqs = positive(value, self.max_num_seqs.get())?,
            "max_batched_tokens" => {
                self.max_batched_tokens = positive(value, self.max_batched_tokens.get())?;
            }
            "scheduler" => self.scheduler = scheduler(value, self.scheduler)?,
            "unified_kv" => {
                let Scheduler::Slots { unified_kv } = &mut self.scheduler else {
                    return Err(lacks("slots").hint("set scheduler=slots first"));
                };
                *unified_kv = truth(value)?;
            }
            "chunked_prefill" => self.chunked_prefill = truth(value)?,
            "prefix_cache" => self.prefix_cache = truth(value)?,
            "kv_blocks" => self.kv_blocks = positive(value, self.kv_blocks)?.get(),
            "block_tokens" => self.block_tokens = positive(value, self.block_tokens.get())?,
            "context_limit" => self.context_limit = positive(value, self.context_limit)?.get(),
            "ingest_s" => self.ingest_s = seconds(value, self.ingest_s)?,
            "template_tokens" => self.template_tokens = whole(value, self.template_tokens)?,
            "tile_tokens" => {
                self.step_time.tile_tokens = whole(value, self.step_time.tile_tokens)?;
            }
            "window_tokens" => {
                let window = self.step_time.window.as_mut();
                let window = window.ok_or_else(|| lacks("layers with a window"))?;
                window.tokens = positive(value, window.tokens)?.get();
            }
            "speculation" => self.step_time.speculation = speculation(value)?,
            _ => self.set_draft(name, value)?,
        }
        Ok(())
    }

    /// Computes the profile again with another assumption.
    fn set_assumption(&mut self, name: &str, value: &str) -> Result<(), TextError> {
        let was = self.derived.as_ref().map(|d| d.assumptions);
        let mut new = was.unwrap_or_default();
        match name {
            "other_bytes" => new.other_bytes = bytes(value, new.other_bytes)?,
            "kv_value_bytes" => {
                new.kv_value_bytes = positive(value, new.kv_value_bytes)?.get();
            }
            "layer_overhead_s" => new.layer_overhead_s = seconds(value, new.layer_overhead_s)?,
            "all_reduce_s" => new.all_reduce_s = seconds(value, new.all_reduce_s)?,
            "bandwidth_share" => new.bandwidth_share = number(value, new.bandwidth_share)?,
            "flops_share" => new.flops_share = number(value, new.flops_share)?,
            "attention_share" => new.attention_share = number(value, new.attention_share)?,
            _ => new.memory_utilization = number(value, new.memory_utilization)?,
        }
        self.derive_again(|facts| facts.assumptions = new, self.gpus)
    }

    fn set_draft(&mut self, name: &str, value: &str) -> Result<(), TextError> {
        let draft = self.step_time.speculation.as_mut().ok_or_else(|| {
            lacks("speculative decoding")
                .hint("speculation=3,0.7 turns it on: draft tokens, acceptance")
        })?;
        match name {
            "draft_tokens" => draft.draft_tokens = positive(value, draft.draft_tokens)?.get(),
            _ => draft.acceptance = share(value, draft.acceptance)?,
        }
        Ok(())
    }

    fn set_coefficient(&mut self, which: Coefficient, value: &str) -> Result<(), TextError> {
        let was = which
            .of(&self.step_time)
            .ok_or_else(|| lacks(&format!("a part that `{}` is of", which.name())))?;
        which.set(&mut self.step_time, seconds(value, was)?);
        Ok(())
    }

    /// Computes step time and KV blocks again from changed facts; the server's own limits stay.
    fn derive_again(
        &mut self,
        change: impl FnOnce(&mut Derived),
        gpus: NonZeroU32,
    ) -> Result<(), TextError> {
        let Some(facts) = &self.derived else {
            let fact = format!(
                "the profile `{}` was fitted or written by hand: what it would be there is not known",
                self.name
            );
            return Err(TextError::new(fact)
                .expected("a profile computed from the catalogue")
                .hint("compute one from model and accelerator, or calibrate on that machine"));
        };
        let refuse = |e: crate::DeriveError| TextError::new(e.to_string()).hint(e.hint());
        let before = facts.profile(self.gpus).map_err(refuse)?;
        let step_same = before.step_time == self.step_time;
        if !step_same
            || before.kv_blocks != self.kv_blocks
            || before.block_tokens != self.block_tokens
        {
            let fact = "step time or KV blocks were changed since the profile was computed";
            return Err(TextError::new(fact)
                .expected("numbers as the catalogue gives them")
                .hint("set gpus and what the derivation assumes before anything else"));
        }
        let mut facts = facts.as_ref().clone();
        change(&mut facts);
        let new = facts.profile(gpus).map_err(refuse)?;
        *self = Self {
            scheduler: self.scheduler,
            max_num_seqs: self.max_num_seqs,
            max_batched_tokens: self.max_batched_tokens,
            chunked_prefill: self.chunked_prefill,
            prefix_cache: self.prefix_cache,
            context_limit: self.context_limit,
            ingest_s: self.ingest_s,
            template_tokens: self.template_tokens,
            ..new
        };
        Ok(())
    }
}

/// `slots` keeps what a profile with slots says of its KV cells.
fn scheduler(value: &str, was: Scheduler) -> Result<Scheduler, TextError> {
    match (value, was) {
        ("continuous", _) => Ok(Scheduler::Continuous),
        ("slots", Scheduler::Slots { .. }) => Ok(was),
        ("slots", Scheduler::Continuous) => Ok(Scheduler::Slots { unified_kv: false }),
        _ => Err(TextError::new(format!("there is no scheduler `{value}`"))
            .expected("`continuous` or `slots`")),
    }
}

fn unknown(key: &str, plain: &str) -> TextError {
    let known = Profile::knobs();
    let error = TextError::new(format!("there is no knob `{key}`"));
    match suggest(plain, &known) {
        Some(near) => error
            .expected(known_names(&known))
            .hint(format!("did you mean `{near}`?")),
        None => error.expected(known_names(&known)),
    }
}

fn lacks(what: &str) -> TextError {
    TextError::new(format!("the profile has no {what}"))
}

/// A number of any sign, or a factor on `was`.
fn number(text: &str, was: f64) -> Result<f64, TextError> {
    let (factor, digits) = match text.strip_prefix(['x', '*']) {
        Some(digits) => (was, digits),
        None => (1.0, text),
    };
    let read = digits.replace('_', "").parse::<f64>();
    match read.map(|n| n * factor) {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(TextError::new(format!("`{text}` is no number"))
            .expected("a number, or a factor such as x2")),
    }
}

/// Bytes of a device's memory.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "checked to be a whole number in range"
)]
fn bytes(text: &str, was: u64) -> Result<u64, TextError> {
    let number = number(text, was as f64)?.floor();
    if (0.0..=1e15).contains(&number) {
        return Ok(number as u64);
    }
    Err(TextError::new(format!("`{text}` are no bytes of a memory"))
        .expected("a whole number from 0, such as 2147483648"))
}

fn seconds(text: &str, was: f64) -> Result<f64, TextError> {
    let unit = text.ends_with('s') && !text.starts_with(['x', '*']);
    let seconds = if unit {
        fine_duration(text)?
    } else {
        number(text, was)?
    };
    if seconds < 0.0 {
        let fact = format!("`{text}` is a negative time");
        return Err(TextError::new(fact).expected("0 or more"));
    }
    Ok(seconds)
}

/// A duration, to parts of a nanosecond: coefficients are often smaller.
fn fine_duration(text: &str) -> Result<f64, TextError> {
    if let Some(Ok(nanos)) = text.strip_suffix("ns").map(|n| n.trim().parse::<f64>())
        && nanos.is_finite()
    {
        return Ok(nanos * 1e-9);
    }
    parse_duration(text).map(|d| d.as_secs_f64())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be a whole number in range"
)]
fn whole(text: &str, was: u32) -> Result<u32, TextError> {
    let factor = text.starts_with(['x', '*']);
    let number = number(text, f64::from(was))?;
    // A factor rarely gives a whole number of blocks; a number that is given must be one.
    let number = if factor { number.floor() } else { number };
    if number.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&number) {
        let fact = format!("`{text}` is no whole number");
        return Err(TextError::new(fact).expected("a whole number, such as 128"));
    }
    Ok(number as u32)
}

fn positive(text: &str, was: u32) -> Result<NonZeroU32, TextError> {
    NonZeroU32::new(whole(text, was)?)
        .ok_or_else(|| TextError::new(format!("`{text}` is too small")).expected("1 or more"))
}

fn share(text: &str, was: f64) -> Result<f64, TextError> {
    let share = number(text, was)?;
    if (0.0..=1.0).contains(&share) {
        return Ok(share);
    }
    Err(TextError::new(format!("`{text}` is no share")).expected("a number from 0 to 1"))
}

fn truth(text: &str) -> Result<bool, TextError> {
    match text {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(
            TextError::new(format!("`{text}` is neither true nor false")).expected("true or false"),
        ),
    }
}

/// `off`, or draft tokens, acceptance and, where drafting costs something, seconds a draft token.
fn speculation(text: &str) -> Result<Option<Speculation>, TextError> {
    if text == "off" {
        return Ok(None);
    }
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let (draft_tokens, acceptance, draft) = match parts.as_slice() {
        [tokens, acceptance] => (tokens, acceptance, "0"),
        [tokens, acceptance, draft] => (tokens, acceptance, *draft),
        _ => {
            let fact = format!("`{text}` is no speculative decoding");
            return Err(TextError::new(fact).expected(
                "draft tokens, acceptance and seconds a draft token, as in 3,0.7,200us; or off",
            ));
        }
    };
    Ok(Some(Speculation {
        draft_tokens: positive(draft_tokens, 1)?.get(),
        acceptance: share(acceptance, 1.0)?,
        draft_s: seconds(draft, 0.0)?,
    }))
}
