//! Which crate may see which. A new edge is made on purpose, here, with a reason.

use crate::metadata::Workspace;

/// (crate, the workspace crates it may depend on, why these and no others).
const ALLOWED: &[(&str, &[&str], &str)] = &[
    ("goodput-record", &[], "the vocabulary knows nobody"),
    ("goodput-stats", &[], "numbers know nothing of requests"),
    (
        "goodput-config",
        &[],
        "text to checked values, whatever they mean",
    ),
    (
        "goodput-protocol",
        &["goodput-record"],
        "wire bytes to record values",
    ),
    (
        "goodput-slo",
        &["goodput-config", "goodput-record"],
        "judges records; sources do not know it",
    ),
    (
        "goodput-workload",
        &["goodput-config", "goodput-record", "goodput-stats"],
        "plans requests; knows neither servers nor SLOs",
    ),
    (
        "goodput-ledger",
        &["goodput-record", "goodput-slo", "goodput-stats"],
        "books do not know where records come from",
    ),
    (
        "goodput-perf-model",
        &["goodput-config", "goodput-record"],
        "formulas over coefficients and catalogue facts; knows no request",
    ),
    (
        "goodput-sim",
        &["goodput-perf-model", "goodput-record", "goodput-stats"],
        "an engine knows no workload file, no socket, no SLO",
    ),
    (
        "goodput-dispatch",
        &["goodput-record", "goodput-stats"],
        "routes requests it knows by number; no engine, no socket, no books",
    ),
    (
        "goodput-calibration",
        &[
            "goodput-perf-model",
            "goodput-record",
            "goodput-sim",
            "goodput-stats",
        ],
        "records to coefficients, with the simulator in the loop; knows no folder and no SLO",
    ),
    (
        "goodput-sweep",
        &[
            "goodput-config",
            "goodput-ledger",
            "goodput-record",
            "goodput-slo",
            "goodput-stats",
            "goodput-workload",
        ],
        "decides from what the books say, in the workload's terms of load, by rules read from text",
    ),
    (
        "goodput-virtual",
        &[
            "goodput-dispatch",
            "goodput-ledger",
            "goodput-perf-model",
            "goodput-record",
            "goodput-sim",
            "goodput-slo",
            "goodput-stats",
            "goodput-sweep",
            "goodput-workload",
        ],
        "sweeps and pools in virtual time: workload, dispatch, engine, books and strategy, without a socket",
    ),
    (
        "goodput-planner",
        &[
            "goodput-config",
            "goodput-ledger",
            "goodput-perf-model",
            "goodput-record",
            "goodput-sim",
            "goodput-slo",
            "goodput-stats",
            "goodput-sweep",
            "goodput-virtual",
            "goodput-workload",
        ],
        "from demand, a measured or simulated replica, SLO and prices to replicas; sends nothing",
    ),
    (
        "goodput-report",
        &[
            "goodput-calibration",
            "goodput-ledger",
            "goodput-perf-model",
            "goodput-planner",
            "goodput-record",
            "goodput-slo",
            "goodput-stats",
            "goodput-sweep",
        ],
        "renders values, predicted ones too; computes none",
    ),
    (
        "goodput-loadgen",
        &[
            "goodput-protocol",
            "goodput-record",
            "goodput-stats",
            "goodput-workload",
        ],
        "a source of records does not know the books",
    ),
    (
        "goodput-results",
        &[
            "goodput-ledger",
            "goodput-record",
            "goodput-slo",
            "goodput-stats",
            "goodput-sweep",
        ],
        "results on disk, ours and other tools': reads and judges records, measures none",
    ),
    (
        "goodput-emulator",
        &[
            "goodput-config",
            "goodput-perf-model",
            "goodput-protocol",
            "goodput-record",
            "goodput-sim",
            "goodput-stats",
        ],
        "a socket and a clock around the engine",
    ),
];

/// Crates that wire everything together and may see all.
const WIRING: &[&str] = &["goodput", "xtask"];

pub(crate) fn check(workspace: &Workspace, faults: &mut Vec<String>) {
    for package in workspace.members() {
        if WIRING.contains(&package.name.as_str()) {
            continue;
        }
        let Some((_, allowed, why)) = ALLOWED.iter().find(|row| row.0 == package.name) else {
            faults.push(format!(
                "{}: a new crate needs a row in xtask/src/edges.rs",
                package.name
            ));
            continue;
        };
        let needs = package
            .needs
            .iter()
            .filter_map(|id| workspace.packages.get(id));
        for dependency in needs.filter(|d| d.local) {
            if !allowed.contains(&dependency.name.as_str()) {
                let (from, to) = (&package.name, &dependency.name);
                faults.push(format!("{from} must not depend on {to}: {why}"));
            }
        }
    }
}
