//! The line that shows what runs, how far it is and how long it still takes.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::observer::{LiveCounts, lock};
use crate::talk::Voice;

/// How often the line is drawn: often enough to be alive, rarely enough to cost nothing.
const EVERY: Duration = Duration::from_millis(250);

/// Draws the line from a thread of its own, so that a slow terminal delays no request.
#[derive(Debug)]
pub(crate) struct LiveLine {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    voice: Voice,
}

impl LiveLine {
    /// Starts the line for one point. `left`: how long the rest of the run takes after it.
    pub(crate) fn start(
        voice: Voice,
        title: String,
        expected: Duration,
        left: Duration,
        counts: Arc<Mutex<LiveCounts>>,
    ) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&done);
        let work = move || {
            let began = Instant::now();
            while !seen.load(Ordering::Relaxed) {
                let spent = began.elapsed();
                voice.progress(&line(&title, *lock(&counts), spent, expected, left));
                std::thread::sleep(EVERY);
            }
        };
        let thread = voice.live.then(|| std::thread::Builder::new().name("live".to_owned()).spawn(work).ok());
        Self {
            done,
            thread: thread.flatten(),
            voice,
        }
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.voice.progress("");
    }
}

fn line(title: &str, counts: LiveCounts, spent: Duration, expected: Duration, left: Duration) -> String {
    let share = (spent.as_secs_f64() / expected.as_secs_f64().max(0.1)).min(1.0);
    let bar: String = (0..20).map(|i| if f64::from(i) < share * 20.0 { '#' } else { '.' }).collect();
    let open = counts.arrived.saturating_sub(counts.ended);
    let slo = if counts.measured > 0 {
        format!(" {:.1}% in SLO", 100.0 * counts.met as f64 / counts.measured as f64)
    } else {
        String::new()
    };
    let remaining = expected.saturating_sub(spent) + left;
    format!("{title} [{bar}] {open} in flight, {} ended{slo}, {} left", counts.ended, minutes(remaining))
}

/// A span for people: `1m 05s`.
pub(crate) fn minutes(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}
