//! How the first boot of a folder was measured: the next ones are measured the same way.

use std::collections::BTreeMap;

use goodput_sweep::RunResult;

use super::super::server::HIDDEN;
use crate::{
    exit::Failure,
    flags::{Api, Http, RunFlags, SweepFlags},
};

/// What a run was asked for, as it is to be asked for again on the next boot.
pub(in crate::measure) fn asked(flags: &RunFlags, seed: u64) -> BTreeMap<String, String> {
    let replicas = flags.emulator.replicas.get();
    let told = [
        ("seed", Some(seed.to_string())),
        ("slo", Some(joined(&flags.ask.slo))),
        ("workload", flags.ask.workload.clone()),
        ("duration", flags.ask.duration.clone()),
        ("warmup", flags.ask.warmup.clone()),
        ("ramp", flags.ask.ramp.clone()),
        ("requests", flags.ask.requests.map(|n| n.to_string())),
        ("e2e_at", Some(flags.ask.e2e_at.to_string())),
        ("threads", Some(flags.threads.to_string())),
        ("accelerator", flags.accelerator.clone()),
        ("weight_bits", flags.weight_bits.map(|n| n.to_string())),
        ("replicas", (replicas > 1).then(|| replicas.to_string())),
    ];
    told.into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// The flags with what the folder recorded where nothing else was asked for.
///
/// # Errors
/// If something else was asked for than what was measured, or a secret that is not recorded is
/// missing.
pub(super) fn with_recorded(flags: &SweepFlags, first: &RunResult) -> Result<SweepFlags, Failure> {
    let mut flags = flags.clone();
    let settings = &first.settings;
    let run = &mut flags.run;
    let slo = joined(&run.ask.slo);
    let slo = same(
        "--slo",
        Some(&slo).filter(|s| *s != "chat"),
        settings.get("slo"),
    )?;
    if let Some(slo) = slo {
        run.ask.slo = slo.split(';').map(str::to_owned).collect();
    }
    run.ask.workload = same(
        "--workload",
        run.ask.workload.as_ref(),
        settings.get("workload"),
    )?;
    run.ask.duration = same(
        "--duration",
        run.ask.duration.as_ref(),
        settings.get("duration"),
    )?;
    run.ask.warmup = same("--warmup", run.ask.warmup.as_ref(), settings.get("warmup"))?;
    run.ask.ramp = same("--ramp", run.ask.ramp.as_ref(), settings.get("ramp"))?;
    run.ask.requests = run.ask.requests.or(number(settings, "requests"));
    run.ask.gpus = run.ask.gpus.or(first.holds_for.gpus);
    run.accelerator = run
        .accelerator
        .take()
        .or_else(|| settings.get("accelerator").cloned());
    run.weight_bits = run.weight_bits.or(number(settings, "weight_bits"));
    run.ask.e2e_at = number(settings, "e2e_at").unwrap_or(run.ask.e2e_at);
    run.threads = number(settings, "threads").unwrap_or(run.threads);
    run.emulator.replicas = number(settings, "replicas").unwrap_or(run.emulator.replicas);
    // Only a replica of the run's own has one: an emulator at a URL is a server like any other.
    if settings.contains_key("profile") {
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::flags::{Flags, Verb};

    fn flags(words: &[&str]) -> SweepFlags {
        let all = ["goodput", "sweep"].iter().chain(words);
        match Flags::try_parse_from(all).unwrap().verb {
            Verb::Sweep(flags) => flags,
            verb => panic!("{verb:?}"),
        }
    }

    /// A result as a sweep with these flags leaves it.
    fn first(words: &[&str]) -> RunResult {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../goodput-report/tests/sample.json"
        );
        let text = std::fs::read_to_string(file).unwrap();
        let mut result: RunResult = serde_json::from_str(&text).unwrap();
        let flags = flags(words);
        result.settings = super::super::super::server::saved(&flags.run.server);
        result.settings.extend(asked(&flags.run, 7));
        result
    }

    #[test]
    fn what_was_asked_for_once_need_not_be_asked_for_again() {
        let words = [
            "--url",
            "http://h:1/v1",
            "--slo",
            "voice;chat",
            "--workload",
            "azure-code",
            "--duration",
            "90s",
            "--warmup",
            "3",
            "--ramp",
            "1s",
            "--e2e-at",
            "77",
            "--threads",
            "2",
            "--api",
            "completions",
            "--no-stream",
            "--timeout-idle",
            "9s",
            "--body",
            "temperature=0",
        ];
        let whole = with_recorded(&flags(&["--resume", "d"]), &first(&words)).unwrap();
        let (run, asked_for) = (&whole.run, flags(&words).run);
        assert_eq!(run.ask.slo, asked_for.ask.slo);
        assert_eq!(
            (&run.ask.workload, &run.ask.duration),
            (&asked_for.ask.workload, &asked_for.ask.duration)
        );
        assert_eq!(
            (&run.ask.warmup, &run.ask.ramp),
            (&asked_for.ask.warmup, &asked_for.ask.ramp)
        );
        assert_eq!((run.ask.e2e_at, run.threads), (77, asked_for.threads));
        assert_eq!(
            (run.server.api, run.server.no_stream),
            (Api::Completions, true)
        );
        assert_eq!(run.server.timeout_idle.as_deref(), Some("9s"));
        assert_eq!(run.server.timeout_total, None);
        assert_eq!(run.server.body, ["temperature=0"]);
        let holds = first(&words).holds_for;
        assert_eq!(run.server.url.as_deref(), Some(holds.server.url.as_str()));
        assert_eq!(run.server.model.as_deref(), Some(holds.model.as_str()));
    }

    #[test]
    fn another_question_is_refused_and_a_secret_asked_for() {
        let asked_for = [
            "--slo", "voice", "--header", "x-key: k", "--body", "token=t",
        ];
        let first = first(&asked_for);
        let refused = |words: &[&str]| with_recorded(&flags(words), &first).unwrap_err().message;
        assert!(refused(&["--resume", "d", "--slo", "code"]).contains("voice"));
        assert!(refused(&["--resume", "d"]).contains("--body token=..."));
        assert!(refused(&["--resume", "d", "--body", "token=t"]).contains("--header 'x-key: ...'"));
        let named = ["--resume", "d", "--body", "token=t", "--header", "X-Key: k"];
        let whole = with_recorded(&flags(&named), &first).unwrap();
        assert_eq!(whole.run.ask.slo, ["voice"]);
    }
}
