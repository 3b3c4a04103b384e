//! Between two boots: the server is started again, by itself, by a command or by a person.

use std::{
    io,
    process::Stdio,
    time::{Duration, Instant},
};

use goodput_loadgen::{Client, Clock, runtime};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, Command};

use super::{super::server, earlier::STARTED};
use crate::{exit::Failure, flags::SweepFlags, measure::Signals, talk::Voice};

/// How often the server is asked whether it is there: more often than any restart takes.
const EVERY: Duration = Duration::from_millis(250);
/// A command that is broken off may take this long to end by itself.
const GRACE: Duration = Duration::from_millis(500);
/// A server that was restarted by a command answers within this: large models load for minutes.
const LONGEST: Duration = Duration::from_hours(1);
/// Start times closer than this are one: engines tell them to a hundredth of a second or so.
const ONE_START_S: f64 = 0.5;

/// Who starts the server again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Restart {
    /// The emulated replica, which is a new process for every run.
    Replica,
    /// This command of the shell.
    Command(String),
    /// Whoever sits at the terminal, or has done so before a resumed run.
    Person,
}

/// What one look at the server shows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    /// It does not answer, or says that it is loading.
    Down,
    /// It answers; the instant of its start where it tells.
    Up(Option<f64>),
}

impl Restart {
    /// From the flags. `between`: whether a restart falls between two boots of this process.
    pub(super) fn of(flags: &SweepFlags, between: bool, voice: Voice) -> Result<Self, Failure> {
        if flags.run.server.url.is_none() {
            return match &flags.restart_cmd {
                None => Ok(Self::Replica),
                Some(command) => Err(Failure::usage(format!(
                    "--restart-cmd `{command}` has no server to restart: the emulated replica is a new process on every boot"
                ))
                .hint("name the server with --url, or leave --restart-cmd out")),
            };
        }
        if let Some(command) = &flags.restart_cmd {
            return Ok(Self::Command(command.clone()));
        }
        if between && flags.boots.is_some_and(|n| n.get() > 1) && !voice.live {
            return Err(
                Failure::usage("no one is here to restart the server between boots")
                    .hint("name a command with --restart-cmd, or resume once after each restart"),
            );
        }
        Ok(Self::Person)
    }

    /// Sees to it that the server is another boot than the one that started at `before`. `resumed`:
    /// it may have been restarted already. Gives the signal that broke the wait, if one did.
    pub(super) fn carry_out(
        &self,
        flags: &SweepFlags,
        before: Option<f64>,
        resumed: bool,
        voice: Voice,
    ) -> Result<Option<u8>, Failure> {
        if *self == Self::Replica {
            return Ok(None);
        }
        let runtime = runtime().map_err(|e| Failure::untrusted(format!("cannot start: {e}")))?;
        runtime.block_on(async {
            let mut signals = Signals::listen()
                .map_err(|e| Failure::untrusted(format!("cannot listen for signals: {e}")))?;
            tokio::select! {
                // What is under way is dropped: a command ends with its whole process group.
                number = signals.next() => Ok(Some(number)),
                up = self.bring_up(flags, before, resumed, voice) => up.map(|()| None),
            }
        })
    }

    /// Has the server restarted and waits until it answers as another boot.
    async fn bring_up(
        &self,
        flags: &SweepFlags,
        before: Option<f64>,
        resumed: bool,
        voice: Voice,
    ) -> Result<(), Failure> {
        let url = flags.run.server.url.clone().unwrap_or_default();
        let target = server::target(&url, &flags.run.server)?;
        let client = Client::new(target, Clock::start(), "boots")
            .await
            .map_err(|e| Failure::usage(e.to_string()))?;
        if let Self::Command(command) = self {
            voice.say(&format!("restart   {command}"));
            run(command).await?;
        } else if !resumed {
            voice.say(&format!(
                "restart the server now: the next boot begins when {url} answers again (Ctrl-C ends; what was measured is kept)",
            ));
        }
        self.wait(&client, before, resumed, voice).await
    }

    async fn wait(
        &self,
        client: &Client,
        before: Option<f64>,
        resumed: bool,
        voice: Voice,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        // A command has restarted it, or someone has before a resumed run: being there is enough,
        // unless its start says otherwise.
        let by_hand = *self == Self::Person;
        let mut was_down = resumed || !by_hand;
        let mut told = false;
        loop {
            let seen = look(client).await;
            match restarted(seen, before, was_down) {
                Some(true) => return Ok(()),
                Some(false) if resumed || !by_hand => return Err(same_boot()),
                Some(false) | None => {}
            }
            was_down |= seen == Seen::Down;
            if !by_hand && began.elapsed() > LONGEST {
                return Err(Failure::untrusted(format!(
                    "{} did not answer within {} min of its restart",
                    client.target().endpoint,
                    LONGEST.as_secs() / 60
                )));
            }
            if seen == Seen::Down && !std::mem::replace(&mut told, true) {
                voice.say("the server is down: waiting until it answers");
            }
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// Whether what answers is another boot; `None` where it does not answer or cannot be told yet.
fn restarted(seen: Seen, before: Option<f64>, was_down: bool) -> Option<bool> {
    let Seen::Up(started) = seen else {
        return None;
    };
    match (before, started) {
        (Some(before), Some(started)) => Some((started - before).abs() > ONE_START_S),
        // It does not tell: that it was away must do.
        _ => was_down.then_some(true),
    }
}

fn same_boot() -> Failure {
    Failure::usage("the server was not restarted: it says that it started when the last boot did")
        .hint("restart it, then try again; what was measured is kept")
}

async fn look(client: &Client) -> Seen {
    let endpoint = &client.target().endpoint;
    let models = client.get(&format!("{}/models", endpoint.base)).await;
    let up = models.is_ok_and(|reply| !(500..600).contains(&reply.head.status));
    let metrics = client.get(&format!("{}/metrics", endpoint.root())).await;
    // Kept connections break at a restart; each look makes its own.
    client.close_idle();
    if !up {
        return Seen::Down;
    }
    let text = metrics.ok().and_then(|r| String::from_utf8(r.body).ok());
    let started = text.and_then(|text| {
        goodput_protocol::metrics(&text)
            .find(|m| m.name == STARTED)
            .map(|m| m.value)
    });
    Seen::Up(started)
}

/// Runs a command of the shell; what it prints is talk. Dropped before it has ended, it is killed
/// with all that it started.
async fn run(command: &str) -> Result<(), Failure> {
    let cannot = |e: io::Error| Failure::untrusted(format!("cannot run `{command}`: {e}"));
    let child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::from(io::stderr()))
        .process_group(0)
        .spawn()
        .map_err(cannot)?;
    let mut group = Group(child);
    let ended = group.0.wait().await.map_err(cannot)?;
    if ended.success() {
        return Ok(());
    }
    Err(
        Failure::untrusted(format!("`{command}` did not restart the server: {ended}"))
            .hint("what was measured so far is kept; --resume goes on from there"),
    )
}

/// A command and what it started, which end with it where it is not waited for to its end.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // Known as long as the command runs: what it leaves behind after its end is the server.
        let id = self.0.id().and_then(|id| i32::try_from(id).ok());
        let Some(group) = id.and_then(Pid::from_raw) else {
            return;
        };
        let _ = kill_process_group(group, Signal::TERM);
        let began = Instant::now();
        while began.elapsed() < GRACE {
            let _ = self.0.try_wait();
            if test_kill_process_group(group).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.0.try_wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_is_seen_by_the_start_or_by_an_absence() {
        let check = |seen, before, was_down, expect| {
            assert_eq!(
                restarted(seen, before, was_down),
                expect,
                "{seen:?} {before:?}"
            );
        };
        check(Seen::Down, Some(1.0), true, None);
        check(Seen::Up(Some(9.0)), Some(1.0), false, Some(true));
        check(Seen::Up(Some(1.01)), Some(1.0), true, Some(false));
        check(Seen::Up(None), Some(1.0), false, None);
        check(Seen::Up(None), Some(1.0), true, Some(true));
        check(Seen::Up(Some(9.0)), None, true, Some(true));
        check(Seen::Up(Some(9.0)), None, false, None);
    }

    fn carried_out(command: &str) -> Result<(), Failure> {
        runtime().unwrap().block_on(run(command))
    }

    #[test]
    fn a_command_that_fails_is_told() {
        carried_out("true").unwrap();
        let failure = carried_out("exit 3").unwrap_err();
        assert!(
            failure.message.contains("exit status: 3"),
            "{}",
            failure.message
        );
    }
}
