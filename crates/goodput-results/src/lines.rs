//! Files of JSON lines, written as the lines come.

use std::{
    fs::File,
    io::{BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::error::ResultsError;

/// A file of JSON lines.
#[derive(Debug)]
pub struct JsonLines {
    file: BufWriter<File>,
    path: PathBuf,
}

impl JsonLines {
    /// Makes the file.
    pub fn create(path: &Path) -> crate::Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(|e| ResultsError::io("cannot write", path, e))?;
        Ok(Self {
            file: BufWriter::with_capacity(1 << 16, file),
            path: path.to_owned(),
        })
    }

    /// Writes one line.
    pub fn write(&mut self, row: &impl Serialize) -> Result<(), String> {
        let line = serde_json::to_writer(&mut self.file, row).map_err(std::io::Error::from);
        line.and_then(|()| self.file.write_all(b"\n"))
            .map_err(|e| self.because(&e))
    }

    /// Hands everything to the kernel.
    pub fn flush(&mut self) -> Result<(), String> {
        self.file.flush().map_err(|e| self.because(&e))
    }

    /// After trouble: what could not be written whole is taken out, so that the file can be read.
    pub(crate) fn drop_torn_line(self) {
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
    let whole = after_last_whole(file)?;
    file.set_len(whole)
}

/// Where the last whole line of a file of lines ends, in bytes.
pub(crate) fn after_last_whole(file: &mut File) -> std::io::Result<u64> {
    /// Longer than any line: a row with a gap for each of a million tokens.
    const TAIL: u64 = 16 << 20;
    let length = file.seek(SeekFrom::End(0))?;
    // Nearly always the file ends with a line.
    let mut last = [0];
    if length > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    if last == *b"\n" {
        return Ok(length);
    }
    let from = file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let whole = tail
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    Ok(from + whole as u64)
}
