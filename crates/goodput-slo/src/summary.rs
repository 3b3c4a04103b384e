//! An SLO as it stands in a result.

use goodput_config::duration_text;
use goodput_record::millis;
use serde::{Deserialize, Serialize};

use crate::{slo::Slo, workload::WorkloadStatement};

/// An SLO as it stands in a result: what was judged, in words and in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SloSummary {
    /// The name.
    pub name: String,
    /// The class it is for; null: all requests.
    pub class: Option<String>,
    /// The whole SLO in a sentence.
    pub sentence: String,
    /// The share of requests that must be met, from 0 to 1.
    pub objective: f64,
    /// The rolling window: "28d".
    pub window: String,
    /// Whether someone watches the tokens come.
    pub streamed: bool,
    /// The clauses, in the order of their bits.
    pub clauses: Vec<ClauseSummary>,
    /// Ends that count neither as met nor as missed.
    pub excused: Vec<String>,
    /// The workload it is meant for; null: that of the run.
    pub workload: Option<WorkloadStatement>,
}

/// A clause as it stands in a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClauseSummary {
    /// The whole clause: "p90 ttft <= 500ms".
    pub text: String,
    /// What it bounds: "ttft".
    pub metric: String,
    /// Its own percentile, from 0 to 100; null: the objective's share must keep it.
    pub percentile: Option<f64>,
    /// The bound in milliseconds; null if it grows with a length.
    pub bound_ms: Option<f64>,
}

impl Slo {
    /// The SLO for a result.
    #[must_use]
    pub fn summary(&self) -> SloSummary {
        let clauses = self.clauses().iter().map(|clause| ClauseSummary {
            text: clause.to_string(),
            metric: clause.metric.to_string(),
            percentile: clause.percentile.map(|p| f64::from(p.billionths()) / 1e7),
            bound_ms: clause.fixed_bound().map(millis),
        });
        SloSummary {
            name: self.name().to_owned(),
            class: self.class().map(str::to_owned),
            sentence: self.sentence(),
            objective: self.objective().share,
            window: duration_text(self.objective().window),
            streamed: self.is_streamed(),
            clauses: clauses.collect(),
            excused: self.excused().iter().map(ToString::to_string).collect(),
            workload: self.workload().cloned(),
        }
    }
}
