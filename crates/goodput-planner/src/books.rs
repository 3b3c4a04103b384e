//! The books of one class of a run, and when a run tells nothing good any more.

use std::{ops::Range, time::Duration};

use goodput_ledger::{Mode, PointBooks, PointFacts};
use goodput_record::{Answer, Phase, RequestRecord, RequestSummary, Timestamp, millis, span_of};
use goodput_slo::{Metric, Slo, Verdict};
use goodput_stats::{CONFIDENCE, wilson};

use crate::{mix::ClassLoad, replica::LoadFigures};

/// A run is given up once a class has this many times the misses that its window may have.
const LOST: f64 = 3.0;
/// Requests by which those that are open may grow over a window, as a share of all.
const GROWTH: f64 = 0.01;
/// A bound longer than this share of a window can be kept throughout it by a queue that only grows.
const HIDDEN: f64 = 0.05;

/// Whether a clause speaks of single gaps other than by their median. A median gap is judged as the
/// mean one ([`Slo::with_mean_pace`]), which takes a tenth of the time.
pub(crate) fn needs_every_token(slo: &Slo) -> bool {
    let per_gap = |metric| {
        matches!(
            metric,
            Metric::TimeToToken(_) | Metric::ItlP99 | Metric::Stall
        )
    };
    slo.clauses().iter().any(|clause| per_gap(clause.metric))
}

/// Whether a window of so many seconds is too short to show a growing queue as misses: even the
/// tightest bound is long beside it.
pub(crate) fn hides_a_queue(slo: &Slo, window_s: f64) -> bool {
    let bounds = slo
        .clauses()
        .iter()
        .filter_map(goodput_slo::Clause::fixed_bound);
    let tightest = bounds
        .map(|bound| bound.as_secs_f64())
        .fold(f64::INFINITY, f64::min);
    tightest > HIDDEN * window_s
}

/// Whether 99 % of the requests stay within half of every bound.
///
/// The interval of an attainment takes requests that are under way together to miss together until
/// misses were seen ([`goodput_stats::COMPANY`]): what one slow step makes late, it makes late
/// for all. Where none missed and no tail comes near its bound there is no such step, and requests
/// count as independent. Without this, a class with a hundred requests under way and a deadline of
/// minutes asks for 30,000 requests to prove what two thousand show.
fn is_far_from_its_bounds(at: &LoadFigures, slo: &Slo) -> bool {
    slo.clauses().iter().all(|clause| {
        let tail = match clause.metric {
            Metric::Ttft => at.ttft_p99_ms,
            Metric::Tpot => at.tpot_p99_ms,
            Metric::E2e => at.e2e_p99_ms,
            _ => None,
        };
        let bound = clause.fixed_bound().map(millis);
        matches!((tail, bound), (Some(tail), Some(bound)) if tail <= bound / 2.0)
    })
}

/// The books of a class.
pub(crate) struct ClassBooks {
    slo: Slo,
    of: PointBooks,
    missed: f64,
    may_miss: f64,
    until: Timestamp,
    window: Range<Timestamp>,
    /// The first and the last quarter of the window, in ns.
    quarters: [(u64, u64); 2],
    /// Time that requests were open in them, in ns.
    open_ns: [u128; 2],
}

impl ClassBooks {
    pub(crate) fn new(class: &ClassLoad<'_>, window: &Range<Timestamp>) -> Self {
        let window_s = window.end.seconds() - window.start.seconds();
        let bin = span_of((window_s / 2_000.0).clamp(0.1, 60.0));
        let slo = if needs_every_token(class.slo) {
            class.slo.clone()
        } else {
            class.slo.with_mean_pace()
        };
        let expected = class.rate_req_s * window_s;
        let (from, to) = (window.start.nanos(), window.end.nanos());
        let quarter = to.saturating_sub(from) / 4;
        Self {
            of: PointBooks::new(std::slice::from_ref(&slo), bin),
            missed: 0.0,
            may_miss: LOST * (1.0 - slo.objective().share) * expected + 30.0,
            until: window.start,
            window: window.clone(),
            quarters: [(from, from + quarter), (to - quarter, to)],
            open_ns: [0; 2],
            slo,
        }
    }

    /// Which part of the run a request belongs to.
    pub(crate) fn phase(&self, origin: Timestamp) -> Phase {
        if origin < self.window.start {
            Phase::Settling
        } else if origin < self.window.end {
            Phase::Measured
        } else {
            Phase::Drain
        }
    }

    /// Whether it has missed more than it could make good.
    pub(crate) fn is_lost(&self) -> bool {
        self.missed > self.may_miss
    }

    pub(crate) fn arrived(&mut self, at: Timestamp) {
        self.until = self.until.max(at);
        self.of.arrived_at(at);
    }

    /// Posts a whole record.
    pub(crate) fn post(&mut self, record: &RequestRecord) -> Phase {
        let phase = self.phase(record.summary.origin());
        let verdict = self
            .of
            .post(&record.summary, &record.gaps, phase)
            .first()
            .copied();
        let life = (record.summary.origin(), record.summary.ended());
        self.note(life, phase, verdict);
        phase
    }

    /// Posts a whole answer of which its first and its last token are known.
    pub(crate) fn post_answer(&mut self, answer: &Answer, phase: Phase) {
        let verdict = self.of.post_answer(answer, phase);
        self.note((answer.origin, answer.last), phase, verdict);
    }

    /// Posts another request of which its first and its last token are known.
    pub(crate) fn post_brief(&mut self, summary: &RequestSummary, phase: Phase) {
        let verdict = self.of.post_brief(summary, phase);
        self.note((summary.origin(), summary.ended()), phase, verdict);
    }

    /// Notes when a request came and went, and what was said of it.
    fn note(&mut self, life: (Timestamp, Timestamp), phase: Phase, verdict: Option<Verdict>) {
        if phase == Phase::Measured && matches!(verdict, Some(Verdict::Missed(_))) {
            self.missed += 1.0;
        }
        let (origin, ended) = (life.0.nanos(), life.1.nanos());
        for ((from, to), open_ns) in self.quarters.iter().zip(&mut self.open_ns) {
            *open_ns += u128::from(ended.min(*to).saturating_sub(origin.max(*from)));
        }
    }

    /// Whether more came than was served: the requests open have grown by more than chance lets
    /// them. A deadline of minutes is kept for minutes by a queue that only grows.
    fn grows(&self) -> bool {
        let measured = self.of.measured() as f64;
        // From the middle of the first to the middle of the last quarter.
        let mean = |quarter: usize| {
            let (from, to) = self.quarters[quarter];
            self.open_ns[quarter] as f64 / (to - from).max(1) as f64
        };
        let grown = (mean(1) - mean(0)) / 0.75;
        grown > GROWTH * measured + 2.0 * libm::sqrt(measured)
    }

    /// What the class got. `lost`: the run was given up, and no arrivals came after that.
    pub(crate) fn figures(&mut self, rate_req_s: f64, lost: bool) -> LoadFigures {
        self.of.settle();
        let window_s = self.window.end.seconds() - self.window.start.seconds();
        let first = self.window.start.after(Duration::from_secs(1));
        let end = if lost {
            self.until.max(first)
        } else {
            self.window.end
        };
        let row = self.of.row(&PointFacts {
            rate_req_s: Some(rate_req_s),
            sent_share: Some(1.0),
            invalid: Vec::new(),
            ..PointFacts::new(0, Mode::Open, self.window.start..end)
        });
        let mut figures = LoadFigures::of_row(&row, self.slo.objective().share);
        if figures.attainment == Some(1.0) && is_far_from_its_bounds(&figures, &self.slo) {
            figures.interval = wilson(figures.requests, figures.requests, CONFIDENCE);
        }
        let hidden = hides_a_queue(&self.slo, window_s);
        figures.valid &= figures.requests > 0 && !(hidden && self.grows());
        figures
    }
}
