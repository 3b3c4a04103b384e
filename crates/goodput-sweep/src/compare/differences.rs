//! In what two results differ, besides their figures.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::document::{RunResult, SloFacts};

/// Something in which two results differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// `model`, `slo`, `workload`, `server version`, ...
    pub what: String,
    /// In the base.
    pub base: String,
    /// In the other.
    pub other: String,
}

/// What stands where one side says nothing.
const UNSAID: &str = "-";

fn unlike(pairs: impl IntoIterator<Item = (String, String, String)>) -> Vec<Mismatch> {
    let differ = pairs.into_iter().filter(|(_, a, b)| a != b);
    differ
        .map(|(what, base, other)| Mismatch { what, base, other })
        .collect()
}

/// In what two results differ that makes their figures incomparable: the model, the SLO that
/// decides, the workload.
#[must_use]
pub fn mismatches(base: &RunResult, other: &RunResult) -> Vec<Mismatch> {
    let slo = |r: &RunResult| sentence(r.holds_for.slos.first());
    let workload = |r: &RunResult| {
        let w = &r.holds_for.workload;
        format!(
            "{} (in {:?}, out {:?}, cached {:.2})",
            w.name, w.input, w.output, w.cached_share
        )
    };
    let both =
        |what: &str, of: &dyn Fn(&RunResult) -> String| (what.to_owned(), of(base), of(other));
    unlike([
        both("model", &|r| r.holds_for.model.clone()),
        both("slo", &slo),
        both("workload", &workload),
    ])
}

/// In what else they differ. None of it forbids a comparison, often it is what is compared; but a
/// reader must know of it before taking a change for an effect of something else.
#[must_use]
pub fn differences(base: &RunResult, other: &RunResult) -> Vec<Mismatch> {
    let both = |what: &str, of: &dyn Fn(&RunResult) -> Option<String>| {
        let said = |r| of(r).unwrap_or_else(|| UNSAID.to_owned());
        (what.to_owned(), said(base), said(other))
    };
    let tiers = base.holds_for.slos.len().max(other.holds_for.slos.len());
    let further = (1..tiers).map(|tier| {
        let of = |r: &RunResult| r.holds_for.slos.get(tier).map(|slo| sentence(Some(slo)));
        both(&format!("slo {}", tier + 1), &of)
    });
    let facts = [
        both("engine", &|r| r.holds_for.server.engine.clone()),
        both("server version", &|r| r.holds_for.server.version.clone()),
        both("gpus", &|r| r.holds_for.gpus.map(|n| n.to_string())),
        both("emulated", &|r| {
            Some(r.holds_for.server.emulated.to_string())
        }),
        both("simulated", &|r| {
            let simulated = r.holds_for.server.simulated.as_ref();
            simulated.map(|s| format!("profile {}", s.profile))
        }),
        both("arrivals", &|r| Some(r.holds_for.workload.arrivals.clone())),
        both("output policy", &|r| {
            Some(r.holds_for.workload.output_policy.clone())
        }),
        both("prompts counted", &|r| {
            Some(r.holds_for.workload.counted_by.clone())
        }),
        both("boots", &|r| Some(r.boots.len().max(1).to_string())),
        both("complete", &|r| Some(r.complete.to_string())),
        both("goodput version", &|r| Some(r.goodput_version.clone())),
    ];
    unlike(
        facts
            .into_iter()
            .chain(further)
            .chain(flags(base, other))
            .chain(settings(base, other)),
    )
}

fn sentence(slo: Option<&SloFacts>) -> String {
    slo.map(|s| s.sentence.clone()).unwrap_or_default()
}

/// Flags and limits that the servers told of.
fn flags<'a>(
    base: &'a RunResult,
    other: &'a RunResult,
) -> impl Iterator<Item = (String, String, String)> + 'a {
    let (a, b) = (&base.holds_for.server.flags, &other.holds_for.server.flags);
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    names.into_iter().map(|name| {
        (
            format!("server {name}"),
            said(a.get(name)),
            said(b.get(name)),
        )
    })
}

/// Settings of the runs. The seed is none: it is meant to differ, or to be the same for pairs.
fn settings<'a>(
    base: &'a RunResult,
    other: &'a RunResult,
) -> impl Iterator<Item = (String, String, String)> + 'a {
    let (a, b) = (&base.settings, &other.settings);
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    names
        .into_iter()
        .filter(|name| *name != "seed")
        .map(|name| (name.clone(), said(a.get(name)), said(b.get(name))))
}

fn said(value: Option<&String>) -> String {
    value
        .filter(|v| !v.is_empty())
        .map_or_else(|| UNSAID.to_owned(), Clone::clone)
}
