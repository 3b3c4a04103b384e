//! The figures that two results are compared by: what they are called, where they stand in a point,
//! and how far they may be off.

use goodput_ledger::{Amount, Between, Latency, PointRow, Sampled};
use goodput_stats::{CONFIDENCE, whole_u64, wilson};

/// The unit of a figure, as it is written in a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Tokens a second.
    TokensPerSecond,
    /// Requests a second.
    RequestsPerSecond,
    /// Characters a second.
    CharactersPerSecond,
    /// Milliseconds.
    Milliseconds,
    /// A share, 0 to 1.
    Share,
    /// Requests in flight.
    InFlight,
}

impl Unit {
    /// The word behind a number, empty where there is none.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::TokensPerSecond => "tok/s",
            Self::RequestsPerSecond => "req/s",
            Self::CharactersPerSecond => "char/s",
            Self::Milliseconds => "ms",
            Self::Share | Self::InFlight => "",
        }
    }
}

/// A figure of a load point.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    /// Whether people are shown it; programs get all.
    pub(crate) shown: bool,
    /// Whether it counts tokens of the model's vocabulary.
    pub(crate) tokens: bool,
    pub(crate) of: fn(&PointRow) -> Option<f64>,
    /// The interval that the point itself states.
    pub(crate) stated: fn(&PointRow) -> Option<Between>,
    /// The same figure of a set of requests.
    pub(crate) sampled: Option<Sampled>,
}

impl Figure {
    /// What a point's figure is divided by beside that of its requests: the GPUs, in figures per GPU.
    pub(crate) fn gpus(&self, row: &PointRow) -> f64 {
        if !self.name.ends_with("_per_gpu") {
            return 1.0;
        }
        row.throughput_tok_s_per_gpu
            .filter(|per_gpu| *per_gpu > 0.0)
            .map_or(1.0, |per_gpu| row.throughput_tok_s / per_gpu)
    }
}

const fn unstated(_: &PointRow) -> Option<Between> {
    None
}

/// An amount a second, its interval taken from the requests.
const fn rate(
    name: &'static str,
    unit: Unit,
    of: fn(&PointRow) -> Option<f64>,
    amount: Amount,
) -> Figure {
    Figure {
        name,
        unit,
        shown: false,
        tokens: matches!(unit, Unit::TokensPerSecond),
        of,
        stated: unstated,
        sampled: Some(Sampled::Rate(amount)),
    }
}

/// A percentile of a latency across requests.
const fn percentile(
    name: &'static str,
    of: fn(&PointRow) -> Option<f64>,
    latency: Latency,
    q: f64,
) -> Figure {
    Figure {
        name,
        unit: Unit::Milliseconds,
        shown: false,
        // A time per token is a time per token of the model's vocabulary.
        tokens: matches!(latency, Latency::Tpot | Latency::TpotMedian),
        of,
        stated: unstated,
        sampled: Some(Sampled::Quantile(latency, q)),
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "a constant is built from a constant"
)]
const fn shown(figure: Figure) -> Figure {
    Figure {
        shown: true,
        ..figure
    }
}

/// The interval of the goodput, in the unit of a figure that is a share of it.
fn scaled_goodput(row: &PointRow, figure: Option<f64>) -> Option<Between> {
    let factor = figure? / row.goodput_tok_s;
    let interval = row.goodput_interval.filter(|_| factor.is_finite())?;
    Some(Between {
        low: interval.low * factor,
        high: interval.high * factor,
    })
}

/// The Wilson interval of the share of sessions that met the SLO as a whole.
fn sessions(row: &PointRow) -> Option<Between> {
    let (share, total) = (row.trajectory_attainment?, row.first_slo()?.trajectories);
    let met = whole_u64(share * total as f64);
    wilson(met.min(total), total, CONFIDENCE).map(Between::from)
}

/// Every figure of a point that a comparison knows.
pub(crate) const FIGURES: &[Figure] = &[
    Figure {
        stated: |p| p.goodput_interval,
        ..shown(rate(
            "goodput_tok_s",
            Unit::TokensPerSecond,
            |p| Some(p.goodput_tok_s),
            Amount::GoodTokens,
        ))
    },
    Figure {
        stated: |p| p.throughput_interval,
        ..shown(rate(
            "throughput_tok_s",
            Unit::TokensPerSecond,
            |p| Some(p.throughput_tok_s),
            Amount::Tokens,
        ))
    },
    shown(rate(
        "good_characters_per_s",
        Unit::CharactersPerSecond,
        |p| p.first_slo()?.good_characters_per_s,
        Amount::GoodCharacters,
    )),
    rate(
        "characters_per_s",
        Unit::CharactersPerSecond,
        |p| p.characters_per_s,
        Amount::Characters,
    ),
    rate(
        "goodput_req_s",
        Unit::RequestsPerSecond,
        |p| Some(p.goodput_req_s),
        Amount::Met,
    ),
    rate(
        "completed_req_s",
        Unit::RequestsPerSecond,
        |p| Some(p.completed_req_s),
        Amount::Completed,
    ),
    Figure {
        stated: |p| scaled_goodput(p, p.goodput_tok_s_per_gpu),
        ..rate(
            "goodput_tok_s_per_gpu",
            Unit::TokensPerSecond,
            |p| p.goodput_tok_s_per_gpu,
            Amount::GoodTokens,
        )
    },
    rate(
        "throughput_tok_s_per_gpu",
        Unit::TokensPerSecond,
        |p| p.throughput_tok_s_per_gpu,
        Amount::Tokens,
    ),
    Figure {
        name: "slo_attainment",
        unit: Unit::Share,
        shown: true,
        tokens: false,
        of: |p| p.slo_attainment,
        stated: |p| p.attainment_interval,
        sampled: Some(Sampled::Attainment),
    },
    Figure {
        name: "trajectory_attainment",
        unit: Unit::Share,
        shown: false,
        tokens: false,
        of: |p| p.trajectory_attainment,
        stated: sessions,
        sampled: None,
    },
    Figure {
        stated: |p| p.ttft_p50_interval,
        ..shown(percentile(
            "ttft_p50_ms",
            |p| p.ttft_p50_ms,
            Latency::Ttft,
            0.5,
        ))
    },
    percentile("ttft_p90_ms", |p| p.ttft_p90_ms, Latency::Ttft, 0.9),
    percentile("ttft_p95_ms", |p| p.ttft_p95_ms, Latency::Ttft, 0.95),
    Figure {
        stated: |p| p.ttft_p99_interval,
        ..shown(percentile(
            "ttft_p99_ms",
            |p| p.ttft_p99_ms,
            Latency::Ttft,
            0.99,
        ))
    },
    percentile(
        "ttft_answer_p50_ms",
        |p| p.ttft_answer_p50_ms,
        Latency::TtftAnswer,
        0.5,
    ),
    percentile(
        "ttft_answer_p99_ms",
        |p| p.ttft_answer_p99_ms,
        Latency::TtftAnswer,
        0.99,
    ),
    Figure {
        stated: |p| p.tpot_p50_interval,
        ..shown(percentile(
            "tpot_p50_ms",
            |p| p.tpot_p50_ms,
            Latency::Tpot,
            0.5,
        ))
    },
    percentile("tpot_p90_ms", |p| p.tpot_p90_ms, Latency::Tpot, 0.9),
    percentile("tpot_p95_ms", |p| p.tpot_p95_ms, Latency::Tpot, 0.95),
    Figure {
        stated: |p| p.tpot_p99_interval,
        ..shown(percentile(
            "tpot_p99_ms",
            |p| p.tpot_p99_ms,
            Latency::Tpot,
            0.99,
        ))
    },
    percentile(
        "tpot_median_p50_ms",
        |p| p.tpot_median_p50_ms,
        Latency::TpotMedian,
        0.5,
    ),
    percentile(
        "tpot_median_p99_ms",
        |p| p.tpot_median_p99_ms,
        Latency::TpotMedian,
        0.99,
    ),
    percentile("stall_p50_ms", |p| p.stall_p50_ms, Latency::Stall, 0.5),
    percentile("stall_p99_ms", |p| p.stall_p99_ms, Latency::Stall, 0.99),
    percentile("e2e_p50_ms", |p| p.e2e_p50_ms, Latency::E2e, 0.5),
    percentile("e2e_p90_ms", |p| p.e2e_p90_ms, Latency::E2e, 0.9),
    percentile("e2e_p95_ms", |p| p.e2e_p95_ms, Latency::E2e, 0.95),
    percentile("e2e_p99_ms", |p| p.e2e_p99_ms, Latency::E2e, 0.99),
];

/// The answers that a comparison knows, and their units.
pub(crate) const ANSWERS: &[(&str, Unit)] = &[
    ("sell_req_s", Unit::RequestsPerSecond),
    ("cap_in_flight", Unit::InFlight),
    ("peak_goodput_tok_s", Unit::TokensPerSecond),
    ("sell_goodput_tok_s", Unit::TokensPerSecond),
    ("peak_good_characters_per_s", Unit::CharactersPerSecond),
    ("sell_good_characters_per_s", Unit::CharactersPerSecond),
    ("scale_out_at_req_s", Unit::RequestsPerSecond),
    ("scale_out_at_tok_s", Unit::TokensPerSecond),
];

/// Whether a larger value of this figure is better.
#[must_use]
pub fn more_is_better(figure: &str) -> bool {
    !figure.ends_with("_ms")
}

/// Whether people are shown this figure of a point; programs get all.
#[must_use]
pub fn is_shown(figure: &str) -> bool {
    FIGURES.iter().any(|f| f.shown && f.name == figure)
}
