//! The limit on open files, which is a limit on connections.

use std::{io, net::TcpListener};

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit on open files to the hard one. Where that is refused the old one stays.
pub(crate) fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // Refused on systems whose hard limit is not the true one; connections then wait.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// Lets many clients connect at the same instant: the usual queue of 128 would drop the others'
/// first packet, and they would come back a second later. The system's own limit is below this.
pub(crate) fn deepen_backlog(listener: &TcpListener) {
    // Refused at worst, and then the queue stays as it is.
    let _ = rustix::net::listen(listener, 16_384);
}

/// Whether a connection could not be accepted for want of a descriptor.
pub(crate) fn is_out_of_files(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .into_iter()
        .any(|full| errno == Some(full.raw_os_error()))
}
