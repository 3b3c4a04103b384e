//! Rows that go to disk as they come, so that memory does not grow with the run and what was
//! measured survives a crash.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use goodput_loadgen::Stop;
use goodput_record::{Phase, RequestRecord, RequestRow, RowContext, Series, VerdictWord};
use serde::Serialize;

use crate::exit::Failure;

/// How long a row may wait on its way to disk.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// A file of JSON lines.
#[derive(Debug)]
pub(crate) struct JsonLines {
    file: BufWriter<File>,
    path: PathBuf,
}

impl JsonLines {
    /// Makes the file.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(|e| Failure::untrusted(format!("cannot write {}: {e}", path.display())))?;
        Ok(Self {
            file: BufWriter::with_capacity(1 << 16, file),
            path: path.to_owned(),
        })
    }

    /// Writes one line.
    pub(crate) fn write(&mut self, row: &impl Serialize) -> Result<(), String> {
        let line = serde_json::to_writer(&mut self.file, row).map_err(std::io::Error::from);
        line.and_then(|()| self.file.write_all(b"\n"))
            .map_err(|e| self.because(&e))
    }

    /// Hands everything to the kernel.
    pub(crate) fn flush(&mut self) -> Result<(), String> {
        self.file.flush().map_err(|e| self.because(&e))
    }

    /// After trouble: what could not be written whole is taken out, so that the file can be read.
    fn drop_torn_line(self) {
        // Its buffer is thrown away, or it would be written after all once there is room.
        let (mut file, _unwritten) = self.file.into_parts();
        let _ = cut_torn_line(&mut file);
    }

    fn because(&self, error: &std::io::Error) -> String {
        format!("cannot write {}: {error}", self.path.display())
    }
}

/// Cuts a file of lines after its last whole one.
fn cut_torn_line(file: &mut File) -> std::io::Result<()> {
    /// Longer than any line: a row with a gap for each of a million tokens.
    const TAIL: u64 = 16 << 20;
    let length = file.seek(SeekFrom::End(0))?;
    let from = file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let whole = tail
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    file.set_len(from + whole as u64)
}

/// A record on its way to disk.
#[derive(Debug)]
pub(crate) struct RowJob {
    /// The record.
    pub(crate) record: RequestRecord,
    /// Its load point.
    pub(crate) point: u32,
    /// Its part of the point.
    pub(crate) phase: Phase,
    /// Whom it belongs to.
    pub(crate) series: Arc<Series>,
    /// Verdicts in the order of the run's SLOs.
    pub(crate) verdicts: Vec<VerdictWord>,
    /// The answer, where kept.
    pub(crate) text: Option<String>,
    /// Why it failed.
    pub(crate) error: Option<String>,
}

/// A thread that writes `requests.jsonl`.
#[derive(Debug)]
pub(crate) struct RowWriter {
    jobs: Option<Sender<RowJob>>,
    thread: Option<JoinHandle<()>>,
    trouble: Arc<Mutex<Option<String>>>,
}

impl RowWriter {
    /// Starts the thread. `slos` are the names of the run's SLOs; `stop` is asked when rows can no
    /// longer be written.
    pub(crate) fn start(
        path: &Path,
        run: String,
        slos: Vec<String>,
        keep_gaps: bool,
        stop: Stop,
    ) -> Result<Self, Failure> {
        let mut lines = JsonLines::create(path)?;
        let (jobs, inbox) = channel();
        let trouble = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&trouble);
        let work = move || {
            if let Err(message) = write_all(&inbox, &mut lines, &run, &slos, keep_gaps) {
                lines.drop_torn_line();
                *seen
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(message);
                // What cannot be kept need not be measured.
                stop.ask();
            }
        };
        let thread = std::thread::Builder::new()
            .name("rows".to_owned())
            .spawn(work)
            .map_err(|e| Failure::untrusted(format!("cannot start a thread: {e}")))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
            trouble,
        })
    }

    /// Queues a row. Fails silently when the thread has stopped: [`RowWriter::trouble`] says why.
    pub(crate) fn send(&self, job: RowJob) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
    }

    /// What went wrong, if anything did.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// Waits until every row is written.
    pub(crate) fn finish(mut self) -> Option<String> {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.trouble()
    }
}

fn write_all(
    inbox: &Receiver<RowJob>,
    lines: &mut JsonLines,
    run: &str,
    slos: &[String],
    keep_gaps: bool,
) -> Result<(), String> {
    let mut flushed = Instant::now();
    loop {
        match inbox.recv_timeout(FLUSH_EVERY) {
            Ok(job) => {
                let verdicts: BTreeMap<String, VerdictWord> =
                    slos.iter().cloned().zip(job.verdicts).collect();
                let context = RowContext {
                    run,
                    point: job.point,
                    series: &job.series,
                    phase: job.phase,
                    verdicts,
                    keep_gaps,
                    text: job.text,
                    error: job.error,
                };
                lines.write(&RequestRow::new(&job.record, context))?;
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
