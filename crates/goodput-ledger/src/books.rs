//! The books of one load point: arrivals in, records in, exact counts out.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use goodput_record::{
    Arrival, FinishReason, Gaps, Outcome, Phase, RequestSummary, Timestamp, TokenCount,
    TrajectoryRecord, nanos,
};
use goodput_slo::{AnswerJudge, Metric, Misses, Slo, Verdict};
use goodput_stats::Distribution;

use crate::{
    bins::{Bins, spread},
    brief::Brief,
    checks::Checks,
    counts::{Counted, Lengths, Spans},
    paces::Paces,
};

/// Columns of the bins that hold what arrived, whatever the SLO says.
pub(crate) const TOKENS: usize = 0;
const CHARACTERS: usize = 1;
const WORDS: usize = 2;
pub(crate) const BUSY_NS: usize = 3;
/// Requests by origin: all of them, and those that have ended.
pub(crate) const ARRIVED: usize = 4;
pub(crate) const ENDED: usize = 5;
/// Requests by their end.
pub(crate) const LEFT: usize = 6;

/// Columns of one SLO's bins.
pub(crate) const MET: usize = 0;
pub(crate) const MISSED: usize = 1;
pub(crate) const EXCUSED: usize = 2;
pub(crate) const GOOD_TOKENS: usize = 3;
pub(crate) const GOOD_CHARACTERS: usize = 4;
pub(crate) const GOOD_WORDS: usize = 5;

/// What one SLO says of the requests of a point.
#[derive(Clone, Debug)]
pub(crate) struct SloBooks {
    pub(crate) slo: Slo,
    /// The same for whole answers, where their ends are enough.
    pub(crate) answers: Option<AnswerJudge>,
    /// Met, missed and excused by origin; good tokens, characters and words by arrival time.
    pub(crate) bins: Bins<6>,
    /// Measured requests that broke each clause, or never got as far.
    pub(crate) clause_misses: Vec<u64>,
    /// Measured requests that missed by their outcome alone.
    pub(crate) outcome_misses: u64,
    pub(crate) trajectories: [u64; 3],
}

/// The books of one load point.
///
/// Posting order does not matter, and the books of two shards of one schedule merge into the books
/// of the whole: everything is a whole number in a bin of time, or a mergeable distribution.
#[derive(Clone, Debug)]
pub struct PointBooks {
    pub(crate) bins: Bins<7>,
    pub(crate) slos: Vec<SloBooks>,
    pub(crate) counted: Counted,
    pub(crate) spans: Spans,
    pub(crate) lengths: Lengths,
    pub(crate) paces: Paces,
    /// Looks after which the point went on.
    pub(crate) looks: u32,
    pub(crate) checks: Checks,
    /// What is known where requests are told in brief.
    pub(crate) brief: Brief,
    pub(crate) sessions: BTreeMap<u32, (TrajectoryRecord, bool)>,
}

impl PointBooks {
    /// Opens books that judge by `slos`, with counters in bins of `width`.
    #[must_use]
    pub fn new(slos: &[Slo], width: Duration) -> Self {
        Self {
            bins: Bins::new(width),
            slos: slos.iter().map(|slo| SloBooks::new(slo, width)).collect(),
            counted: Counted::default(),
            spans: Spans::default(),
            lengths: Lengths::default(),
            paces: Paces::new(width),
            looks: 0,
            checks: Checks::default(),
            brief: Brief::default(),
            sessions: BTreeMap::new(),
        }
    }

    /// Posts an arrival, when it happens.
    pub fn arrived(&mut self, arrival: &Arrival) {
        self.arrived_at(arrival.origin);
    }

    /// Posts a request that has ended and returns its verdict by each SLO.
    ///
    /// Tokens count by the instant at which they arrived, whatever the phase; outcomes, verdicts
    /// and latencies count for measured requests only.
    pub fn post(&mut self, summary: &RequestSummary, gaps: &Gaps, phase: Phase) -> Vec<Verdict> {
        let verdicts: Vec<Verdict> = self.slos.iter().map(|s| s.judge(summary, gaps)).collect();
        self.counted.ended += 1;
        self.bins.at(summary.origin())[ENDED] += 1;
        self.bins.at(summary.ended())[LEFT] += 1;
        self.post_tokens(summary, gaps, &verdicts);
        self.post_busy(summary);
        self.post_figures(summary, phase, &verdicts);
        verdicts
    }

    /// Books all that is not of tokens and of time in flight.
    pub(crate) fn post_figures(
        &mut self,
        summary: &RequestSummary,
        phase: Phase,
        verdicts: &[Verdict],
    ) {
        let cut = summary.outcome() == Outcome::Cancelled;
        self.checks.post(summary, phase);
        if phase == Phase::Measured {
            self.counted.measured(summary);
            self.spans.post(summary);
            self.lengths.post(summary);
            self.paces.post(summary);
            for (books, verdict) in self.slos.iter_mut().zip(verdicts) {
                if !cut || *verdict != Verdict::Excused {
                    books.post(summary.origin(), *verdict);
                }
            }
        }
        self.post_step(summary, phase);
    }

    fn post_tokens(&mut self, summary: &RequestSummary, gaps: &Gaps, verdicts: &[Verdict]) {
        let (bins, slos) = (&mut self.bins, &mut self.slos);
        spread(summary, gaps, |at, tokens, characters, words| {
            let bin = bins.at(at);
            bin[TOKENS] += tokens;
            bin[CHARACTERS] += characters;
            bin[WORDS] += words;
            for (books, verdict) in slos.iter_mut().zip(verdicts) {
                if *verdict == Verdict::Met {
                    let bin = books.bins.at(at);
                    bin[GOOD_TOKENS] += tokens;
                    bin[GOOD_CHARACTERS] += characters;
                    bin[GOOD_WORDS] += words;
                }
            }
        });
    }

    /// Books the time the request was in flight, bin by bin: its sum over a window is the area
    /// under the number in flight.
    fn post_busy(&mut self, summary: &RequestSummary) {
        let width = self.bins.width_ns();
        let (mut at, end) = (summary.origin().nanos(), summary.ended().nanos());
        while at < end {
            let edge = (at / width + 1).saturating_mul(width).min(end);
            self.bins.at(Timestamp::from_nanos(at))[BUSY_NS] += edge - at;
            at = edge;
        }
    }

    fn post_step(&mut self, summary: &RequestSummary, phase: Phase) {
        let steps = summary.arrival().steps;
        if steps < 2 {
            return;
        }
        let session = summary.arrival().session;
        let whole = self
            .sessions
            .entry(session)
            .and_modify(|(t, _)| t.add(summary));
        let (record, measured) = whole.or_insert_with(|| (TrajectoryRecord::begin(summary), true));
        *measured &= phase == Phase::Measured || summary.arrival().step > 0;
        let over = record.steps_ended >= steps || summary.outcome() != Outcome::Ok;
        if over && let Some((record, true)) = self.sessions.remove(&session) {
            let cut = summary.outcome() == Outcome::Cancelled;
            for books in &mut self.slos {
                match books.slo.judge_trajectory(&record) {
                    // The end of the run broke it off, within its deadline.
                    Some(Verdict::Missed(misses)) if cut && misses.indices().next().is_none() => {}
                    Some(Verdict::Met) => books.trajectories[MET] += 1,
                    Some(Verdict::Missed(_)) => books.trajectories[MISSED] += 1,
                    Some(Verdict::Excused) => books.trajectories[EXCUSED] += 1,
                    None => {}
                }
            }
        }
    }

    /// Adds the books of another shard of the same point.
    pub fn merge(&mut self, other: &Self) {
        self.bins.merge(&other.bins);
        self.counted.merge(&other.counted);
        self.spans.merge(&other.spans);
        self.lengths.merge(&other.lengths);
        self.paces.merge(&other.paces);
        self.looks = self.looks.max(other.looks);
        self.checks.merge(&other.checks);
        for (mine, theirs) in self.slos.iter_mut().zip(&other.slos) {
            mine.merge(theirs);
        }
        // A session belongs to one shard.
        self.sessions.extend(&other.sessions);
    }

    /// Somebody has looked at the figures, could have closed the point, and let it go on. Every
    /// such look widens the intervals of the row.
    pub const fn looked(&mut self) {
        self.looks += 1;
    }

    /// Measured requests so far.
    #[must_use]
    pub fn measured(&self) -> u64 {
        self.counted.measured
    }

    /// Arrivals that have not ended.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.counted.arrived.saturating_sub(self.counted.ended)
    }

    /// The distribution of one latency over the measured requests, in nanoseconds.
    #[must_use]
    pub fn distribution(&self, of: Latency) -> &Distribution {
        self.spans.of(of)
    }

    /// Tokens, characters, words and time in flight in the whole bins of `window`, and their span
    /// in seconds.
    pub(crate) fn received(&self, window: &Range<Timestamp>) -> ([u64; 7], f64) {
        let (bins, seconds) = self.bins.whole_bins(window);
        (self.bins.sum(bins), seconds)
    }
}

impl SloBooks {
    fn new(slo: &Slo, width: Duration) -> Self {
        Self {
            slo: slo.clone(),
            answers: slo.for_answers(),
            bins: Bins::new(width),
            clause_misses: vec![0; slo.clauses().len()],
            outcome_misses: 0,
            trajectories: [0; 3],
        }
    }

    /// Judges a request.
    ///
    /// What the end of the run cut off is neither met nor missed, unless it had already waited longer
    /// than it may: a server that never answers must not be judged by its other answers.
    pub(crate) fn judge(&self, summary: &RequestSummary, gaps: &Gaps) -> Verdict {
        let cut = summary.outcome() == Outcome::Cancelled;
        match self.slo.judge(summary, gaps) {
            Verdict::Met if cut => Verdict::Excused,
            Verdict::Missed(misses) if cut && !self.is_final(misses) => Verdict::Excused,
            verdict => verdict,
        }
    }

    /// Whether no token to come could mend one of these misses. A mean or a median could still.
    fn is_final(&self, misses: Misses) -> bool {
        let could_mend =
            |metric| matches!(metric, Metric::Tpot | Metric::TpotMedian | Metric::ItlP99);
        misses
            .indices()
            .any(|index| !could_mend(self.slo.clauses()[index].metric))
    }

    /// Books the verdict of a measured request.
    pub(crate) fn post(&mut self, origin: Timestamp, verdict: Verdict) {
        let bin = self.bins.at(origin);
        match verdict {
            Verdict::Met => bin[MET] += 1,
            Verdict::Excused => bin[EXCUSED] += 1,
            Verdict::Missed(misses) => {
                bin[MISSED] += 1;
                // A request that failed did not meet any clause, or survivors alone would speak.
                let failed = misses.by_outcome();
                self.outcome_misses += u64::from(failed);
                for (clause, count) in self.clause_misses.iter_mut().enumerate() {
                    *count += u64::from(failed || misses.has(clause));
                }
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        self.bins.merge(&other.bins);
        self.outcome_misses += other.outcome_misses;
        for (mine, theirs) in self.clause_misses.iter_mut().zip(&other.clause_misses) {
            *mine += theirs;
        }
        for (mine, theirs) in self.trajectories.iter_mut().zip(other.trajectories) {
            *mine += theirs;
        }
    }
}

/// A latency of which a point keeps the distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Latency {
    /// Origin to first token of any channel.
    Ttft,
    /// Origin to first token that is not reasoning.
    TtftAnswer,
    /// Mean time per output token after the first.
    Tpot,
    /// Median gap between tokens.
    TpotMedian,
    /// Longest gap between token events.
    Stall,
    /// Origin to last token.
    E2e,
    /// Origin to the send.
    SendLag,
    /// Set-up of connections that had to be made.
    Connect,
}

impl Latency {
    /// Every latency, in the order of the books.
    pub const ALL: [Self; 8] = [
        Self::Ttft,
        Self::TtftAnswer,
        Self::Tpot,
        Self::TpotMedian,
        Self::Stall,
        Self::E2e,
        Self::SendLag,
        Self::Connect,
    ];

    /// Whether it tells of the load generator, not of the server: failed requests have it too.
    pub(crate) const fn is_clients_own(self) -> bool {
        matches!(self, Self::SendLag | Self::Connect)
    }

    /// Whether the value of a request that ended like this enters the percentiles of a point.
    ///
    /// A failed request's latencies are those of what it got before it failed: they would flatter
    /// the percentiles.
    pub(crate) fn enters_percentiles(self, outcome: Outcome) -> bool {
        let cut = outcome == Outcome::Cancelled;
        outcome == Outcome::Ok || self.is_clients_own() || (cut && self.is_first_token())
    }

    /// Whether it is settled by the first token, however the request ended.
    pub(crate) const fn is_first_token(self) -> bool {
        matches!(self, Self::Ttft | Self::TtftAnswer)
    }

    /// The value for one request, in nanoseconds.
    pub(crate) fn of(self, summary: &RequestSummary) -> Option<u64> {
        match self {
            Self::Ttft => summary.ttft(),
            Self::TtftAnswer => summary.ttft_answer(),
            Self::Tpot => summary.tpot(),
            Self::TpotMedian => summary.tpot_median(),
            Self::Stall => summary.stall(),
            Self::E2e => summary.e2e(),
            Self::SendLag => summary.send_lag(),
            Self::Connect => summary.connect(),
        }
        .map(nanos)
    }
}

/// Whether the server stopped by itself before the asked length.
pub(crate) fn ended_early(summary: &RequestSummary) -> bool {
    let planned = summary.arrival().planned_output_tokens;
    let counted = matches!(summary.end().output_tokens, Some(TokenCount::Usage(n)) if n < planned);
    counted && summary.end().finish_reason != Some(FinishReason::Length)
}
