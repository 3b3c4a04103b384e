//! Making, writing and reading a result folder.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use goodput_sweep::{RunResult, SCHEMA_VERSION};

use crate::error::{Result, ResultsError};

/// A folder that belongs to one run.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes the folder of a new run. A folder that holds a result already is refused: results are
    /// never overwritten.
    pub fn create(path: &Path) -> Result<Self> {
        Self::is_free(path)?;
        fs::create_dir_all(path)
            .map_err(|e| ResultsError::io("cannot make the result folder", path, e))?;
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Whether a run may write here.
    pub fn is_free(path: &Path) -> Result<()> {
        if path.join("result.json").exists() || path.join("requests.jsonl").exists() {
            return Err(ResultsError::Taken(path.to_owned()));
        }
        Ok(())
    }

    /// An existing result folder, named by itself or by a file in it.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        let folder = if path.is_file() {
            path.parent().unwrap_or(path)
        } else {
            path
        };
        Self {
            path: folder.to_owned(),
        }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file of it, whole or not at all.
    pub fn write(&self, name: &str, content: &str) -> Result<()> {
        self.write_by(name, |out| out.write_all(content.as_bytes()))
    }

    /// Writes a file of it by `content`, whole or not at all.
    pub fn write_by(
        &self,
        name: &str,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        write_whole(&self.file(name), content)
    }
}

/// Writes a file whole or not at all: beside it first, then in its place. What was there before
/// stays until the new content is on disk. What is no file, such as `/dev/stdout` or a pipe, is
/// written to as it is, and a link stays a link: neither may be replaced.
pub fn write_whole(
    target: &Path,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let written = match fs::metadata(target) {
        Ok(there) if !there.is_file() => write_through(target, content),
        Ok(_) => fs::canonicalize(target).and_then(|file| replace(&file, content)),
        Err(_) => replace(target, content),
    };
    written.map_err(|e| ResultsError::io("cannot write", target, e))
}

fn write_through(
    target: &Path,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open(target)?;
    content(&mut file)
}

fn replace(
    target: &Path,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let beside = target.with_file_name(format!(".{name}.part"));
    fs::File::create(&beside)
        .and_then(|mut file| content(&mut file).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, target))
        .inspect_err(|_| {
            let _ = fs::remove_file(&beside);
        })
}

/// Reads the result of a folder, or of its `result.json`.
pub fn read_result(path: &Path) -> Result<RunResult> {
    let file = if path.is_dir() {
        path.join("result.json")
    } else {
        path.to_owned()
    };
    let text = fs::read_to_string(&file).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => ResultsError::Missing(file.clone()),
        _ => ResultsError::io("cannot read", &file, e),
    })?;
    let version = serde_json::from_str::<serde_json::Value>(&text)
        .ok()
        .and_then(|v| v.get("schema_version")?.as_u64());
    if version.is_some_and(|v| v > u64::from(SCHEMA_VERSION)) {
        return Err(ResultsError::Newer(file));
    }
    serde_json::from_str(&text).map_err(|e| ResultsError::NotAResult {
        path: file,
        because: e.to_string(),
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::{error::Error, os::unix::fs::symlink};

    use super::*;

    fn folder(name: &str) -> io::Result<PathBuf> {
        let path = std::env::temp_dir().join(format!("goodput-{name}-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Links alone are written to: were a device itself replaced, the machine would lose it.
    #[test]
    fn what_is_no_file_is_written_to_and_not_replaced() -> std::result::Result<(), Box<dyn Error>> {
        let folder = folder("device")?;
        let link = folder.join("null");
        symlink("/dev/null", &link)?;
        write_whole(&link, |out| out.write_all(b"gone"))?;
        assert!(fs::symlink_metadata(&link)?.is_symlink());
        assert!(!fs::metadata(&link)?.is_file());
        fs::remove_dir_all(folder)?;
        Ok(())
    }

    #[test]
    fn a_link_stays_a_link_and_its_file_is_replaced() -> std::result::Result<(), Box<dyn Error>> {
        let folder = folder("link")?;
        let (file, link) = (folder.join("file.xml"), folder.join("link.xml"));
        fs::write(&file, "old and longer")?;
        symlink(&file, &link)?;
        write_whole(&link, |out| out.write_all(b"new"))?;
        assert!(fs::symlink_metadata(&link)?.is_symlink());
        assert_eq!(fs::read_to_string(&file)?, "new");
        fs::remove_dir_all(folder)?;
        Ok(())
    }

    #[test]
    fn what_fails_leaves_the_file_as_it_was() -> std::result::Result<(), Box<dyn Error>> {
        let folder = folder("whole")?;
        let file = folder.join("result.json");
        write_whole(&file, |out| out.write_all(b"first"))?;
        let failed = write_whole(&file, |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(&file)?, "first");
        assert_eq!(fs::read_dir(&folder)?.count(), 1, "nothing stays beside it");
        fs::remove_dir_all(folder)?;
        Ok(())
    }
}
