//! `goodput`: finds the operating point of an LLM deployment.
//!
//! This crate is the wiring: flags, files, terminals, signals and exit codes. What is measured,
//! judged, counted, decided and drawn is done by the crates below it.

mod calibrate;
mod compare;
mod derived;
mod emulate;
mod exit;
mod flags;
mod manual;
mod measure;
mod plan;
mod process_list;
mod report;
mod simulate;
mod slo;
mod talk;
mod text;
mod trace;

use std::process::ExitCode;

use clap::Parser;
use exit::{Exit, Failure};
use flags::{Flags, SloVerb, TraceVerb, Verb};
use talk::Voice;

fn main() -> ExitCode {
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(error) => return usage(&error),
    };
    let voice = Voice::new(&flags.talk);
    process_list::hide_key(&flags, voice);
    match run(flags.verb, voice) {
        Ok(exit) => exit.code(),
        Err(failure) => {
            talk::error_line(&failure.to_string());
            failure.exit.code()
        }
    }
}

fn run(verb: Verb, voice: Voice) -> Result<Exit, Failure> {
    match verb {
        Verb::Sweep(flags) => measure::sweep(&flags, voice),
        Verb::Bench(flags) => measure::bench(&flags, voice),
        Verb::Simulate(flags) => simulate::simulate(&flags, voice),
        Verb::Compare(flags) => compare::compare(&flags, voice),
        Verb::Plan(flags) => plan::plan(&flags, voice),
        Verb::Calibrate(flags) => calibrate::calibrate(&flags, voice),
        Verb::Report(flags) => report::report(&flags, voice),
        Verb::Trace(TraceVerb::Inspect(flags)) => trace::inspect(&flags, voice),
        Verb::Trace(TraceVerb::Convert { trace, out }) => trace::convert(&trace, &out, voice),
        Verb::Slo(SloVerb::Check { slo }) => slo::check(&slo, voice),
        Verb::Slo(SloVerb::Presets { format }) => slo::presets(format),
        Verb::Emulate(flags) => emulate::emulate(&flags, voice),
        Verb::Completions { shell } => manual::completions(shell),
        Verb::Man { out } => manual::man(&out),
    }
}

/// What clap says, with our exit code: help and version are data, a wrong flag is 2.
fn usage(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    match error.kind() {
        clap::error::ErrorKind::DisplayHelp | clap::error::ErrorKind::DisplayVersion => {
            match printed {
                // A reader that has seen enough is no error.
                Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Exit::Untrusted,
                _ => Exit::Yes,
            }
            .code()
        }
        _ => Exit::Usage.code(),
    }
}

/// Writes data to stdout.
fn print(text: &str) -> Result<(), Failure> {
    talk::data(text).map_err(|e| Failure::untrusted(format!("cannot write to stdout: {e}")))
}
