//! What can go wrong with a result folder.

use std::{io, path::Path, path::PathBuf};

use thiserror::Error;

/// What this crate returns.
pub type Result<T> = std::result::Result<T, ResultsError>;

/// Why a result folder could not be made, written or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// The folder belongs to another run.
    #[error("{} holds a result already", .0.display())]
    Taken(PathBuf),
    /// There is no such file or folder.
    #[error("there is no {}", .0.display())]
    Missing(PathBuf),
    /// The file says it follows a newer schema.
    #[error("{} was written by a newer goodput", .0.display())]
    Newer(PathBuf),
    /// The file is something else.
    #[error("{} is not a result: {because}", .path.display())]
    NotAResult {
        /// The file.
        path: PathBuf,
        /// Where and why.
        because: String,
    },
    /// The operating system refused.
    #[error("{doing} {}: {source}", .path.display())]
    Io {
        /// What was tried: "cannot write".
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What came of it.
        source: io::Error,
    },
    /// A file of another tool cannot be used.
    #[error("{}: {because}", .path.display())]
    Import {
        /// The file.
        path: PathBuf,
        /// Why.
        because: String,
        /// What to do about it.
        hint: String,
    },
    /// What the files of another tool tell is not enough.
    #[error("{because}")]
    Told {
        /// What is missing.
        because: String,
        /// What to do about it.
        hint: String,
    },
    /// No thread could be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

impl ResultsError {
    /// A refusal of the operating system.
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            doing,
            path: path.to_owned(),
            source,
        }
    }

    /// A file of another tool that cannot be used.
    pub(crate) fn import(path: &Path, because: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Import {
            path: path.to_owned(),
            because: because.into(),
            hint: hint.into(),
        }
    }

    /// Whether what was named is at fault, not the machine.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        !matches!(self, Self::Io { .. } | Self::Thread(_))
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Taken(_) => Some("name another folder with --out, or leave --out out"),
            Self::Missing(_) => Some("name a result folder, as `goodput sweep` writes it"),
            Self::Newer(_) => Some("use that version, or measure again"),
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull => {
                    Some("the disk is full: make room, or name another folder with --out")
                }
                io::ErrorKind::PermissionDenied => Some("name a folder you may write with --out"),
                _ => None,
            },
            Self::Import { hint, .. } | Self::Told { hint, .. } => Some(hint),
            Self::NotAResult { .. } | Self::Thread(_) => None,
        }
    }
}
