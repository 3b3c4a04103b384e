//! What a terminal shows while a run goes on: a line that moves, and the rows so far. Both are
//! taken away before the answer is printed, which has them all.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use goodput_ledger::{Mode, PointRow};
use goodput_report::{
    Style,
    terminal::{
        Columns, Live, Scale, closed_heading, closed_row, open_heading, open_row, other_arrivals,
    },
};
use goodput_sweep::HoldsFor;

use super::observer::{LiveCounts, lock};
use crate::talk::Voice;

/// How often the line is drawn: often enough to be alive, rarely enough to cost nothing.
const EVERY: Duration = Duration::from_millis(250);

/// What a run is doing right now.
#[derive(Clone, Debug)]
pub(crate) struct Doing {
    /// The load in words.
    pub(crate) title: String,
    /// Which point, from 1.
    pub(crate) point: usize,
    /// Of how many, where that is known.
    pub(crate) points: Option<usize>,
    /// How long it takes, about.
    pub(crate) expected: Duration,
    /// How long each of the later points takes, about.
    pub(crate) each_later: Duration,
}

/// The rows so far and the line that moves.
#[derive(Debug)]
pub(crate) struct LiveTable {
    voice: Voice,
    style: Style,
    columns: Columns,
    arrivals: String,
    rows: Vec<PointRow>,
    lines: usize,
}

impl LiveTable {
    /// An empty table of a run of this SLO and workload.
    pub(crate) fn new(voice: Voice, holds_for: &HoldsFor) -> Self {
        let style = voice.style_err();
        Self {
            voice,
            style,
            columns: Columns::of(&holds_for.slos, style),
            arrivals: holds_for.workload.arrivals.clone(),
            rows: Vec::new(),
            lines: 0,
        }
    }

    /// Draws the line of a point until the result is dropped.
    pub(crate) fn watch(&self, doing: Doing, counts: Arc<Mutex<LiveCounts>>) -> LiveLine {
        LiveLine::start(self.voice, self.style, doing, counts)
    }

    /// Shows a finished point.
    pub(crate) fn row(&mut self, row: &PointRow, objective: f64) {
        let first_of_mode = self.rows.last().is_none_or(|last| {
            (last.mode, &last.other_arrivals) != (row.mode, &row.other_arrivals)
        });
        self.rows.push(row.clone());
        let mut text = String::new();
        match row.mode {
            Mode::Closed => {
                if first_of_mode {
                    text += &closed_heading(self.columns, self.style);
                }
                let scale = Scale::of(&self.rows);
                text += &closed_row(row, scale, "", self.columns, self.style);
            }
            Mode::Open => {
                if first_of_mode {
                    let other = row.other_arrivals.as_deref().map(other_arrivals);
                    text += &open_heading(other.as_ref().unwrap_or(&self.arrivals), self.style);
                }
                text += &open_row(row, objective, self.style);
            }
        }
        self.lines += text.lines().count();
        self.voice.say(text.trim_end_matches('\n'));
    }

    /// Takes the rows away from a terminal.
    pub(crate) fn clear(&mut self) {
        self.voice.take_back(self.lines);
        self.lines = 0;
    }
}

/// Draws a line from a thread of its own, so that a slow terminal delays no request.
#[derive(Debug)]
pub(crate) struct LiveLine {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    voice: Voice,
}

impl LiveLine {
    fn start(voice: Voice, style: Style, doing: Doing, counts: Arc<Mutex<LiveCounts>>) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&done);
        let work = move || {
            let began = Instant::now();
            while !seen.load(Ordering::Relaxed) {
                let now = *lock(&counts);
                voice.progress(&line(&doing, now, began.elapsed(), style));
                std::thread::park_timeout(EVERY);
            }
        };
        let thread = std::thread::Builder::new().name("live".to_owned());
        Self {
            done,
            thread: voice.live.then(|| thread.spawn(work).ok()).flatten(),
            voice,
        }
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
        self.voice.progress("");
    }
}

fn line(doing: &Doing, counts: LiveCounts, spent: Duration, style: Style) -> String {
    let whole = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let left = doing.points.map(|points| {
        let later = doing.each_later * whole(points.saturating_sub(doing.point));
        doing.expected.saturating_sub(spent) + later
    });
    Live {
        load: doing.title.clone(),
        phase: if counts.measured > 0 {
            "measuring"
        } else {
            "settling"
        },
        point: (whole(doing.point), doing.points.map(whole)),
        done: spent.as_secs_f64() / doing.expected.as_secs_f64().max(0.1),
        requests: counts.measured,
        in_flight: counts.arrived.saturating_sub(counts.ended),
        attainment: (counts.measured > 0).then(|| counts.met as f64 / counts.measured as f64),
        throughput_tok_s: None,
        left_s: left.map(|left| left.as_secs_f64()),
    }
    .line(style)
}

/// A span for people: `1m 05s`.
pub(crate) fn minutes(span: Duration) -> String {
    goodput_report::number::span(span.as_secs_f64())
}
