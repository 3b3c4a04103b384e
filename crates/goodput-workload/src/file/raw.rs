//! The workload file as it is written.

use std::{collections::BTreeMap, time::Duration};

use goodput_config::{Spanned, Tokens, Typed};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) source: String,
    pub(super) class: Option<String>,
    pub(super) tenant: Option<String>,
    pub(super) output_policy: Option<Policy>,
    pub(super) arrivals: Option<Spanned<Arrivals>>,
    pub(super) input: Option<Spanned<Lengths>>,
    pub(super) output: Option<Spanned<Lengths>>,
    pub(super) rows: Option<Spanned<Rows>>,
    #[serde(default)]
    pub(super) rate_profile: Vec<Spanned<RatePoint>>,
    #[serde(default)]
    pub(super) prefixes: Prefixes,
    pub(super) sessions: Option<Sessions>,
    #[serde(default)]
    pub(super) text: Text,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Policy {
    Natural,
    MaxTokens,
    IgnoreEos,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Lengths {
    Fixed(Spanned<Typed<Tokens>>),
    Uniform {
        min: Typed<Tokens>,
        max: Typed<Tokens>,
    },
    LogNormal {
        median: Typed<Tokens>,
        sigma: f64,
        max: Typed<Tokens>,
    },
    Quantiles(BTreeMap<String, Spanned<Typed<Tokens>>>),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Arrivals {
    Poisson,
    Gamma { cv: f64 },
    Trace,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RatePoint {
    pub(super) at: Typed<Duration>,
    pub(super) factor: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prefixes {
    pub(super) system_tokens: Option<Spanned<Typed<Tokens>>>,
    pub(super) block_tokens: Option<Spanned<Typed<Tokens>>>,
    pub(super) groups: Option<Spanned<Groups>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Groups {
    pub(super) count: u32,
    pub(super) zipf: f64,
    pub(super) tokens: Spanned<Lengths>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sessions {
    pub(super) steps: Spanned<Lengths>,
    pub(super) next_input: Spanned<Lengths>,
    pub(super) think_time: Option<Spanned<ThinkTime>>,
    pub(super) history: Option<History>,
    pub(super) context_limit: Option<Spanned<Typed<Tokens>>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum History {
    Planned,
    Served,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ThinkTime {
    Fixed(Typed<Duration>),
    Exponential {
        mean: Typed<Duration>,
    },
    LogNormal {
        median: Typed<Duration>,
        sigma: f64,
        max: Typed<Duration>,
    },
    Quantiles(BTreeMap<String, Spanned<Typed<Duration>>>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rows {
    pub(super) order: Option<Order>,
    #[serde(default)]
    pub(super) repeat: bool,
    pub(super) block_tokens: Option<Spanned<Typed<Tokens>>>,
    pub(super) table: Spanned<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    Recorded,
    Drawn,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Text {
    pub(super) file: Option<String>,
}
