//! `requests.jsonl` read back, line by line.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

use goodput_record::RequestRow;

use crate::error::{Result, ResultsError};

/// Hands every request of a `requests.jsonl` to `each`, in the order of the file. A last line without
/// its end was torn off when its run was killed, and is left out.
///
/// # Errors
/// If the file cannot be read, or a whole line is not a request.
pub fn each_request(path: &Path, mut each: impl FnMut(RequestRow)) -> Result<()> {
    let file = File::open(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => ResultsError::Missing(path.to_owned()),
        _ => ResultsError::io("cannot read", path, e),
    })?;
    let mut lines = BufReader::with_capacity(1 << 18, file);
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let read = lines.read_until(b'\n', &mut line);
        let length = read.map_err(|e| ResultsError::io("cannot read", path, e))?;
        if length == 0 || line.last() != Some(&b'\n') {
            break;
        }
        each(
            serde_json::from_slice(&line).map_err(|e| ResultsError::NotAResult {
                path: path.to_owned(),
                because: format!("line {number}: {e}"),
            })?,
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_line_is_named_and_a_torn_one_left_out() {
        let folder = std::env::temp_dir().join(format!("goodput-requests-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("requests.jsonl");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            each_request(&file, |_| ())
        };
        read("").unwrap();
        read("{\"id\":\"torn").unwrap();
        let broken = read("{\"id\":\"x\"}\n").unwrap_err().to_string();
        assert!(broken.contains("line 1"), "{broken}");
        std::fs::remove_dir_all(&folder).unwrap();
        let missing = each_request(&file, |_| ()).unwrap_err();
        assert!(matches!(missing, ResultsError::Missing(_)));
    }
}
