//! The goodput budget of one replica: the highest rate at which the SLO is surely kept.

use goodput_ledger::Between;
use goodput_slo::{Metric, Slo};
use goodput_stats::Interval;
use goodput_sweep::RunResult;
use serde::Serialize;
use thiserror::Error;

use crate::{
    demand::plain,
    figure::Figure,
    replica::{LoadFigures, ReplicaModel, measured},
};

/// How much a search may simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Requests of a load that only narrows down where the objective breaks.
    pub coarse: u32,
    /// Requests of a load that decides, at least: where many are in flight together it takes more.
    pub fine: u32,
    /// Loads that decide, at most.
    pub decides: u32,
}

impl Effort {
    /// Enough to settle an objective within a few percent of the rate: so many requests that 200 may
    /// miss, 10,000 to 200,000 of them.
    #[must_use]
    pub fn of(objective: f64) -> Self {
        let fine = (200.0 / (1.0 - objective)).clamp(10_000.0, 200_000.0);
        Self::requests(goodput_stats::whole_u32(fine))
    }

    /// With this many requests at a load that decides.
    #[must_use]
    pub fn requests(fine: u32) -> Self {
        Self {
            coarse: (fine / 4).max(1_000),
            fine,
            decides: 6,
        }
    }
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The highest rate tried that surely keeps the objective.
    pub at: LoadFigures,
    /// The lowest rate tried above it that does not surely keep it; `None` where nothing was tried
    /// above.
    pub above_req_s: Option<f64>,
    /// Loads looked at.
    pub looked_at: u32,
}

/// Why no rate was found.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum NoBudget {
    /// The replica refuses too many requests, whatever the load.
    #[error(
        "{:.1}% of the requests never fit into the replica (context limit or KV cache): no load keeps the SLO",
        100.0 * share
    )]
    NeverFits {
        /// Share of requests that were refused.
        share: f64,
    },
    /// Even a replica that is nearly idle misses.
    #[error(
        "no load keeps the SLO: at {} req/s, nearly idle, {} of the requests meet it ({})",
        plain(*rate_req_s), percent(*attainment), slow(at)
    )]
    NoLoad {
        /// The lowest rate tried.
        rate_req_s: f64,
        /// Share of requests that met the SLO there.
        attainment: Option<f64>,
        /// What was seen there.
        at: Box<LoadFigures>,
    },
    /// Nothing limits the rate, so there is nothing to search for.
    #[error("the profile has no cost that grows with load: it would serve any rate")]
    Unlimited,
    /// The loads that seemed to keep the SLO could not be proven to.
    #[error(
        "no load could be proven to keep the SLO with {requests} requests each: simulate more of them"
    )]
    NotProven {
        /// Requests of a load.
        requests: u32,
    },
    /// A result that has no open-loop points.
    #[error(
        "the result has no valid open-loop point: how many requests are late at a rate is not known"
    )]
    NoOpenLoop,
    /// A result in which no rate keeps the objective.
    #[error("no measured rate surely keeps the SLO: {0}")]
    NoneMeasured(String),
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "none".to_owned(), |s| format!("{:.1}%", 100.0 * s))
}

fn slow(at: &LoadFigures) -> String {
    let ms = |name: &str, value: Option<f64>| value.map(|ms| format!("{name} p99 {ms:.0} ms"));
    let parts = [
        ms("ttft", at.ttft_p99_ms),
        ms("tpot", at.tpot_p99_ms),
        ms("e2e", at.e2e_p99_ms),
    ];
    let told: Vec<String> = parts.into_iter().flatten().collect();
    if told.is_empty() {
        "nothing was answered".to_owned()
    } else {
        told.join(", ")
    }
}

/// By how much a load moves while a bracket is looked for.
const STRIDE: f64 = 1.3;
/// A bracket this narrow is handed to the loads that decide.
const ROUGH: f64 = 1.08;
/// A bracket this narrow is the answer.
const RESOLVED: f64 = 1.015;
/// Nothing above this many times the guess is tried: the mean field knows what a replica keeps up
/// with, and is not that wrong.
const BEYOND: f64 = 4.0;
/// Nothing below this share of the guess is tried: by the mean field such a replica is idle.
const IDLE: f64 = 0.01;

/// Looks for the highest rate at which `model` surely keeps its objective, from `guess` on.
///
/// Short looks bracket the rate at which the share of good requests crosses the objective; long ones
/// then ask for the lower end of the interval. All loads meet the same random numbers, so
/// the share falls with the rate nearly everywhere, and bisection is sound.
pub fn find(model: &mut dyn ReplicaModel, guess: f64, effort: Effort) -> Result<Found, NoBudget> {
    let bracket = bracket(model, guess, effort)?;
    decide(model, &bracket, effort)
}

/// Between which rates the objective seems to break, by short looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bracket {
    /// The highest rate that seems to keep the objective.
    pub(crate) low: f64,
    /// A rate a little above that does not.
    high: f64,
    /// Requests in flight at the highest load that seemed to keep the objective.
    in_flight: f64,
    objective: f64,
    looked_at: u32,
}

/// The short looks of [`find`].
pub(crate) fn bracket(
    model: &mut dyn ReplicaModel,
    guess: f64,
    effort: Effort,
) -> Result<Bracket, NoBudget> {
    let mut search = Search {
        model,
        looked_at: 0,
        in_flight: 0.0,
        objective: 0.0,
    };
    let (low, high) = search.bracket(guess, effort)?;
    Ok(Bracket {
        low,
        high,
        in_flight: search.in_flight,
        objective: search.objective,
        looked_at: search.looked_at,
    })
}

/// The long looks of [`find`].
pub(crate) fn decide(
    model: &mut dyn ReplicaModel,
    bracket: &Bracket,
    effort: Effort,
) -> Result<Found, NoBudget> {
    let mut search = Search {
        model,
        looked_at: bracket.looked_at,
        in_flight: bracket.in_flight,
        objective: bracket.objective,
    };
    let proof = provable(bracket.in_flight, bracket.objective);
    let effort = Effort {
        fine: effort.fine.max(proof),
        ..effort
    };
    search.decide(bracket.low, bracket.high, effort)
}

/// Requests that it takes to prove an objective while so many are under way together, of which a
/// share is taken to miss together until misses were seen (see
/// [`goodput_stats::attainment_interval`]): a third more than a run without a miss would need, up to
/// the most that a look may cost.
pub(crate) fn provable(in_flight: f64, objective: f64) -> u32 {
    const SURE: f64 = 1.96 * 1.96;
    const MOST: f64 = 300_000.0;
    let company = 1.0 + goodput_stats::COMPANY * in_flight;
    let needed = 1.33 * SURE * company / (1.0 - objective);
    goodput_stats::whole_u32(needed.min(MOST))
}

struct Search<'a> {
    model: &'a mut dyn ReplicaModel,
    looked_at: u32,
    /// The objective of what was looked at last.
    objective: f64,
    /// Requests in flight at the highest load that seemed to keep the objective.
    in_flight: f64,
}

impl Search<'_> {
    fn look(&mut self, rate: f64, requests: u32) -> LoadFigures {
        self.looked_at += 1;
        let at = self.model.at(rate, requests);
        self.objective = at.objective;
        if at.seems_to_keep() {
            self.in_flight = self.in_flight.max(at.in_flight_mean);
        }
        at
    }

    /// A rate that seems to keep the objective and one a little above that does not.
    fn bracket(&mut self, guess: f64, effort: Effort) -> Result<(f64, f64), NoBudget> {
        let first = 0.85 * guess;
        let at = self.look(first, effort.coarse);
        if at.refused_share > 1.0 - at.objective {
            let share = at.refused_share;
            return Err(NoBudget::NeverFits { share });
        }
        let (mut low, mut high) = (first, first);
        if at.seems_to_keep() {
            loop {
                high = low * STRIDE;
                if high > guess * BEYOND {
                    return Err(NoBudget::Unlimited);
                }
                if !self.look(high, effort.coarse).seems_to_keep() {
                    break;
                }
                low = high;
            }
        } else {
            loop {
                low = high / STRIDE;
                let at = self.look(low, effort.coarse);
                if at.seems_to_keep() {
                    break;
                }
                high = low;
                if low < guess * IDLE {
                    return Err(NoBudget::NoLoad {
                        rate_req_s: low,
                        attainment: at.attainment,
                        at: Box::new(at),
                    });
                }
            }
        }
        while high / low > ROUGH {
            let middle = libm::sqrt(low * high);
            if self.look(middle, effort.coarse).seems_to_keep() {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok((low, high))
    }

    /// The highest rate whose interval keeps the objective.
    fn decide(&mut self, low: f64, high: f64, effort: Effort) -> Result<Found, NoBudget> {
        let mut kept: Option<LoadFigures> = None;
        let mut broken: Option<f64> = None;
        let mut next = low;
        for look in 0.. {
            // Without any rate that keeps the objective the search goes on for a while.
            if look >= effort.decides && (kept.is_some() || look >= 4 * effort.decides) {
                break;
            }
            let at = self.look(next, effort.fine);
            if at.keeps() {
                kept = Some(at);
            } else {
                broken = Some(next);
            }
            next = match (&kept, broken) {
                (Some(kept), Some(broken)) if broken / kept.rate_req_s < RESOLVED => break,
                (Some(kept), Some(broken)) => libm::sqrt(kept.rate_req_s * broken),
                (Some(kept), None) => (kept.rate_req_s * 1.05).max(libm::sqrt(next * high)),
                (None, _) => next * 0.96,
            };
        }
        let at = kept.ok_or(NoBudget::NotProven {
            requests: effort.fine,
        })?;
        Ok(Found {
            at,
            above_req_s: broken,
            looked_at: self.looked_at,
        })
    }
}

/// Whether someone waits for the first token or reads along: an SLO that bounds only the end of an answer, or of
/// a session, is of a class that nobody watches.
#[must_use]
pub fn interactive(slo: &Slo) -> bool {
    let ends = |metric| matches!(metric, Metric::E2e | Metric::Trajectory);
    slo.is_streamed() && !slo.clauses().iter().all(|clause| ends(clause.metric))
}

/// The goodput budget of one replica, with what it was seen at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Budget {
    /// Requests per second that surely keep the SLO: the highest rate tried.
    pub rate_req_s: Figure,
    /// What was seen there.
    pub at: LoadFigures,
    /// The share of requests that must meet the SLO.
    pub objective: f64,
    /// The served model's id.
    pub model_id: String,
    /// The SLO in a sentence.
    pub slo: String,
    /// Whether someone watches the tokens come.
    pub interactive: bool,
    /// The workload's name.
    pub workload: String,
    /// GPUs of one replica, where known.
    pub gpus: Option<u32>,
    /// Where the figures come from: a profile that was simulated, or a folder that was measured.
    pub source: String,
    /// Whether they were simulated.
    pub simulated: bool,
    /// The measured curve, by rising rate; empty for a simulated replica.
    pub curve: Vec<LoadFigures>,
}

impl Budget {
    /// The budget in requests per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.at.rate_req_s
    }

    /// Of a replica that was simulated.
    #[must_use]
    pub fn simulated(
        found: Found,
        slo: &Slo,
        workload: &str,
        profile: &goodput_perf_model::Profile,
    ) -> Self {
        let rate = found.at.rate_req_s;
        let from = format!(
            "simulated: highest of {} rates tried whose attainment surely keeps the objective (profile {}, {} requests)",
            found.looked_at, profile.name, found.at.requests
        );
        let interval = found.above_req_s.map(|high| Interval { low: rate, high });
        Self {
            rate_req_s: Figure::new(rate, "req/s", from).within(interval),
            at: found.at,
            objective: slo.objective().share,
            model_id: profile.model_id.clone(),
            slo: slo.sentence(),
            interactive: interactive(slo),
            workload: workload.to_owned(),
            gpus: Some(profile.gpus.get()),
            source: format!("profile {}", profile.name),
            simulated: true,
            curve: Vec::new(),
        }
    }

    /// From the result of a sweep in `folder`: its rate to sell.
    pub fn measured(result: &RunResult, folder: &str) -> Result<Self, NoBudget> {
        let curve = measured(result);
        let Some(sell) = &result.operating_point.by_objective else {
            if curve.is_empty() {
                return Err(NoBudget::NoOpenLoop);
            }
            let why = result.operating_point.missing.join("; ");
            return Err(NoBudget::NoneMeasured(why));
        };
        let search = result.operating_point.search.as_ref();
        let above = search.and_then(|s| s.rate.as_ref()?.above_req_s);
        let above = above.or_else(|| {
            let broken = curve.iter().find(|at| at.rate_req_s > sell.rate_req_s);
            broken.map(|at| at.rate_req_s)
        });
        let interval = above.map(|high| Interval {
            low: sell.rate_req_s,
            high,
        });
        let slo = result.holds_for.slos.first();
        let ends = |metric: &str| ["e2e", "trajectory"].contains(&metric);
        let at = LoadFigures {
            attainment: Some(sell.attainment),
            interval: Some(Interval::from(Between { ..sell.interval })),
            ..LoadFigures::of_row(&sell.row, result.objective())
        };
        Ok(Self {
            rate_req_s: Figure::new(
                sell.rate_req_s,
                "req/s",
                format!(
                    "measured: by_objective of {folder}, point {}",
                    sell.row.point
                ),
            )
            .within(interval),
            at,
            objective: result.objective(),
            model_id: result.holds_for.model.clone(),
            slo: slo.map(|slo| slo.sentence.clone()).unwrap_or_default(),
            interactive: slo.is_some_and(|slo| slo.clauses.iter().any(|c| !ends(&c.metric))),
            workload: result.holds_for.workload.name.clone(),
            gpus: result.holds_for.gpus,
            source: folder.to_owned(),
            simulated: result.holds_for.server.emulated,
            curve,
        })
    }

    /// What is known of the replica at a lower load from points that were looked at: the figures at
    /// the lowest point that is not below it. They are no better than those at the load itself.
    #[must_use]
    pub fn not_better_than(&self, rate_req_s: f64) -> Option<&LoadFigures> {
        let points = self.curve.iter().chain(std::iter::once(&self.at));
        points
            .filter(|at| at.rate_req_s >= rate_req_s * (1.0 - 1e-9))
            .min_by(|a, b| a.rate_req_s.total_cmp(&b.rate_req_s))
    }
}
