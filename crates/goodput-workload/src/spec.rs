//! A workload, checked: what the parts of it are and what they mean.

use std::{sync::Arc, time::Duration};

use goodput_stats::sampler::{QuantileTable, Zipf, exponential, log_normal};
use goodput_stats::{Draws, Stream, quantile};

use crate::{
    arrivals::{Arrivals, RatePoint},
    lengths::Lengths,
    script::Scripts,
};

/// How the length of an answer is brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputPolicy {
    /// No limit is sent: the answer ends where the served model ends it.
    NaturalEnd,
    /// The planned length is sent as a limit; the served model may end earlier.
    MaxTokens,
    /// The planned length is sent as a limit and the end-of-sequence token is ignored, where the
    /// server can do that.
    IgnoreEos,
}

impl OutputPolicy {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NaturalEnd => "natural",
            Self::MaxTokens => "max_tokens",
            Self::IgnoreEos => "ignore_eos",
        }
    }
}

/// Where the words of prompts come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextSource {
    /// The project's own sentences, recombined.
    Prose,
    /// A file of the user's, named in the workload file; its sentences are recombined.
    File(String),
}

/// What stands in a prompt for the earlier answers of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Text of the planned length: every run sends the same prompts. A server's cache holds the
    /// earlier prompt, not its own answer.
    Planned,
    /// The answers really given: a server's cache may hold them too.
    Served,
}

/// Prefixes shared by groups of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups {
    /// How often each group is drawn.
    pub popularity: Zipf,
    /// The length of a group's prefix, drawn once for each.
    pub tokens: Lengths,
}

/// How long a user or a tool takes before the next step of a session.
#[derive(Clone, Debug, PartialEq)]
pub enum ThinkTime {
    /// Always the same.
    Fixed(Duration),
    /// Exponential with this mean, in seconds.
    Exponential {
        /// The mean, in seconds.
        mean_s: f64,
    },
    /// Log-normal, cut at a longest.
    LogNormal {
        /// The median, in seconds.
        median_s: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// The longest, in seconds.
        max_s: f64,
    },
    /// By quantiles, in seconds.
    Quantiles(QuantileTable),
}

impl ThinkTime {
    /// Draws one.
    pub fn draw(&self, draws: &mut Draws) -> Duration {
        goodput_record::span_of(match self {
            Self::Fixed(span) => return *span,
            Self::Exponential { mean_s } => mean_s * exponential(draws),
            Self::LogNormal {
                median_s,
                sigma,
                max_s,
            } => log_normal(draws, *median_s, *sigma).min(*max_s),
            Self::Quantiles(table) => table.draw(draws),
        })
    }
}

/// Sessions of several requests, each waiting for the one before.
#[derive(Clone, Debug, PartialEq)]
pub struct Sessions {
    /// Requests of a session.
    pub steps: Lengths,
    /// Tokens that each step after the first adds: the user's next message or a tool's result.
    pub next_input: Lengths,
    /// From the end of an answer to the next request. Left out in a closed loop.
    pub think_time: ThinkTime,
    /// What stands for earlier answers.
    pub history: History,
    /// Tokens of prompt and answer together at which a session ends early, as a client ends it
    /// whose context is full. `None`: sessions are as long as drawn.
    pub context_limit: Option<u32>,
}

/// One request of a trace, as the workload replays it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowStep {
    /// Tokens of its whole prompt, at least 1.
    pub input_tokens: u32,
    /// Tokens of its answer, at least 1.
    pub output_tokens: u32,
    /// From the end of the step before to this one; zero for the first.
    pub wait: Duration,
    /// Names of its blocks, for traces that tell which prefixes were shared.
    pub blocks: Box<[u64]>,
}

/// One session of a trace: its requests in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSession {
    /// When its first request arrived, in nanoseconds since the first of the trace.
    pub arrival_ns: u64,
    /// Its requests, at least one.
    pub steps: Vec<RowStep>,
}

/// Rows of a trace: lengths that belong together stay together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The sessions by arrival, at least one; at most 65,535 steps each.
    pub sessions: Arc<[RowSession]>,
    /// Taken one after the other, as recorded; else drawn, each as often as any other.
    pub in_order: bool,
    /// Whether they start again at the end. What comes again shares no prefix with what was.
    pub repeat: bool,
    /// Tokens of one block of `blocks`.
    pub block_tokens: u32,
}

/// Where lengths come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Drawn { input: Lengths, output: Lengths },
    Rows(Rows),
}

/// A workload, checked. Made from a file ([`WorkloadSpec::parse`]) or a preset.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadSpec {
    pub(crate) name: Arc<str>,
    pub(crate) description: String,
    pub(crate) source: String,
    pub(crate) class: Option<Arc<str>>,
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) shape: Shape,
    pub(crate) arrivals: Arrivals,
    pub(crate) profile: Vec<RatePoint>,
    pub(crate) system_tokens: u32,
    pub(crate) groups: Option<Groups>,
    pub(crate) block_tokens: u32,
    pub(crate) sessions: Option<Sessions>,
    pub(crate) output_policy: OutputPolicy,
    pub(crate) text: TextSource,
}

impl WorkloadSpec {
    /// Its name: that of the preset, or as the file says.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
    /// What it stands for, in a sentence; empty where the file does not say.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }
    /// Where its figures come from; empty where the file does not say.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }
    /// Class of its requests.
    #[must_use]
    pub fn class(&self) -> Option<&str> {
        self.class.as_deref()
    }
    /// Tenant of its requests.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }
    /// How sessions arrive in an open loop.
    #[must_use]
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }
    /// How the length of answers is brought about.
    #[must_use]
    pub fn output_policy(&self) -> OutputPolicy {
        self.output_policy
    }
    /// Where the words come from.
    #[must_use]
    pub fn text(&self) -> &TextSource {
        &self.text
    }
    /// Tokens of a block of the server's prefix cache, for the planned hit share.
    #[must_use]
    pub fn block_tokens(&self) -> u32 {
        self.block_tokens
    }
    /// What stands in prompts for earlier answers.
    #[must_use]
    pub fn history(&self) -> History {
        self.sessions
            .as_ref()
            .map_or(History::Planned, |s| s.history)
    }
    /// Whether any session can have more than one request.
    #[must_use]
    pub fn has_sessions(&self) -> bool {
        self.longest_session() > 1
    }

    /// Requests of the longest session.
    #[must_use]
    pub fn longest_session(&self) -> u16 {
        let steps = match &self.shape {
            Shape::Rows(rows) => rows.sessions.iter().map(|s| s.steps.len()).max(),
            Shape::Drawn { .. } => self.sessions.as_ref().map(|s| s.steps.longest() as usize),
        };
        steps.map_or(1, |steps| u16::try_from(steps).unwrap_or(u16::MAX))
    }

    /// Mean number of requests in a session, at least 1.
    #[must_use]
    pub fn mean_steps(&self) -> f64 {
        match &self.shape {
            Shape::Rows(rows) => {
                let steps: usize = rows.sessions.iter().map(|s| s.steps.len()).sum();
                steps as f64 / rows.sessions.len().max(1) as f64
            }
            Shape::Drawn { .. } => match &self.sessions {
                None => 1.0,
                Some(sessions) if sessions.context_limit.is_none() => sessions.steps.mean(),
                Some(_) => self.sampled_steps(),
            },
        }
    }

    /// How long before a load point its sessions must have begun for nearly all of those to be
    /// there that are under way at its start: the 99th percentile of the time that the waits of a
    /// session add up to. 0 where sessions never wait, and for the times of a trace.
    pub(crate) fn lead_s(&self) -> f64 {
        let waits = self.sessions.is_some() && self.arrivals != Arrivals::Trace;
        if !waits {
            return 0.0;
        }
        let scripts = self.scripts(0);
        let mut spans: Vec<f64> = (0..SAMPLED_SESSIONS)
            .filter_map(|number| scripts.open(number))
            .map(|mut session| {
                let waits = std::iter::from_fn(|| scripts.next(&mut session));
                waits.map(|wait| wait.as_secs_f64()).sum()
            })
            .collect();
        spans.sort_by(f64::total_cmp);
        quantile(&spans, 0.99).unwrap_or(0.0)
    }

    /// The scripts of its sessions under a seed.
    pub(crate) fn scripts(&self, seed: u64) -> Scripts<'_> {
        Scripts {
            spec: self,
            seed,
            stride: self.longest_session(),
        }
    }

    /// The mean over many sessions, for those that may end early.
    fn sampled_steps(&self) -> f64 {
        let scripts = self.scripts(0);
        let steps = (0..SAMPLED_SESSIONS).filter_map(|number| scripts.open(number));
        let sum: u64 = steps.map(|session| u64::from(session.steps)).sum();
        sum as f64 / SAMPLED_SESSIONS as f64
    }

    /// The most tokens that a request can need, prompt and answer together: what the served
    /// model's context must hold.
    #[must_use]
    pub fn longest(&self) -> u32 {
        let tokens = match &self.shape {
            Shape::Rows(rows) => {
                let steps = rows.sessions.iter().flat_map(|s| &s.steps);
                let whole = steps.map(|s| u64::from(s.input_tokens) + u64::from(s.output_tokens));
                whole
                    .max()
                    .unwrap_or(0)
                    .max(u64::from(self.longest_prefix()) + 1)
            }
            Shape::Drawn { input, output } => {
                let answer = u64::from(output.longest());
                let first = u64::from(input.longest().max(self.longest_prefix() + 1)) + answer;
                let later = self.sessions.as_ref().map_or(0, |s| {
                    let step = answer + u64::from(s.next_input.longest());
                    step * u64::from(self.longest_session() - 1)
                });
                let limit = self.sessions.as_ref().and_then(|s| s.context_limit);
                (first + later).min(limit.map_or(u64::MAX, u64::from).max(first))
            }
        };
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    /// Tokens of the longest prefix that requests can share by plan.
    fn longest_prefix(&self) -> u32 {
        let group = self.groups.as_ref().map_or(0, |g| g.tokens.longest());
        self.system_tokens.saturating_add(group)
    }

    /// Requests per second of the trace behind it, as recorded; `None` without a trace, or where
    /// all its requests came at one instant.
    #[must_use]
    pub fn recorded_rate(&self) -> Option<f64> {
        let Shape::Rows(rows) = &self.shape else {
            return None;
        };
        let gaps = rows.sessions.len().checked_sub(1)?;
        let span_ns = rows.sessions.last()?.arrival_ns - rows.sessions.first()?.arrival_ns;
        (span_ns > 0).then(|| gaps as f64 * self.mean_steps() / (span_ns as f64 / 1e9))
    }

    /// How many requests it has, if it does not go on for ever.
    #[must_use]
    pub fn available(&self) -> Option<u64> {
        match &self.shape {
            Shape::Rows(rows) if rows.in_order && !rows.repeat => {
                Some(rows.sessions.iter().map(|s| s.steps.len() as u64).sum())
            }
            _ => None,
        }
    }

    /// Checks that there are as many requests as asked for.
    pub fn check_available(&self, asked: u64) -> Result<(), TooFewRequests> {
        match self.available() {
            Some(available) if available < asked => Err(TooFewRequests { asked, available }),
            _ => Ok(()),
        }
    }

    /// Of `asked` requests, the share that repeats rows of the trace, 0 to 1. Repeats have prompts
    /// of their own, but lengths and order that were recorded once.
    #[must_use]
    pub fn repeat_share(&self, asked: u64) -> f64 {
        let Shape::Rows(rows) = &self.shape else {
            return 0.0;
        };
        let recorded: u64 = rows.sessions.iter().map(|s| s.steps.len() as u64).sum();
        asked.saturating_sub(recorded) as f64 / asked.max(1) as f64
    }

    /// The same workload under other arrivals.
    #[must_use]
    pub fn with_arrivals(mut self, arrivals: Arrivals) -> Self {
        self.arrivals = arrivals;
        self
    }

    /// The same workload with the length of answers brought about otherwise.
    #[must_use]
    pub fn with_output_policy(mut self, policy: OutputPolicy) -> Self {
        self.output_policy = policy;
        self
    }
}

/// A trace has fewer requests than asked for, and repeating was not allowed: repeated prompts
/// would be read from the prefix cache, or be new ones that nobody recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{asked} requests were asked for, the workload has {available}; ask for fewer, or set \
     `repeat = true` under [rows]: {repeated:.0}% would then be repeats, with prompts of their own",
    repeated = 100.0 * (1.0 - *available as f64 / *asked as f64)
)]
pub struct TooFewRequests {
    /// Requests asked for.
    pub asked: u64,
    /// Requests there are.
    pub available: u64,
}

/// Sessions behind a mean that has no formula.
const SAMPLED_SESSIONS: u64 = 4_000;

/// A mean of think times, for what is said of a workload.
pub(crate) fn mean_think_s(think: &ThinkTime) -> f64 {
    let draws = |i| Draws::new(0, Stream(0x7748), i);
    let sum: f64 = (0..2_000)
        .map(|i| think.draw(&mut draws(i)).as_secs_f64())
        .sum();
    sum / 2_000.0
}
