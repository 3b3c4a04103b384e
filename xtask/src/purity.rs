//! Pure crates: no runtime, no socket, no database among what they need, and the bans in place.

use std::fs;

use crate::metadata::Workspace;

/// The crates that take time as an argument and never do IO.
const PURE: &[&str] = &[
    "goodput-record",
    "goodput-stats",
    "goodput-config",
    "goodput-slo",
    "goodput-virtual",
    "goodput-workload",
    "goodput-protocol",
    "goodput-ledger",
    "goodput-perf-model",
    "goodput-sim",
    "goodput-sweep",
    "goodput-report",
];

/// What none of them may reach.
const BANNED: &[&str] = &[
    "tokio",
    "mio",
    "socket2",
    "hyper",
    "hyper-util",
    "rustls",
    "rusqlite",
    "async-std",
    "reqwest",
    "rand",
    "getrandom",
    "chrono",
];

/// The one exception: charts come from a library whose own dependencies reach for randomness.
const EXCUSED: &[(&str, &str)] = &[
    ("goodput-report", "getrandom"),
    ("goodput-report", "rand"),
    ("goodput-report", "chrono"),
];

pub(crate) fn check(workspace: &Workspace, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let reference = fs::read_to_string(workspace.root.join("crates/goodput-record/clippy.toml"))?;
    for package in workspace
        .members()
        .filter(|p| PURE.contains(&p.name.as_str()))
    {
        let name = package.name.as_str();
        for reached in workspace.reach(package) {
            if BANNED.contains(&reached) && !EXCUSED.contains(&(name, reached)) {
                faults.push(format!("{name} is pure and must not reach {reached}"));
            }
        }
        let bans = workspace.root.join("crates").join(name).join("clippy.toml");
        if fs::read_to_string(&bans).ok().as_deref() != Some(reference.as_str()) {
            faults.push(format!("{}: not the bans of a pure crate", bans.display()));
        }
    }
    Ok(())
}
