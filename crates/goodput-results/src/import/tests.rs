//! Small files in each tool's form, written by hand from its documents, and what they must become.

mod faults;
mod own;
mod published;
mod samples;
mod tools;

use std::{
    convert::Infallible,
    ops::Deref,
    path::{Path, PathBuf},
};

use goodput_record::RequestRow;
use goodput_slo::Slo;

use super::{Import, ImportAsk, ToldLoad};
use crate::error::{Result, ResultsError};

/// What files became, and every row that was handed on.
#[derive(Debug)]
struct Got {
    import: Import,
    requests: Vec<RequestRow>,
}

impl Deref for Got {
    type Target = Import;
    fn deref(&self) -> &Import {
        &self.import
    }
}

/// Reads files and judges what they hold.
fn import(files: &[PathBuf], ask: &ImportAsk, slos: &[Slo]) -> Result<Got> {
    let read = super::import(files, ask)?;
    let mut requests = Vec::new();
    let judged = read.judge(slos, |row| {
        requests.push(row);
        Ok::<(), Infallible>(())
    });
    let Ok(import) = judged;
    Ok(Got { import, requests })
}

/// A folder of files that is gone when the test is over.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("goodput-import-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn slos(terms: &str) -> Vec<Slo> {
    vec![Slo::from_argument(terms).unwrap()]
}

fn imported(name: &str, text: &str, ask: &ImportAsk) -> Result<Got> {
    let files = Files::new(name);
    let path = files.write(name, text);
    import(&[path], ask, &slos("ttft=500ms,tpot=50ms"))
}

fn told(name: &str, text: &str) -> Got {
    imported(name, text, &ImportAsk::default()).unwrap()
}

fn users(n: u32) -> ImportAsk {
    ImportAsk {
        load: Some(ToldLoad::Users(n)),
        ..ImportAsk::default()
    }
}

fn evidence<'a>(import: &'a Got, name: &str) -> Option<&'a str> {
    let mut findings = import.findings.iter();
    findings
        .find(|f| f.name == name)
        .map(|f| f.evidence.as_str())
}

#[track_caller]
fn refused(got: Result<Got>, because: &str, hint: &str) {
    let error = got.expect_err("must be refused");
    assert!(error.to_string().contains(because), "{error}");
    let told = error.hint().unwrap_or_default();
    assert!(told.contains(hint), "{told}");
    assert!(error.is_usage());
}

#[test]
fn a_summary_is_refused_with_the_flag_that_keeps_requests() {
    let none = ImportAsk::default();
    let vllm =
        r#"{"backend": "openai", "completed": 3, "request_throughput": 1.5, "mean_ttft_ms": NaN}"#;
    refused(
        imported("v", vllm, &none),
        "summaries only",
        "--save-detailed",
    );
    let aiperf = r#"{"request_latency": {"avg": 2, "unit": "ms"}, "request_count": {"avg": 9}}"#;
    refused(
        imported("a", aiperf, &none),
        "summaries only",
        "profile_export.jsonl",
    );
    let perf = r#"{"load_summary": {"count": 3}, "successes": {"count": 3}, "failures": {}}"#;
    refused(
        imported("i", perf, &none),
        "summaries only",
        "per_request: true",
    );
    let own = r#"{"schema_version": 1, "points": [], "holds_for": {}}"#;
    refused(
        imported("o", own, &none),
        "a result already",
        "goodput report DIR",
    );
}

#[test]
fn what_no_tool_writes_is_refused_and_what_was_named_wrongly_too() {
    let none = ImportAsk::default();
    refused(
        imported("x", "a,b\n1,2\n", &none),
        "no tool is known",
        "--from",
    );
    refused(imported("y", "", &none), "no tool is known", "guidellm");
    refused(
        imported("z", "{\"metadata\": 1}", &none),
        "no tool is known",
        "aiperf",
    );
    let wrong = ImportAsk {
        tool: Some(super::Tool::AiPerf),
        ..none.clone()
    };
    refused(
        imported("w", "{\"ttfts\": []}", &wrong),
        "not as AIPerf",
        "--from",
    );
    let missing = import(&[PathBuf::from("/nowhere/at-all")], &none, &slos("ttft=1s"));
    assert!(matches!(missing, Err(ResultsError::Missing(_))));
    assert!(import(&[], &none, &slos("ttft=1s")).is_err());
    let empty = r#"{"ttfts": [], "itls": [], "input_lens": [], "output_lens": []}"#;
    refused(imported("e", empty, &none), "no request", "--save-detailed");
}

#[test]
fn two_files_are_told_apart_by_their_digest() {
    let file = |first: f64| {
        format!(
            r#"{{"i": 0, "input_tokens": 5, "output_tokens": 2, "ttft_s": {first}, "itls_us": [900], "ok": true}}"#
        )
    };
    let digest = |first| imported("d", &file(first), &users(1)).unwrap().digest;
    assert_eq!(digest(0.1), digest(0.1));
    assert_ne!(digest(0.1), digest(0.2));
}

#[test]
fn a_packed_file_reads_like_a_plain_one() {
    use std::io::Write;
    let line = r#"{"i": 0, "input_tokens": 5, "output_tokens": 2, "ttft_s": 0.1, "itls_us": [900], "ok": true}"#;
    let files = Files::new("packed");
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(line.as_bytes()).unwrap();
    let path = files.0.join("lines.jsonl.gz");
    std::fs::write(&path, packer.finish().unwrap()).unwrap();
    let plain = files.write("lines.jsonl", line);
    let read = |path: &Path| import(&[path.to_owned()], &users(1), &slos("ttft=1s")).unwrap();
    assert_eq!(read(&path).points, read(&plain).points);
}
