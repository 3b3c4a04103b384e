//! The text of the repository: no stubs, no skipped tests, no private paths, sizes in bounds.

use std::{fs, path::Path, process::Command};

use anyhow::Context;

/// Lines of one source file above which it is split.
const LINES_MAX: usize = 500;

/// Words with no place in the tree, in halves so that this file does not trip over itself.
const BANNED: &[(&str, &str, &str)] = &[
    ("todo", "!(", "a stub is not done"),
    ("unimplemented", "!(", "a stub is not done"),
    ("#[ig", "nore", "a test that does not run is no test"),
    ("#[should", "_panic", "assert on the error instead"),
    ("/home", "/", "a path of one machine"),
    ("/root", "/", "a path of one machine"),
];

pub(crate) fn check(root: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let listing = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z"])
        .output()
        .context("git ls-files")?;
    let names = String::from_utf8(listing.stdout)?;
    for name in names.split('\0').filter(|n| !n.is_empty()) {
        let written = [".rs", ".md", ".toml", ".sh", ".yml"]
            .iter()
            .any(|end| name.ends_with(end));
        if !written || name.contains("/fixtures/") {
            continue;
        }
        let Ok(text) = fs::read_to_string(root.join(name)) else {
            continue;
        };
        check_file(name, &text, faults);
    }
    Ok(())
}

fn check_file(name: &str, text: &str, faults: &mut Vec<String>) {
    for (number, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", number + 1);
        if line.ends_with([' ', '\t']) {
            faults.push(format!("{place}: trailing space"));
        }
        for (head, tail, why) in BANNED {
            if line.contains(&format!("{head}{tail}")) {
                faults.push(format!("{place}: `{head}{tail}`: {why}"));
            }
        }
    }
    let test = name.contains("test");
    let lines = text.lines().count();
    let source = Path::new(name).extension().is_some_and(|e| e == "rs");
    if source && !test && lines > LINES_MAX {
        faults.push(format!("{name}: {lines} lines; split it at {LINES_MAX}"));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        faults.push(format!("{name}: no newline at the end"));
    }
}
