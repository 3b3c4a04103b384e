//! Licences of everything that ends up in the binary.

use crate::metadata::Workspace;

const ALLOWED: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unlicense",
    "0BSD",
    "Unicode-3.0",
    "CDLA-Permissive-2.0",
    "MPL-2.0",
    "CC0-1.0",
    "BSL-1.0",
];

pub(crate) fn check(workspace: &Workspace, faults: &mut Vec<String>) {
    for package in workspace.packages.values().filter(|p| !p.local) {
        let choices = package.licence.replace('/', " OR ").replace(['(', ')'], "");
        let fine = choices.split(" OR ").any(|choice| {
            choice
                .split(" AND ")
                .all(|part| ALLOWED.contains(&part.trim()))
        });
        if !fine {
            let Package {
                name,
                version,
                licence,
                ..
            } = package;
            faults.push(format!(
                "{name} {version}: licence `{licence}` is not on the list"
            ));
        }
    }
}

use crate::metadata::Package;
