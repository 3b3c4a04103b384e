//! Making, writing and reading a result folder.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use goodput_report::html::Html;
use goodput_sweep::{RunResult, SCHEMA_VERSION};

use crate::exit::Failure;

/// A folder that belongs to one run.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes the folder of a new run. A folder that holds a result already is refused: results are
    /// never overwritten.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        Self::is_free(path)?;
        fs::create_dir_all(path).map_err(|e| failed("cannot make the result folder", path, &e))?;
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Whether a run may write here.
    pub(crate) fn is_free(path: &Path) -> Result<(), Failure> {
        if path.join("result.json").exists() || path.join("requests.jsonl").exists() {
            let message = format!("{} holds a result already", path.display());
            return Err(
                Failure::usage(message).hint("name another folder with --out, or leave --out out")
            );
        }
        Ok(())
    }

    /// An existing result folder.
    pub(crate) fn open(path: &Path) -> Self {
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
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a text file.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<(), Failure> {
        self.write_whole(name, |file| file.write_all(content.as_bytes()))
    }

    /// Writes `report.html`.
    pub(crate) fn write_page(&self, page: &Html) -> Result<(), Failure> {
        self.write_whole("report.html", |file| page.write(file))
    }

    /// Writes a file whole or not at all: beside it first, then in its place.
    fn write_whole(
        &self,
        name: &str,
        content: impl FnOnce(&mut fs::File) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let (target, beside) = (self.file(name), self.file(&format!(".{name}.part")));
        let written = fs::File::create(&beside)
            .and_then(|mut file| content(&mut file).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&beside, &target));
        written.map_err(|e| {
            let _ = fs::remove_file(&beside);
            failed("cannot write", &target, &e)
        })
    }
}

/// Reads the result of a folder, or of its `result.json`.
pub(crate) fn read_result(path: &Path) -> Result<RunResult, Failure> {
    let file = if path.is_dir() {
        path.join("result.json")
    } else {
        path.to_owned()
    };
    let text = fs::read_to_string(&file).map_err(|e| {
        let shown = file.display();
        match e.kind() {
            io::ErrorKind::NotFound => Failure::usage(format!("there is no {shown}")),
            _ => failed("cannot read", &file, &e),
        }
        .hint("name a result folder, as `goodput sweep` writes it")
    })?;
    let version = serde_json::from_str::<serde_json::Value>(&text)
        .ok()
        .and_then(|v| v.get("schema_version")?.as_u64());
    if version.is_some_and(|v| v > u64::from(SCHEMA_VERSION)) {
        let message = format!("{} was written by a newer goodput", file.display());
        return Err(Failure::usage(message).hint("use that version, or measure again"));
    }
    serde_json::from_str(&text)
        .map_err(|e| Failure::usage(format!("{} is not a result: {e}", file.display())))
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::untrusted(format!("{what} {}: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::StorageFull => {
            failure.hint("the disk is full: make room, or name another folder with --out")
        }
        io::ErrorKind::PermissionDenied => failure.hint("name a folder you may write with --out"),
        _ => failure,
    }
}
