//! A TCP socket of the load thread, of which can also be asked how much it holds unread.

use std::{
    cell::RefCell,
    io,
    os::fd::OwnedFd,
    pin::Pin,
    rc::{Rc, Weak},
    task::{Context, Poll, ready},
};

use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf, unix::AsyncFd},
    net::TcpStream,
};

/// A connected TCP socket. Its descriptor is shared with [`Sockets`], which tokio's own stream does
/// not allow; reads and writes are the same system calls.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: AsyncFd<Rc<OwnedFd>>,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        let fd = Rc::new(OwnedFd::from(stream.into_std()?));
        #[expect(
            deprecated,
            reason = "its replacement is unsafe, for types whose descriptor may change; an OwnedFd's cannot"
        )]
        let fd = AsyncFd::new(fd)?;
        Ok(Self { fd })
    }

    fn share(&self) -> Weak<OwnedFd> {
        Rc::downgrade(self.fd.get_ref())
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.fd.poll_read_ready(cx))?;
            let into = buf.initialize_unfilled();
            let room = into.len();
            match recv(self.fd.get_ref(), into, RecvFlags::empty()) {
                Ok((read, _)) => {
                    // Less than asked for: nothing more is there, and the next arrival will say so.
                    // That saves the read that would only find this out.
                    if 0 < read && read < room {
                        ready.clear_ready();
                    }
                    buf.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.fd.poll_write_ready(cx))?;
            match send(self.fd.get_ref(), bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => return Poll::Ready(Ok(sent)),
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(self.fd.get_ref(), Shutdown::Write).map_err(Into::into))
    }
}

/// The open sockets of a client.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    open: RefCell<Vec<Weak<OwnedFd>>>,
    /// Where the next sample begins.
    next: std::cell::Cell<usize>,
}

/// What a sample of the sockets held unread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unread {
    /// Sockets looked at.
    pub(crate) looked_at: u32,
    /// Open sockets in all.
    pub(crate) open: u32,
    /// Bytes in those looked at.
    pub(crate) bytes: u64,
}

impl Sockets {
    pub(crate) fn add(&self, socket: &Socket) {
        self.open.borrow_mut().push(socket.share());
    }

    /// Asks up to `most` of the open sockets, in turn, for the bytes that wait in them. One costs a
    /// system call.
    pub(crate) fn unread(&self, most: usize) -> Unread {
        let mut open = self.open.borrow_mut();
        let mut seen = Unread::default();
        let mut at = self.next.get();
        for _ in 0..most.min(open.len()) {
            if at >= open.len() {
                at = 0;
            }
            let Some(weak) = open.get(at) else { break };
            let Some(fd) = weak.upgrade() else {
                open.swap_remove(at);
                continue;
            };
            at += 1;
            if let Ok(bytes) = rustix::io::ioctl_fionread(&fd) {
                seen.looked_at += 1;
                seen.bytes += bytes;
            }
        }
        self.next.set(at);
        seen.open = u32::try_from(open.len()).unwrap_or(u32::MAX);
        seen
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;
    use crate::tests::run;

    async fn pair() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap());
        let (ours, theirs) = tokio::join!(ours, listener.accept());
        (Socket::new(ours.unwrap()).unwrap(), theirs.unwrap().0)
    }

    #[test]
    fn bytes_that_nobody_has_read_are_seen_and_closed_sockets_forgotten() {
        run(async {
            let sockets = Sockets::default();
            let (mut a, mut a_peer) = pair().await;
            let (b, mut b_peer) = pair().await;
            sockets.add(&a);
            sockets.add(&b);
            a_peer.write_all(&[1; 700]).await.unwrap();
            b_peer.write_all(&[1; 300]).await.unwrap();
            // Loopback delivers before a write returns.
            let all = sockets.unread(8);
            assert_eq!((all.looked_at, all.open, all.bytes), (2, 2, 1000));
            let mut read = [0; 700];
            a.read_exact(&mut read).await.unwrap();
            assert_eq!(sockets.unread(8).bytes, 300);
            drop(b);
            sockets.unread(8);
            assert_eq!(
                sockets.unread(8),
                Unread {
                    looked_at: 1,
                    open: 1,
                    bytes: 0
                }
            );
        });
    }

    #[test]
    fn a_sample_goes_round() {
        run(async {
            let sockets = Sockets::default();
            let mut kept = Vec::new();
            for bytes in [1_u8, 2, 3] {
                let (ours, mut theirs) = pair().await;
                sockets.add(&ours);
                theirs
                    .write_all(&vec![0; usize::from(bytes)])
                    .await
                    .unwrap();
                kept.push((ours, theirs));
            }
            let seen: Vec<u64> = (0..6).map(|_| sockets.unread(1).bytes).collect();
            assert_eq!(seen, [1, 2, 3, 1, 2, 3]);
        });
    }

    #[test]
    fn both_directions_and_both_ends_work() {
        run(async {
            let (mut ours, mut theirs) = pair().await;
            let much = vec![7_u8; 1 << 20];
            let (sent, received) = tokio::join!(ours.write_all(&much), async {
                let mut all = vec![0; 1 << 20];
                theirs.read_exact(&mut all).await.map(|_| all)
            });
            sent.unwrap();
            assert_eq!(received.unwrap(), much);
            ours.shutdown().await.unwrap();
            assert_eq!(theirs.read(&mut [0; 8]).await.unwrap(), 0);
            theirs.write_all(&much).await.unwrap();
            drop(theirs);
            let mut all = Vec::new();
            ours.read_to_end(&mut all).await.unwrap();
            assert_eq!(all.len(), much.len());
        });
    }
}
