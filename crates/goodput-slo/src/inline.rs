//! An SLO on the command line: `--slo ttft=500ms,tpot=50ms`, or a preset with changes.

use goodput_config::{ConfigError, Problem, TextError};

use crate::{
    bound::trimmed,
    checks::{Findings, Placed, check},
    clause::{Clause, split_list},
    objective::Objective,
    slo::Slo,
};

/// What problems call the text of the flag.
pub(crate) const FLAG: &str = "--slo";

impl Slo {
    /// Reads what stands behind `--slo`, if it is no file: a preset, a preset with clauses of its
    /// own (`agent-step:e2e=5s`), or clauses (`ttft=500ms,tpot=50ms`).
    pub fn from_argument(text: &str) -> Result<Self, ConfigError> {
        Self::from_argument_and_warnings(text).map(|(slo, _)| slo)
    }

    /// The same, with what is odd about it.
    pub fn from_argument_and_warnings(text: &str) -> Result<(Self, Vec<Problem>), ConfigError> {
        let name = text.split(':').next().unwrap_or(text).trim();
        if name.contains(['=', '<', '>', ' ']) {
            Self::inline_and_warnings(text)
        } else {
            Self::preset_and_warnings(text)
        }
    }

    /// Reads clauses behind commas: "ttft=500ms,tpot=50ms", "p90 ttft<=500ms,objective=90% over 7d".
    ///
    /// Without an objective it is the first essay's, 99 % over 28 days. The workload is the run's.
    pub fn inline(text: &str) -> Result<Self, ConfigError> {
        Self::inline_and_warnings(text).map(|(slo, _)| slo)
    }

    fn inline_and_warnings(text: &str) -> Result<(Self, Vec<Problem>), ConfigError> {
        let mut findings = Findings::default();
        let (clauses, objective) = items(text, 0, &mut findings);
        if clauses.is_empty() && findings.problems.is_empty() {
            let error = TextError::new("an SLO without a clause judges nothing");
            findings.problems.push(
                error
                    .hint("write `ttft=500ms,tpot=50ms`, say")
                    .at(0..text.len()),
            );
        }
        let slo = Self {
            name: "inline".to_owned(),
            class: None,
            objective: objective.unwrap_or_else(Objective::essay),
            streamed: true,
            clauses: check(clauses, true, &mut findings),
            excused: Vec::new(),
            workload: None,
        };
        ConfigError::unless_empty(FLAG, findings.problems, (slo, findings.warnings))
    }
}

/// The clauses and the objective of a list that begins at `from` in `text`.
pub(crate) fn items(
    text: &str,
    from: usize,
    findings: &mut Findings,
) -> (Vec<Placed<Clause>>, Option<Objective>) {
    let mut clauses = Vec::new();
    let mut objective = None;
    for range in split_list(&text[from..]) {
        let place = trimmed(text, from + range.start..from + range.end);
        let item = &text[place.clone()];
        if let Some(share) = item
            .strip_prefix("objective")
            .and_then(|rest| rest.trim_start().strip_prefix('='))
        {
            match Objective::parse(share, Some(Objective::essay().window)) {
                Ok(read) => objective = Some(read),
                Err(error) => findings.problems.push(error.at(place)),
            }
            continue;
        }
        if item.is_empty() {
            let error = TextError::new("an entry of the list is empty");
            let error = error.expected("clauses behind single commas");
            findings.problems.push(error.at(place));
            continue;
        }
        match Clause::parse(item) {
            Ok(value) => clauses.push(Placed {
                value,
                span: Some(place),
            }),
            Err(mut problem) => {
                problem.span = problem
                    .span
                    .map(|at| place.start + at.start..place.start + at.end);
                findings.problems.push(problem);
            }
        }
    }
    (clauses, objective)
}
