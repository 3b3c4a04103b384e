//! Chores of the project: `cargo xtask tidy` proves the layout, `cargo xtask docs` writes the
//! generated documents.

mod edges;
mod licences;
mod metadata;
mod purity;
mod schema;
mod text;

use std::process::ExitCode;

use metadata::Workspace;

fn main() -> ExitCode {
    let verb = std::env::args().nth(1).unwrap_or_default();
    let done = match verb.as_str() {
        "tidy" => tidy(),
        "docs" => schema::write(),
        _ => Err(anyhow::anyhow!("usage: cargo xtask tidy | docs")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs every check and reports all faults at once.
fn tidy() -> anyhow::Result<()> {
    let workspace = Workspace::load()?;
    let mut faults = Vec::new();
    edges::check(&workspace, &mut faults);
    purity::check(&workspace, &mut faults)?;
    licences::check(&workspace, &mut faults);
    text::check(&workspace.root, &mut faults)?;
    schema::check(&workspace.root, &mut faults)?;
    if faults.is_empty() {
        say("tidy: ok");
        return Ok(());
    }
    for fault in &faults {
        say(fault);
    }
    anyhow::bail!("{} faults", faults.len())
}

#[expect(clippy::print_stderr, reason = "a chore talks to the one who runs it")]
fn say(line: &str) {
    eprintln!("{line}");
}
