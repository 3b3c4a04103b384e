//! What is simulated, and how a run of it is set up.

use std::{
    cell::Cell,
    collections::BTreeMap,
    path::Path,
    rc::Rc,
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use goodput_loadgen::{Stop, runtime};
use goodput_perf_model::{FittedOn, Profile};
use goodput_results::{Folder, JsonLines, RowForm, RowWriter};
use goodput_slo::Slo;
use goodput_sweep::{HoldsFor, Question, ServerFacts, SimulatedFacts};
use goodput_workload::{Load, WorkloadSpec};

use super::replica::{Virtual, end_on_signals};
use crate::{
    emulate,
    exit::{Exit, Failure},
    flags::{Format, SimulateFlags},
    measure::{
        LiveTable, Loads, Outages, Paper, Run, ServerKind, Source, WarmUp, agree, begin, choose,
        finish, fresh_seed, hardware_of, run_loads, slo_facts, workload_facts,
    },
    slo,
    talk::Voice,
};

/// A replica, what is asked of it and how that is judged.
#[derive(Clone)]
pub(super) struct Scene<'a> {
    flags: &'a SimulateFlags,
    voice: Voice,
    slos: Vec<Slo>,
    pub(super) spec: WorkloadSpec,
    pub(super) profile: Profile,
    seed: u64,
    /// In what it differs from what the flags name.
    pub(super) what_if: Vec<String>,
}

impl<'a> Scene<'a> {
    /// From the flags. All that can be refused is refused here.
    pub(super) fn new(flags: &'a SimulateFlags, voice: Voice) -> Result<Self, Failure> {
        let profile = emulate::profile(&flags.profile, voice)?;
        let slos = slo::load(&flags.ask.slo, voice)?;
        let first = slos
            .first()
            .ok_or_else(|| Failure::usage("no SLO was named"))?;
        // An imagined replica is for a first look, as the emulated one is.
        let short = profile.weight_bytes.is_none() && flags.profile == "laptop";
        let spec = choose(flags.ask.workload.as_deref(), first, short, voice)?;
        agree(&slos, &spec, &flags.ask, short, voice)?;
        flags.ask.count()?;
        flags.ask.ramp()?;
        flags.ask.warm_up()?;
        flags.ask.lengths(ServerKind::Simulated)?;
        if flags.no_records && flags.ask.keep_gaps {
            return Err(Failure::usage(
                "--keep-gaps keeps the gaps of records, and --no-records keeps no records",
            ));
        }
        let scene = Self {
            flags,
            voice,
            slos,
            spec,
            profile,
            seed: flags.ask.seed.unwrap_or_else(fresh_seed),
            what_if: Vec::new(),
        };
        scene.fits()?;
        scene.warn_of_prompts();
        Ok(scene)
    }

    /// Says where the workload's prompts are longer than those the profile was fitted on.
    fn warn_of_prompts(&self) {
        let fitted = self.profile.fitted_on.and_then(|on| on.prompt_tokens);
        let longest = self.spec.describe().input_tokens.p99;
        if let Some(extent) = fitted.filter(|extent| longest > extent.max) {
            self.voice.say(&format!(
                "warning: 1 % of the prompts have {longest:.0} tokens and more, the profile was fitted on {} to {}: beyond that it extrapolates",
                extent.min, extent.max
            ));
        }
    }

    /// Says something to the one who runs the program.
    pub(super) fn say(&self, text: &str) {
        self.voice.say(text);
    }

    /// How stdout is written.
    pub(super) fn style(&self) -> goodput_report::Style {
        self.voice.style_out()
    }

    /// The name of the SLO that decides.
    pub(super) fn slo_name(&self) -> &str {
        self.slos.first().map_or("", Slo::name)
    }

    /// Whether the longest request of the workload fits into the context, as a server would say.
    pub(super) fn fits(&self) -> Result<(), Failure> {
        let (longest, context) = (self.spec.longest(), self.profile.context_limit);
        if longest <= context {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "the workload `{}` has requests of up to {longest} tokens, the context of profile {} is {context}",
            self.spec.name(),
            self.profile.name
        ))
        .hint("choose a shorter workload, or a profile with a longer context_limit"))
    }

    /// Simulates all loads into a folder. With a format the result is printed in it.
    pub(super) fn run(
        &self,
        loads: &Loads,
        folder: &Path,
        format: Option<Format>,
    ) -> Result<Exit, Failure> {
        self.run_with(folder, format, async |run| run_loads(run, loads).await)
    }

    /// Simulates what `work` asks for into a folder.
    pub(super) fn run_with(
        &self,
        folder: &Path,
        format: Option<Format>,
        work: impl AsyncFnOnce(&mut Run) -> Result<(), Failure>,
    ) -> Result<Exit, Failure> {
        let began = Instant::now();
        let stop = Stop::new();
        let mut run = self.set_up(Folder::create(folder)?, &stop)?;
        let head = goodput_report::terminal::head(&run.paper.holds_for, self.voice.style_err());
        self.voice.say(head.trim_end());
        let runtime = runtime().map_err(|e| Failure::untrusted(format!("cannot start: {e}")))?;
        let went = runtime.block_on(async {
            begin(&run, None);
            let users = std::num::NonZeroU32::MIN;
            let amount = self.flags.ask.warm_up()?.unwrap_or(WarmUp::Nothing);
            run.warm_up(Load::Closed(users), amount).await?;
            if run.stopped() {
                return Ok(());
            }
            work(&mut run).await
        });
        let (virtual_s, points) = (run.duration().as_secs_f64(), run.points.len());
        if format.is_some() {
            run.live.clear();
        }
        self.voice.say(&format!(
            "simulated {points} load points, {} of virtual time, in {:.2} s",
            goodput_report::number::span(virtual_s),
            began.elapsed().as_secs_f64()
        ));
        finish(run, went, format, self.voice)
    }

    fn set_up(&self, folder: Folder, stop: &Stop) -> Result<Run, Failure> {
        let flags = &self.flags.ask;
        // Of the seed alone: the same records bear the same ids on any machine and in any variant.
        let id = format!("{:08x}", goodput_stats::mix(self.seed) >> 32);
        let (rows, metrics) = self.files(&folder, &id, stop)?;
        let signal = end_on_signals(stop);
        let replica = Virtual::new(&self.profile, !self.flags.no_records, metrics, &signal);
        let paper = self.paper(id);
        Ok(Run {
            source: Source::Virtual(Box::new(replica)),
            stop: stop.clone(),
            signal: Rc::new(Cell::new(None)),
            seed: self.seed,
            gpus: flags.gpus,
            requests: flags.count()?,
            ramp: flags.ramp()?,
            // Nothing has to be warmed up unless that is asked for.
            cold: flags.is_cold()?,
            lengths: flags.lengths(ServerKind::Simulated)?,
            question: Question {
                objective: self.slos[0].objective().share,
                e2e_at_tokens: flags.e2e_at,
            },
            rows: Arc::new(rows),
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
        })
    }

    /// The files that are written while the run goes on.
    fn files(
        &self,
        folder: &Folder,
        run: &str,
        stop: &Stop,
    ) -> Result<(RowWriter, Option<JsonLines>), Failure> {
        if self.flags.no_records {
            return Ok((RowWriter::nowhere(), None));
        }
        let form = RowForm {
            run: run.to_owned(),
            slos: self.slos.iter().map(|s| s.name().to_owned()).collect(),
            keep_gaps: self.flags.ask.keep_gaps,
        };
        let stop = stop.clone();
        let rows = RowWriter::start(&folder.file("requests.jsonl"), form, move || {
            stop.ask();
        })?;
        let metrics = JsonLines::create(&folder.file("server_metrics.jsonl"))?;
        Ok((rows, Some(metrics)))
    }

    fn paper(&self, run: String) -> Paper {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Paper {
            kind: "simulate".to_owned(),
            run,
            epoch_unix_ns: since_1970.map_or(0, goodput_record::nanos),
            seed: self.seed,
            holds_for: self.holds_for(),
            settings: self.settings(),
        }
    }

    fn holds_for(&self) -> HoldsFor {
        let profile = &self.profile;
        let mut workload = workload_facts(&self.spec, "the plan: nothing was sent or counted");
        "none: only lengths and shared blocks".clone_into(&mut workload.prompts);
        HoldsFor {
            model: profile.model_id.clone(),
            slos: self.slos.iter().map(slo_facts).collect(),
            workload,
            server: ServerFacts {
                engine: Some("goodput simulator".to_owned()),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
                flags: engine_flags(profile),
                simulated: Some(SimulatedFacts {
                    profile: profile.name.clone(),
                    source: profile.source.trim().replace('\n', " "),
                    what_if: self.what_if.clone(),
                    fitted_on: profile.fitted_on.as_ref().and_then(fitted_words),
                }),
                ..ServerFacts::default()
            },
            gpus: self.flags.ask.gpus,
            hardware: hardware_of(profile),
            boot: "no boot: a simulated replica does not differ from one start to the next"
                .to_owned(),
        }
    }

    /// The settings as given.
    fn settings(&self) -> BTreeMap<String, String> {
        let flags = &self.flags.ask;
        let told = [
            ("seed", Some(self.seed.to_string())),
            ("slo", Some(flags.slo.join(";"))),
            ("workload", flags.workload.clone()),
            ("duration", flags.duration.clone()),
            ("warmup", flags.warmup.clone()),
            ("ramp", flags.ramp.clone()),
            ("requests", flags.requests.map(|n| n.to_string())),
            ("e2e_at", Some(flags.e2e_at.to_string())),
            ("profile", Some(self.flags.profile.clone())),
            (
                "what_if",
                Some(self.what_if.join("; ")).filter(|w| !w.is_empty()),
            ),
        ];
        told.into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    }
}

/// What a profile was fitted on, in words.
fn fitted_words(fitted: &FittedOn) -> Option<String> {
    let parts = [
        (fitted.decodes, "sequences at once"),
        (fitted.context_tokens, "tokens of context"),
        (fitted.prompt_tokens, "tokens of prompt"),
        (fitted.rate_req_s, "req/s"),
    ];
    let words: Vec<String> = parts
        .into_iter()
        .filter_map(|(extent, what)| {
            let extent = extent?;
            Some(format!("{} to {} {what}", extent.min, extent.max))
        })
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// The profile's limits under the names that vLLM gives them.
fn engine_flags(profile: &Profile) -> BTreeMap<String, String> {
    [
        ("max_model_len", profile.context_limit.to_string()),
        ("max_num_seqs", profile.max_num_seqs.to_string()),
        (
            "max_num_batched_tokens",
            profile.max_batched_tokens.to_string(),
        ),
        (
            "enable_chunked_prefill",
            profile.chunked_prefill.to_string(),
        ),
        ("enable_prefix_caching", profile.prefix_cache.to_string()),
        ("num_gpu_blocks", profile.kv_blocks.to_string()),
        ("block_size", profile.block_tokens.to_string()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
