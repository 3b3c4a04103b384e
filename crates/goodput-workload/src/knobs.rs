//! One number of a workload changed by name, for a what-if.
//!
//! Every draw depends on (seed, session, step) alone, so a workload and its variant ask the same
//! sessions at the same instants, each with its own length, longer or shorter.

use std::sync::Arc;

use goodput_config::{TextError, known_names, suggest};
use goodput_stats::{sampler::QuantileTable, whole_u32};

use crate::{
    arrivals::Arrivals,
    lengths::Lengths,
    spec::{RowSession, Rows, Shape, WorkloadSpec},
};

/// The names that [`WorkloadSpec::with`] knows.
const NAMES: [&str; 4] = ["prompts", "outputs", "shared_prefix", "arrivals"];

/// What a length is to be.
#[derive(Clone, Copy)]
enum Change {
    /// So many tokens, always.
    Fixed(u32),
    /// This many times as long.
    Times(f64),
}

impl WorkloadSpec {
    /// The names that [`WorkloadSpec::with`] knows.
    #[must_use]
    pub const fn knobs() -> [&'static str; 4] {
        NAMES
    }

    /// Changes one thing: `prompts=x2`, `prompts=4096`, `outputs=x0.5`, `shared_prefix=512` (tokens
    /// that all prompts begin with, part of their length), `arrivals=poisson`, `arrivals=gamma 3`
    /// (gaps of this coefficient of variation). `workload.` may stand before a name.
    ///
    /// A factor on prompts goes for the later messages of sessions too. Prompts of a trace that says
    /// which blocks were shared cannot be stretched: which blocks they would share is not known.
    ///
    /// # Errors
    /// If the name is not known or the value cannot be. Then nothing is changed.
    pub fn with(&mut self, assignment: &str) -> Result<(), TextError> {
        let Some((key, value)) = assignment.split_once('=') else {
            let fact = format!("`{assignment}` sets nothing");
            return Err(TextError::new(fact).expected("name=value, such as prompts=x2"));
        };
        let (key, value) = (key.trim(), value.trim());
        match key.strip_prefix("workload.").unwrap_or(key) {
            "prompts" => self.change_prompts(change(value)?)?,
            "outputs" => self.change_outputs(change(value)?)?,
            "shared_prefix" => self.share_prefix(value)?,
            "arrivals" => self.arrivals = arrivals(value)?,
            _ => return Err(unknown(key)),
        }
        self.name = Arc::from(format!("{}, {key} {value}", self.name));
        Ok(())
    }

    fn change_prompts(&mut self, change: Change) -> Result<(), TextError> {
        match &mut self.shape {
            Shape::Drawn { input, .. } => *input = change.of(input)?,
            Shape::Rows(rows) => {
                let steps = rows.sessions.iter().flat_map(|s| s.steps.iter());
                if steps.into_iter().any(|step| !step.blocks.is_empty()) {
                    return Err(TextError::new(
                        "the trace says which blocks its prompts share, and longer prompts would share others",
                    )
                    .expected("a workload that draws its lengths, or a trace without block hashes"));
                }
                change.rows(rows, |step| &mut step.0);
            }
        }
        if let Some(sessions) = &mut self.sessions {
            sessions.next_input = change.of(&sessions.next_input)?;
        }
        Ok(())
    }

    fn change_outputs(&mut self, change: Change) -> Result<(), TextError> {
        match &mut self.shape {
            Shape::Drawn { output, .. } => *output = change.of(output)?,
            Shape::Rows(rows) => change.rows(rows, |step| &mut step.1),
        }
        Ok(())
    }

    fn share_prefix(&mut self, value: &str) -> Result<(), TextError> {
        let tokens = value
            .replace('_', "")
            .parse()
            .map_err(|_| TextError::new(format!("`{value}` is no number of tokens")))?;
        if let Shape::Rows(_) = self.shape {
            return Err(TextError::new(
                "the prompts of a trace begin as they were recorded",
            ));
        }
        self.system_tokens = tokens;
        Ok(())
    }
}

impl Change {
    fn of(self, lengths: &Lengths) -> Result<Lengths, TextError> {
        let times = match self {
            Self::Fixed(tokens) => return Ok(Lengths::Fixed(tokens)),
            Self::Times(times) => times,
        };
        let whole = |n: u32| whole_u32(f64::from(n) * times).max(1);
        Ok(match lengths {
            Lengths::Fixed(tokens) => Lengths::Fixed(whole(*tokens)),
            Lengths::Uniform { min, max } => Lengths::Uniform {
                min: whole(*min),
                max: whole(*max),
            },
            Lengths::LogNormal { median, sigma, max } => Lengths::LogNormal {
                median: median * times,
                sigma: *sigma,
                max: whole(*max),
            },
            Lengths::Quantiles(table) => {
                let points = table.points().iter();
                let points: Vec<_> = points.map(|&(level, n)| (level, n * times)).collect();
                let table = QuantileTable::new(&points);
                Lengths::Quantiles(table.ok_or_else(|| {
                    TextError::new(format!("lengths times {times} are no lengths"))
                })?)
            }
        })
    }

    /// Changes one of (input, output) of every row.
    fn rows(self, rows: &mut Rows, which: impl Fn(&mut (u32, u32)) -> &mut u32) {
        let sessions = rows.sessions.iter().map(|session| {
            let mut steps = session.steps.clone();
            for step in &mut steps {
                let mut both = (step.input_tokens, step.output_tokens);
                let tokens = which(&mut both);
                *tokens = match self {
                    Self::Fixed(n) => n,
                    Self::Times(times) => whole_u32(f64::from(*tokens) * times).max(1),
                };
                (step.input_tokens, step.output_tokens) = both;
            }
            RowSession {
                arrival_ns: session.arrival_ns,
                steps,
            }
        });
        rows.sessions = sessions.collect();
    }
}

fn change(value: &str) -> Result<Change, TextError> {
    let expected = "a number of tokens, or a factor such as x2";
    let wrong = || TextError::new(format!("`{value}` is no length")).expected(expected);
    if let Some(times) = value.strip_prefix(['x', '*']) {
        let times = times.trim().parse().ok();
        let times = times.filter(|times: &f64| times.is_finite() && *times > 0.0);
        return times.map(Change::Times).ok_or_else(wrong);
    }
    let tokens = value.replace('_', "").parse().ok();
    let tokens = tokens.filter(|tokens: &u32| *tokens > 0);
    tokens.map(Change::Fixed).ok_or_else(wrong)
}

fn arrivals(value: &str) -> Result<Arrivals, TextError> {
    if value == "poisson" {
        return Ok(Arrivals::Poisson);
    }
    let cv = value.strip_prefix("gamma").map(|cv| cv.trim().parse());
    match cv {
        Some(Ok(cv)) if f64::is_finite(cv) && cv > 0.0 => Ok(Arrivals::Gamma { cv }),
        _ => Err(TextError::new(format!("`{value}` is no way to arrive"))
            .expected("`poisson`, or `gamma 3` for gaps of a coefficient of variation of 3")),
    }
}

fn unknown(key: &str) -> TextError {
    let error = TextError::new(format!("a workload has no knob `{key}`"));
    let error = error.expected(known_names(&NAMES));
    match suggest(key, &NAMES) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Load, Shard, Workload};

    fn preset() -> WorkloadSpec {
        WorkloadSpec::preset("chat-short").unwrap()
    }

    fn with(assignment: &str) -> WorkloadSpec {
        let mut spec = preset();
        spec.with(assignment).unwrap();
        spec
    }

    /// Arrivals and lengths of the first requests of an open loop.
    fn planned(spec: WorkloadSpec) -> Vec<(u64, u32, u32)> {
        let spec = Arc::new(spec);
        let load = Load::Open { per_second: 10.0 };
        let mut workload = Workload::new(&spec, load, 3, Shard::WHOLE);
        let mut all = Vec::new();
        while all.len() < 200 {
            let due = workload.next_due().unwrap();
            let request = workload.take(due).unwrap();
            all.push((due.nanos(), request.input_tokens, request.output_tokens));
        }
        all
    }

    /// Common random numbers: a variant asks the same requests at the same instants.
    #[test]
    fn a_variant_changes_what_it_names_and_nothing_else() {
        let (base, longer) = (planned(preset()), planned(with("prompts=x2")));
        for (base, longer) in base.iter().zip(&longer) {
            assert_eq!((base.0, base.2), (longer.0, longer.2));
            assert!(longer.1.abs_diff(2 * base.1) <= 1, "{base:?} {longer:?}");
        }
        let shorter = planned(with("workload.outputs=x0.5"));
        for (base, shorter) in base.iter().zip(&shorter) {
            assert_eq!((base.0, base.1), (shorter.0, shorter.1));
            assert!(base.2.abs_diff(2 * shorter.2) <= 2);
        }
        let fixed = planned(with("outputs=77"));
        assert!(fixed.iter().all(|request| request.2 == 77));
    }

    #[test]
    fn a_shared_prefix_is_part_of_the_prompts() {
        let spec = with("shared_prefix=128");
        assert!(spec.describe().reusable_share > 0.2);
        let (base, shared) = (planned(preset()), planned(spec));
        for (base, shared) in base.iter().zip(&shared) {
            assert_eq!(shared.1, base.1.max(129));
        }
    }

    #[test]
    fn what_is_no_change_is_refused_and_changes_nothing() {
        for (wrong, word) in [
            ("prompts", "sets nothing"),
            ("prompts=x0", "no length"),
            ("prompts=-3", "no length"),
            ("prompts=xNaN", "no length"),
            ("output=x2", "did you mean `outputs`"),
            ("arrivals=gamma", "poisson"),
            ("shared_prefix=half", "number of tokens"),
        ] {
            let mut spec = preset();
            let error = spec.with(wrong).unwrap_err();
            let told = format!("{error:?}");
            assert!(told.contains(word), "{wrong}: {told}");
            assert_eq!(spec, preset(), "{wrong}");
        }
        assert_eq!(
            *with("arrivals=gamma 3").arrivals(),
            Arrivals::Gamma { cv: 3.0 }
        );
    }
}
