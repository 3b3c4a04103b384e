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
        warnings,
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
    /// Finished points, with the objective that they are held against.
    rows: Vec<PointRow>,
    objective: f64,
    /// Lines shown that are to be taken away.
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
            objective: 1.0,
            lines: 0,
        }
    }

    /// Draws the line of a point until the result is dropped.
    pub(crate) fn watch(&self, doing: Doing, counts: Arc<Mutex<LiveCounts>>) -> LiveLine {
        LiveLine::start(self.voice, self.style, doing, counts)
    }

    /// Shows a finished point. On a terminal the rows before are drawn again where it changes what a
    /// full bar stands for; elsewhere rows have no bars.
    pub(crate) fn row(&mut self, row: &PointRow, objective: f64) {
        self.objective = objective;
        let before = Scale::of(&self.rows);
        self.rows.push(row.clone());
        let last = self.rows.len() - 1;
        let scale = Scale::of(&self.rows);
        let redraws = scale != before && self.lines > 0 && self.voice.can_take_back(self.lines);
        let from = if redraws { 0 } else { last };
        if redraws {
            self.clear();
        }
        let text: String = (from..=last).map(|index| self.text(index, scale)).collect();
        self.say(text.trim_end_matches('\n'));
    }

    /// Says something below the rows.
    pub(crate) fn say(&mut self, text: &str) {
        self.lines += text.lines().count();
        self.voice.say(text);
    }

    /// A row with its warnings, and the heading where it is the first of its kind.
    fn text(&self, index: usize, scale: Scale) -> String {
        let (row, style) = (&self.rows[index], self.style);
        let kind = |row: &PointRow| (row.mode, row.other_arrivals.clone());
        let before = index.checked_sub(1).map(|i| kind(&self.rows[i]));
        let is_first = before.is_none_or(|before| before != kind(row));
        let columns = if self.voice.live {
            self.columns
        } else {
            self.columns.without_bars()
        };
        let heading = match row.mode {
            Mode::Closed => closed_heading(columns, style),
            Mode::Open => {
                let other = row.other_arrivals.as_deref().map(other_arrivals);
                open_heading(other.as_ref().unwrap_or(&self.arrivals), style)
            }
        };
        let line = match row.mode {
            Mode::Closed => closed_row(row, scale, "", columns, style),
            Mode::Open => open_row(row, self.objective, style),
        };
        let heading = if is_first { heading } else { String::new() };
        heading + &line + &warnings(row, style)
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
