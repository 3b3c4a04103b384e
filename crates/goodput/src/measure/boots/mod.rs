//! `goodput sweep --boots N` and `--resume DIR`: the same loads on one boot of the server after
//! another, merged.
//!
//! The first boot is an ordinary result in the folder; each further one is an ordinary result of its
//! own in `boots/2`, `boots/3`, ... with its own instants and requests. After each, the folder's
//! `result.json`, `points.csv` and page are written anew from all boots. So whatever ends the program,
//! every boot that was measured can be read, and `--resume` goes on from there.

mod earlier;
mod recorded;
mod restart;

use std::{num::NonZeroU32, path::PathBuf};

use goodput_ledger::{Mode, PointRow};
use goodput_report::json;
use goodput_results::Folder;
use goodput_sweep::{Question, RunResult, merge_result};

use super::{document, files, fresh_seed, setup, sweep};
use crate::{
    exit::{Exit, Failure},
    flags::SweepFlags,
    talk::Voice,
};
use earlier::Boot;
pub(super) use recorded::{asked, joined};
use restart::Restart;

/// Refuses a command that would never be run.
pub(crate) fn check_restart_cmd(flags: &SweepFlags) -> Result<(), Failure> {
    let Some(command) = &flags.restart_cmd else {
        return Ok(());
    };
    if flags.resume.is_none() && flags.boots.is_none_or(|boots| boots.get() < 2) {
        return Err(Failure::usage(format!(
            "--restart-cmd `{command}` restarts the server between boots, and only one boot is asked for"
        ))
        .hint("--boots 3 measures on three boots; or leave --restart-cmd out"));
    }
    Ok(())
}

/// Refuses boots that no one is here to restart the server for.
pub(crate) fn check_boots(flags: &SweepFlags, voice: Voice) -> Result<(), Failure> {
    Restart::of(flags, true, voice).map(drop)
}

/// Carries out the boots that are still to be measured.
pub(crate) fn sweep_boots(flags: &SweepFlags, voice: Voice) -> Result<Exit, Failure> {
    let mut series = Series::open(flags, voice)?;
    let have = series.count();
    series.wanted = flags.boots.map_or(have + 1, NonZeroU32::get);
    if series.wanted <= have {
        let boots = if have == 1 { "boot" } else { "boots" };
        let message = format!("the folder has {have} {boots} already");
        return Err(Failure::usage(message).hint("name more with --boots, or leave it out"));
    }
    let between = series.wanted > have + 1 || have == 0;
    let restart = Restart::of(&series.flags, between, voice)?;
    let went = series.carry_out(&restart, voice);
    series.end(went, voice)
}

/// A folder, its boots so far and how each is measured.
struct Series {
    folder: Folder,
    /// Those with points, in the order of their numbers.
    boots: Vec<Boot>,
    /// How the first one was measured, as far as it is known, and what was asked for now.
    flags: SweepFlags,
    seed: u64,
    /// How many boots there are to be in all.
    wanted: u32,
    /// Boots measured by this process.
    measured: u32,
    /// Whether the folder's document says that a boot is under way.
    marked: bool,
}

impl Series {
    fn open(flags: &SweepFlags, voice: Voice) -> Result<Self, Failure> {
        let Some(path) = &flags.resume else {
            let out = flags.run.ask.out.clone().unwrap_or_else(fresh_folder);
            Folder::is_free(&out)?;
            return Ok(Self {
                folder: Folder::open(&out),
                boots: Vec::new(),
                flags: flags.clone(),
                seed: flags.run.ask.seed.unwrap_or_else(fresh_seed),
                wanted: 1,
                measured: 0,
                marked: false,
            });
        };
        let folder = Folder::open(path);
        let boots = earlier::read(&folder)?;
        let first = &boots[0].result;
        if first.kind != "sweep" {
            return Err(Failure::usage(format!(
                "{} is the result of a {}, and only sweeps are resumed",
                path.display(),
                first.kind
            )));
        }
        if !first.complete {
            voice.say("note: the first boot did not come to its end; its points count as they are, and further boots measure its loads");
        }
        Ok(Self {
            flags: recorded::with_recorded(flags, first)?,
            seed: first.seed,
            wanted: 1,
            measured: 0,
            marked: false,
            folder,
            boots,
        })
    }

    /// How many boots there are.
    fn count(&self) -> u32 {
        u32::try_from(self.boots.len()).unwrap_or(u32::MAX)
    }

    /// The lowest number that no boot has.
    fn next(&self) -> u32 {
        (1..=u32::MAX)
            .find(|number| self.boots.iter().all(|boot| boot.number != *number))
            .unwrap_or(u32::MAX)
    }

    /// Measures boots until there are as many as wanted. Gives the signal that ended it, if one did.
    fn carry_out(&mut self, restart: &Restart, voice: Voice) -> Result<Option<u8>, Failure> {
        for _ in self.count()..self.wanted {
            let number = self.next();
            if !self.boots.is_empty() {
                voice.say(&format!("\nboot {number} of {}", self.wanted));
                let latest = self.boots.iter().max_by_key(|b| b.result.epoch_unix_ns);
                let before = latest.and_then(|boot| boot.server_started);
                let resumed = self.flags.resume.is_some() && self.measured == 0;
                let broken = restart.carry_out(&self.flags, before, resumed, voice)?;
                if broken.is_some() {
                    return Ok(broken);
                }
            }
            if let Exit::Signal(signal) = self.measure(number, voice)? {
                return Ok(Some(signal));
            }
        }
        Ok(None)
    }

    /// Measures one boot and writes what all boots say so far.
    fn measure(&mut self, number: u32, voice: Voice) -> Result<Exit, Failure> {
        let loads = match self.boots.first() {
            None => sweep::Loads::new(&self.flags.loads, setup::kind(&self.flags.run))?,
            Some(first) => loads_of(&first.result.points),
        };
        let place = earlier::place(&self.folder, number);
        let mut run = self.flags.run.clone();
        run.ask.out = Some(place.path().to_owned());
        run.ask.seed = Some(seed_of(self.seed, number));
        let task = setup::Task {
            kind: "sweep",
            most_users: loads.warm_up_users(),
            dry_run: false,
            prints: false,
        };
        if number > 1 {
            earlier::set_aside(&place, number, voice)?;
            self.mark(number)?;
        }
        let exit = setup::carry_out(&run, &task, voice, async |run| {
            voice.say(&loads.cost(run));
            sweep::run_loads(run, &loads).await
        })?;
        self.measured += 1;
        if matches!(exit, Exit::Signal(_)) && !place.file("result.json").exists() {
            return Ok(exit);
        }
        let boot = earlier::read_one(&place, number)?;
        if !boot.result.points.is_empty() {
            self.boots.push(boot);
            self.boots.sort_by_key(|boot| boot.number);
            if self.count() < self.wanted {
                self.mark(self.next())?;
            }
        }
        Ok(exit)
    }

    /// What all boots say together. `why`: what is missing, if the boots themselves do not say.
    fn merged(&self, why: Option<String>) -> Result<RunResult, Failure> {
        let first = self
            .boots
            .first()
            .ok_or_else(|| Failure::untrusted("no boot was measured"))?;
        let question = Question {
            objective: first.result.objective(),
            e2e_at_tokens: self.flags.run.ask.e2e_at,
        };
        let broken = self.boots.iter().find(|b| !b.result.complete);
        let broken = broken.map(|b| {
            let why = b.result.incomplete_because.as_deref().unwrap_or("stopped");
            match self.boots.len() {
                1 => why.to_owned(),
                _ => format!("boot {}: {why}", b.number),
            }
        });
        let mut whole = first.result.clone();
        whole.duration_s = self.boots.iter().map(|b| b.result.duration_s).sum();
        whole.incomplete_because = broken.or(why);
        whole.complete = whole.incomplete_because.is_none();
        let boots = self.boots.iter().map(Boot::summary).collect();
        Ok(merge_result(whole, boots, question))
    }

    /// Says in the folder's document that a further boot is under way: whoever reads it after this
    /// process was killed must not take the boots before it for all.
    fn mark(&mut self, number: u32) -> Result<(), Failure> {
        earlier::keep_first(&self.folder)?;
        let why = format!(
            "boot {number} of {} is still being measured, or was killed; `goodput sweep --resume {} --boots {}` goes on",
            self.wanted,
            self.folder.path().display(),
            self.wanted
        );
        let result = self.merged(Some(why))?;
        self.folder.write("result.json", &json::document(&result))?;
        self.marked = true;
        Ok(())
    }

    /// Writes and prints what all boots say, and how the program ends.
    fn end(&self, went: Result<Option<u8>, Failure>, voice: Voice) -> Result<Exit, Failure> {
        if self.boots.is_empty() {
            return match went? {
                Some(signal) => Ok(Exit::Signal(signal)),
                None => Err(Failure::untrusted("no boot was measured")),
            };
        }
        let signal = *went.as_ref().unwrap_or(&None);
        let why = signal.map(|number| {
            let boots = (self.count(), self.wanted);
            format!(
                "stopped by signal {number}, with {} of {} boots",
                boots.0, boots.1
            )
        });
        if why.is_some() {
            earlier::keep_first(&self.folder)?;
        }
        let merged = self.merged(why)?;
        let exit = signal.map_or_else(|| document::verdict(&merged), Exit::Signal);
        let changed = self.marked || signal.is_some() || self.count() > 1 && self.measured > 0;
        match went {
            Err(failure) if changed => {
                files::write_files(&merged, &self.folder).told()?;
                Err(failure)
            }
            Err(failure) => Err(failure),
            Ok(_) => files::deliver(
                &merged,
                &self.folder,
                exit,
                self.flags.run.ask.format,
                voice,
            ),
        }
    }
}

fn fresh_folder() -> PathBuf {
    let now = jiff::Timestamp::now().strftime("%m%d-%H%M%S").to_string();
    PathBuf::from(format!("runs/sweep-boots-{now}"))
}

/// Every boot has a seed of its own: with one for all, what a plan's lengths happen to be would be in
/// every boot and in no interval.
fn seed_of(seed: u64, boot: u32) -> u64 {
    match boot {
        1 => seed,
        boot => goodput_stats::mix(seed ^ u64::from(boot).rotate_left(40)),
    }
}

/// The loads of an earlier boot, in rising order: only loads that every boot measured have a mean over
/// boots. Rates under other than the workload's own arrivals are left out.
fn loads_of(points: &[PointRow]) -> sweep::Loads {
    let mut users: Vec<NonZeroU32> = points
        .iter()
        .filter_map(|p| NonZeroU32::new(p.concurrency?))
        .collect();
    users.sort_unstable();
    users.dedup();
    let mut rates: Vec<f64> = points
        .iter()
        .filter(|p| p.mode == Mode::Open && p.other_arrivals.is_none())
        .filter_map(|p| p.rate_req_s)
        .collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    sweep::Loads::given(users, rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_boot_has_a_seed_of_its_own_and_the_first_one_that_was_asked_for() {
        let mut seeds: Vec<u64> = (1..=50).map(|boot| seed_of(7, boot)).collect();
        assert_eq!(seeds[0], 7);
        assert_eq!(seeds[1], seed_of(7, 2), "the same in every process");
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 50);
    }
}
