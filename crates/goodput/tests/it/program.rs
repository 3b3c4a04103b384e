//! Running the program in a folder of its own and reading what it leaves.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// Nothing in these tests takes longer, on any machine.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout.clone()).unwrap(),
            stderr: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }

    /// Asserts the exit code; whatever was said is shown if it is another one.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Asserts that it was carried out, whatever the answer: a loaded machine may miss an SLO or
    /// make a point invalid.
    #[track_caller]
    pub(crate) fn measured(self) -> Self {
        assert!(matches!(self.code, Some(0 | 1 | 3)), "{self}");
        assert!(!self.stderr.contains("error:"), "{self}");
        self
    }

    /// Asserts that stderr has every one of these.
    #[track_caller]
    pub(crate) fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stderr.contains(word), "no `{word}` in\n{self}");
        }
        self
    }

    /// Asserts that exactly one error was reported: where, what was expected, what to do.
    #[track_caller]
    pub(crate) fn one_error(self) -> Self {
        let errors = self.stderr.matches("error").count();
        assert!(errors >= 1, "{self}");
        let lines = self.stderr.lines().filter(|l| l.starts_with("error"));
        assert_eq!(lines.count(), 1, "{self}");
        assert!(!self.stderr.contains("panicked"), "{self}");
        self
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            code,
            stdout,
            stderr,
        } = self;
        write!(
            f,
            "exit {code:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}"
        )
    }
}

/// No file may be longer than 200 kB: a full disk, as far as a user can have one.
pub(crate) const FULL_DISK: &str = "ulimit -f 400 && trap '' XFSZ";

/// A folder that belongs to one test.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
}

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let unique = format!("{name}-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique);
        fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    /// The program with the folder as its working directory, without keys from outside.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_goodput"));
        command
            .args(args)
            .current_dir(&self.path)
            .env_remove("OPENAI_API_KEY")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&self.command(args).output().unwrap())
    }

    /// The same, started by a shell that sets limits before, such as `ulimit -n 64`.
    pub(crate) fn run_under(&self, limits: &str, args: &[&str]) -> Ran {
        let mut command = Command::new("sh");
        let start = format!("{limits} && exec \"$0\" \"$@\"");
        command.args(["-c", &start, env!("CARGO_BIN_EXE_goodput")]);
        Ran::of(&command.args(args).current_dir(&self.path).output().unwrap())
    }

    /// Starts the program with both outputs in pipes.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// `bench` against `url` into `out`, in JSON, with the flags given.
    pub(crate) fn bench(&self, url: &str, flags: &[&str]) -> Ran {
        let mut args = vec!["bench", "--url", url, "--out", "out", "--format", "json"];
        args.extend(flags);
        self.run(&args)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path.join(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.path.join(name);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// `out/result.json`.
    pub(crate) fn result(&self) -> Value {
        serde_json::from_str(&self.read("out/result.json")).unwrap()
    }

    /// The rows of `out/requests.jsonl`; every line must be whole.
    pub(crate) fn rows(&self) -> Vec<Value> {
        let text = self.read("out/requests.jsonl");
        assert!(text.is_empty() || text.ends_with('\n'), "a torn last line");
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The rows that were measured.
    pub(crate) fn measured_rows(&self) -> Vec<Value> {
        let mut rows = self.rows();
        rows.retain(|row| row["phase"] == "measured");
        rows
    }

    /// Every file of the folder, with its bytes.
    pub(crate) fn all_files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.path.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let bytes = fs::read(&path).unwrap();
                    found.push((path, bytes));
                }
            }
        }
        found
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What a failed test leaves is looked at.
        if !thread::panicking() {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LIMIT, "{what} never came true");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a finding of this name is in a result.
pub(crate) fn has_finding(result: &Value, name: &str) -> bool {
    let findings = result["findings"].as_array().unwrap();
    findings.iter().any(|finding| finding["name"] == name)
}
