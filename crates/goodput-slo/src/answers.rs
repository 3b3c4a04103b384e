//! Pass or fail of answers told by their first and last token.

use goodput_record::{Answer, nanos};

use crate::{
    bound::Bound,
    judge::{Misses, Verdict},
    metric::Metric,
    slo::Slo,
};

/// What the ends of an answer can be bounded by.
#[derive(Clone, Copy, Debug)]
enum Span {
    Ttft,
    Tpot,
    Stall,
    E2e,
}

/// An SLO made ready to judge [`Answer`]s: the same verdicts as [`Slo::judge`] gives their records.
#[derive(Clone, Debug)]
pub struct AnswerJudge {
    /// The tightest bound on each span in ns, by which most answers are seen to be met; all 0 where one
    /// grows with the answer's lengths.
    tightest: [u64; 4],
    /// Each clause with its place in the SLO.
    clauses: Vec<(usize, Span, Bound)>,
}

impl Slo {
    /// Ready to judge answers of which no gap is known but the longest. `None`: a clause speaks of other
    /// gaps.
    #[must_use]
    pub fn for_answers(&self) -> Option<AnswerJudge> {
        let mut judge = AnswerJudge {
            tightest: [u64::MAX; 4],
            clauses: Vec::new(),
        };
        for (index, clause) in self.clauses().iter().enumerate() {
            if clause.metric.is_pace() && !self.is_streamed() {
                continue;
            }
            let span = match clause.metric {
                Metric::Ttft | Metric::TtftAnswer => Span::Ttft,
                Metric::Tpot => Span::Tpot,
                Metric::Stall => Span::Stall,
                Metric::E2e => Span::E2e,
                Metric::Trajectory => continue,
                Metric::TimeToToken(_) | Metric::TpotMedian | Metric::ItlP99 => return None,
            };
            judge.clauses.push((index, span, clause.bound));
            let bound = clause.bound.fixed_span().map_or(0, nanos);
            let tightest = &mut judge.tightest[span as usize];
            *tightest = bound.min(*tightest);
        }
        Some(judge)
    }
}

impl AnswerJudge {
    /// Judges an answer. It ended well, so nothing of it is excused or unknown.
    #[must_use]
    #[inline]
    pub fn judge(&self, answer: &Answer) -> Verdict {
        let [ttft, tpot, stall, e2e] = self.tightest;
        // One branch for the many that are met.
        let met = (answer.ttft_ns() <= ttft)
            & (answer.e2e_ns() <= e2e)
            & answer.tpot_within(tpot)
            & (answer.longest_gap_ns.unwrap_or(0) <= stall);
        if met {
            Verdict::Met
        } else {
            self.judge_clauses(answer)
        }
    }

    fn judge_clauses(&self, answer: &Answer) -> Verdict {
        let lengths = [answer.input_tokens, answer.input_tokens, answer.tokens];
        let mut misses = Misses::NONE;
        for (index, span, bound) in &self.clauses {
            let bound = nanos(bound.at(lengths));
            let kept = match span {
                Span::Ttft => answer.ttft_ns() <= bound,
                Span::Tpot => answer.tpot_within(bound),
                Span::Stall => answer.longest_gap_ns.is_none_or(|gap| gap <= bound),
                Span::E2e => answer.e2e_ns() <= bound,
            };
            if !kept {
                misses.add(*index);
            }
        }
        if misses.is_empty() {
            Verdict::Met
        } else {
            Verdict::Missed(misses)
        }
    }
}
