//! `goodput emulate`, and the emulated replica that other verbs start for themselves.

use std::{
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
};

use goodput_emulator::{EmulatorConfig, FAULTS, Faults, Stop, serve};
use goodput_perf_model::{Profile, Scheduler};

use crate::{
    derived::{FORM, derived},
    exit::{Exit, Failure},
    flags::{EmulateFlags, EmulatorFlags},
    print,
    slo::has_extension,
    talk::Voice,
    text::read_text,
};

/// What the child's first line of stdout begins with; the base URL follows.
const SERVES: &str = "serves ";

/// `goodput emulate`.
pub(crate) fn emulate(flags: &EmulateFlags, voice: Voice) -> Result<Exit, Failure> {
    if let Some(list) = list_asked_for(&flags.emulator)? {
        print(&list)?;
        return Ok(Exit::Yes);
    }
    let mut config = EmulatorConfig::new(emulated(&flags.emulator.profile, voice)?);
    config.faults = faults(&flags.emulator)?;
    config.seed = flags.seed;
    config.replicas = flags.emulator.replicas;
    config.metrics_in_turn = true;
    let listener = TcpListener::bind(&flags.listen).map_err(|e| {
        Failure::untrusted(format!("cannot listen on {}: {e}", flags.listen))
            .hint("another program may use the port; --listen 127.0.0.1:0 takes a free one")
    })?;
    let address = listener
        .local_addr()
        .map_err(|e| Failure::untrusted(format!("cannot listen on {}: {e}", flags.listen)))?;
    voice.say(&format!(
        "emulated replica: {} ({}), no figure of it is about real hardware",
        config.profile.name, config.profile.source
    ));
    print(&format!("{SERVES}http://{address}/v1"))?;
    let stop = Stop::new();
    let signal = end_on_signals(&stop)?;
    if flags.until_stdin_closes {
        end_with_stdin(&stop)?;
    }
    let report = serve(config, listener, &stop).map_err(|e| Failure::untrusted(e.to_string()))?;
    let figures = report.lateness.figures();
    voice.detail(&format!(
        "answered {} requests; {figures:?}",
        report.counts.completed
    ));
    Ok(signal
        .lock()
        .map_or(Exit::Yes, |caught| caught.map_or(Exit::Yes, Exit::Signal)))
}

/// The list that `--profile list` or `--fault list` asks for.
pub(crate) fn list_asked_for(flags: &EmulatorFlags) -> Result<Option<String>, Failure> {
    if flags.profile == "list" {
        return list_of_profiles().map(Some);
    }
    let faults = flags.faults.iter().any(|f| f == "list");
    Ok(faults.then(faults_table))
}

/// Stops the emulator on SIGINT and SIGTERM: once drains, twice ends. Gives the first one caught.
fn end_on_signals(stop: &Stop) -> Result<std::sync::Arc<std::sync::Mutex<Option<u8>>>, Failure> {
    let caught = std::sync::Arc::new(std::sync::Mutex::new(None));
    let (stop, seen) = (stop.clone(), std::sync::Arc::clone(&caught));
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                let Ok(mut signals) = crate::measure::Signals::listen() else {
                    return;
                };
                loop {
                    let number = signals.next().await;
                    let mut first = crate::measure::lock(&seen);
                    if first.replace(number).is_some() {
                        stop.end();
                        return;
                    }
                    drop(first);
                    stop.drain();
                }
            });
        })
        .map_err(|e| Failure::untrusted(format!("cannot start a thread: {e}")))?;
    Ok(caught)
}

/// Ends with the parent: its end of the pipe closes however it dies.
fn end_with_stdin(stop: &Stop) -> Result<(), Failure> {
    let stop = stop.clone();
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
            stop.end();
        })
        .map(drop)
        .map_err(|e| Failure::untrusted(format!("cannot start a thread: {e}")))
}

/// The profile of a replica that can be emulated.
fn emulated(name: &str, voice: Voice) -> Result<Profile, Failure> {
    let profile = profile(name, voice)?;
    if profile.scheduler == Scheduler::Continuous {
        return Ok(profile);
    }
    let failure = Failure::usage(format!(
        "the profile `{name}` has slots, which cannot be emulated"
    ));
    Err(failure.hint("`goodput simulate --profile` takes it"))
}

/// The engine profile of this name or file, or the one computed from the catalogue.
pub(crate) fn profile(name: &str, voice: Voice) -> Result<Profile, Failure> {
    let path = Path::new(name);
    if let Some(computed) = derived(name, voice).filter(|_| !path.is_file()) {
        return computed;
    }
    if path.is_file() || has_extension(path, "toml") {
        let text = read_text("the profile", path)?;
        return Profile::parse(name, &text)
            .map_err(|e| Failure::usage(e.render(name, &text, voice.color_err)));
    }
    Profile::builtin(name).ok_or_else(|| {
        let known: Vec<&str> = Profile::builtin_names().collect();
        let failure = Failure::usage(format!("there is no engine profile `{name}`"));
        match goodput_config::suggest(name, &known) {
            Some(near) => failure.hint(format!("did you mean `{near}`? --profile list prints all")),
            None => failure.hint(format!(
                "known: {}; or name a profile file, or a model on a device: {FORM}",
                known.join(", ")
            )),
        }
    })
}

fn faults(flags: &EmulatorFlags) -> Result<Faults, Failure> {
    Faults::parse(flags.faults.iter().map(String::as_str))
        .map_err(|e| Failure::usage(e.to_string()).hint("--fault list prints all faults"))
}

/// The built-in profiles with what they stand for.
pub(crate) fn list_of_profiles() -> Result<String, Failure> {
    let mut lines = Vec::new();
    for name in Profile::builtin_names() {
        let profile = Profile::builtin(name)
            .ok_or_else(|| Failure::untrusted(format!("the built-in profile {name} is broken")))?;
        lines.push(format!(
            "{name}\n  {} on {} x {}, {} slots, {} KV tokens\n  {}",
            profile.model_id,
            profile.gpus,
            profile.gpu,
            profile.max_num_seqs,
            profile.kv_tokens(),
            profile.source.trim().replace('\n', "\n  ")
        ));
    }
    lines.push(format!(
        "{FORM}\n  Computed from the model's config and the device's data sheet, such as Qwen/Qwen3-8B@H100-SXM:fp8\n  or meta-llama/Meta-Llama-3.1-70B@4xH100-SXM:fp8. A name that is not known lists those that are."
    ));
    Ok(lines.join("\n\n"))
}

fn faults_table() -> String {
    let rows: Vec<String> = FAULTS
        .iter()
        .map(|(name, value, what)| {
            let form = if value.is_empty() {
                (*name).to_owned()
            } else {
                format!("{name}={value}")
            };
            format!("{form:<30} {what}")
        })
        .collect();
    rows.join("\n")
}

/// An emulated replica in a process of its own, so that it shares no thread with the client. It
/// ends when this value is dropped, or when this process dies.
#[derive(Debug)]
pub(crate) struct Replica {
    child: Child,
    /// Its base URL.
    pub(crate) url: String,
}

impl Replica {
    /// Starts one on a free port of the loopback interface.
    pub(crate) fn start(flags: &EmulatorFlags, seed: u64, voice: Voice) -> Result<Self, Failure> {
        // Wrong flags are reported here, not by the child.
        emulated(&flags.profile, voice)?;
        faults(flags)?;
        let trouble = |e: std::io::Error| {
            Failure::untrusted(format!("cannot start the emulated replica: {e}"))
        };
        let program = std::env::current_exe().map_err(trouble)?;
        let mut command = Command::new(program);
        command
            .args([
                "emulate",
                "--quiet",
                "--until-stdin-closes",
                "--listen",
                "127.0.0.1:0",
            ])
            .args(["--profile", &flags.profile, "--seed", &seed.to_string()])
            .args(["--replicas", &flags.replicas.to_string()])
            .args(flags.faults.iter().flat_map(|f| ["--fault", f]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // A Ctrl-C at the terminal is for the parent: the child must outlive the drain.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(trouble)?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(trouble)?;
        }
        if let Some(url) = line.trim().strip_prefix(SERVES) {
            return Ok(Self {
                child,
                url: url.to_owned(),
            });
        }
        let _ = child.kill();
        let _ = child.wait();
        Err(Failure::untrusted("the emulated replica did not start"))
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // Closing its stdin ends it; what hangs is killed.
        drop(self.child.stdin.take());
        for _ in 0..50 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
