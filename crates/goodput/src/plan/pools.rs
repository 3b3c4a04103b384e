//! Pools compared.

use std::num::NonZeroU32;

use goodput_config::{parse, parse_rates};
use goodput_perf_model::Profile;
use goodput_planner::{Effort, PoolClass, PoolQuestion, PoolsOver, compare_pools_over};
use goodput_report::{html, json, plan as faces};
use serde::Deserialize;

use super::{Shown, deliver, inputs};
use crate::{
    emulate,
    exit::{Exit, Failure},
    flags::PoolsFlags,
    measure::{load_workload, text_failure},
    simulate::change,
    talk::Voice,
    text::read_text,
};

/// The file of a comparison as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPools {
    /// The engine profile that all configurations are made from.
    profile: String,
    /// Tokens of a step to choose from; left out: the profile's own.
    #[serde(default)]
    max_batched_tokens: Vec<NonZeroU32>,
    /// Sequences of a batch to choose from; left out: the profile's own.
    #[serde(default)]
    max_num_seqs: Vec<NonZeroU32>,
    class: Vec<RawClass>,
}

/// One class as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClass {
    name: String,
    rate: f64,
    slo: String,
    workload: String,
    #[serde(default)]
    priority: u8,
}

/// `goodput plan pools`.
pub(super) fn plan(flags: &PoolsFlags, voice: Voice) -> Result<Exit, Failure> {
    let scales = flags.scale.as_deref().map(parse_rates).transpose();
    let scales = scales.map_err(|e| text_failure("--scale", &e))?;
    let plans = compare_pools_over(
        &question(flags, voice)?,
        scales.as_deref().unwrap_or(&[1.0]),
    );
    let plans = plans.map_err(|e| inputs::refused(&e))?;
    let shown = Shown {
        human: faces::terminal::pools(&plans, voice.style_out()),
        json: match (&scales, plans.as_slice()) {
            (None, [plan]) => json::document(plan),
            _ => json::document(&PoolsOver::new(plans.clone())),
        },
        csv: faces::csv::pools(&plans),
        markdown: faces::markdown::pools(&plans),
        html: Some(html::pools(&plans)),
    };
    deliver(&shown, flags.out.as_deref(), flags.format, voice)?;
    Ok(if plans.iter().all(|plan| plan.best.is_some()) {
        Exit::Yes
    } else {
        Exit::No
    })
}

fn question(flags: &PoolsFlags, voice: Voice) -> Result<PoolQuestion, Failure> {
    let name = flags.file.display().to_string();
    let text = read_text("the pools file", &flags.file)?;
    let raw: RawPools =
        parse(&name, &text).map_err(|e| Failure::usage(e.render(&name, &text, voice.color_err)))?;
    if raw.class.is_empty() {
        return Err(Failure::usage(format!("{name} has no class"))
            .hint("add [[class]] with name, rate, slo and workload"));
    }
    let mut profile = emulate::profile(&raw.profile, voice)?;
    let changes = inputs::changes(&flags.what_if);
    let named = profile.clone();
    let classes = raw.class.iter().map(|class| {
        let mut workload = load_workload(&class.workload, voice)?;
        profile = named.clone();
        change(&mut workload, &mut profile, &changes)?;
        Ok(PoolClass {
            name: class.name.clone(),
            rate_req_s: class.rate,
            slo: inputs::one_slo(&class.slo, voice)?,
            workload: workload.into(),
            priority: class.priority,
        })
    });
    let classes = classes.collect::<Result<_, Failure>>()?;
    Ok(PoolQuestion {
        classes,
        configurations: configurations(&profile, &raw)?,
        price: inputs::price(flags.price.as_deref())?,
        spare: flags.spare,
        effort: Effort::requests(flags.requests),
        seed: flags.seed,
    })
}

fn configurations(profile: &Profile, raw: &RawPools) -> Result<Vec<Profile>, Failure> {
    let or_own = |list: &[NonZeroU32], own| {
        if list.is_empty() {
            vec![own]
        } else {
            list.to_vec()
        }
    };
    let tokens = or_own(&raw.max_batched_tokens, profile.max_batched_tokens);
    let seqs = or_own(&raw.max_num_seqs, profile.max_num_seqs);
    let mut all = Vec::new();
    for &max_batched_tokens in &tokens {
        for &max_num_seqs in &seqs {
            if max_batched_tokens < max_num_seqs {
                return Err(Failure::usage(format!(
                    "a step of {max_batched_tokens} tokens cannot hold {max_num_seqs} sequences"
                ))
                .hint("raise max_batched_tokens or lower max_num_seqs"));
            }
            all.push(Profile {
                max_batched_tokens,
                max_num_seqs,
                ..profile.clone()
            });
        }
    }
    Ok(all)
}
