//! What a clause can bound.

use std::fmt;

use goodput_config::{TextError, known_names, suggest};

/// The most tokens `time_to_token_N` can ask for.
const LONGEST_ANSWER: u32 = 10_000_000;

/// A latency of a request, or of a session. All are defined in `goodput-record`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// From the origin to the first token event of any channel.
    Ttft,
    /// From the origin to the first token event that is not reasoning.
    TtftAnswer,
    /// From the origin to the n-th output token.
    TimeToToken(u32),
    /// Mean time per output token after the first.
    Tpot,
    /// Median gap between tokens.
    TpotMedian,
    /// 99th percentile of the gaps between tokens, within one request.
    ItlP99,
    /// The longest gap between two token events.
    Stall,
    /// From the origin to the last token event.
    E2e,
    /// From the origin of a session's first step to the last token of its last.
    Trajectory,
}

/// The names as they stand in messages.
pub(crate) const NAMES: [&str; 9] = [
    "ttft",
    "ttft_answer",
    "time_to_token_N",
    "tpot",
    "tpot_median",
    "itl_p99",
    "stall",
    "e2e",
    "trajectory",
];

/// Names in use elsewhere, and ours.
const FOREIGN: [(&str, &str); 16] = [
    ("tpot_p50", "tpot_median"),
    ("median_tpot", "tpot_median"),
    ("itl_p50", "tpot_median"),
    ("itl_median", "tpot_median"),
    ("itl", "itl_p99"),
    ("tbt", "itl_p99"),
    ("inter_token_latency", "itl_p99"),
    ("time_to_first_token", "ttft"),
    ("time_per_output_token", "tpot"),
    ("latency", "e2e"),
    ("e2el", "e2e"),
    ("e2e_latency", "e2e"),
    ("request_latency", "e2e"),
    ("ttlt", "e2e"),
    ("session", "trajectory"),
    ("deadline", "trajectory"),
];

impl Metric {
    /// Reads a name.
    pub(crate) fn parse(name: &str) -> Result<Self, TextError> {
        Ok(match name {
            "ttft" => Self::Ttft,
            "ttft_answer" => Self::TtftAnswer,
            "tpot" => Self::Tpot,
            "tpot_median" => Self::TpotMedian,
            "itl_p99" => Self::ItlP99,
            "stall" => Self::Stall,
            "e2e" => Self::E2e,
            "trajectory" => Self::Trajectory,
            _ => return Self::nth_token(name).ok_or_else(|| unknown(name)),
        })
    }

    fn nth_token(name: &str) -> Option<Self> {
        let n = name.strip_prefix("time_to_token_")?.parse().ok()?;
        (1..=LONGEST_ANSWER)
            .contains(&n)
            .then_some(Self::TimeToToken(n))
    }

    /// Whether it speaks of the pace of a stream, which nobody watches in a class that is not
    /// streamed.
    #[must_use]
    pub const fn is_pace(self) -> bool {
        matches!(
            self,
            Self::Tpot | Self::TpotMedian | Self::ItlP99 | Self::Stall
        )
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ttft => "ttft",
            Self::TtftAnswer => "ttft_answer",
            Self::TimeToToken(n) => return write!(f, "time_to_token_{n}"),
            Self::Tpot => "tpot",
            Self::TpotMedian => "tpot_median",
            Self::ItlP99 => "itl_p99",
            Self::Stall => "stall",
            Self::E2e => "e2e",
            Self::Trajectory => "trajectory",
        })
    }
}

fn unknown(name: &str) -> TextError {
    let error = TextError::new(format!("unknown clause `{name}`")).expected(known_names(&NAMES));
    let plain = name.to_lowercase().replace('-', "_");
    let foreign = FOREIGN.iter().find(|(theirs, _)| *theirs == plain);
    if let Some((_, ours)) = foreign {
        return error.hint(format!("did you mean `{ours}`?"));
    }
    if plain.starts_with("time_to_token") {
        return error.hint("name the token: `time_to_token_20` bounds the time to the 20th");
    }
    if let Some((metric, rank)) = plain.split_once("_p")
        && NAMES.contains(&metric)
        && rank.parse::<f64>().is_ok()
    {
        return error.hint(format!(
            "a percentile stands in front: `p{rank} {metric} <= ...`"
        ));
    }
    match suggest(name, &NAMES) {
        Some(ours) => error.hint(format!("did you mean `{ours}`?")),
        None => error,
    }
}
