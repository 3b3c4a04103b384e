//! One HTTP/1.1 connection: bytes out, bytes in, each read stamped before anything looks at it.

use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use goodput_record::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::{clock::Clock, dial::Stream, watch::Watch};

/// Bytes of one read at most. A burst of events is read in several goes, all stamped within
/// microseconds.
const READ_BYTES: usize = 16 * 1024;
/// The same where no more is expected: a stream's event is some hundred bytes, and thousands of
/// them may wait to be parsed.
const FEW_BYTES: usize = 1024;

/// Buffers for reads, used again and again. A connection holds one only from its read until the
/// bytes are parsed, so there are as many as reads wait at once, not as connections.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    small: RefCell<Vec<Box<[u8]>>>,
    large: RefCell<Vec<Box<[u8]>>>,
}

impl Buffers {
    fn of(&self, size: usize) -> &RefCell<Vec<Box<[u8]>>> {
        if size == FEW_BYTES {
            &self.small
        } else {
            &self.large
        }
    }

    fn take(&self, size: usize) -> Box<[u8]> {
        let used = self.of(size).borrow_mut().pop();
        used.unwrap_or_else(|| vec![0; size].into_boxed_slice())
    }

    fn give_back(&self, buffer: Box<[u8]>) {
        self.of(buffer.len()).borrow_mut().push(buffer);
    }

    /// Takes back the buffer of bytes that have been parsed.
    pub(crate) fn recycle(&self, received: Received) {
        self.give_back(received.buffer);
    }
}

/// What one read returned.
#[derive(Debug)]
pub(crate) struct Received {
    buffer: Box<[u8]>,
    len: usize,
    /// When the read returned.
    pub(crate) at: Timestamp,
}

impl Received {
    /// Bytes as if they had been read.
    #[cfg(test)]
    pub(crate) fn made(bytes: &[u8], at: Timestamp) -> Self {
        Self {
            buffer: bytes.into(),
            len: bytes.len(),
            at,
        }
    }

    /// What it holds of memory, in bytes.
    pub(crate) const fn room(&self) -> usize {
        self.buffer.len()
    }

    /// The bytes; none at the end of the connection.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

/// Why nothing was read.
#[derive(Debug)]
pub(crate) enum ReadFailure {
    /// The connection broke.
    Io(io::Error),
    /// A limit struck.
    Limit,
}

/// A connection that speaks HTTP/1.1.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    /// What its set-up took, until a request has been charged with it.
    setup: Option<Duration>,
    used: bool,
    /// The next read's size: large after one that was filled.
    room: usize,
}

impl Connection {
    pub(crate) fn new(stream: Stream, setup: Duration) -> Self {
        Self {
            stream,
            setup: Some(setup),
            used: false,
            room: FEW_BYTES,
        }
    }

    /// The set-up time, once: it belongs to the first request on the connection.
    pub(crate) fn take_setup(&mut self) -> Option<Duration> {
        self.setup.take()
    }

    /// Whether an earlier request went over it, so that the server may be about to close it.
    pub(crate) const fn used(&self) -> bool {
        self.used
    }

    /// Sends a whole request.
    pub(crate) async fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.used = true;
        self.stream.write_all(request).await?;
        self.stream.flush().await
    }

    /// Reads what is there, and says when; for the token path.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        clock: &Clock,
        buffers: &Buffers,
    ) -> Poll<io::Result<Received>> {
        let mut buffer = buffers.take(self.room);
        match self.poll_into(cx, &mut buffer) {
            Poll::Ready(Ok(len)) => {
                let at = clock.now();
                let filled = len == buffer.len() || len > FEW_BYTES;
                self.room = if filled { READ_BYTES } else { FEW_BYTES };
                Poll::Ready(Ok(Received { buffer, len, at }))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                buffers.give_back(buffer);
                Poll::Pending
            }
        }
    }

    /// The same as a future, under time limits.
    pub(crate) async fn receive(
        &mut self,
        clock: &Clock,
        buffers: &Buffers,
        watch: &mut Watch,
    ) -> Result<Received, ReadFailure> {
        poll_fn(|cx| match self.poll_receive(cx, clock, buffers) {
            Poll::Ready(read) => Poll::Ready(read.map_err(ReadFailure::Io)),
            Poll::Pending => watch.poll(cx, clock).map(|()| Err(ReadFailure::Limit)),
        })
        .await
    }

    fn poll_into(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut into = ReadBuf::new(buffer);
        Pin::new(&mut self.stream)
            .poll_read(cx, &mut into)
            .map_ok(|()| into.filled().len())
    }

    /// Whether an idle connection still stands: nothing has come, not even its end.
    pub(crate) fn quiet(&mut self) -> bool {
        let mut byte = [0_u8; 1];
        let mut cx = Context::from_waker(Waker::noop());
        self.poll_into(&mut cx, &mut byte).is_pending()
    }

    /// Says goodbye without waiting for an answer.
    pub(crate) fn close(mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        // The socket closes when it is dropped, whatever becomes of TLS's own goodbye.
        let _ = Pin::new(&mut self.stream).poll_shutdown(&mut cx);
    }
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncWriteExt, net::TcpListener};

    use super::*;
    use crate::tests::run;

    #[test]
    fn a_read_is_small_until_one_was_filled() {
        run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let ours = tokio::net::TcpStream::connect(listener.local_addr().unwrap());
            let (ours, theirs) = tokio::join!(ours, listener.accept());
            let mut theirs = theirs.unwrap().0;
            let socket = crate::socket::Socket::new(ours.unwrap()).unwrap();
            let mut connection = Connection::new(Stream::Plain(socket), Duration::ZERO);
            let (clock, buffers) = (Clock::start(), Buffers::default());
            let mut sizes = Vec::new();
            for bytes in [300, 20_000, 300, 300] {
                theirs.write_all(&vec![1; bytes]).await.unwrap();
                let mut left = bytes;
                while left > 0 {
                    let read = poll_fn(|cx| connection.poll_receive(cx, &clock, &buffers));
                    let read = read.await.unwrap();
                    left -= read.bytes().len();
                    sizes.push(read.room());
                    buffers.recycle(read);
                }
            }
            let large = sizes.iter().filter(|size| **size == READ_BYTES).count();
            assert_eq!(sizes.first(), Some(&FEW_BYTES));
            assert!(large >= 2, "{sizes:?}");
            assert_eq!(sizes.last(), Some(&FEW_BYTES), "{sizes:?}");
        });
    }
}
