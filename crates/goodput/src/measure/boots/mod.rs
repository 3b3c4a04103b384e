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
use goodput_results::Folder;
use goodput_sweep::{Question, RunResult, merge_result};

use super::{document, fresh_seed, setup, sweep};
use crate::{
    exit::{Exit, Failure},
    flags::SweepFlags,
    talk::Voice,
};
use earlier::Boot;
pub(super) use recorded::{asked, joined};
use restart::Restart;

/// Carries out the boots that are still to be measured.
pub(crate) fn sweep_boots(flags: &SweepFlags, voice: Voice) -> Result<Exit, Failure> {
    let mut series = Series::open(flags, voice)?;
    let wanted = flags.boots.map_or(series.next(), NonZeroU32::get);
    if wanted < series.next() {
        let message = format!("the folder has {} boots already", series.boots.len());
        return Err(Failure::usage(message).hint("name more with --boots, or leave it out"));
    }
    let restart = Restart::of(&series.flags, series.next() < wanted.max(2), voice)?;
    for number in series.next()..=wanted {
        let before = series.boots.last().and_then(|boot| boot.server_started);
        let resumed = flags.resume.is_some() && series.measured == 0;
        if number > 1 {
            voice.say(&format!("\nboot {number} of {wanted}"));
            if let Some(signal) = restart.carry_out(&series.flags, before, resumed, voice)? {
                return series.end(Some(signal), voice);
            }
        }
        if let Exit::Signal(signal) = series.measure(number, voice)? {
            return series.end(Some(signal), voice);
        }
    }
    series.end(None, voice)
}

/// A folder, its boots so far and how each is measured.
struct Series {
    folder: Folder,
    /// Those with points, in the order of their numbers.
    boots: Vec<Boot>,
    /// How the first one was measured, as far as it is known, and what was asked for now.
    flags: SweepFlags,
    seed: u64,
    /// Boots measured by this process.
    measured: u32,
    /// The number of the next folder: one that was given up keeps its own.
    next: u32,
}

impl Series {
    fn open(flags: &SweepFlags, voice: Voice) -> Result<Self, Failure> {
        let Some(path) = &flags.resume else {
            let out = flags.run.out.clone().unwrap_or_else(fresh_folder);
            Folder::is_free(&out)?;
            return Ok(Self {
                folder: Folder::open(&out),
                boots: Vec::new(),
                flags: flags.clone(),
                seed: flags.run.seed.unwrap_or_else(fresh_seed),
                measured: 0,
                next: 1,
            });
        };
        let folder = Folder::open(path);
        let (boots, next) = earlier::read(&folder)?;
        let first = &boots[0].result;
        if first.kind != "sweep" {
            return Err(Failure::usage(format!(
                "{} is the result of a {}, and only sweeps are resumed",
                path.display(),
                first.kind
            )));
        }
        if !first.complete {
            voice.say("note: the first boot did not come to its end; its points count as they are");
        }
        Ok(Self {
            flags: recorded::with_recorded(flags, first)?,
            seed: first.seed,
            measured: 0,
            next,
            folder,
            boots,
        })
    }

    const fn next(&self) -> u32 {
        self.next
    }

    /// Measures one boot and writes what all boots say so far.
    fn measure(&mut self, number: u32, voice: Voice) -> Result<Exit, Failure> {
        let loads = match self.boots.first() {
            None => sweep::Loads::new(&self.flags)?,
            Some(first) => loads_of(&first.result.points),
        };
        let place = earlier::place(&self.folder, number);
        let mut run = self.flags.run.clone();
        run.out = Some(place.path().to_owned());
        run.seed = Some(seed_of(self.seed, number));
        let task = setup::Task {
            kind: "sweep",
            most_users: loads.warm_up_users(),
            dry_run: false,
            prints: false,
        };
        if number == 2 {
            earlier::keep_first(&self.folder)?;
        }
        let exit = setup::carry_out(&run, &task, voice, async |run| {
            voice.say(&loads.cost(run));
            sweep::run_loads(run, &loads).await
        })?;
        (self.measured, self.next) = (self.measured + 1, number + 1);
        let boot = earlier::read_one(&place, number)?;
        if !boot.result.points.is_empty() {
            self.boots.push(boot);
            self.write()?;
        }
        Ok(exit)
    }

    /// What all boots say together.
    fn merged(&self) -> Result<RunResult, Failure> {
        let first = self
            .boots
            .first()
            .ok_or_else(|| Failure::untrusted("no boot was measured"))?;
        let question = Question {
            objective: first.result.objective(),
            e2e_at_tokens: self.flags.run.e2e_at,
        };
        let broken = self.boots.iter().find(|b| !b.result.complete);
        let mut whole = first.result.clone();
        whole.duration_s = self.boots.iter().map(|b| b.result.duration_s).sum();
        whole.complete = broken.is_none();
        whole.incomplete_because = broken.map(|b| {
            let why = b.result.incomplete_because.as_deref().unwrap_or("stopped");
            format!("boot {}: {why}", b.number)
        });
        let boots = self.boots.iter().map(Boot::summary).collect();
        Ok(merge_result(whole, boots, question))
    }

    fn write(&self) -> Result<(), Failure> {
        if self.boots.len() < 2 {
            return Ok(());
        }
        document::write_files(&self.merged()?, &self.folder)
    }

    /// Prints what all boots say and how the program ends.
    fn end(&self, signal: Option<u8>, voice: Voice) -> Result<Exit, Failure> {
        if self.boots.is_empty() {
            return signal
                .map(Exit::Signal)
                .ok_or_else(|| Failure::untrusted("no boot was measured"));
        }
        let merged = self.merged()?;
        let exit = signal.map_or_else(|| document::verdict(&merged), Exit::Signal);
        document::show(&merged, &self.folder, exit, self.flags.run.format, voice)?;
        Ok(exit)
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
