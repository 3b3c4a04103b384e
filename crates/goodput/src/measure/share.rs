//! One share of a run that several processes carry together: its part of the schedule, and the
//! timetable that all of them keep.
//!
//! All instants of a shared run count from one epoch, [`EPOCH_LEAD_NS`] before the first point, and
//! every point has a slot of the same length. So the books of the shares are on one axis of time
//! and can be added up.

use std::{
    cell::RefCell,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use goodput_ledger::{PointBooks, PointFacts, WatchRow};
use goodput_loadgen::{Clock, PointPlan, PointReport, Settle, Window};
use goodput_record::{Epoch, Timestamp, nanos};
use goodput_results::{
    BOOKS_FILE, EPOCH_LEAD_NS, Folder, JsonLines, SHARD_FILE, ShardNote, ShardPoint, SloSource,
    digest,
};
use goodput_workload::{Load, Shard, WorkloadSpec};

use super::{
    server,
    sweep::{Loads, Rates, Users},
};
use crate::{
    exit::Failure,
    flags::{BenchFlags, RunFlags, SweepFlags},
    talk::Voice,
    text::read_text,
};

/// Of the window's length, what the load runs before it; see [`SETTLE`].
const SETTLE_SHARE: u32 = 2;
/// The shortest and the longest settling.
const SETTLE: [Duration; 2] = [Duration::from_secs(2), Duration::from_mins(1)];
/// The shortest and the longest time that measured requests have after the window.
const DRAIN: [Duration; 2] = [Duration::from_secs(10), Duration::from_mins(2)];
/// Between the end of one point and the beginning of the next: files are written.
const PAUSE: Duration = Duration::from_secs(2);
/// Spans of the timetable are whole multiples of this: the width of the books' bins.
const GRID: Duration = Duration::from_millis(100);

/// A share and its timetable.
#[derive(Debug)]
pub(crate) struct Share {
    /// The part of the schedule.
    pub(crate) shard: Shard,
    note: ShardNote,
    drain: Duration,
    lines: RefCell<Option<JsonLines>>,
}

impl Share {
    /// From the flags; `None` for a run of its own.
    pub(crate) fn new(
        flags: &RunFlags,
        spec: &WorkloadSpec,
        voice: Voice,
    ) -> Result<Option<Self>, Failure> {
        let (Some(shard), Some(start_at)) = (&flags.shard, &flags.start_at) else {
            return Ok(None);
        };
        let (index, of) = parts(shard)?;
        let start_at_unix_ns = instant(start_at)?;
        let window = window(flags)?;
        let seed = same_in_all(flags)?;
        let settle = whole(window / SETTLE_SHARE).clamp(SETTLE[0], SETTLE[1]);
        let drain = window.clamp(DRAIN[0], DRAIN[1]);
        let slot = whole(settle + window + drain + PAUSE);
        let share = Self {
            shard: Shard::new(index, of).unwrap_or(Shard::WHOLE),
            note: ShardNote {
                index,
                of,
                start_at_unix_ns,
                slot_ns: nanos(slot),
                settle_ns: nanos(settle),
                window_ns: nanos(window),
                seed,
                workload_digest: digest(format!("{spec:?}").as_bytes()),
                streamed: !flags.server.no_stream,
                slos: sources(&flags.ask.slo)?,
            },
            drain,
            lines: RefCell::new(None),
        };
        share.announce(voice)?;
        Ok(Some(share))
    }

    fn announce(&self, voice: Voice) -> Result<(), Failure> {
        let now = unix_ns();
        let start = self.note.start_at_unix_ns;
        let Some(ahead) = start.checked_sub(now) else {
            let gone = Duration::from_nanos(now - start).as_secs_f64();
            return Err(
                Failure::usage(format!("--start-at was {gone:.1} s ago")).hint(
                    "name an instant that leaves every shard time to start and to warm the server up: some minutes",
                ),
            );
        };
        voice.say(&format!(
            "shard     {}/{}: the first point begins in {:.0} s, the others every {:.0} s after it",
            self.note.index + 1,
            self.note.of,
            Duration::from_nanos(ahead).as_secs_f64(),
            Duration::from_nanos(self.note.slot_ns).as_secs_f64()
        ));
        Ok(())
    }

    /// The clock that all shares count by. Waits until it begins.
    pub(crate) fn clock(&self) -> Result<Clock, Failure> {
        let epoch = Epoch::from_unix_nanos(self.note.start_at_unix_ns - EPOCH_LEAD_NS);
        let ahead = epoch.unix_nanos().saturating_sub(unix_ns());
        if ahead > 0 {
            // A moment more, or the clock of the machine might still read a little less.
            std::thread::sleep(Duration::from_nanos(ahead) + Duration::from_millis(1));
        }
        Clock::counting_from(epoch).ok_or_else(|| {
            Failure::untrusted(
                "the clock of this machine was set, or it has run for less than five minutes",
            )
            .hint("shards count from five minutes before --start-at: name a later instant")
        })
    }

    /// When the first point begins: what goes before it is no part of the run.
    pub(crate) const fn begins() -> Timestamp {
        Timestamp::from_nanos(EPOCH_LEAD_NS)
    }

    /// Opens the share's own files.
    pub(crate) fn open(&self, folder: &Folder) -> Result<(), Failure> {
        let note = serde_json::to_string_pretty(&self.note)
            .map_err(|e| Failure::untrusted(format!("cannot write {SHARD_FILE}: {e}")))?;
        folder.write(SHARD_FILE, &note)?;
        let lines = JsonLines::create(&folder.file(BOOKS_FILE))?;
        *self.lines.borrow_mut() = Some(lines);
        Ok(())
    }

    /// Puts a point into the timetable: which part of it is sent, when it begins, and for how long
    /// what lasts. Returns its beginning.
    pub(crate) fn plan(&self, plan: &mut PointPlan) -> Timestamp {
        let begins = EPOCH_LEAD_NS + u64::from(plan.point) * self.note.slot_ns;
        let begins = Timestamp::from_nanos(begins);
        plan.shard = self.shard;
        plan.start_at = Some(begins);
        plan.settle = Settle::Fixed(Duration::from_nanos(self.note.settle_ns));
        plan.window = Window::Duration(Duration::from_nanos(self.note.window_ns));
        plan.drain = self.drain;
        begins
    }

    /// Keeps the books of a point for the merging.
    pub(crate) fn keep(
        &self,
        late: Duration,
        facts: &PointFacts,
        server: Option<WatchRow>,
        report: &PointReport,
        books: &PointBooks,
    ) -> Result<(), Failure> {
        let point = ShardPoint {
            begun_late_ns: nanos(late),
            due: report.arrivals_due,
            sent: report.arrivals_sent,
            facts: facts.clone(),
            server,
            books: books.save(),
        };
        let mut lines = self.lines.borrow_mut();
        let Some(lines) = lines.as_mut() else {
            return Ok(());
        };
        let kept = lines.write(&point).and_then(|()| lines.flush());
        kept.map_err(Failure::untrusted)
    }
}

/// `3/8` as an index from 0 and a number.
fn parts(text: &str) -> Result<(u16, u16), Failure> {
    let numbers = text
        .split_once('/')
        .and_then(|(i, n)| Some((i.trim().parse::<u16>().ok()?, n.trim().parse::<u16>().ok()?)));
    match numbers {
        Some((index, of)) if (1..=of).contains(&index) => Ok((index - 1, of)),
        _ => Err(
            Failure::usage(format!("--shard {text} is no share of a whole"))
                .hint("write 1/8 to 8/8 for the eight shares of a run"),
        ),
    }
}

/// An instant in nanoseconds since 1970.
fn instant(text: &str) -> Result<u64, Failure> {
    let seconds = text.parse::<f64>().ok().filter(|s| s.is_finite());
    let unix_ns = match seconds {
        Some(seconds) => Some(goodput_record::nanos_of(seconds)),
        None => text
            .parse::<jiff::Timestamp>()
            .ok()
            .and_then(|at| u64::try_from(at.as_nanosecond()).ok()),
    };
    unix_ns.filter(|ns| *ns > EPOCH_LEAD_NS).ok_or_else(|| {
        Failure::usage(format!("--start-at {text} is no instant"))
            .hint("write 2026-11-30T14:00:00Z, or seconds since 1970 as `date +%s` prints them")
    })
}

/// The window, which must be stated: what a share measures must not shape the timetable.
fn window(flags: &RunFlags) -> Result<Duration, Failure> {
    let Some(text) = &flags.ask.duration else {
        return Err(Failure::usage("a shard needs --duration")
            .hint("all shards keep one timetable: say how long a point's window is, such as 60s"));
    };
    Ok(whole(server::duration("--duration", text)?))
}

/// Refuses what cannot be the same in every shard, and returns the seed.
fn same_in_all(flags: &RunFlags) -> Result<u64, Failure> {
    if flags.ask.requests.is_some() {
        return Err(Failure::usage("--requests and --shard do not go together")
            .hint("shards measure in one window of time: --duration 60s"));
    }
    if flags.server.url.is_none() {
        return Err(Failure::usage("a shard needs --url")
            .hint("shards load one server together; `goodput emulate` serves an emulated one"));
    }
    flags.ask.seed.ok_or_else(|| {
        Failure::usage("a shard needs --seed")
            .hint("one seed makes one schedule, of which every shard has its part: --seed 1")
    })
}

/// Refuses a sweep whose loads depend on what is measured: no share sees the whole.
pub(crate) fn check_sweep(flags: &SweepFlags, loads: &Loads) -> Result<(), Failure> {
    let Some(shard) = &flags.run.shard else {
        return Ok(());
    };
    let users = match &loads.users {
        Users::Off => &[],
        Users::Given(users) => users.as_slice(),
        Users::Searched { .. } => return Err(searches()),
    };
    if loads.rates == Rates::Searched {
        return Err(searches());
    }
    check_users(shard, users.iter().map(|n| n.get()))
}

fn searches() -> Failure {
    Failure::usage("an automatic search cannot be split into shards")
        .hint("name the loads: --concurrency LIST --rate LIST, `none` for no points of a kind")
}

/// Refuses a closed loop with fewer users than shares.
pub(crate) fn check_bench(flags: &BenchFlags, load: Load) -> Result<(), Failure> {
    match (&flags.run.shard, super::bench::users(load)) {
        (Some(shard), Some(users)) => check_users(shard, std::iter::once(users.get())),
        _ => Ok(()),
    }
}

fn check_users(shard: &str, mut users: impl Iterator<Item = u32>) -> Result<(), Failure> {
    let (_, of) = parts(shard)?;
    match users.find(|&n| n < u32::from(of)) {
        None => Ok(()),
        Some(few) => Err(Failure::usage(format!(
            "{few} users cannot be shared out among {of} shards"
        ))
        .hint("every shard needs a user at every load: fewer shards, or larger loads")),
    }
}

/// The SLOs as they were named, files with their text.
fn sources(arguments: &[String]) -> Result<Vec<SloSource>, Failure> {
    let read = |argument: &String| {
        let text = if Path::new(argument).is_file() {
            Some(read_text("the SLO file", Path::new(argument))?)
        } else {
            None
        };
        Ok(SloSource {
            argument: argument.clone(),
            text,
        })
    };
    arguments.iter().map(read).collect()
}

/// A span as a whole number of bins, not shorter.
fn whole(span: Duration) -> Duration {
    let bins = nanos(span).div_ceil(nanos(GRID));
    Duration::from_nanos(bins * nanos(GRID))
}

fn unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counted_from_one_on_the_command_line() {
        assert_eq!(parts("1/8").unwrap(), (0, 8));
        assert_eq!(parts("8/8").unwrap(), (7, 8));
        for wrong in ["0/8", "9/8", "1/0", "3", "a/b", "-1/2", "1/99999"] {
            assert!(parts(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_instant_is_a_time_of_day_or_seconds() {
        let at = 1_796_047_200_000_000_000;
        assert_eq!(instant("2026-11-30T14:00:00Z").unwrap(), at);
        assert_eq!(instant("2026-11-30T15:00:00+01:00").unwrap(), at);
        assert_eq!(instant("1796047200").unwrap(), at);
        for wrong in ["soon", "", "14:00", "-5", "NaN", "0"] {
            assert!(instant(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn spans_of_the_timetable_are_whole_bins() {
        assert_eq!(whole(Duration::from_millis(1)), GRID);
        assert_eq!(
            whole(Duration::from_millis(2500)),
            Duration::from_millis(2500)
        );
    }
}
