//! `goodput sweep` and `goodput bench`: from flags to a result folder.

mod bench;
mod boots;
mod compose;
mod document;
mod dry_run;
mod files;
mod hardware;
mod live;
mod observer;
mod outage;
mod place;
mod plan;
mod remarks;
mod run;
mod scrape;
mod search;
mod server;
mod setup;
mod share;
mod signals;
mod sweep;
mod threads;
mod tokenizer;
mod workload;

pub(crate) use document::{definitions, slo_facts, started, verdict};
pub(crate) use files::{PAGE, Written, deliver, show};
use goodput_config::TextError;
pub(crate) use observer::lock;
use setup::fresh_seed;
pub(crate) use signals::Signals;
pub(crate) use workload::{choose as choose_workload, load as load_workload};

use crate::{
    exit::{Exit, Failure},
    flags::{BenchFlags, SweepFlags},
    talk::Voice,
};

/// `goodput sweep`.
pub(crate) fn sweep(flags: &SweepFlags, voice: Voice) -> Result<Exit, Failure> {
    boots::check_restart_cmd(flags)?;
    let several = flags.boots.is_some_and(|boots| boots.get() > 1);
    if flags.resume.is_some() || (several && !flags.dry_run) {
        return boots::sweep_boots(flags, voice);
    }
    if several {
        boots::check_boots(flags, voice)?;
    }
    let loads = sweep::Loads::new(flags)?;
    share::check_sweep(flags, &loads)?;
    let task = setup::Task {
        kind: "sweep",
        most_users: loads.warm_up_users(),
        dry_run: flags.dry_run,
        prints: true,
    };
    setup::carry_out(&flags.run, &task, voice, async |run| {
        if flags.dry_run {
            return dry_run::print_plan(run, &loads, flags, voice);
        }
        voice.say(&loads.cost(run));
        sweep::run_loads(run, &loads).await
    })
}

/// `goodput bench`.
pub(crate) fn bench(flags: &BenchFlags, voice: Voice) -> Result<Exit, Failure> {
    let load = bench::load(flags)?;
    share::check_bench(flags, load)?;
    let task = setup::Task {
        kind: "bench",
        most_users: bench::users(load),
        dry_run: false,
        prints: true,
    };
    setup::carry_out(&flags.run, &task, voice, async |run| {
        run.point(load, 0).await.map(drop)
    })
}

/// A flag whose value cannot be read.
pub(crate) fn text_failure(flag: &str, problem: &TextError) -> Failure {
    let mut message = format!("{flag}: {}", problem.message);
    if let Some(expected) = &problem.expected {
        message = format!("{message}; expected {expected}");
    }
    let failure = Failure::usage(message);
    match &problem.hint {
        Some(hint) => failure.hint(hint.clone()),
        None => failure,
    }
}
