//! A profile's file: TOML to checked values and back.

use std::{collections::BTreeMap, num::NonZeroU32};

use goodput_config::{Problem, Spanned, TextError, known_names, suggest};
use serde::{Deserialize, Serialize};

use super::{Derived, Limits, Profile, Scheduler};
use crate::{Coefficient, CoefficientInterval, Extent, FittedOn};
use step_time::{MICRO, RawStepTime, check_field, spell, value};

mod step_time;

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    name: String,
    model_id: String,
    gpu: String,
    #[serde(default = "one")]
    gpus: NonZeroU32,
    precision: String,
    source: String,
    weight_bytes: Option<u64>,
    bandwidth_bytes_per_s: Option<Spanned<f64>>,
    ingest_us: Option<Spanned<f64>>,
    ingest_s: Option<Spanned<f64>>,
    template_tokens: Option<u32>,
    engine: RawEngine,
    step_time: Spanned<RawStepTime>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    step_time_interval: BTreeMap<Spanned<String>, Spanned<[f64; 2]>>,
    fitted_on: Option<RawFittedOn>,
    derived: Option<Box<Derived>>,
}

const fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawEngine {
    scheduler: Option<RawScheduler>,
    unified_kv: Option<Spanned<bool>>,
    max_num_seqs: NonZeroU32,
    max_batched_tokens: Spanned<NonZeroU32>,
    chunked_prefill: bool,
    prefix_cache: bool,
    kv_blocks: NonZeroU32,
    block_tokens: NonZeroU32,
    context_limit: NonZeroU32,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum RawScheduler {
    Continuous,
    Slots,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawFittedOn {
    decodes: Option<Spanned<[f64; 2]>>,
    context_tokens: Option<Spanned<[f64; 2]>>,
    prompt_tokens: Option<Spanned<[f64; 2]>>,
    rate_req_s: Option<Spanned<[f64; 2]>>,
}

fn check_extent(extent: &Spanned<[f64; 2]>, problems: &mut Vec<Problem>) {
    let [min, max] = *extent.get_ref();
    if !(min.is_finite() && max.is_finite() && 0.0 <= min && min <= max) {
        let error = TextError::new(format!("{min} to {max} is no range"));
        let error = error.expected("two numbers of 0 or more, the smaller one first");
        problems.push(error.at(extent.span()));
    }
}

impl Raw {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        self.step_time.get_ref().check(problems);
        self.step_time
            .get_ref()
            .check_required(self.step_time.span(), problems);
        let ingest = (&self.ingest_us, MICRO, &self.ingest_s);
        check_field("ingest", ingest, problems);
        if let Some(bandwidth) = &self.bandwidth_bytes_per_s
            && !(bandwidth.get_ref().is_finite() && *bandwidth.get_ref() > 0.0)
        {
            let fact = format!("{} bytes per second", bandwidth.get_ref());
            let error = TextError::new(fact).expected("a number above 0");
            problems.push(error.at(bandwidth.span()));
        }
        self.engine.check(problems);
        for (name, interval) in &self.step_time_interval {
            check_extent(interval, problems);
            if Coefficient::named(name.get_ref()).is_none() {
                problems.push(no_coefficient(name.get_ref()).at(name.span()));
            }
        }
        if let Some(fitted) = &self.fitted_on {
            for extent in fitted.all().into_iter().flatten() {
                check_extent(extent, problems);
            }
        }
    }

    pub(super) fn profile(self) -> Profile {
        let engine = self.engine;
        let interval = |(name, ends): (&Spanned<String>, &Spanned<[f64; 2]>)| {
            let [low_s, high_s] = *ends.get_ref();
            Some(CoefficientInterval {
                coefficient: Coefficient::named(name.get_ref())?,
                low_s,
                high_s,
            })
        };
        let mut intervals: Vec<_> = self
            .step_time_interval
            .iter()
            .filter_map(interval)
            .collect();
        intervals.sort_by_key(|i| i.coefficient);
        Profile {
            name: self.name,
            model_id: self.model_id,
            gpu: self.gpu,
            gpus: self.gpus,
            precision: self.precision,
            source: self.source,
            step_time: self.step_time.into_inner().seconds(),
            scheduler: engine.scheduler(),
            max_num_seqs: engine.max_num_seqs,
            max_batched_tokens: engine.max_batched_tokens.into_inner(),
            chunked_prefill: engine.chunked_prefill,
            prefix_cache: engine.prefix_cache,
            kv_blocks: engine.kv_blocks.get(),
            block_tokens: engine.block_tokens,
            context_limit: engine.context_limit.get(),
            weight_bytes: self.weight_bytes,
            bandwidth_bytes_per_s: self.bandwidth_bytes_per_s.map(Spanned::into_inner),
            ingest_s: value((&self.ingest_us, MICRO, &self.ingest_s)).unwrap_or(0.0),
            template_tokens: self.template_tokens.unwrap_or(0),
            intervals,
            fitted_on: self.fitted_on.map(|f| f.checked()),
            derived: self.derived,
        }
    }

    /// What a file says of `profile`.
    pub(super) fn of(profile: &Profile) -> Self {
        let positive = |n: u32| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        let (ingest_us, ingest_s) = spell(profile.ingest_s, MICRO);
        let interval = |i: &CoefficientInterval| {
            let name = Spanned::new(0..0, i.coefficient.name().to_owned());
            (name, Spanned::new(0..0, [i.low_s, i.high_s]))
        };
        Self {
            name: profile.name.clone(),
            model_id: profile.model_id.clone(),
            gpu: profile.gpu.clone(),
            gpus: profile.gpus,
            precision: profile.precision.clone(),
            source: profile.source.clone(),
            weight_bytes: profile.weight_bytes,
            bandwidth_bytes_per_s: profile.bandwidth_bytes_per_s.map(|v| Spanned::new(0..0, v)),
            ingest_us,
            ingest_s,
            template_tokens: (profile.template_tokens > 0).then_some(profile.template_tokens),
            engine: RawEngine {
                scheduler: match profile.scheduler {
                    Scheduler::Continuous => None,
                    Scheduler::Slots { .. } => Some(RawScheduler::Slots),
                },
                unified_kv: match profile.scheduler {
                    Scheduler::Continuous => None,
                    Scheduler::Slots { unified_kv } => Some(Spanned::new(0..0, unified_kv)),
                },
                max_num_seqs: profile.max_num_seqs,
                max_batched_tokens: Spanned::new(0..0, profile.max_batched_tokens),
                chunked_prefill: profile.chunked_prefill,
                prefix_cache: profile.prefix_cache,
                kv_blocks: positive(profile.kv_blocks),
                block_tokens: profile.block_tokens,
                context_limit: positive(profile.context_limit),
            },
            step_time: Spanned::new(0..0, RawStepTime::of(&profile.step_time)),
            step_time_interval: profile.intervals.iter().map(interval).collect(),
            fitted_on: profile.fitted_on.map(RawFittedOn::of),
            derived: profile.derived.clone(),
        }
    }
}

fn no_coefficient(name: &str) -> TextError {
    let known = Coefficient::ALL.map(Coefficient::name);
    let error = TextError::new(format!("there is no coefficient `{name}`"));
    let error = error.expected(known_names(&known));
    match suggest(name, &known) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    }
}

impl RawEngine {
    fn scheduler(&self) -> Scheduler {
        match self.scheduler {
            None | Some(RawScheduler::Continuous) => Scheduler::Continuous,
            Some(RawScheduler::Slots) => Scheduler::Slots {
                unified_kv: self.unified_kv.as_ref().is_some_and(|kv| *kv.get_ref()),
            },
        }
    }

    fn check(&self, problems: &mut Vec<Problem>) {
        if let Some(unified) = &self.unified_kv
            && self.scheduler != Some(RawScheduler::Slots)
        {
            let error = TextError::new("only slots can share the KV cells");
            let error = error.expected("no `unified_kv`, or `scheduler = \"slots\"` beside it");
            problems.push(error.at(unified.span()));
        }
        let batched = &self.max_batched_tokens;
        let limits = Limits {
            max_num_seqs: self.max_num_seqs.get(),
            max_batched_tokens: batched.get_ref().get(),
            chunked_prefill: self.chunked_prefill,
            context_limit: self.context_limit.get(),
        };
        problems.extend(limits.objections().map(|e| e.at(batched.span())));
    }
}

impl RawFittedOn {
    const fn all(&self) -> [Option<&Spanned<[f64; 2]>>; 4] {
        [
            self.decodes.as_ref(),
            self.context_tokens.as_ref(),
            self.prompt_tokens.as_ref(),
            self.rate_req_s.as_ref(),
        ]
    }

    fn checked(&self) -> FittedOn {
        let extent = |ends: &Spanned<[f64; 2]>| {
            let [min, max] = *ends.get_ref();
            Extent { min, max }
        };
        let [decodes, context_tokens, prompt_tokens, rate_req_s] =
            self.all().map(|ends| ends.map(extent));
        FittedOn {
            decodes,
            context_tokens,
            prompt_tokens,
            rate_req_s,
        }
    }

    fn of(fitted: FittedOn) -> Self {
        let ends = |extent: Option<Extent>| extent.map(|e| Spanned::new(0..0, [e.min, e.max]));
        Self {
            decodes: ends(fitted.decodes),
            context_tokens: ends(fitted.context_tokens),
            prompt_tokens: ends(fitted.prompt_tokens),
            rate_req_s: ends(fitted.rate_req_s),
        }
    }
}
