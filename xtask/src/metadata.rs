//! What cargo knows of the workspace.

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use anyhow::Context;
use serde_json::Value;

/// A package of the graph.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) licence: String,
    pub(crate) local: bool,
    /// Ids of normal and build dependencies.
    pub(crate) needs: Vec<String>,
}

/// The workspace and all it depends on.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) packages: BTreeMap<String, Package>,
}

impl Workspace {
    pub(crate) fn load() -> anyhow::Result<Self> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        // Other platforms' dependencies need not be on this machine.
        let args = [
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            &host()?,
        ];
        let output = Command::new(cargo)
            .args(args)
            .output()
            .context("cargo metadata")?;
        if !output.status.success() {
            anyhow::bail!(
                "cargo metadata: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let graph: Value = serde_json::from_slice(&output.stdout)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let members: Vec<String> = list(&graph["workspace_members"]).iter().map(text).collect();
        let mut packages: BTreeMap<String, Package> = list(&graph["packages"])
            .iter()
            .map(|p| {
                let id = text(&p["id"]);
                let package = Package {
                    name: text(&p["name"]),
                    version: text(&p["version"]),
                    licence: text(&p["license"]),
                    local: members.contains(&id),
                    needs: Vec::new(),
                };
                (id, package)
            })
            .collect();
        for node in list(&graph["resolve"]["nodes"]) {
            let needs = list(&node["deps"])
                .iter()
                .filter(|d| !only_dev(d))
                .map(|d| text(&d["pkg"]))
                .collect();
            if let Some(package) = packages.get_mut(&text(&node["id"])) {
                package.needs = needs;
            }
        }
        Ok(Self {
            root: PathBuf::from(text(&graph["workspace_root"])),
            packages,
        })
    }

    /// The workspace's own packages.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.values().filter(|p| p.local)
    }

    /// Names of everything that a package needs, however far away.
    pub(crate) fn reach(&self, package: &Package) -> Vec<&str> {
        let mut seen: Vec<&str> = Vec::new();
        let mut todo: Vec<&String> = package.needs.iter().collect();
        while let Some(id) = todo.pop() {
            let Some(next) = self.packages.get(id) else {
                continue;
            };
            if !seen.contains(&next.name.as_str()) {
                seen.push(&next.name);
                todo.extend(&next.needs);
            }
        }
        seen
    }
}

fn only_dev(dependency: &Value) -> bool {
    let kinds = dependency["dep_kinds"].as_array();
    kinds.is_some_and(|kinds| kinds.iter().all(|k| k["kind"] == "dev"))
}

/// The triple of this machine.
fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .context("rustc -vV")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV names no host")
}
