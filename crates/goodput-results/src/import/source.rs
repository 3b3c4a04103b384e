//! A file of another tool, packed or not, read in pieces: it is often many times larger than what is
//! to be kept of it.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;

use super::python::WithoutNan;
use crate::error::{Result, ResultsError};

/// Bytes read at once.
const PIECE: usize = 1 << 16;

/// A file that can be read from its beginning as often as needed.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    /// What came through a pipe, which cannot be read twice.
    held: Option<Vec<u8>>,
    packed: bool,
}

impl Source {
    /// Opens a file. Gzip is seen from the content.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let io = |e| ResultsError::io("cannot read", path, e);
        let mut file = File::open(path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => ResultsError::Missing(path.to_owned()),
            _ => io(e),
        })?;
        let is_file = file.metadata().map_err(io)?.is_file();
        let mut start = Vec::new();
        let enough = if is_file { 2 } else { u64::MAX };
        file.by_ref()
            .take(enough)
            .read_to_end(&mut start)
            .map_err(io)?;
        Ok(Self {
            path: path.to_owned(),
            packed: start.starts_with(&[0x1f, 0x8b]),
            held: (!is_file).then_some(start),
        })
    }

    /// Where it lies.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its bytes, unpacked.
    pub(super) fn bytes(&self) -> io::Result<Box<dyn BufRead + '_>> {
        let raw: Box<dyn Read + '_> = match &self.held {
            Some(held) => Box::new(held.as_slice()),
            None => Box::new(File::open(&self.path)?),
        };
        Ok(if self.packed {
            Box::new(BufReader::with_capacity(PIECE, MultiGzDecoder::new(raw)))
        } else {
            Box::new(BufReader::with_capacity(PIECE, raw))
        })
    }

    /// Its text as JSON, whose figures that do not exist are `null`.
    pub(super) fn json(&self) -> io::Result<impl BufRead + '_> {
        let text = WithoutNan::new(self.bytes()?);
        Ok(BufReader::with_capacity(PIECE, text))
    }

    /// A number made of its bytes and of `seed`.
    pub(super) fn digest(&self, seed: u64) -> Result<u64> {
        let io = |e| ResultsError::io("cannot read", &self.path, e);
        let mut bytes = self.bytes().map_err(io)?;
        let mut digest = Digest::new(seed);
        loop {
            let piece = bytes.fill_buf().map_err(io)?;
            if piece.is_empty() {
                return Ok(digest.0);
            }
            digest.add(piece);
            let length = piece.len();
            bytes.consume(length);
        }
    }
}

/// Bytes folded into a number, for telling two inputs apart (FNV-1a, 64 bit).
struct Digest(u64);

impl Digest {
    const fn new(seed: u64) -> Self {
        Self(seed ^ 0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }
}

/// Folds bytes into a number.
pub(crate) fn digest(seed: u64, bytes: &[u8]) -> u64 {
    let mut digest = Digest::new(seed);
    digest.add(bytes);
    digest.0
}
