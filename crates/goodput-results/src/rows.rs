//! Rows that go to disk as they come, so that memory does not grow with the run and what was
//! measured survives a crash.

use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use goodput_record::{Gaps, Phase, RequestRecord, RequestRow, RowContext, Series, VerdictWord};

use crate::{
    error::{Result, ResultsError},
    lines::JsonLines,
};

/// How long a row may wait on its way to disk.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// How much may wait for the disk, in bytes of memory: some 60,000 requests without gaps.
///
/// The load thread must not wait for a disk, and memory must not grow with one that is too slow:
/// when this much waits the run is asked to stop.
pub const MOST_WAITING: u64 = 32 << 20;

/// A record on its way to disk.
#[derive(Debug)]
pub struct RowJob {
    /// The record.
    pub record: RequestRecord,
    /// Its load point.
    pub point: u32,
    /// Its part of the point.
    pub phase: Phase,
    /// Whom it belongs to.
    pub series: Arc<Series>,
    /// Verdicts in the order of the run's SLOs.
    pub verdicts: Vec<VerdictWord>,
    /// The answer, where kept.
    pub text: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
}

impl RowJob {
    /// What it holds in memory, in bytes, about.
    fn bytes(&self) -> u64 {
        let gaps = self
            .record
            .gaps
            .kept()
            .map_or(0, |gaps| 4 * (gaps.len() + gaps.tokens().len()));
        let texts = [&self.text, &self.error].map(|t| t.as_ref().map_or(0, String::len));
        (size_of::<Self>() + self.verdicts.len() + gaps + texts[0] + texts[1]) as u64
    }
}

/// A lock that a panic elsewhere does not take away.
fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What both ends of the queue know.
struct Shared {
    waiting: AtomicU64,
    trouble: Mutex<Option<String>>,
    /// Called when rows can no longer be kept.
    stop: Box<dyn Fn() + Send + Sync>,
}

impl Shared {
    fn trouble(&self) -> MutexGuard<'_, Option<String>> {
        open(&self.trouble)
    }

    /// Notes the first trouble and asks to stop: what cannot be kept need not be measured.
    fn fail(&self, message: String) {
        let mut trouble = self.trouble();
        if trouble.is_some() {
            return;
        }
        *trouble = Some(message);
        drop(trouble);
        (self.stop)();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("waiting", &self.waiting)
            .field("trouble", &self.trouble)
            .finish_non_exhaustive()
    }
}

/// How rows are written.
#[derive(Clone, Debug)]
pub struct RowForm {
    /// The run's id: the first part of every request id.
    pub run: String,
    /// The names of the run's SLOs.
    pub slos: Vec<String>,
    /// Whether every gap is written out.
    pub keep_gaps: bool,
}

impl RowForm {
    fn row(&self, job: RowJob) -> RequestRow {
        let verdicts: BTreeMap<String, VerdictWord> =
            self.slos.iter().cloned().zip(job.verdicts).collect();
        let context = RowContext {
            run: &self.run,
            point: job.point,
            series: &job.series,
            phase: job.phase,
            verdicts,
            keep_gaps: self.keep_gaps,
            text: job.text,
            error: job.error,
        };
        RequestRow::new(&job.record, context)
    }
}

/// A thread that writes `requests.jsonl`.
///
/// What waits for it is bounded by [`MOST_WAITING`]: a disk that is too slow ends the run with a
/// message instead of taking the machine's memory. The load thread never waits.
#[derive(Debug)]
pub struct RowWriter {
    jobs: Mutex<Option<Sender<RowJob>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    shared: Arc<Shared>,
    most_waiting: u64,
    keep_gaps: bool,
    name: String,
}

impl RowWriter {
    /// Starts the thread. `stop` is called once, from either thread, when rows can no longer be
    /// kept.
    pub fn start(
        path: &Path,
        form: RowForm,
        stop: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::with_room(path, form, stop, MOST_WAITING)
    }

    fn with_room(
        path: &Path,
        form: RowForm,
        stop: impl Fn() + Send + Sync + 'static,
        most_waiting: u64,
    ) -> Result<Self> {
        let mut lines = JsonLines::create(path)?;
        let (jobs, inbox) = channel();
        let shared = Arc::new(Shared {
            waiting: AtomicU64::new(0),
            trouble: Mutex::new(None),
            stop: Box::new(stop),
        });
        let (keep_gaps, seen) = (form.keep_gaps, Arc::clone(&shared));
        let work = move || {
            if let Err(message) = write_all(&inbox, &mut lines, &form, &seen) {
                lines.drop_torn_line();
                seen.fail(message);
            }
        };
        let thread = std::thread::Builder::new()
            .name("rows".to_owned())
            .spawn(work)
            .map_err(ResultsError::Thread)?;
        Ok(Self {
            jobs: Mutex::new(Some(jobs)),
            thread: Mutex::new(Some(thread)),
            shared,
            most_waiting,
            keep_gaps,
            name: path.display().to_string(),
        })
    }

    /// A writer that keeps nothing and makes no file, for a run whose records nobody wants.
    #[must_use]
    pub fn nowhere() -> Self {
        Self {
            jobs: Mutex::new(None),
            thread: Mutex::new(None),
            shared: Arc::new(Shared {
                waiting: AtomicU64::new(0),
                trouble: Mutex::new(None),
                stop: Box::new(|| {}),
            }),
            most_waiting: 0,
            keep_gaps: false,
            name: String::new(),
        }
    }

    /// Queues a row once there is room for it. For a source that need not keep time: one in virtual
    /// time makes records faster than any disk takes them.
    pub fn send_when_there_is_room(&self, job: RowJob) {
        while self.shared.waiting.load(Ordering::Relaxed) > self.most_waiting / 2
            && self.trouble().is_none()
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.send(job);
    }

    /// Queues a row. Nothing is queued any more after trouble: [`RowWriter::trouble`] says which.
    pub fn send(&self, mut job: RowJob) {
        if open(&self.jobs).is_none() {
            return;
        }
        if !self.keep_gaps {
            job.record.gaps = Gaps::NotKept;
        }
        let bytes = job.bytes();
        let waiting = self.shared.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if waiting > self.most_waiting {
            self.shared.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.shared.fail(format!(
                "cannot write {} fast enough: {} MiB of rows wait for the disk, and what ended after them is not in it",
                self.name,
                self.most_waiting >> 20
            ));
            return;
        }
        if let Some(jobs) = &*open(&self.jobs) {
            // A thread that has stopped has said why.
            let _ = jobs.send(job);
        }
    }

    /// Whether every gap is written out.
    #[must_use]
    pub const fn keeps_gaps(&self) -> bool {
        self.keep_gaps
    }

    /// What went wrong, if anything did.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble().clone()
    }

    /// Takes no more rows and waits until every one is written. What went wrong, if anything did.
    #[must_use]
    pub fn finish(&self) -> Option<String> {
        *open(&self.jobs) = None;
        if let Some(thread) = open(&self.thread).take() {
            let _ = thread.join();
        }
        self.trouble()
    }
}

fn write_all(
    inbox: &Receiver<RowJob>,
    lines: &mut JsonLines,
    form: &RowForm,
    shared: &Shared,
) -> std::result::Result<(), String> {
    let mut flushed = Instant::now();
    loop {
        match inbox.recv_timeout(FLUSH_EVERY) {
            Ok(job) => {
                let bytes = job.bytes();
                lines.write(&form.row(job))?;
                shared.waiting.fetch_sub(bytes, Ordering::Relaxed);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return lines.flush(),
        }
        // Readers see what there is, and a crash takes no more than this with it.
        if flushed.elapsed() >= FLUSH_EVERY {
            lines.flush()?;
            flushed = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests;
