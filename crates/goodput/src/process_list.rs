//! A key given on the command line stands in the process list, where every user of the machine can
//! read it. The program starts itself anew with the key in its environment, which only its owner
//! can read.

use std::{
    ffi::{OsStr, OsString},
    os::unix::{ffi::OsStrExt, process::CommandExt},
    process::Command,
};

use crate::{
    flags::{Flags, ServerFlags, Verb},
    talk::Voice,
};

/// Carries the key from the first start to the second.
const CARRIER: &str = "GOODPUT_KEY_FROM_COMMAND_LINE";

/// Starts the program anew if its command line has a key. Returns where there is none, or where it
/// cannot be started anew: then the key stays where its user put it.
pub(crate) fn hide_key(flags: &Flags, voice: Voice) {
    let Some((server, key)) = server(flags).and_then(|s| Some((s, s.api_key.as_ref()?))) else {
        return;
    };
    voice.say(&format!(
        "warning: --api-key is left in the shell history and, for a moment, in the process list; set {} or use --api-key-file",
        server.api_key_env
    ));
    if let Ok(program) = std::env::current_exe() {
        let arguments = without_key(std::env::args_os().skip(1));
        let _ = Command::new(program)
            .args(arguments)
            .env(CARRIER, key)
            .exec();
    }
}

fn server(flags: &Flags) -> Option<&ServerFlags> {
    match &flags.verb {
        Verb::Sweep(sweep) => Some(&sweep.run.server),
        Verb::Bench(bench) => Some(&bench.run.server),
        _ => None,
    }
}

/// The command line with the name of the carrier in place of the key.
fn without_key(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument.as_bytes() {
            b"--api-key" | b"--api-key-env" => drop(arguments.next()),
            bytes if bytes.starts_with(b"--api-key=") || bytes.starts_with(b"--api-key-env=") => {}
            _ => kept.push(argument),
        }
    }
    kept.push(OsStr::new("--api-key-env").to_owned());
    kept.push(OsStr::new(CARRIER).to_owned());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_leaves_the_command_line() {
        let line = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let kept = |words| without_key(line(words).into_iter());
        let expected = line(&["bench", "--url", "u", "--api-key-env", CARRIER]);
        assert_eq!(kept(&["bench", "--api-key", "sk", "--url", "u"]), expected);
        assert_eq!(kept(&["bench", "--url", "u", "--api-key=sk"]), expected);
        let twice = [
            "bench",
            "--api-key-env",
            "X",
            "--url",
            "u",
            "--api-key",
            "sk",
        ];
        assert_eq!(kept(&twice), expected);
    }
}
