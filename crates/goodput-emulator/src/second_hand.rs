//! A second hand for writing: half of a large step's events are written by another thread.
//!
//! A write to a socket of the same machine costs the kernel some 3 us, so 512 of them in a row are
//! near the 2 ms that a token may be late. Two threads halve that. Nothing waits for the second
//! one: what it has not begun when the first is done, the first takes back.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use goodput_record::Timestamp;
use mio::net::TcpStream;

use crate::{
    clock::Clock,
    connection::{WriteEnd, write_out},
    stop::Stop,
};

/// How many jobs are taken at a time: few, so that little is stuck behind a thread that the system
/// sets aside.
const BATCH: usize = 4;

/// Bytes to be written to one connection, away from it until they come back with the result.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) slot: usize,
    /// The connection's own number, since slots are used again.
    pub(crate) id: u64,
    pub(crate) socket: Arc<TcpStream>,
    pub(crate) output: Vec<u8>,
    pub(crate) written: usize,
    pub(crate) due: Option<Timestamp>,
    /// What the write came to and when it returned.
    pub(crate) result: Option<(io::Result<WriteEnd>, Timestamp)>,
}

impl Job {
    fn run(&mut self, clock: Clock) {
        let end = write_out(&self.socket, &self.output, &mut self.written);
        self.result = Some((end, clock.now()));
    }
}

#[derive(Debug, Default)]
struct Desk {
    jobs: Vec<Job>,
    done: Vec<Job>,
    over: bool,
}

#[derive(Debug, Default)]
struct Shared {
    desk: Mutex<Desk>,
    bell: Condvar,
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The other thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct SecondHand {
    shared: Arc<Shared>,
    clock: Clock,
    thread: Option<JoinHandle<()>>,
}

impl SecondHand {
    /// Starts the thread, which wakes the poll of `stop` when it has done something; `None` where
    /// there is no second core for it, or no thread to be had.
    pub(crate) fn start(clock: Clock, stop: Stop) -> Option<Self> {
        if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
            return None;
        }
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("second-hand".to_owned())
            .spawn(move || work(&theirs, clock, &stop))
            .ok()?;
        Some(Self {
            shared,
            clock,
            thread: Some(thread),
        })
    }

    /// Hands jobs over.
    pub(crate) fn give(&self, jobs: &mut Vec<Job>) {
        self.shared.desk().jobs.append(jobs);
        self.shared.bell.notify_one();
    }

    /// Does what the other thread has not begun.
    pub(crate) fn help(&self) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let mut desk = self.shared.desk();
            desk.done.append(&mut batch);
            let count = desk.jobs.len().min(BATCH);
            batch.extend(desk.jobs.drain(..count));
            drop(desk);
            if batch.is_empty() {
                return;
            }
            for job in &mut batch {
                job.run(self.clock);
            }
        }
    }

    /// Takes what has been done, by either thread, into `done`.
    pub(crate) fn collect(&self, done: &mut Vec<Job>) {
        done.append(&mut self.shared.desk().done);
    }
}

impl Drop for SecondHand {
    fn drop(&mut self) {
        self.shared.desk().over = true;
        self.shared.bell.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there has been told by the hook; the jobs it held are lost with it.
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared, clock: Clock, stop: &Stop) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut told = true;
    let mut desk = shared.desk();
    while !desk.over {
        let from = desk.jobs.len() - desk.jobs.len().min(BATCH);
        batch.extend(desk.jobs.drain(from..));
        if batch.is_empty() {
            if !told {
                drop(desk);
                stop.wake();
                told = true;
                desk = shared.desk();
                continue;
            }
            desk = shared
                .bell
                .wait(desk)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        drop(desk);
        for job in &mut batch {
            job.run(clock);
        }
        told = false;
        desk = shared.desk();
        desk.done.append(&mut batch);
    }
}
