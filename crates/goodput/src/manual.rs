//! Completions and man pages, made from the flags.

use std::{fs, path::Path};

use clap::CommandFactory;

use crate::{
    exit::{Exit, Failure},
    flags::Flags,
    print,
};

/// Prints a shell's completions.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Flags::command(), "goodput", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Yes)
}

/// Writes one man page a verb.
pub(crate) fn man(out: &Path) -> Result<Exit, Failure> {
    let written =
        fs::create_dir_all(out).and_then(|()| clap_mangen::generate_to(Flags::command(), out));
    written.map_err(|e| {
        Failure::untrusted(format!("cannot write man pages to {}: {e}", out.display()))
    })?;
    Ok(Exit::Yes)
}
