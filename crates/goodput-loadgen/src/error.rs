//! Why a run could not be carried out.

use std::{io, path::PathBuf};

/// A run that cannot start, or cannot go on. What goes wrong with a single request is never one of
/// these: it is a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The limit on open files is below what the load needs. Said before anything is sent, since
    /// a socket that cannot be opened would look like a failure of the other side.
    #[error(
        "{need} open files are needed ({sockets} connections and {reserve} more), but this process may have {limit}: \
         raise the hard limit (ulimit -n {need}) or ask for less load"
    )]
    Descriptors {
        /// Files needed in all.
        need: u64,
        /// Of these, connections.
        sockets: u64,
        /// Of these, everything else.
        reserve: u64,
        /// The most this process may have.
        limit: u64,
    },
    /// The operating system refused a timer.
    #[error("no timer from the operating system: {0}")]
    Timer(#[source] io::Error),
}

/// A target that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The URL is not one.
    #[error(
        "`{url}` is not the base URL of a server: {why}; expected http://HOST:PORT/v1 or https://HOST/v1"
    )]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The host has no address.
    #[error("`{host}` has no address: {source}; check the host name in the URL")]
    Lookup {
        /// The host.
        host: String,
        /// The resolver's word.
        source: io::Error,
    },
    /// The file of certificate authorities cannot be used.
    #[error("no certificate read from {path}: {why}; expected PEM", path = .path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A header or key has bytes that no header may have.
    #[error("header `{name}` cannot be sent: {why}")]
    Header {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The host's name cannot be verified in a certificate.
    #[error("`{host}` is no name that a certificate can carry")]
    ServerName {
        /// The host.
        host: String,
    },
}
