//! The text of a file, packed or not, and JSON as Python writes it.

use std::{borrow::Cow, fs, io::Read, path::Path};

use flate2::read::MultiGzDecoder;

use crate::error::{Result, ResultsError};

/// Reads a file as text; gzip is unpacked.
pub(super) fn read(path: &Path) -> Result<String> {
    let io = |e| ResultsError::io("cannot read", path, e);
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(ResultsError::Missing(path.to_owned()));
        }
        Err(e) => return Err(io(e)),
    };
    let mut text = String::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        MultiGzDecoder::new(bytes.as_slice())
            .read_to_string(&mut text)
            .map_err(io)?;
        return Ok(text);
    }
    String::from_utf8(bytes).map_err(|_| {
        ResultsError::import(
            path,
            "the file is not text",
            "name the JSON, JSON lines or CSV file that the tool wrote",
        )
    })
}

/// JSON with Python's `NaN` and `Infinity` as `null`: they stand for a figure that does not exist.
pub(super) fn without_nan(text: &str) -> Cow<'_, str> {
    if !text.contains("NaN") && !text.contains("Infinity") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let word = ["-Infinity", "Infinity", "NaN"]
            .into_iter()
            .find(|word| !in_string && rest.starts_with(word));
        if let Some(word) = word {
            out.push_str("null");
            rest = &rest[word.len()..];
            continue;
        }
        match c {
            '"' if !escaped => in_string = !in_string,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    Cow::Owned(out)
}

/// Folds bytes into a number, for telling two inputs apart (FNV-1a, 64 bit).
pub(crate) fn digest(seed: u64, bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(seed ^ OFFSET, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}
