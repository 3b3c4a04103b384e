//! Text files that users write: SLOs, workloads, profiles, rules.

use std::{fs::File, io::Read as _, path::Path};

use crate::exit::Failure;

/// No such file is longer: what goes on beyond has no end, or was named by mistake.
pub(crate) const MOST_TEXT: u64 = 16 << 20;
/// Nor is a text that prompts are made of, or a recorded trace.
pub(crate) const MOST_DATA: u64 = 2 << 30;

/// Reads the text of `what`, a file of at most 16 MiB.
pub(crate) fn read_text(what: &str, path: &Path) -> Result<String, Failure> {
    as_text(what, path, read_bytes(what, path, MOST_TEXT)?)
}

/// The same of a text that may be long.
pub(crate) fn read_long_text(what: &str, path: &Path) -> Result<String, Failure> {
    as_text(what, path, read_bytes(what, path, MOST_DATA)?)
}

fn as_text(what: &str, path: &Path, bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Failure::usage(format!(
            "cannot read {what} {}: byte {at} is no text (UTF-8)",
            path.display()
        ))
    })
}

/// Reads a file of at most `most` bytes.
pub(crate) fn read_bytes(what: &str, path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let failed =
        |e: std::io::Error| Failure::usage(format!("cannot read {what} {}: {e}", path.display()));
    let file = File::open(path).map_err(failed)?;
    at_most(&file, most)
        .map_err(failed)?
        .ok_or_else(|| too_long(what, path, most))
}

/// All bytes of a reader; `None` if there are more than `most`.
pub(crate) fn at_most(reader: impl std::io::Read, most: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    reader.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// A file that does not end where it should have.
pub(crate) fn too_long(what: &str, path: &Path, most: u64) -> Failure {
    let path = path.display();
    Failure::usage(format!(
        "cannot read {what} {path}: it goes on beyond {} MiB",
        most >> 20
    ))
    .hint("name a text file of ordinary length, no device and no data file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_refused_and_what_just_fits_is_read() {
        assert_eq!(at_most(std::io::repeat(b'x'), 9).unwrap(), None);
        assert_eq!(at_most(&b"123456789"[..], 9).unwrap().unwrap().len(), 9);
        let said = read_text("the SLO file", Path::new("/dev/zero")).unwrap_err();
        assert!(said.message.contains("/dev/zero") && said.message.contains("16 MiB"));
        assert!(said.hint.is_some());
    }
}
