//! A checked SLO.

use goodput_config::{Percent, duration_text};

use crate::{
    clause::Clause, excuse::Excuse, metric::Metric, objective::Objective,
    workload::WorkloadStatement,
};

/// A service level objective, checked: bounds in integer nanoseconds, clauses in a fixed order.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo {
    pub(crate) name: String,
    pub(crate) class: Option<String>,
    pub(crate) objective: Objective,
    pub(crate) streamed: bool,
    pub(crate) clauses: Vec<Clause>,
    pub(crate) excused: Vec<Excuse>,
    pub(crate) workload: Option<WorkloadStatement>,
}

impl Slo {
    /// The name, unique within a run.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The class of requests it is for. `None`: all.
    #[must_use]
    pub fn class(&self) -> Option<&str> {
        self.class.as_deref()
    }

    /// Whether it judges requests of `class`.
    #[must_use]
    pub fn is_for(&self, class: &str) -> bool {
        self.class().is_none_or(|own| own == class)
    }

    /// The share of requests that must be met, and the window.
    #[must_use]
    pub const fn objective(&self) -> &Objective {
        &self.objective
    }

    /// Whether someone watches the tokens come. If not, no clause speaks of their pace.
    #[must_use]
    pub const fn is_streamed(&self) -> bool {
        self.streamed
    }

    /// The clauses in their fixed order, in which [`crate::Misses`] has its bits.
    #[must_use]
    pub fn clauses(&self) -> &[Clause] {
        &self.clauses
    }

    /// The same with bounds on a median gap put on the mean gap.
    ///
    /// Where prompts of others lengthen a few gaps of an answer, the mean is the longer of the two, so
    /// this is the stricter SLO; it is judged without the single gaps.
    ///
    /// ```
    /// let slo = goodput_slo::Slo::from_argument("ttft<=1s,tpot_median<=50ms").unwrap();
    /// assert_eq!(slo.with_mean_pace().terms(), "ttft <= 1s and tpot <= 50ms");
    /// ```
    #[must_use]
    pub fn with_mean_pace(&self) -> Self {
        let mut slo = self.clone();
        for clause in &mut slo.clauses {
            if clause.metric == Metric::TpotMedian {
                clause.metric = Metric::Tpot;
            }
        }
        slo
    }

    /// The clauses with a percentile of their own, with their index.
    pub fn percentile_clauses(&self) -> impl Iterator<Item = (usize, Percent, &Clause)> {
        let indexed = self.clauses.iter().enumerate();
        indexed.filter_map(|(index, clause)| Some((index, clause.percentile?, clause)))
    }

    /// The share of requests that must keep the clause at `index`: its percentile, else that of
    /// the objective, which cannot be kept otherwise.
    ///
    /// # Panics
    /// If there is no such clause.
    #[must_use]
    pub fn required_share(&self, index: usize) -> Percent {
        self.clauses[index]
            .percentile
            .unwrap_or(self.objective.percent)
    }

    /// Ends that count neither as met nor as missed.
    #[must_use]
    pub fn excused(&self) -> &[Excuse] {
        &self.excused
    }

    /// The workload it is meant for. `None`: that of the run, for an SLO given on the command line.
    #[must_use]
    pub const fn workload(&self) -> Option<&WorkloadStatement> {
        self.workload.as_ref()
    }

    /// Whether judging needs the single gaps, beyond what a summary holds.
    #[must_use]
    pub fn needs_gaps(&self) -> bool {
        let needs = |c: &Clause| matches!(c.metric, Metric::TimeToToken(n) if n > 1);
        self.clauses.iter().any(needs)
    }

    /// Whether sessions are judged as a whole.
    #[must_use]
    pub fn judges_trajectories(&self) -> bool {
        self.clauses.iter().any(|c| c.metric == Metric::Trajectory)
    }

    /// The clauses as one sentence part: "ttft <= 500ms and tpot <= 50ms".
    #[must_use]
    pub fn terms(&self) -> String {
        joined(self.clauses.iter())
    }

    /// The whole SLO in a sentence.
    ///
    /// "99% of chat requests over 28d have ttft <= 500ms and tpot <= 50ms"; with percentiles,
    /// "p90 ttft <= 500ms and p90 tpot <= 40ms, and 90% of requests over 28d keep every bound".
    #[must_use]
    pub fn sentence(&self) -> String {
        let class = self.class().map_or(String::new(), |c| format!("{c} "));
        let percent = self.objective.percent;
        let window = duration_text(self.objective.window);
        let of_requests = self
            .clauses
            .iter()
            .filter(|c| c.metric != Metric::Trajectory);
        let terms = joined(of_requests);
        let mut parts = Vec::new();
        if self.percentile_clauses().next().is_some() {
            parts.push(format!(
                "{terms}, and {percent} of {class}requests over {window} keep every bound"
            ));
        } else if !terms.is_empty() {
            parts.push(format!(
                "{percent} of {class}requests over {window} have {terms}"
            ));
        }
        if let Some(deadline) = self.clauses.iter().find(|c| c.metric == Metric::Trajectory) {
            let bound = deadline.bound;
            parts.push(format!(
                "{percent} of {class}sessions over {window} end within {bound}"
            ));
        }
        parts.join("; ")
    }
}

fn joined<'a>(clauses: impl Iterator<Item = &'a Clause>) -> String {
    let texts: Vec<String> = clauses.map(ToString::to_string).collect();
    texts.join(" and ")
}
