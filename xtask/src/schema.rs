//! The published schemas of `requests.jsonl` and `result.json`, made from the types.

use std::{fs, path::Path};

use goodput_record::RequestRow;
use goodput_sweep::RunResult;
use serde_json::Value;

fn documents() -> anyhow::Result<Vec<(&'static str, String)>> {
    let text = |schema: Value| anyhow::Ok(serde_json::to_string_pretty(&schema)? + "\n");
    Ok(vec![
        (
            "docs/schema/request.schema.json",
            text(schemars::schema_for!(RequestRow).into())?,
        ),
        (
            "docs/schema/result.schema.json",
            text(schemars::schema_for!(RunResult).into())?,
        ),
    ])
}

pub(crate) fn write() -> anyhow::Result<()> {
    fs::create_dir_all("docs/schema")?;
    for (path, text) in documents()? {
        fs::write(path, text)?;
    }
    Ok(())
}

pub(crate) fn check(root: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    for (path, text) in documents()? {
        if fs::read_to_string(root.join(path)).unwrap_or_default() != text {
            faults.push(format!(
                "{path}: not what the types say; run `cargo xtask docs`"
            ));
        }
    }
    Ok(())
}
