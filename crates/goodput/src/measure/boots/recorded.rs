//! How the first boot of a folder was measured: the next ones are measured the same way.

use std::collections::BTreeMap;

use goodput_sweep::RunResult;

use super::super::server::HIDDEN;
use crate::{
    exit::Failure,
    flags::{Api, Http, SweepFlags},
};

/// The flags with what the folder recorded where nothing else was asked for.
///
/// # Errors
/// If something else was asked for than what was measured, or a secret that is not recorded is
/// missing.
pub(super) fn with_recorded(flags: &SweepFlags, first: &RunResult) -> Result<SweepFlags, Failure> {
    let mut flags = flags.clone();
    let settings = &first.settings;
    let run = &mut flags.run;
    let slo = joined(&run.slo);
    let slo = same(
        "--slo",
        Some(&slo).filter(|s| *s != "chat"),
        settings.get("slo"),
    )?;
    if let Some(slo) = slo {
        run.slo = slo.split(';').map(str::to_owned).collect();
    }
    run.workload = same(
        "--workload",
        run.workload.as_ref(),
        settings.get("workload"),
    )?;
    run.duration = same(
        "--duration",
        run.duration.as_ref(),
        settings.get("duration"),
    )?;
    run.warmup = same("--warmup", run.warmup.as_ref(), settings.get("warmup"))?;
    run.ramp = same("--ramp", run.ramp.as_ref(), settings.get("ramp"))?;
    run.requests = run.requests.or(number(settings, "requests"));
    run.gpus = run.gpus.or(first.holds_for.gpus);
    if let Some(tokens) = number(settings, "e2e_at") {
        run.e2e_at = tokens;
    }
    if first.holds_for.server.emulated {
        emulator(&mut flags, settings)?;
    } else {
        server(&mut flags, first)?;
    }
    Ok(flags)
}

/// What was asked for now, else what was recorded.
fn same(
    flag: &str,
    asked: Option<&String>,
    recorded: Option<&String>,
) -> Result<Option<String>, Failure> {
    match (asked, recorded) {
        (Some(asked), Some(recorded)) if asked != recorded => Err(Failure::usage(format!(
            "{flag} {asked} is not what the first boot was measured with, {recorded}"
        ))
        .hint("boots of one folder are measured the same way: leave the flag out")),
        (asked, recorded) => Ok(asked.or(recorded).cloned()),
    }
}

fn number<T: std::str::FromStr>(settings: &BTreeMap<String, String>, name: &str) -> Option<T> {
    settings.get(name)?.parse().ok()
}

/// How several values of one flag are recorded.
pub(in crate::measure) fn joined(values: &[String]) -> String {
    values.join(";")
}

fn emulator(flags: &mut SweepFlags, settings: &BTreeMap<String, String>) -> Result<(), Failure> {
    if flags.run.server.url.is_some() {
        return Err(Failure::usage(
            "the first boot was measured on the emulated replica, not on --url",
        ));
    }
    let emulator = &mut flags.run.emulator;
    if let Some(profile) = settings.get("profile") {
        emulator.profile.clone_from(profile);
    }
    if let Some(faults) = settings.get("faults").filter(|f| !f.is_empty()) {
        emulator.faults = faults.split(';').map(str::to_owned).collect();
    }
    Ok(())
}

fn server(flags: &mut SweepFlags, first: &RunResult) -> Result<(), Failure> {
    let (settings, holds) = (&first.settings, &first.holds_for);
    let server = &mut flags.run.server;
    server.url = server.url.take().or_else(|| Some(holds.server.url.clone()));
    server.model = same("--model", server.model.as_ref(), Some(&holds.model))?;
    let is = |name: &str, value: &str| settings.get(name).is_some_and(|v| v == value);
    if is("api", "completions") {
        server.api = Api::Completions;
    }
    if is("http", "2") {
        server.http = Http::V2;
    }
    server.no_stream |= is("stream", "false");
    if let Some(connect) = settings.get("timeout_connect") {
        server.timeout_connect.clone_from(connect);
    }
    for (name, limit) in [
        ("timeout_first_token", &mut server.timeout_first_token),
        ("timeout_idle", &mut server.timeout_idle),
        ("timeout_total", &mut server.timeout_total),
    ] {
        let recorded = settings.get(name).filter(|v| *v != "none");
        *limit = limit.take().or_else(|| recorded.cloned());
    }
    for (name, value) in settings {
        if let Some(header) = name.strip_prefix("header ") {
            let given = server.headers.iter().any(|h| begins(h, header, ':'));
            needed(given, &format!("--header '{header}: ...'"))?;
        }
        if let Some(field) = name.strip_prefix("body ") {
            let given = server.body.iter().any(|b| begins(b, field, '='));
            needed(given || value != HIDDEN, &format!("--body {field}=..."))?;
            if !given {
                server.body.push(format!("{field}={value}"));
            }
        }
    }
    Ok(())
}

/// Whether `NAME: VALUE` or `NAME=VALUE` has this name.
fn begins(text: &str, name: &str, mark: char) -> bool {
    text.split(mark)
        .next()
        .is_some_and(|n| n.trim().eq_ignore_ascii_case(name))
}

fn needed(given: bool, flag: &str) -> Result<(), Failure> {
    if given {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "the first boot was measured with {flag}, whose value is not recorded"
    ))
    .hint("name it again"))
}
