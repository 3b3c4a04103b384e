//! `goodput sweep` and `goodput bench`: from flags to a result folder.

mod asked;
mod bench;
mod boots;
mod compose;
mod document;
mod dry_run;
mod files;
mod hardware;
mod live;
mod network;
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
mod source;
mod sweep;
mod threads;
mod tokenizer;
mod workload;

pub(crate) use document::{Paper, begin, definitions, finish, slo_facts, started, verdict};
pub(crate) use files::{PAGE, Written, deliver, show};
use goodput_config::TextError;
pub(crate) use hardware::emulated as hardware_of;
pub(crate) use live::LiveTable;
pub(crate) use observer::{BARS, lock};
pub(crate) use outage::{Failed, Outages};
pub(crate) use plan::ServerKind;
pub(crate) use remarks::{INTERRUPTED, dry_words, load_words};
pub(crate) use run::{Run, WarmUp};
pub(crate) use scrape::{MetricRow, cached_share};
pub(crate) use setup::fresh_seed;
pub(crate) use signals::Signals;
pub(crate) use source::{BIN, Observed, PointOrder, Seen, Source};
pub(crate) use sweep::{Loads, run_loads};
pub(crate) use workload::{
    agree, choose, choose as choose_workload, facts as workload_facts, load as load_workload,
};

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
    let loads = sweep::Loads::new(&flags.loads, setup::kind(&flags.run))?;
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
