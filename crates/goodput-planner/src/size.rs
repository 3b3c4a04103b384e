//! From demand and budget to whole replicas.

use serde::Serialize;
use thiserror::Error;

/// Share of the goodput budget at which an interactive pool is run: the essay "Inference SLOs" adds
/// replicas beyond about 70 %.
pub const INTERACTIVE_TARGET: f64 = 0.70;
/// Where an interactive pool needs to sit: the essay "TTFT, TPOT, and Why Throughput Is the Wrong
/// Target" says 60 to 75 %.
pub const INTERACTIVE_BAND: [f64; 2] = [0.60, 0.75];
/// The same of a class that nobody watches: its deadline is minutes away, and a queue of seconds
/// spends little of it. Ours.
pub const BATCH_TARGET: f64 = 0.90;

/// How sizes are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// Share of the goodput budget that is planned to be used, above 0 and at most 1.
    pub target: f64,
    /// Where no whole number of replicas lands between its lower end and `target`, one fewer is taken
    /// if that lands below the upper end.
    pub band: [f64; 2],
    /// Replicas that may fail at once.
    pub spare: u32,
}

impl Rule {
    /// That of a class someone watches, or of one that nobody does; one replica may fail.
    #[must_use]
    pub const fn of_class(interactive: bool) -> Self {
        let (target, band) = if interactive {
            (INTERACTIVE_TARGET, INTERACTIVE_BAND)
        } else {
            (BATCH_TARGET, [BATCH_TARGET, BATCH_TARGET])
        };
        Self {
            target,
            band,
            spare: 1,
        }
    }

    /// The same with another target, and no band around it.
    #[must_use]
    pub const fn with_target(self, target: f64) -> Self {
        Self {
            target,
            band: [target, target],
            ..self
        }
    }
}

/// What decided a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// The target utilisation.
    Target,
    /// The burst within one cold start: it needs more headroom than the target leaves.
    Burst,
    /// The replica that may fail: with so few, it alone is more headroom than the target leaves.
    Spare,
}

/// How many replicas.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sizing {
    /// Demand over budget, not rounded: what would do if replicas came in fractions, started at once
    /// and never failed.
    pub fractional: f64,
    /// The same rounded up. A lower bound, no plan: it has no headroom.
    pub lower_bound: u64,
    /// With headroom.
    pub plan: u64,
    /// With headroom even when the spare replicas have failed.
    pub with_spare: u64,
    /// What decided it.
    pub decided_by: DecidedBy,
}

impl Sizing {
    /// Share of the budget of `replicas` replicas that the demand uses.
    #[must_use]
    pub fn utilisation(&self, replicas: u64) -> f64 {
        self.fractional / replicas as f64
    }
}

/// Why there is no size.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum SizeError {
    /// A target outside its range.
    #[error("a target utilisation of {0} plans nothing; expected a share above 0 and at most 1")]
    Target(f64),
    /// The list of replica counts ends too early.
    #[error("the demand needs {needs} replicas, the most on the list is {most}")]
    TooFew {
        /// Replicas needed, spares included.
        needs: u64,
        /// The most there may be.
        most: u64,
    },
}

/// How many replicas of `budget` requests per second each serve `demand` requests per second, with
/// bursts of `burst` times that within one cold start.
///
/// A burst of x needs headroom `1 - 1/x`: whatever comes before a new replica is ready must be
/// served by those that run.
pub fn size(
    demand: f64,
    budget: f64,
    burst: Option<f64>,
    rule: &Rule,
) -> Result<Sizing, SizeError> {
    if !(rule.target > 0.0 && rule.target <= 1.0) {
        return Err(SizeError::Target(rule.target));
    }
    let fractional = demand / budget;
    let lower_bound = up(fractional);
    let mut by_target = up(fractional / rule.target);
    let fewer = by_target.saturating_sub(1).max(1);
    if fractional / (by_target as f64) < rule.band[0] && fractional / fewer as f64 <= rule.band[1] {
        by_target = fewer;
    }
    let by_burst = up(fractional * burst.unwrap_or(1.0).max(1.0));
    let plan = by_target.max(by_burst);
    let spare = u64::from(rule.spare);
    let decided_by = if by_burst > by_target {
        DecidedBy::Burst
    } else if spare > 0 && lower_bound + spare >= by_target {
        DecidedBy::Spare
    } else {
        DecidedBy::Target
    };
    Ok(Sizing {
        fractional,
        lower_bound,
        plan,
        with_spare: plan + spare,
        decided_by,
    })
}

/// The smallest count on the list that is at least `needs`; `needs` itself without a list.
pub fn on_list(needs: u64, allowed: &[u32]) -> Result<u64, SizeError> {
    if allowed.is_empty() {
        return Ok(needs);
    }
    let counts = allowed.iter().map(|&count| u64::from(count));
    counts
        .clone()
        .filter(|&count| count >= needs)
        .min()
        .ok_or_else(|| SizeError::TooFew {
            needs,
            most: counts.max().unwrap_or(0),
        })
}

/// Rounded up to a whole replica, at least one; what is above a whole number by rounding alone is
/// that number.
pub(crate) fn up(replicas: f64) -> u64 {
    goodput_stats::whole_u64((replicas - 1e-9).ceil()).max(1)
}
