//! The files of a result, and the answer on stdout that says where they are.

use goodput_report::{
    csv, html, json,
    terminal::{self, Files},
};
use goodput_results::{Folder, ResultsError};
use goodput_sweep::RunResult;

use crate::{
    exit::{Exit, Failure},
    flags::Format,
    print,
    talk::Voice,
};

/// The files that a reader is pointed to, the one for people first.
const NAMES: [&str; 4] = [PAGE, DOCUMENT, TABLE, "requests.jsonl"];
/// The page.
pub(crate) const PAGE: &str = "report.html";
const DOCUMENT: &str = "result.json";
const TABLE: &str = "points.csv";

/// What came of writing a result's files: those that could not be written, and why.
#[derive(Debug, Default)]
pub(crate) struct Written(Vec<(&'static str, ResultsError)>);

impl Written {
    /// Adds what came of one file.
    pub(crate) fn add(&mut self, name: &'static str, went: Result<(), ResultsError>) {
        if let Err(error) = went {
            self.0.push((name, error));
        }
    }

    /// How the program ends that would have ended so.
    pub(crate) fn exit(&self, exit: Exit) -> Exit {
        match exit {
            Exit::Yes | Exit::No if !self.0.is_empty() => Exit::Untrusted,
            exit => exit,
        }
    }

    /// The files that are there and up to date.
    fn names(&self, folder: &Folder) -> Vec<&'static str> {
        let failed = |name: &str| self.0.iter().any(|(failed, _)| *failed == name);
        let mut names = NAMES.to_vec();
        names.retain(|name| !failed(name) && folder.file(name).is_file());
        names
    }

    /// An error that says of each file what was in the way.
    pub(crate) fn told(self) -> Result<(), Failure> {
        let mut failures = self.0.into_iter().map(|(_, error)| Failure::from(error));
        let Some(mut first) = failures.next() else {
            return Ok(());
        };
        for further in failures {
            first.message = format!("{}\n{}", first.message, further.message);
            first.hint = first.hint.or(further.hint);
        }
        Err(first)
    }
}

/// Writes what a result consists of, beside its requests: what cannot be written keeps nothing else
/// from it.
pub(crate) fn write_files(result: &RunResult, folder: &Folder) -> Written {
    let mut written = Written::default();
    written.add(DOCUMENT, folder.write(DOCUMENT, &json::document(result)));
    written.add(TABLE, folder.write(TABLE, &csv::points(&result.points)));
    let page = html::report(result);
    written.add(PAGE, folder.write_by(PAGE, |out| page.write(out)));
    written
}

/// Writes a result, prints it and says how the program ends.
pub(crate) fn deliver(
    result: &RunResult,
    folder: &Folder,
    exit: Exit,
    format: Format,
    voice: Voice,
) -> Result<Exit, Failure> {
    let written = write_files(result, folder);
    let exit = written.exit(exit);
    show(result, folder, &written, exit, format, voice)?;
    written.told()?;
    Ok(exit)
}

/// Prints a result the way stdout was asked to carry it.
pub(crate) fn show(
    result: &RunResult,
    folder: &Folder,
    written: &Written,
    exit: Exit,
    format: Format,
    voice: Voice,
) -> Result<(), Failure> {
    match format {
        Format::Human => {
            let files = Files {
                folder: &folder.path().display().to_string(),
                names: &written.names(folder),
            };
            print(&terminal::run(
                result,
                Some(files),
                exit.number(),
                voice.style_out(),
            ))
        }
        Format::Json => print(&json::document(result)),
        Format::Csv => print(&csv::points(&result.points)),
    }
}
