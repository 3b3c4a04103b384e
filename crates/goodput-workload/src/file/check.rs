//! From the file as written to the checked workload.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use goodput_config::{Problem, Spanned, TextError, Tokens, Typed};
use goodput_stats::sampler::{QuantileTable, Zipf};

use super::{raw, rows};
use crate::{
    arrivals::{Arrivals, RatePoint},
    lengths::Lengths,
    spec::{
        Groups, History, OutputPolicy, Rows, Sessions, Shape, TextSource, ThinkTime, WorkloadSpec,
    },
};

/// Blocks of a server's prefix cache where the file does not say: vLLM's default.
const BLOCK_TOKENS: u32 = 16;
/// Groups above this would only fill memory.
const MOST_GROUPS: u32 = 1_000_000;
/// Steps of a session are counted in 16 bits.
const MOST_STEPS: u32 = 65_535;

pub(super) struct Checker<'a> {
    problems: &'a mut Vec<Problem>,
    text: &'a str,
}

impl<'a> Checker<'a> {
    pub(super) fn new(problems: &'a mut Vec<Problem>, text: &'a str) -> Self {
        Self { problems, text }
    }

    fn say(&mut self, error: TextError, span: impl Into<Option<Range<usize>>>) {
        self.problems.push(error.at(span));
    }

    /// Checks the whole. `None` where something is missing, which is then among the problems.
    pub(super) fn file(&mut self, name: &str, raw: raw::File) -> Option<WorkloadSpec> {
        let rows_at = raw.rows.as_ref().map(Spanned::span);
        let (is_trace, arrivals_at) = match &raw.arrivals {
            Some(a) => (matches!(a.get_ref(), raw::Arrivals::Trace), Some(a.span())),
            None => (false, None),
        };
        if is_trace && raw.rows.is_none() {
            let error = TextError::new("arrivals of a trace, and no trace")
                .hint("give [rows], or arrivals = \"poisson\"");
            self.say(error, arrivals_at);
        }
        if let (Some(at), Some(_)) = (rows_at, &raw.sessions) {
            let error = TextError::new("[rows] and [sessions] both say what a session is").hint(
                "name the session of each row in its fourth column, and leave [sessions] out",
            );
            self.say(error, at);
        }
        let sessions = raw.sessions.and_then(|s| self.sessions(s));
        let (system_tokens, block_tokens, groups) = self.prefixes(raw.prefixes);
        let prefixed = system_tokens > 0 || groups.is_some();
        let shape = self.shape(raw.input, raw.output, raw.rows, is_trace, prefixed);
        let arrivals = self.arrivals(raw.arrivals.as_ref());
        let profile = self.profile(&raw.rate_profile);
        Some(WorkloadSpec {
            name: raw.name.as_deref().unwrap_or(name).into(),
            description: raw.description,
            source: raw.source,
            class: raw.class.map(Arc::from),
            tenant: raw.tenant.map(Arc::from),
            shape: shape?,
            arrivals,
            profile,
            system_tokens,
            groups,
            block_tokens,
            sessions,
            output_policy: match raw.output_policy {
                Some(raw::Policy::Natural) => OutputPolicy::NaturalEnd,
                Some(raw::Policy::IgnoreEos) => OutputPolicy::IgnoreEos,
                Some(raw::Policy::MaxTokens) | None => OutputPolicy::MaxTokens,
            },
            text: raw.text.file.map_or(TextSource::Prose, TextSource::File),
        })
    }

    fn shape(
        &mut self,
        input: Option<Spanned<raw::Lengths>>,
        output: Option<Spanned<raw::Lengths>>,
        rows: Option<Spanned<raw::Rows>>,
        is_trace: bool,
        prefixed: bool,
    ) -> Option<Shape> {
        match (input, output, rows) {
            (None, None, Some(rows)) => self.rows(rows, is_trace, prefixed),
            (input, output, Some(_)) => {
                for lengths in input.iter().chain(&output) {
                    let error = TextError::new("lengths, and rows that have lengths of their own")
                        .hint("leave out one of them");
                    self.say(error, lengths.span());
                }
                None
            }
            (Some(input), Some(output), None) => {
                let (input, output) = (self.lengths(input), self.lengths(output));
                Some(Shape::Drawn {
                    input: input?,
                    output: output?,
                })
            }
            (input, output, None) => {
                for (missing, name) in [(input.is_none(), "input"), (output.is_none(), "output")] {
                    // Where a broken entry was taken out, that problem stands for this one.
                    if missing && self.problems.is_empty() {
                        let error = TextError::new(format!("no `{name}` lengths"))
                            .hint(format!("for instance {name} = {{ fixed = 512 }}"));
                        self.say(error, None);
                    }
                }
                None
            }
        }
    }

    fn rows(&mut self, raw: Spanned<raw::Rows>, is_trace: bool, prefixed: bool) -> Option<Shape> {
        let at = raw.span();
        let raw = raw.into_inner();
        let (place, mut complaints) = (raw.table.span(), Vec::new());
        let sessions = rows::sessions(raw.table.get_ref(), &mut complaints);
        let failed = !complaints.is_empty();
        let begin = self.content_of(&place, raw.table.get_ref());
        for (from, to, error) in complaints {
            let span = begin.map_or(place.clone(), |begin| begin + from..begin + to);
            self.say(error, span);
        }
        if failed {
            return None;
        }
        if sessions.is_empty() {
            self.say(
                TextError::new("a table without rows").expected("ARRIVAL INPUT OUTPUT"),
                place,
            );
            return None;
        }
        let blocks = sessions
            .iter()
            .flat_map(|s| &s.steps)
            .any(|s| !s.blocks.is_empty());
        if blocks && prefixed {
            let error = TextError::new("rows with blocks, and shared prefixes beside them")
                .hint("the blocks say what is shared: leave [prefixes] to block_tokens");
            self.say(error, at.clone());
        }
        let block_tokens = raw.block_tokens.map_or(0, |t| self.positive(&t));
        if blocks && block_tokens == 0 {
            let error = TextError::new("rows with blocks of unknown size")
                .hint("say block_tokens = 512, or as many as the trace has in a block");
            self.say(error, at);
        }
        let order = raw.order.unwrap_or(if is_trace || blocks {
            raw::Order::Recorded
        } else {
            raw::Order::Drawn
        });
        Some(Shape::Rows(Rows {
            sessions: sessions.into(),
            in_order: is_trace || order == raw::Order::Recorded,
            repeat: raw.repeat,
            block_tokens: if blocks { block_tokens } else { 0 },
        }))
    }

    /// Where the content of a string begins in the text, if it stands there as it is.
    fn content_of(&self, span: &Range<usize>, content: &str) -> Option<usize> {
        let quoted = self.text.get(span.clone())?;
        quoted.find(content).map(|inside| span.start + inside)
    }

    fn lengths(&mut self, raw: Spanned<raw::Lengths>) -> Option<Lengths> {
        let at = raw.span();
        match raw.into_inner() {
            raw::Lengths::Fixed(tokens) => Some(Lengths::Fixed(self.positive(&tokens))),
            raw::Lengths::Uniform { min, max } => {
                let (min, max) = (min.0.0, max.0.0);
                if min == 0 || min > max {
                    let error = TextError::new(format!("uniform from {min} to {max}"));
                    self.say(error.expected("1 <= min <= max"), at);
                    return None;
                }
                Some(Lengths::Uniform { min, max })
            }
            raw::Lengths::LogNormal { median, sigma, max } => {
                let (median, max) = (median.0.0, max.0.0);
                let right = median > 0 && max >= median && sigma >= 0.0 && sigma.is_finite();
                if !right {
                    let error = TextError::new("a log-normal law that does not exist")
                        .expected("1 <= median <= max and sigma >= 0");
                    self.say(error, at);
                    return None;
                }
                Some(Lengths::LogNormal {
                    median: f64::from(median),
                    sigma,
                    max,
                })
            }
            raw::Lengths::Quantiles(points) => {
                let values = |t: &Typed<Tokens>| f64::from(t.0.0);
                self.table(&points, values, at).map(Lengths::Quantiles)
            }
        }
    }

    fn think_time(&mut self, raw: Spanned<raw::ThinkTime>) -> Option<ThinkTime> {
        let at = raw.span();
        match raw.into_inner() {
            raw::ThinkTime::Fixed(span) => Some(ThinkTime::Fixed(*span)),
            raw::ThinkTime::Exponential { mean } => Some(ThinkTime::Exponential {
                mean_s: mean.as_secs_f64(),
            }),
            raw::ThinkTime::LogNormal { median, sigma, max } => {
                if !sigma.is_finite() || sigma < 0.0 || *max < *median {
                    let error = TextError::new("a log-normal law that does not exist")
                        .expected("median <= max and sigma >= 0");
                    self.say(error, at);
                    return None;
                }
                Some(ThinkTime::LogNormal {
                    median_s: median.as_secs_f64(),
                    sigma,
                    max_s: max.as_secs_f64(),
                })
            }
            raw::ThinkTime::Quantiles(points) => self
                .table(&points, |span| span.as_secs_f64(), at)
                .map(ThinkTime::Quantiles),
        }
    }

    /// A table of quantiles from `p0` to `p100`.
    fn table<T>(
        &mut self,
        points: &BTreeMap<String, Spanned<T>>,
        value: impl Fn(&T) -> f64,
        at: Range<usize>,
    ) -> Option<QuantileTable> {
        let mut levels = Vec::new();
        for (name, point) in points {
            let Some(percent) = percentile(name) else {
                let error = TextError::new(format!("`{name}` is no percentile"))
                    .expected("p0, p50, p999 or \"p99.9\", up to p100");
                self.say(error, point.span());
                return None;
            };
            levels.push((percent / 100.0, value(point.get_ref())));
        }
        levels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let table = QuantileTable::new(&levels);
        if table.is_none() {
            let error = TextError::new("quantiles that make no distribution")
                .expected("p0 and p100 among them, and values that do not fall");
            self.say(error, at);
        }
        table
    }

    fn positive(&mut self, tokens: &Spanned<Typed<Tokens>>) -> u32 {
        let count = tokens.get_ref().0.0;
        if count == 0 {
            self.say(
                TextError::new("0 tokens").expected("at least 1"),
                tokens.span(),
            );
        }
        count.max(1)
    }

    fn prefixes(&mut self, raw: raw::Prefixes) -> (u32, u32, Option<Groups>) {
        let block_tokens = raw.block_tokens.map_or(BLOCK_TOKENS, |t| self.positive(&t));
        let system_tokens = raw.system_tokens.map_or(0, |t| t.get_ref().0.0);
        let groups = raw.groups.and_then(|groups| {
            let at = groups.span();
            let raw::Groups {
                count,
                zipf,
                tokens,
            } = groups.into_inner();
            let tokens = self.lengths(tokens);
            let popularity = Zipf::new(count.min(MOST_GROUPS), zipf);
            if popularity.is_none() || count > MOST_GROUPS {
                let error = TextError::new(format!("{count} groups with exponent {zipf}"))
                    .expected("1 to 1,000,000 groups and an exponent of at least 0");
                self.say(error, at);
            }
            Some(Groups {
                popularity: popularity?,
                tokens: tokens?,
            })
        });
        (system_tokens, block_tokens, groups)
    }

    fn sessions(&mut self, raw: raw::Sessions) -> Option<Sessions> {
        let at = raw.steps.span();
        let (steps, next_input) = (self.lengths(raw.steps), self.lengths(raw.next_input));
        let think_time = match raw.think_time {
            Some(think) => self.think_time(think),
            None => Some(ThinkTime::Fixed(std::time::Duration::ZERO)),
        };
        if steps.as_ref().is_some_and(|s| s.longest() > MOST_STEPS) {
            self.say(
                TextError::new("too many steps").expected("at most 65535"),
                at,
            );
        }
        Some(Sessions {
            steps: steps?,
            next_input: next_input?,
            think_time: think_time?,
            context_limit: raw.context_limit.map(|t| self.positive(&t)),
            history: match raw.history {
                Some(raw::History::Served) => History::Served,
                Some(raw::History::Planned) | None => History::Planned,
            },
        })
    }

    fn arrivals(&mut self, raw: Option<&Spanned<raw::Arrivals>>) -> Arrivals {
        let Some(raw) = raw else {
            return Arrivals::Poisson;
        };
        match *raw.get_ref() {
            raw::Arrivals::Poisson => Arrivals::Poisson,
            raw::Arrivals::Trace => Arrivals::Trace,
            raw::Arrivals::Gamma { cv } => {
                if !(0.01..=100.0).contains(&cv) {
                    let error = TextError::new(format!("gaps of CV {cv}")).expected("0.01 to 100");
                    self.say(error, raw.span());
                }
                Arrivals::Gamma { cv }
            }
        }
    }

    fn profile(&mut self, raw: &[Spanned<raw::RatePoint>]) -> Vec<RatePoint> {
        let mut profile: Vec<RatePoint> = Vec::new();
        for point in raw {
            let (at_s, factor) = (point.get_ref().at.as_secs_f64(), point.get_ref().factor);
            let later = profile.last().is_none_or(|last| last.at_s < at_s);
            if !later || !factor.is_finite() || factor <= 0.0 {
                let error = TextError::new("a rate profile that cannot be followed")
                    .expected("instants that rise and factors above 0");
                self.say(error, point.span());
            }
            profile.push(RatePoint { at_s, factor });
        }
        profile
    }
}

/// Reads "p50", "p99.5" and, as the field writes it, "p999" for the 99.9th.
fn percentile(name: &str) -> Option<f64> {
    let digits = name.strip_prefix('p')?;
    let percent: f64 = match digits.strip_prefix("99") {
        Some(nines) if !nines.is_empty() && !nines.contains('.') => {
            format!("99.{nines}").parse().ok()?
        }
        _ => digits.parse().ok()?,
    };
    (0.0..=100.0).contains(&percent).then_some(percent)
}
