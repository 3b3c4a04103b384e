//! From flags to a run, and from a run to its folder, its answer and its exit code.

use std::{
    num::NonZeroU32,
    path::PathBuf,
    rc::Rc,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use goodput_loadgen::{
    Client, Clock, ProbeError, Reach, ServerFacts, Stop, Target, Wish, make_room, probe_server,
    runtime,
};
use goodput_results::{Folder, RowForm, RowWriter};
use goodput_slo::Slo;
use goodput_sweep::{HoldsFor, Question};
use goodput_workload::{Load, WorkloadSpec};

use super::{
    boots::{asked, joined},
    compose::Composer,
    document::{self, Paper},
    hardware,
    live::LiveTable,
    network::Network,
    outage::Outages,
    plan::{Lengths, ServerKind},
    run::{Run, WarmUp},
    scrape::Scrape,
    server,
    share::Share,
    signals,
    source::Source,
    threads::{Parts, Team},
    workload,
};
use crate::{
    emulate::{Replica, list_asked_for},
    exit::{Exit, Failure},
    flags::RunFlags,
    print, slo,
    talk::Voice,
};

/// Warm-up requests at most, unless told: one for every user, so that the server compiles, captures
/// and tunes for the largest batch that it will see.
const WARM_UP_MOST: u32 = 512;
/// The same on the emulated replica, which has nothing to warm up.
const WARM_UP_EMULATED: u32 = 4;

/// What is to be carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    /// `sweep` or `bench`.
    pub(crate) kind: &'static str,
    /// The largest closed loop: the server is warmed up at it.
    pub(crate) most_users: Option<NonZeroU32>,
    /// Only say what would be done.
    pub(crate) dry_run: bool,
    /// Whether stdout gets the result; else it is only written.
    pub(crate) prints: bool,
}

/// Sets a run up, lets `work` measure, and writes and prints what was found.
pub(crate) fn carry_out(
    flags: &RunFlags,
    task: &Task,
    voice: Voice,
    work: impl AsyncFnOnce(&mut Run) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let list = match flags.accelerator.as_deref() {
        Some("list") => Some(hardware::list()?),
        _ => list_asked_for(&flags.emulator)?,
    };
    if let Some(list) = list {
        print(&list)?;
        return Ok(Exit::Yes);
    }
    let slos = slo::load(&flags.ask.slo, voice)?;
    let emulated = flags.server.url.is_none();
    let first = slos
        .first()
        .ok_or_else(|| Failure::usage("no SLO was named"))?;
    let spec = workload::choose(flags.ask.workload.as_deref(), first, emulated, voice)?;
    workload::agree(&slos, &spec, &flags.ask, emulated, voice)?;
    let seed = flags.ask.seed.unwrap_or_else(fresh_seed);
    let share = Share::new(flags, &spec, voice)?.map(Rc::new);
    let setting = Setting {
        flags,
        task,
        voice,
        slos,
        spec,
        seed,
        share,
        emulated,
    };
    setting.check()?;
    let replica = match &flags.server.url {
        Some(_) => None,
        None => Some(Replica::start(&flags.emulator, seed, voice)?),
    };
    let url = replica.as_ref().map_or_else(
        || flags.server.url.clone().unwrap_or_default(),
        |r| r.url.clone(),
    );
    let mut target = server::target(&url, &flags.server)?;
    target.keep_text = flags.keep_text;
    let runtime = runtime().map_err(|e| Failure::untrusted(format!("cannot start: {e}")))?;
    runtime.block_on(setting.run(target, work))
}

/// All that is settled before the server is spoken to.
struct Setting<'a> {
    flags: &'a RunFlags,
    task: &'a Task,
    voice: Voice,
    slos: Vec<Slo>,
    spec: WorkloadSpec,
    seed: u64,
    share: Option<Rc<Share>>,
    emulated: bool,
}

impl Setting<'_> {
    /// What can be refused before anything is started or sent.
    fn check(&self) -> Result<(), Failure> {
        self.flags.ask.count()?;
        self.lengths()?;
        self.flags.ask.ramp()?;
        self.warm_up(NonZeroU32::MIN)?;
        hardware::check(self.flags)?;
        if let Some(folder) = self.flags.ask.out.as_deref().filter(|_| !self.task.dry_run) {
            Folder::is_free(folder)?;
        }
        if let Some(users) = self.task.most_users {
            make_room(u64::from(users.get())).map_err(|e| Failure::untrusted(e.to_string()))?;
        }
        Ok(())
    }

    async fn run(
        self,
        mut target: Target,
        work: impl AsyncFnOnce(&mut Run) -> Result<(), Failure>,
    ) -> Result<Exit, Failure> {
        let run_id = format!("{:08x}", fresh_seed() >> 32);
        let clock = self
            .share
            .as_ref()
            .map_or_else(|| Ok(Clock::start()), |s| s.clock())?;
        let (client, facts) = self.meet(&mut target, clock, &run_id).await?;
        let stop = Stop::new();
        let signal = signals::watch(&stop, self.voice);
        let generates = !self.task.dry_run && !self.flags.ask.is_cold()?;
        let learning = Composer::learn(&client, &facts, &self.spec, !generates, self.voice);
        let composer = tokio::select! {
            composer = learning => composer?,
            // Nothing is measured yet that could be kept.
            () = stop.reached(Wish::Drain) => return Ok(Exit::Signal(signal.get().unwrap_or(2))),
        };
        let folder = Folder::create(&self.folder_path(&run_id))?;
        let paper = self.paper(&client, &facts, &composer, run_id.clone())?;
        let rows = Arc::new(self.rows(&folder, run_id.clone(), &stop)?);
        let parts = Parts {
            target,
            clock,
            run: run_id,
            composer: composer.clone(),
            slos: self.slos.clone(),
            rows: Arc::clone(&rows),
            stop: stop.clone(),
        };
        let team = Team::start(self.flags.threads.get(), &client, &parts)?;
        drop(parts);
        let scrape = facts.metrics.then(|| Scrape::start(&client, &folder));
        let scrape = scrape.transpose()?;
        self.announce(&paper);
        let source = Source::Network(Box::new(Network {
            client,
            compose: Rc::new(composer),
            share: self.share.clone(),
            scrape,
            team,
        }));
        let run = Run {
            source,
            stop,
            signal,
            seed: self.seed,
            gpus: self.flags.ask.gpus,
            requests: self.flags.ask.count()?,
            ramp: self.flags.ask.ramp()?,
            cold: self.flags.ask.is_cold()?,
            lengths: self.lengths()?,
            question: Question {
                objective: self.slos[0].objective().share,
                e2e_at_tokens: self.flags.ask.e2e_at,
            },
            rows,
            live: LiveTable::new(self.voice, &paper.holds_for),
            paper,
            folder,
            points: Vec::new(),
            search: None,
            other_arrivals: None,
            outages: Outages::default(),
            charts: Vec::new(),
            e2e_p95: None,
            slos: self.slos.clone(),
            spec: Arc::new(self.spec.clone()),
        };
        self.carry_through(run, work).await
    }

    /// Measures, writes and prints.
    async fn carry_through(
        &self,
        mut run: Run,
        work: impl AsyncFnOnce(&mut Run) -> Result<(), Failure>,
    ) -> Result<Exit, Failure> {
        let went = self.measure(&mut run, work).await;
        // The answer has them all, where one is printed.
        if self.task.prints {
            run.live.clear();
        }
        if self.task.dry_run {
            let _ = std::fs::remove_dir_all(run.folder.path());
            return went.map(|()| Exit::Yes);
        }
        let format = self.task.prints.then_some(self.flags.ask.format);
        document::finish(run, went, format, self.voice)
    }

    /// Finds out who answers, whether it may be asked and can be, and puts its model into the target.
    async fn meet(
        &self,
        target: &mut Target,
        clock: Clock,
        run_id: &str,
    ) -> Result<(Rc<Client>, ServerFacts), Failure> {
        let client = self.client(target.clone(), clock, run_id).await?;
        self.allow_address(&client)?;
        let facts = probe_server(&client).await.map_err(|e| self.unusable(&e))?;
        for note in &facts.notes {
            self.voice.say(&format!("note: {note}"));
        }
        self.fits(&facts)?;
        target.model.clone_from(&facts.model);
        let client = self.client(target.clone(), clock, run_id).await?;
        Ok((client, facts))
    }

    /// The writer of `requests.jsonl`, with a share's own files beside it. What it can no longer keep
    /// need not be measured.
    fn rows(&self, folder: &Folder, run: String, stop: &Stop) -> Result<RowWriter, Failure> {
        if let Some(share) = &self.share {
            share.open(folder)?;
        }
        let form = RowForm {
            run,
            slos: self.slos.iter().map(|s| s.name().to_owned()).collect(),
            keep_gaps: self.flags.ask.keep_gaps,
        };
        let stop = stop.clone();
        let rows = RowWriter::start(&folder.file("requests.jsonl"), form, move || {
            stop.ask();
        })?;
        Ok(rows)
    }

    /// Says what is about to be measured; a dry run says it on stdout.
    fn announce(&self, paper: &Paper) {
        if self.task.dry_run {
            return;
        }
        let head = goodput_report::terminal::head(&paper.holds_for, self.voice.style_err());
        self.voice.say(head.trim_end());
    }

    async fn measure(
        &self,
        run: &mut Run,
        work: impl AsyncFnOnce(&mut Run) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if !self.task.dry_run {
            document::begin(run, None);
            let users = self.task.most_users.unwrap_or(NonZeroU32::MIN);
            run.warm_up(Load::Closed(users), self.warm_up(users)?)
                .await?;
            if run.stopped() {
                return Ok(());
            }
        }
        work(run).await
    }

    async fn client(&self, target: Target, clock: Clock, run: &str) -> Result<Rc<Client>, Failure> {
        Client::new(target, clock, run)
            .await
            .map_err(|e| Failure::usage(e.to_string()))
    }

    fn unusable(&self, error: &ProbeError) -> Failure {
        let failure = Failure::untrusted(error.to_string());
        if let ProbeError::Unauthorized { .. } = error {
            return failure.hint(format!(
                "the key is read from {} (another one: --api-key-env NAME) or from --api-key-file",
                self.flags.server.api_key_env
            ));
        }
        failure
    }

    fn allow_address(&self, client: &Client) -> Result<(), Failure> {
        if client.reach() != Reach::Public || self.flags.server.yes_load {
            return Ok(());
        }
        Err(Failure::usage(format!("{} is a public address", client.authority()))
            .hint("a load test of somebody else's server is an attack: if it is yours, add --yes-load"))
    }

    /// Whether the longest request of the workload fits into the model's context.
    fn fits(&self, facts: &ServerFacts) -> Result<(), Failure> {
        let (longest, Some(context)) = (self.spec.longest(), facts.identity.context_tokens) else {
            return Ok(());
        };
        if u64::from(longest) <= u64::from(context) {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "the workload `{}` has requests of up to {longest} tokens, the context of {} is {context}",
            self.spec.name(),
            facts.model
        ))
        .hint("choose a shorter workload, or start the server with a longer context"))
    }

    fn lengths(&self) -> Result<Lengths, Failure> {
        self.flags.ask.lengths(kind(self.flags))
    }

    fn warm_up(&self, users: NonZeroU32) -> Result<WarmUp, Failure> {
        let most = if self.emulated {
            WARM_UP_EMULATED
        } else {
            WARM_UP_MOST
        };
        let usual = users.min(NonZeroU32::new(most).unwrap_or(users));
        let told = self.flags.ask.warm_up()?;
        Ok(told.unwrap_or(WarmUp::Requests(usual)))
    }

    fn folder_path(&self, run: &str) -> PathBuf {
        if self.task.dry_run {
            // It is taken away again, so it must be nobody's.
            return std::env::temp_dir().join(format!("goodput-dry-run-{run}"));
        }
        self.flags.ask.folder(self.task.kind, self.slos[0].name())
    }

    /// Adds what runs behind the endpoint: the emulated replica with its faults, or the hardware
    /// that was named.
    fn add_hardware(&self, holds_for: &mut HoldsFor, model: &str) -> Result<(), Failure> {
        let emulator = &self.flags.emulator;
        if self.emulated {
            let profile = crate::emulate::profile(&emulator.profile, self.voice)?;
            holds_for.hardware = hardware::emulated(&profile);
            holds_for.server.emulated = true;
            holds_for.server.faults.clone_from(&emulator.faults);
            if emulator.replicas.get() > 1 {
                let replicas = format!("{} replicas", emulator.replicas);
                holds_for.server.faults.push(replicas);
            }
            return Ok(());
        }
        let (facts, note) = hardware::named(self.flags, model)?;
        holds_for.hardware = facts;
        if let Some(note) = note {
            self.voice.say(&format!("note: {note}"));
        }
        Ok(())
    }

    fn paper(
        &self,
        client: &Client,
        facts: &ServerFacts,
        composer: &Composer,
        run: String,
    ) -> Result<Paper, Failure> {
        let url = client.target().endpoint.to_string();
        let mut settings = server::saved(&self.flags.server);
        settings.extend(asked(self.flags, self.seed));
        if self.emulated {
            settings.insert("profile".to_owned(), self.flags.emulator.profile.clone());
            settings.insert("faults".to_owned(), joined(&self.flags.emulator.faults));
        }
        let workload = workload::facts(&self.spec, &composer.counted_by());
        let mut holds_for =
            document::holds_for(&url, facts, &self.slos, workload, self.flags.ask.gpus);
        self.add_hardware(&mut holds_for, &facts.model)?;
        Ok(Paper {
            kind: self
                .share
                .as_ref()
                .map_or(self.task.kind, |_| "shard")
                .to_owned(),
            run,
            epoch_unix_ns: client.clock().epoch().unix_nanos(),
            seed: self.seed,
            holds_for,
            settings,
        })
    }
}

/// What the flags have measured.
pub(super) fn kind(flags: &RunFlags) -> ServerKind {
    if flags.server.url.is_none() {
        ServerKind::Emulated
    } else {
        ServerKind::Real
    }
}

/// A seed that no other run has.
pub(crate) fn fresh_seed() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    goodput_stats::mix(nanos ^ u64::from(std::process::id()).rotate_left(32))
}
