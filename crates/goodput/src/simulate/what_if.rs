//! `goodput simulate --what-if`: a base and variants of it under the same arrivals and lengths.

use std::{cell::Cell, num::NonZeroU32, path::Path, time::Duration};

use goodput_config::TextError;
use goodput_ledger::Mode;
use goodput_perf_model::Profile;
use goodput_report::{csv, html, json, terminal};
use goodput_results::{Folder, read_result};
use goodput_sweep::{OperatingPoint, RunResult, Side, Variant, WhatIf};
use goodput_workload::{Load, WorkloadSpec};

use super::scene::Scene;
use crate::{
    compare::side,
    exit::{Exit, Failure},
    flags::Format,
    measure::{Loads, PAGE, Run, Written, run_loads, text_failure},
    print,
};

/// The base's folder within the result's.
const BASE: &str = "base";
/// The document of the whole what-if.
const DOCUMENT: &str = "what-if.json";
/// Requests, about, by which base and variants are compared at one load.
const COMPARED: f64 = 20_000.0;
/// The shortest and the longest window of that load.
const WINDOW: [Duration; 2] = [Duration::from_mins(2), Duration::from_mins(20)];

/// The variants that the flags ask for: several values of one knob are several variants, several
/// knobs joined by `;` are one.
pub(super) fn variants(flags: &[String]) -> Result<Vec<Vec<String>>, Failure> {
    let mut all = Vec::new();
    for flag in flags {
        let mut variants: Vec<Vec<String>> = vec![Vec::new()];
        for part in flag.split(';').map(str::trim).filter(|p| !p.is_empty()) {
            let Some((key, values)) = part.split_once('=') else {
                return Err(changes_nothing(part));
            };
            let (key, values) = (key.trim(), values.trim());
            // Draft tokens and their acceptance are one value.
            let values: Vec<&str> = if key == "speculation" {
                vec![values]
            } else {
                values.split(',').map(str::trim).collect()
            };
            variants = variants
                .iter()
                .flat_map(|before| {
                    values.iter().map(|value| {
                        let mut changes = before.clone();
                        changes.push(format!("{key}={value}"));
                        changes
                    })
                })
                .collect();
        }
        if variants.iter().any(Vec::is_empty) {
            return Err(changes_nothing(flag));
        }
        all.extend(variants);
    }
    Ok(all)
}

fn changes_nothing(part: &str) -> Failure {
    Failure::usage(format!("--what-if {part:?} changes nothing"))
        .hint("write key=value, such as max_num_seqs=64,128 or prompts=x2")
}

/// Changes a workload and a profile by their knobs.
pub(crate) fn change(
    spec: &mut WorkloadSpec,
    profile: &mut Profile,
    changes: &[String],
) -> Result<(), Failure> {
    for change in changes {
        let key = change.split('=').next().unwrap_or_default().trim();
        let key = key.strip_prefix("workload.").unwrap_or(key);
        let went = if WorkloadSpec::knobs().contains(&key) {
            spec.with(change)
        } else {
            profile.with(change).map_err(|e| both_known(key, e))
        };
        went.map_err(|e| text_failure("--what-if", &e))?;
    }
    let checked = profile.check();
    checked.map_err(|e| text_failure(&format!("--what-if {}", changes.join("; ")), &e))
}

/// The scene with changes, or why it cannot have them.
pub(super) fn changed<'a>(base: &Scene<'a>, changes: &[String]) -> Result<Scene<'a>, Failure> {
    let mut scene = base.clone();
    change(&mut scene.spec, &mut scene.profile, changes)?;
    scene.what_if = changes.to_vec();
    scene.fits()?;
    Ok(scene)
}

/// Adds the workload's knobs to what is said of a name that nobody knows.
fn both_known(key: &str, error: TextError) -> TextError {
    let knobs = Profile::knobs();
    let plain = key.strip_prefix("step_time.").unwrap_or(key);
    if knobs.contains(&plain) || error.hint.is_some() {
        return error;
    }
    match goodput_config::suggest(key, &WorkloadSpec::knobs()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(format!(
            "of the workload: {}",
            WorkloadSpec::knobs().join(", ")
        )),
    }
}

/// Simulates the base and its variants, and puts them side by side.
pub(super) fn run(
    base: &Scene<'_>,
    variants: &[Vec<String>],
    loads: &Loads,
    folder: &Path,
    format: Format,
) -> Result<Exit, Failure> {
    let scenes = variants.iter().map(|changes| changed(base, changes));
    let scenes: Vec<Scene<'_>> = scenes.collect::<Result<_, _>>()?;
    Folder::is_free(&folder.join(BASE))?;
    let folder = Folder::create(folder)?;
    let at = Cell::new(None);
    let base_exit = base.run_with(&folder.file(BASE), None, async |run| {
        run_loads(run, loads).await?;
        at.set(operating_load(&run.answers()));
        compared_point(run, at.get()).await
    })?;
    if let Exit::Signal(_) = base_exit {
        return Ok(stopped(base, 0, scenes.len(), &folder, base_exit));
    }
    let mut exits = vec![base_exit];
    let mut names = Vec::new();
    for (scene, number) in scenes.iter().zip(1..) {
        let name = format!("what-if-{number}");
        base.say(&format!("\nwhat if   {}", scene.what_if.join("; ")));
        let exit = scene.run_with(&folder.file(&name), None, async |run| {
            run_loads(run, loads).await?;
            compared_point(run, at.get()).await
        })?;
        if let Exit::Signal(_) = exit {
            return Ok(stopped(base, names.len() + 1, scenes.len(), &folder, exit));
        }
        exits.push(exit);
        names.push((name, scene.what_if.clone()));
    }
    let results = Results::read(&folder, names)?;
    let what_if = results.side_by_side(&folder, at.get())?;
    let written = results.write(&folder, &what_if);
    show(&what_if, &folder, format, base)?;
    written.told()?;
    // A variant that cannot be trusted decides nothing; else the base answers.
    let untrusted = exits.iter().find(|e| !matches!(e, Exit::Yes | Exit::No));
    Ok(*untrusted.unwrap_or(&base_exit))
}

/// Says what there is of a what-if that a signal has stopped. The rest is not begun, and what there is
/// is not compared: it may be half a curve.
fn stopped(base: &Scene<'_>, begun: usize, of: usize, folder: &Folder, exit: Exit) -> Exit {
    base.say(&format!(
        "stopped: {begun} of {of} variants were begun, and nothing is compared; {}/ keeps a result for the base and each of them",
        folder.path().display()
    ));
    exit
}

/// The load of the base's operating point: the rate to sell, else the cap, else the peak.
fn operating_load(found: &OperatingPoint) -> Option<(Load, f64)> {
    if let Some(sell) = &found.by_objective {
        let load = Load::Open {
            per_second: sell.rate_req_s,
        };
        return Some((load, sell.rate_req_s));
    }
    let peak = found.by_goodput.as_ref().map(|best| &best.row);
    let row = found.by_clauses.as_ref().or(peak)?;
    let load = match (row.concurrency, row.rate_req_s) {
        (Some(users), _) => Load::Closed(NonZeroU32::new(users)?),
        (None, rate) => Load::Open { per_second: rate? },
    };
    Some((load, row.completed_req_s))
}

/// Simulates the base's operating point once more, under a schedule that is the same in base and
/// variants and that chose none of them.
async fn compared_point(run: &mut Run, at: Option<(Load, f64)>) -> Result<(), Failure> {
    let Some((load, per_second)) = at.filter(|_| !run.stopped()) else {
        return Ok(());
    };
    let span = COMPARED / per_second.max(1e-3);
    let span = Duration::from_secs_f64(span.min(WINDOW[1].as_secs_f64())).max(WINDOW[0]);
    run.fresh_point(load, span).await.map(drop)
}

/// The base and its variants, read back from their folders.
struct Results {
    base: RunResult,
    variants: Vec<(String, Vec<String>, RunResult)>,
}

impl Results {
    fn read(folder: &Folder, names: Vec<(String, Vec<String>)>) -> Result<Self, Failure> {
        let variants = names.into_iter().map(|(name, changes)| {
            let result = read_result(&folder.file(&name))?;
            Ok((name, changes, result))
        });
        Ok(Self {
            base: read_result(&folder.file(BASE))?,
            variants: variants.collect::<Result<_, Failure>>()?,
        })
    }

    fn side_by_side(&self, folder: &Folder, at: Option<(Load, f64)>) -> Result<WhatIf, Failure> {
        let base: Side<'_> = side(&self.base, &folder.file(BASE))?;
        let mut variants = Vec::new();
        for (name, changes, result) in &self.variants {
            let variant = side(result, &folder.file(name))?;
            let at = at.map(|(load, _)| match load {
                Load::Closed(users) => (Mode::Closed, f64::from(users.get())),
                Load::Open { per_second } => (Mode::Open, per_second),
            });
            let told = (name.clone(), changes.clone());
            variants.push(Variant::of(told, &base, &variant, at));
        }
        Ok(WhatIf {
            base: BASE.to_owned(),
            at: at.map(|(load, _)| crate::measure::load_words(load)),
            missing: self.base.operating_point.missing.clone(),
            variants,
        })
    }

    /// The page that lays the curves over each other, and the document.
    fn write(&self, folder: &Folder, what_if: &WhatIf) -> Written {
        let mut runs = vec![(BASE.to_owned(), self.base.clone())];
        for (_, changes, result) in &self.variants {
            runs.push((changes.join("; "), result.clone()));
        }
        let mut written = Written::default();
        written.add(DOCUMENT, folder.write(DOCUMENT, &json::document(what_if)));
        let page = html::what_if(what_if, &runs);
        written.add(PAGE, folder.write_by(PAGE, |out| page.write(out)));
        written
    }
}

fn show(
    what_if: &WhatIf,
    folder: &Folder,
    format: Format,
    scene: &Scene<'_>,
) -> Result<(), Failure> {
    match format {
        Format::Human => {
            let told = terminal::what_if(what_if, scene.style());
            let files = format!(
                "\n{}/  {PAGE}  {DOCUMENT}  {BASE}/  {}",
                folder.path().display(),
                what_if
                    .variants
                    .iter()
                    .map(|v| format!("{}/", v.folder))
                    .collect::<Vec<_>>()
                    .join("  ")
            );
            print(&(told + &files))
        }
        Format::Json => print(&json::document(what_if)),
        Format::Csv => print(&csv::what_if(what_if)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(flags: &[&str]) -> Vec<Vec<String>> {
        let flags: Vec<String> = flags.iter().map(|f| (*f).to_owned()).collect();
        variants(&flags).unwrap()
    }

    #[test]
    fn values_and_flags_are_variants_and_joined_knobs_are_one() {
        assert_eq!(
            of(&["max_num_seqs=64,128", "prompts=x2"]),
            [["max_num_seqs=64"], ["max_num_seqs=128"], ["prompts=x2"]]
        );
        assert_eq!(
            of(&["max_num_seqs=64 ; kv_blocks=1,2"]),
            [
                ["max_num_seqs=64", "kv_blocks=1"],
                ["max_num_seqs=64", "kv_blocks=2"]
            ]
        );
        assert_eq!(of(&["speculation=3,0.7"]), [["speculation=3,0.7"]]);
        for nothing in ["faster", ";", ""] {
            assert!(variants(&[nothing.to_owned()]).is_err(), "{nothing}");
        }
    }

    #[test]
    fn knobs_of_the_workload_are_named_only_where_the_knob_is_not_known() {
        let wrong = || TextError::new("no number");
        assert_eq!(both_known("step_time.prefill_s", wrong()).hint, None);
        assert!(both_known("nosuch", wrong()).hint.is_some());
    }

    #[test]
    fn the_operating_load_is_the_rate_to_sell_before_the_cap() {
        assert_eq!(operating_load(&OperatingPoint::default()), None);
        let sample = include_str!("../../../goodput-report/tests/sample.json");
        let mut found = serde_json::from_str::<RunResult>(sample)
            .unwrap()
            .operating_point;
        let rate = found.by_objective.as_ref().unwrap().rate_req_s;
        let load = Load::Open { per_second: rate };
        assert_eq!(operating_load(&found), Some((load, rate)));
        found.by_objective = None;
        let cap = found.by_clauses.as_ref().unwrap();
        let (users, served) = (cap.concurrency.unwrap(), cap.completed_req_s);
        let users = NonZeroU32::new(users).unwrap();
        assert_eq!(operating_load(&found), Some((Load::Closed(users), served)));
    }
}
