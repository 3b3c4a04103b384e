//! Pass or fail.

use std::time::Duration;

use goodput_record::{Gaps, Outcome, RequestSummary, TrajectoryRecord, VerdictWord};

use crate::{clause::Clause, metric::Metric, slo::Slo};

/// What a request (or a session) is to an SLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It ended well and broke no clause.
    Met,
    /// It broke a clause, or did not end well.
    Missed(Misses),
    /// It counts as neither: excused by name, or given up by the client before it could be judged.
    Excused,
}

impl Verdict {
    /// The verdict without its reasons, for a written row.
    #[must_use]
    pub const fn word(self) -> VerdictWord {
        match self {
            Self::Met => VerdictWord::Met,
            Self::Missed(_) => VerdictWord::Missed,
            Self::Excused => VerdictWord::Excused,
        }
    }

    /// Whether it is [`Verdict::Met`].
    #[must_use]
    pub const fn is_met(self) -> bool {
        matches!(self, Self::Met)
    }
}

/// Why a request missed: one bit a clause in the order of [`Slo::clauses`], and one for an end that
/// was not `ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Misses(u16);

impl Misses {
    /// The most clauses an SLO has.
    pub const MOST_CLAUSES: usize = 15;
    /// Nothing was missed.
    pub const NONE: Self = Self(0);
    /// The request did not end well, whatever came before.
    pub const OUTCOME: Self = Self(1 << Self::MOST_CLAUSES);

    /// Adds the clause at `index`.
    pub(crate) const fn add(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    /// Whether the clause at `index` was seen to break.
    #[must_use]
    pub const fn has(self, index: usize) -> bool {
        index < Self::MOST_CLAUSES && self.0 >> index & 1 == 1
    }

    /// Whether the request did not end well. Such a request keeps no clause, seen to break or not.
    #[must_use]
    pub const fn by_outcome(self) -> bool {
        self.0 & Self::OUTCOME.0 != 0
    }

    /// Whether nothing was missed.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The bits, as books and files keep them.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Takes back what [`Misses::bits`] gave.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// The clauses seen to break, by index.
    pub fn indices(self) -> impl Iterator<Item = usize> {
        (0..Self::MOST_CLAUSES).filter(move |&index| self.has(index))
    }
}

/// What a request is to one clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClauseVerdict {
    /// Within the bound, which is inclusive.
    Met,
    /// Beyond it.
    Missed,
    /// The quantity does not exist for this answer: TPOT of a single token, TTFT of an answer that
    /// was not streamed. Breaks nothing; to be counted and shown.
    Vacuous,
    /// Not known: the client left before, or the gaps were not kept.
    Unknown,
}

impl ClauseVerdict {
    fn within(value: Option<Duration>, bound: Duration) -> Self {
        value.map_or(Self::Vacuous, |value| Self::from_kept(value <= bound))
    }

    const fn from_kept(kept: bool) -> Self {
        if kept { Self::Met } else { Self::Missed }
    }
}

impl Slo {
    /// Judges one request that has ended.
    ///
    /// - An end that the SLO excuses by name: excused.
    /// - `ok`: missed if it broke a clause. A clause whose quantity does not exist breaks nothing.
    /// - Cancelled by the client: missed if a clause was already broken when it left; excused if
    ///   one could not be decided yet; else met, judged on what came.
    /// - Any other end: missed by its outcome.
    ///
    /// Trajectory clauses are left out; see [`Slo::judge_trajectory`].
    #[must_use]
    pub fn judge(&self, request: &RequestSummary, gaps: &Gaps) -> Verdict {
        if self.excused().iter().any(|excuse| excuse.covers(request)) {
            return Verdict::Excused;
        }
        if !matches!(request.outcome(), Outcome::Ok | Outcome::Cancelled) {
            return Verdict::Missed(Misses::OUTCOME);
        }
        let mut misses = Misses::NONE;
        let mut unknown = false;
        for index in 0..self.clauses().len() {
            match self.judge_clause(index, request, gaps) {
                ClauseVerdict::Missed => misses.add(index),
                ClauseVerdict::Unknown => unknown = true,
                ClauseVerdict::Met | ClauseVerdict::Vacuous => {}
            }
        }
        match (misses.is_empty(), unknown) {
            (false, _) => Verdict::Missed(misses),
            (true, true) => Verdict::Excused,
            (true, false) => Verdict::Met,
        }
    }

    /// Judges a request by the clause at `index` alone, as if it ended `ok` or was cancelled.
    ///
    /// # Panics
    /// If there is no such clause.
    #[must_use]
    pub fn judge_clause(
        &self,
        index: usize,
        request: &RequestSummary,
        gaps: &Gaps,
    ) -> ClauseVerdict {
        let clause = &self.clauses()[index];
        if clause.metric.is_pace() && !self.is_streamed() {
            return ClauseVerdict::Vacuous;
        }
        clause.judge(request, gaps)
    }

    /// Judges one session that has ended. `None` if the SLO has no trajectory deadline.
    ///
    /// A session of which a planned step failed or never came is a miss by its outcome, and also by
    /// the deadline if that had passed.
    #[must_use]
    pub fn judge_trajectory(&self, session: &TrajectoryRecord) -> Option<Verdict> {
        let index = self
            .clauses()
            .iter()
            .position(|c| c.metric == Metric::Trajectory)?;
        let deadline = self.clauses()[index].bound.base();
        let so_far = session.ended.since(session.origin).unwrap_or_default();
        let mut misses = Misses::NONE;
        if session.duration().unwrap_or(so_far) > deadline {
            misses.add(index);
        }
        if !session.complete() {
            misses.0 |= Misses::OUTCOME.0;
        }
        Some(if misses.is_empty() {
            Verdict::Met
        } else {
            Verdict::Missed(misses)
        })
    }
}

impl Clause {
    fn judge(&self, request: &RequestSummary, gaps: &Gaps) -> ClauseVerdict {
        let bound = self.bound.of(request);
        match self.metric {
            Metric::Ttft => instant(request, request.ttft(), bound),
            Metric::TtftAnswer => instant(request, request.ttft_answer(), bound),
            Metric::TimeToToken(n) => nth_token(request, gaps, n, bound),
            Metric::Tpot => request
                .tpot_within(bound)
                .map_or(ClauseVerdict::Vacuous, ClauseVerdict::from_kept),
            Metric::TpotMedian => ClauseVerdict::within(request.tpot_median(), bound),
            Metric::ItlP99 => ClauseVerdict::within(request.itl_p99(), bound),
            Metric::Stall => stall(request, bound),
            Metric::E2e if was_left(request) => left(request, bound),
            Metric::E2e => ClauseVerdict::within(request.e2e(), bound),
            Metric::Trajectory => ClauseVerdict::Vacuous,
        }
    }
}

/// Whether the client gave up, so that more was to come.
fn was_left(request: &RequestSummary) -> bool {
    request.outcome() == Outcome::Cancelled
}

/// The client left while still waiting: broken if it had waited longer than the bound.
fn left(request: &RequestSummary, bound: Duration) -> ClauseVerdict {
    if request.open_for() > bound {
        ClauseVerdict::Missed
    } else {
        ClauseVerdict::Unknown
    }
}

/// Judges the time to a token that may not have come.
fn instant(request: &RequestSummary, time: Option<Duration>, bound: Duration) -> ClauseVerdict {
    match time {
        None if was_left(request) => left(request, bound),
        time => ClauseVerdict::within(time, bound),
    }
}

/// An answer that ends before its n-th token is all there at its end, which then stands for it.
fn nth_token(request: &RequestSummary, gaps: &Gaps, n: u32, bound: Duration) -> ClauseVerdict {
    if let Some(time) = request.time_to_token(n, gaps) {
        return ClauseVerdict::from_kept(time <= bound);
    }
    if request.output_tokens() < n {
        return if was_left(request) {
            left(request, bound)
        } else {
            ClauseVerdict::within(request.e2e(), bound)
        };
    }
    // The token came, but its instant was not kept: it lies between the first and the last.
    match (request.ttft(), request.e2e()) {
        (_, Some(last)) if last <= bound => ClauseVerdict::Met,
        (Some(first), _) if first > bound => ClauseVerdict::Missed,
        (Some(_), _) => ClauseVerdict::Unknown,
        (None, _) => ClauseVerdict::Vacuous,
    }
}

/// A client that left in the middle of a silence has seen at least that stall.
fn stall(request: &RequestSummary, bound: Duration) -> ClauseVerdict {
    let unfinished = request.silence().filter(|_| was_left(request));
    match unfinished {
        Some(silence) if silence > bound => ClauseVerdict::Missed,
        _ => ClauseVerdict::within(request.stall(), bound),
    }
}
