//! Limits of the engine, which no step time tells: from a base, from the server's own words, from
//! the command line.

use std::{collections::BTreeSet, num::NonZeroU32};

use goodput_config::ConfigError;
use goodput_perf_model::{Profile, StepTime};
use goodput_sweep::RunResult;

use crate::{exit::Failure, talk::Voice};

/// Limits without which a profile is not whole, by the names of `--set`.
const NEEDED: [&str; 5] = [
    "max_num_seqs",
    "max_batched_tokens",
    "kv_blocks",
    "block_tokens",
    "context_limit",
];
/// What servers call them.
const TOLD: [(&str, &str); 7] = [
    ("num_gpu_blocks", "kv_blocks"),
    ("block_size", "block_tokens"),
    ("slots", "max_num_seqs"),
    ("max_num_seqs", "max_num_seqs"),
    ("max_running_requests", "max_num_seqs"),
    ("max_model_len", "context_limit"),
    ("context_tokens", "context_limit"),
];

/// A profile whose limits are being gathered.
pub(super) struct Limits {
    /// The base named on the command line.
    pub(super) base: Option<Profile>,
    profile: Profile,
    known: BTreeSet<&'static str>,
}

impl Limits {
    /// Those of a base, or none.
    pub(super) fn of(base: Option<&Profile>) -> Self {
        let known = base.map_or(BTreeSet::new(), |_| NEEDED.into());
        Self {
            base: base.cloned(),
            profile: base.cloned().unwrap_or_else(blank),
            known,
        }
    }

    /// The most tokens of a step, where known.
    pub(super) fn step_tokens(&self) -> Option<u32> {
        let known = self.known.contains("max_batched_tokens");
        known.then(|| self.profile.max_batched_tokens.get())
    }

    /// Tokens in a block, where known.
    pub(super) fn block_tokens(&self) -> Option<u32> {
        let known = self.known.contains("block_tokens");
        known.then(|| self.profile.block_tokens.get())
    }

    /// Takes what the servers said of themselves.
    pub(super) fn told_by(&mut self, results: &[RunResult]) {
        for result in results {
            let server = &result.holds_for.server;
            if self.base.is_none() {
                self.profile.model_id.clone_from(&result.holds_for.model);
                self.profile.name.clone_from(&result.holds_for.model);
            }
            for (theirs, ours) in TOLD {
                let Some(value) = server.flags.get(theirs) else {
                    continue;
                };
                if self.profile.with(&format!("{ours}={value}")).is_ok() {
                    self.known.insert(ours);
                }
            }
            if let Some(value) = server.flags.get("enable_prefix_caching") {
                let value = value.to_ascii_lowercase();
                // What is neither true nor false is not believed.
                let _ = self.profile.with(&format!("prefix_cache={value}"));
            }
        }
    }

    /// Takes what the command line says, over all else.
    pub(super) fn set(&mut self, assignments: &[String], voice: Voice) -> Result<(), Failure> {
        for assignment in assignments {
            self.profile.with(assignment).map_err(|error| {
                let problem = error.at(0..assignment.len());
                let error = ConfigError::of("--set", problem);
                Failure::usage(error.render("--set", assignment, voice.color_err))
            })?;
            let key = assignment.split('=').next().unwrap_or_default().trim();
            let plain = key.rsplit('.').next().unwrap_or(key).replace('-', "_");
            let named = NEEDED.into_iter().find(|n| *n == plain);
            let told = TOLD
                .into_iter()
                .find(|(theirs, _)| *theirs == plain)
                .map(|t| t.1);
            self.known.extend(named.or(told));
        }
        Ok(())
    }

    /// The profile with all its limits. `kv_tokens` is what the cache was seen to hold; it speaks only
    /// where nothing else does.
    pub(super) fn whole(&mut self, kv_tokens: Option<f64>) -> Result<Profile, Failure> {
        if let Some(tokens) = kv_tokens.filter(|_| !self.known.contains("kv_blocks")) {
            let blocks = tokens / f64::from(self.profile.block_tokens.get());
            self.profile.kv_blocks = goodput_stats::whole_u32(blocks.floor());
            self.known.insert("kv_blocks");
        }
        let missing: Vec<&str> = NEEDED
            .into_iter()
            .filter(|n| !self.known.contains(n))
            .collect();
        if !missing.is_empty() {
            let example: Vec<String> = missing.iter().map(|m| format!("--set {m}=N")).collect();
            return Err(Failure::usage(format!(
                "the records do not tell the engine's {}",
                missing.join(", ")
            ))
            .hint(format!(
                "{}, as the server was started, or --base PROFILE with them",
                example.join(" ")
            )));
        }
        self.profile
            .check()
            .map_err(|error| Failure::usage(error.to_string()))?;
        Ok(self.profile.clone())
    }
}

/// A profile in which nothing is known; what is not gathered is never written.
fn blank() -> Profile {
    Profile {
        name: String::new(),
        model_id: String::new(),
        gpu: "not told".to_owned(),
        scheduler: goodput_perf_model::Scheduler::default(),
        gpus: NonZeroU32::MIN,
        precision: "not told".to_owned(),
        source: String::new(),
        step_time: StepTime::default(),
        max_num_seqs: NonZeroU32::MIN,
        max_batched_tokens: NonZeroU32::MIN,
        chunked_prefill: true,
        prefix_cache: false,
        kv_blocks: 1,
        block_tokens: NonZeroU32::MIN,
        context_limit: 1,
        weight_bytes: None,
        bandwidth_bytes_per_s: None,
        ingest_s: 0.0,
        template_tokens: 0,
        intervals: Vec::new(),
        fitted_on: None,
        derived: None,
    }
}
