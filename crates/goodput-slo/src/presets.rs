//! The interactions of the two essays, ready to use.

use std::fmt::Write as _;

use goodput_config::{
    ConfigError, FromText, Problem, TextError, duration_text, known_names, suggest,
};

use crate::{
    checks::{Findings, Placed, check},
    clause::Clause,
    inline::{FLAG, items},
    objective::Objective,
    slo::Slo,
    workload::{LengthPercentiles, WorkloadStatement},
};

/// An SLO that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name behind `--slo`.
    pub name: &'static str,
    /// The interaction it is for.
    pub interaction: &'static str,
    /// Its clauses, as in a file.
    pub clauses: &'static [&'static str],
    /// The metric the user must bound, with an example: `("e2e", "5s")`.
    pub asks: Option<(&'static str, &'static str)>,
    /// The objective, as in a file.
    pub objective: &'static str,
    /// Whether someone watches the tokens come. If not, their pace is not judged.
    pub streamed: bool,
    /// The workload preset that goes with it.
    pub workload: &'static str,
    /// Why these bounds.
    pub reason: &'static str,
    /// Whose values they are.
    pub source: &'static str,
}

/// All presets: the first essay's five interactions, then the second essay's chat.
#[must_use]
pub const fn presets() -> &'static [Preset] {
    &PRESETS
}

const PRESETS: [Preset; 6] = [
    Preset {
        name: "chat",
        interaction: "chat, streamed to a reader",
        clauses: &["ttft <= 500ms", "tpot_median <= 50ms"],
        asks: None,
        objective: "99% over 28d",
        streamed: true,
        workload: "azure-conversation",
        reason: "about 20 tok/s exceeds comfortable reading speed",
        source: "the essay's values (TTFT, TPOT, and Why Throughput Is the Wrong Target)",
    },
    Preset {
        name: "completion",
        interaction: "code completion, inline",
        clauses: &["ttft <= 200ms", "tpot_median <= 30ms"],
        asks: None,
        objective: "99% over 28d",
        streamed: true,
        workload: "azure-code",
        reason: "competes with the user's own typing",
        source: "the essay's values; the objective is the one it gives for chat",
    },
    Preset {
        name: "agent-step",
        interaction: "one tool-calling step of an agent",
        clauses: &["ttft <= 1s"],
        asks: Some(("e2e", "5s")),
        objective: "99% over 28d",
        streamed: false,
        workload: "azure-code",
        reason: "nothing is streamed to a human; what counts is the sum over the whole trajectory",
        source: "the essay's TTFT, and its TPOT \"irrelevant\"; your e2e; the objective is the one it gives for chat",
    },
    Preset {
        name: "batch",
        interaction: "batch summarization",
        clauses: &["e2e <= 10min"],
        asks: None,
        objective: "99% over 28d",
        streamed: false,
        workload: "mooncake-conversation",
        reason: "only end-to-end throughput matters",
        source: "the essay's \"minutes\", and its TPOT \"irrelevant\"; that they are 10 is ours; the objective is the one it gives for chat",
    },
    Preset {
        name: "voice",
        interaction: "voice, in real time",
        clauses: &["ttft <= 300ms", "tpot_median <= 25ms"],
        asks: None,
        objective: "99% over 28d",
        streamed: true,
        workload: "azure-conversation",
        reason: "must outrun speech synthesis",
        source: "the essay's values; the objective is the one it gives for chat",
    },
    Preset {
        name: "chat-p90",
        interaction: "chat, by percentiles",
        clauses: &["p90 ttft <= 500ms", "p90 tpot <= 40ms"],
        asks: None,
        objective: "90% over 28d",
        streamed: true,
        workload: "azure-conversation",
        reason: "two clauses, since they fail for different reasons and need different fixes",
        source: "the second essay's values (Inference SLOs); it gives no window, 28d is the first essay's",
    },
];

impl Preset {
    /// The workload beside it: the name of a workload preset and that trace's facts.
    #[must_use]
    pub fn workload(&self) -> WorkloadStatement {
        let (input, output, cached) = match self.workload {
            "azure-code" => ((1469, 5188, 7436), (13, 55, 251), None),
            // Of its tokens, 37 % are reusable with an unbounded cache.
            "mooncake-conversation" => ((6909, 27367, 85400), (350, 597, 1119), Some(0.37)),
            _ => ((1020, 2735, 4142), (129, 424, 601), None),
        };
        WorkloadStatement {
            preset: Some(self.workload.to_owned()),
            input_tokens: Some(LengthPercentiles::of(input.0, input.1, input.2)),
            output_tokens: Some(LengthPercentiles::of(output.0, output.1, output.2)),
            cached_share: cached,
            ..WorkloadStatement::default()
        }
    }

    fn objective(&self) -> Objective {
        Objective::from_text(self.objective).expect("invariant: the presets are well formed")
    }

    fn own_clauses(&self) -> Vec<Placed<Clause>> {
        let parse = |text: &&str| Placed {
            value: Clause::parse(text).expect("invariant: the presets are well formed"),
            span: None,
        };
        self.clauses.iter().map(parse).collect()
    }
}

impl Slo {
    /// The preset of that name. Clauses behind a colon are added, or replace the preset's own:
    /// "agent-step:e2e=5s", "chat:ttft=300ms".
    ///
    /// # Errors
    /// If there is no such preset, a clause is wrong, or one that the preset asks for is missing.
    pub fn preset(text: &str) -> Result<Self, ConfigError> {
        Self::preset_and_warnings(text).map(|(slo, _)| slo)
    }

    pub(crate) fn preset_and_warnings(text: &str) -> Result<(Self, Vec<Problem>), ConfigError> {
        let name = text.split(':').next().unwrap_or(text);
        let Some(preset) = PRESETS.iter().find(|p| p.name == name.trim()) else {
            let problem = unknown(name.trim()).at(0..name.len());
            return Err(ConfigError::of(FLAG, problem));
        };
        let mut findings = Findings::default();
        let (given, objective) = match text.split_once(':') {
            Some(_) => items(text, name.len() + 1, &mut findings),
            None => (Vec::new(), None),
        };
        let asked = |c: &Placed<Clause>| {
            Some(c.value.metric.to_string().as_str()) == preset.asks.map(|a| a.0)
        };
        if findings.problems.is_empty() && preset.asks.is_some() && !given.iter().any(asked) {
            findings.problems.push(missing(preset).at(0..text.len()));
        }
        let mut clauses = preset.own_clauses();
        clauses.retain(|own| given.iter().all(|g| g.value.rank() != own.value.rank()));
        clauses.extend(given);
        let slo = Self {
            name: preset.name.to_owned(),
            class: None,
            objective: objective.unwrap_or_else(|| preset.objective()),
            streamed: preset.streamed,
            clauses: check(clauses, preset.streamed, &mut findings),
            excused: Vec::new(),
            workload: Some(preset.workload()),
        };
        ConfigError::unless_empty(FLAG, findings.problems, (slo, findings.warnings))
    }
}

fn unknown(name: &str) -> TextError {
    let names = PRESETS.map(|p| p.name);
    let error = TextError::new(format!(
        "`{name}` is no SLO preset, and no file of that name"
    ))
    .expected(format!(
        "{}; a file; or clauses such as `ttft=500ms,tpot=50ms`",
        known_names(&names)
    ));
    match suggest(name, &names) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`goodput slo presets` shows them all"),
    }
}

fn missing(preset: &Preset) -> TextError {
    let name = preset.name;
    let (metric, example) = preset.asks.unwrap_or_default();
    TextError::new(format!(
        "the preset `{name}` needs your {metric} bound for a step"
    ))
    .expected(format!("`{name}:{metric}={example}`"))
    .hint("derive it from the session: 10 steps within 50s leave 5s for each, tool time included")
}

/// All presets as a page of text, for `goodput slo presets`.
#[must_use]
pub fn presets_table() -> String {
    let mut page = String::new();
    for preset in &PRESETS {
        let mut line = |label: &str, text: &str| {
            writeln!(page, "{label:<12}{text}").expect("invariant: a string takes all text");
        };
        line(preset.name, preset.interaction);
        let mut bounds = preset.clauses.join(" and ");
        if let Some((metric, example)) = preset.asks {
            bounds = format!(
                "{bounds} and {metric} <= what you give: --slo {}:{metric}={example}",
                preset.name
            );
        }
        line("  bounds", &bounds);
        let Objective {
            percent, window, ..
        } = preset.objective();
        let window = duration_text(window);
        let within = match preset.own_clauses()[0].value.percentile {
            Some(_) => "within every bound, and each percentile as stated",
            None => "within every bound",
        };
        line(
            "  objective",
            &format!("{percent} of requests over {window} {within}"),
        );
        if !preset.streamed {
            line("  tpot", "not judged: not streamed to a human");
        }
        line("  workload", &preset.workload().to_string());
        line("  why", preset.reason);
        line("  values", preset.source);
        page.push('\n');
    }
    page.pop();
    page
}
