//! One client's connection: its socket, what was read and not used yet, what is to be written.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::Shutdown,
};

use goodput_record::Timestamp;
use mio::net::TcpStream;

use crate::exchange::Exchange;

/// The most bytes kept of requests that a client sends before it has its answer.
const MAX_AHEAD: usize = 1024 * 1024;
/// Written bytes are let go of once there are so many.
const COMPACT: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Connection {
    socket: TcpStream,
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
    pub(crate) fn new(socket: TcpStream, now: Timestamp) -> Self {
        Self {
            socket,
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

    pub(crate) const fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
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
            match self.socket.read(scratch) {
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

    /// Writes as much as the client takes.
    pub(crate) fn write(&mut self) -> io::Result<WriteEnd> {
        while self.written < self.output.len() {
            match self.socket.write(&self.output[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.written > COMPACT {
                        self.output.drain(..self.written);
                        self.written = 0;
                    }
                    return Ok(WriteEnd::Blocked);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.written = 0;
        if self.after == After::Close {
            self.after = After::Lingering;
            self.socket.shutdown(Shutdown::Write)?;
        }
        Ok(WriteEnd::Whole)
    }
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
