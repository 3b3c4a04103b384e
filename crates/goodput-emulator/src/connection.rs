//! One client's connection: its socket, what was read and not used yet, what is to be written.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::Shutdown,
    sync::Arc,
};

use goodput_record::Timestamp;
use mio::net::TcpStream;

use crate::{exchange::Exchange, second_hand::Job};

/// The most bytes kept of requests that a client sends before it has its answer.
const MAX_AHEAD: usize = 1024 * 1024;
/// Written bytes are let go of once there are so many.
const COMPACT: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Connection {
    socket: Arc<TcpStream>,
    /// Its own number among all connections ever.
    id: u64,
    /// Whether its output is given away.
    pub(crate) away: bool,
    /// Read and not used yet.
    pub(crate) input: Vec<u8>,
    /// To be written, of which the first `written` bytes are.
    pub(crate) output: Vec<u8>,
    written: usize,
    /// The request that is being answered by an engine.
    pub(crate) exchange: Option<Box<Exchange>>,
    /// When the earliest token in `output` that was not tried to write yet was due.
    pub(crate) due: Option<Timestamp>,
    /// When bytes were last put into `output`.
    pub(crate) last_put: Timestamp,
    /// Whether it is in the list of those to be flushed.
    pub(crate) dirty: bool,
    /// What happens when all is written.
    pub(crate) after: After,
    /// Whether the client was told to send its body.
    pub(crate) continued: bool,
}

/// What happens to a connection when all is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The next request.
    Next,
    /// An orderly end: no more is written, and the client closes.
    Close,
    /// The orderly end has come; what the client still sends is ignored.
    Lingering,
    /// It is dropped in the middle of the answer.
    Cut,
}

/// What reading came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadEnd {
    /// All that was there is read.
    Open,
    /// The client is gone, or sends what nobody wants.
    Gone,
}

/// What writing came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteEnd {
    /// All is written.
    Whole,
    /// The client's window is full.
    Blocked,
}

impl Connection {
    pub(crate) fn new(socket: TcpStream, id: u64, now: Timestamp) -> Self {
        Self {
            socket: Arc::new(socket),
            id,
            away: false,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            exchange: None,
            due: None,
            last_put: now,
            dirty: false,
            after: After::Next,
            continued: false,
        }
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// Bytes that wait to be written.
    pub(crate) const fn backlog(&self) -> usize {
        self.output.len() - self.written
    }

    /// Reads all that is there, by way of `scratch`.
    pub(crate) fn read(&mut self, scratch: &mut [u8]) -> ReadEnd {
        let most = match self.exchange {
            Some(_) => MAX_AHEAD,
            None => crate::http::MAX_BODY + MAX_AHEAD,
        };
        loop {
            match (&*self.socket).read(scratch) {
                Ok(0) => return ReadEnd::Gone,
                Ok(_) if self.after != After::Next => {}
                Ok(read) => self.input.extend_from_slice(&scratch[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return ReadEnd::Open,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return ReadEnd::Gone,
            }
            if self.input.len() > most {
                return ReadEnd::Gone;
            }
        }
    }

    /// Takes it off the list of those to be flushed, and says whether there is something to write:
    /// not while it is away, nor while a fault holds back less than `held` bytes of an answer.
    pub(crate) fn is_due(&mut self, held: Option<usize>) -> bool {
        self.dirty = false;
        if self.away {
            return false;
        }
        let held = held.filter(|_| self.exchange.is_some()).unwrap_or(0);
        if self.backlog() < held {
            self.due = None;
            return false;
        }
        true
    }

    /// Writes as much as the client takes.
    pub(crate) fn write(&mut self) -> io::Result<WriteEnd> {
        write_out(&self.socket, &self.output, &mut self.written)
    }

    /// Lets go of what is written, and ends the connection if that was all there was to come.
    pub(crate) fn tidy(&mut self) -> io::Result<()> {
        if self.backlog() > 0 {
            if self.written > COMPACT {
                self.output.drain(..self.written);
                self.written = 0;
            }
            return Ok(());
        }
        self.output.clear();
        self.written = 0;
        if self.after == After::Close {
            self.after = After::Lingering;
            self.socket.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }

    /// Gives away what is to be written, to be written elsewhere.
    pub(crate) fn give(&mut self, slot: usize) -> Job {
        self.away = true;
        Job {
            slot,
            id: self.id,
            socket: Arc::clone(&self.socket),
            output: std::mem::take(&mut self.output),
            written: std::mem::take(&mut self.written),
            due: self.due.take(),
            result: None,
        }
    }

    /// Takes back what was given away; what has come since stays behind it.
    pub(crate) fn take_back(&mut self, mut output: Vec<u8>, written: usize) {
        self.away = false;
        output.extend_from_slice(&self.output);
        self.output = output;
        self.written = written;
    }
}

/// Writes the rest of `output` to a socket, as much as its client takes.
pub(crate) fn write_out(
    mut socket: &TcpStream,
    output: &[u8],
    written: &mut usize,
) -> io::Result<WriteEnd> {
    while *written < output.len() {
        match socket.write(&output[*written..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => *written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(WriteEnd::Blocked),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(WriteEnd::Whole)
}

/// Connections by the number under which the poll knows them; numbers are used again.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    slots: Vec<Option<Connection>>,
    free: Vec<usize>,
}

impl Connections {
    /// The number the next connection will have.
    pub(crate) fn next(&self) -> usize {
        self.free.last().copied().unwrap_or(self.slots.len())
    }

    pub(crate) fn insert(&mut self, connection: Connection) {
        match self.free.pop() {
            Some(slot) => self.slots[slot] = Some(connection),
            None => self.slots.push(Some(connection)),
        }
    }

    pub(crate) fn get(&mut self, slot: usize) -> Option<&mut Connection> {
        self.slots.get_mut(slot)?.as_mut()
    }

    pub(crate) fn remove(&mut self, slot: usize) -> Option<Connection> {
        let removed = self.slots.get_mut(slot)?.take()?;
        self.free.push(slot);
        Some(removed)
    }

    pub(crate) fn iter(&mut self) -> impl Iterator<Item = (usize, &mut Connection)> {
        let slots = self.slots.iter_mut().enumerate();
        slots.filter_map(|(slot, connection)| Some((slot, connection.as_mut()?)))
    }
}
