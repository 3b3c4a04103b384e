//! Counts, latencies and lengths of a point's measured requests.

use std::collections::BTreeMap;

use goodput_record::{Answer, FinishReason, Outcome, RequestSummary, TokenCount, nanos};
use goodput_stats::Distribution;
use serde::{Deserialize, Serialize};

use crate::{
    books::{Latency, ended_early},
    brief::BRIEF,
};

/// Whole-number counts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counted {
    pub(crate) arrived: u64,
    pub(crate) ended: u64,
    pub(crate) measured: u64,
    pub(crate) outcomes: [u64; 14],
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) finish_reasons: BTreeMap<FinishReason, u64>,
    pub(crate) bursts: u64,
    pub(crate) retried: u64,
    pub(crate) never_sent: u64,
    pub(crate) new_connections: u64,
    pub(crate) not_streamed: u64,
    pub(crate) ended_early: u64,
    pub(crate) lower_bound_counts: u64,
    pub(crate) events: u64,
    /// Time between tokens, in ns, and the token gaps it falls on.
    pub(crate) between_tokens: (u64, u64),
}

impl Counted {
    pub(crate) fn measured(&mut self, summary: &RequestSummary) {
        let end = summary.end();
        self.measured += 1;
        self.outcomes[end.outcome.index()] += 1;
        if let Some(status) = end.http_status {
            *self.statuses.entry(status).or_default() += 1;
        }
        if let Some(reason) = end.finish_reason {
            *self.finish_reasons.entry(reason).or_default() += 1;
        }
        let ok = end.outcome == Outcome::Ok;
        self.bursts += u64::from(summary.one_burst());
        self.retried += u64::from(summary.attempts() > 1);
        self.never_sent += u64::from(summary.sent().is_none());
        self.new_connections += u64::from(summary.connect().is_some());
        self.not_streamed += u64::from(ok && !end.streamed);
        self.ended_early += u64::from(ok && ended_early(summary));
        let lower_bound = matches!(end.output_tokens, Some(TokenCount::AtLeast(_)));
        self.lower_bound_counts += u64::from(ok && lower_bound);
        self.events += u64::from(summary.events());
        if let (true, Some(tpot), Some(gaps)) = (ok, summary.tpot(), summary.token_gaps()) {
            self.between_tokens.0 += nanos(tpot) * u64::from(gaps);
            self.between_tokens.1 += u64::from(gaps);
        }
    }

    /// The same of a request of which nothing but outcome, tokens and TPOT is known.
    pub(crate) fn measured_brief(&mut self, summary: &RequestSummary) {
        self.measured += 1;
        self.outcomes[summary.outcome().index()] += 1;
        self.events += u64::from(summary.events());
        let ok = summary.outcome() == Outcome::Ok;
        if let (true, Some(tpot), Some(gaps)) = (ok, summary.tpot(), summary.token_gaps()) {
            self.between_tokens.0 += nanos(tpot) * u64::from(gaps);
            self.between_tokens.1 += u64::from(gaps);
        }
    }

    /// The same of a whole answer with this TPOT in ns.
    #[inline]
    pub(crate) fn measured_answer(&mut self, answer: &Answer, tpot_ns: Option<u64>) {
        self.measured += 1;
        self.outcomes[Outcome::Ok.index()] += 1;
        self.events += u64::from(answer.tokens);
        if let Some(tpot) = tpot_ns {
            let gaps = u64::from(answer.gaps());
            self.between_tokens.0 += tpot * gaps;
            self.between_tokens.1 += gaps;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.arrived += other.arrived;
        self.ended += other.ended;
        self.measured += other.measured;
        for (mine, theirs) in self.outcomes.iter_mut().zip(other.outcomes) {
            *mine += theirs;
        }
        for (status, n) in &other.statuses {
            *self.statuses.entry(*status).or_default() += n;
        }
        for (reason, n) in &other.finish_reasons {
            *self.finish_reasons.entry(*reason).or_default() += n;
        }
        self.bursts += other.bursts;
        self.retried += other.retried;
        self.never_sent += other.never_sent;
        self.new_connections += other.new_connections;
        self.not_streamed += other.not_streamed;
        self.ended_early += other.ended_early;
        self.lower_bound_counts += other.lower_bound_counts;
        self.events += other.events;
        self.between_tokens.0 += other.between_tokens.0;
        self.between_tokens.1 += other.between_tokens.1;
    }
}

/// One distribution a latency, over requests for which it exists; the rest is counted as
/// undefined.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Spans([Distribution; Latency::ALL.len()]);

impl Spans {
    /// The main latencies of a request that ended well.
    pub(crate) fn post_brief(&mut self, nanos: [Option<u64>; 4]) {
        for (latency, nanos) in BRIEF.into_iter().zip(nanos) {
            self.0[latency as usize].record_option(nanos);
        }
    }

    /// The same of an answer with this TPOT in ns.
    #[inline]
    pub(crate) fn post_answer(&mut self, answer: &Answer, tpot_ns: Option<u64>) {
        let mut of = |latency: Latency, nanos| self.0[latency as usize].record_option(nanos);
        of(Latency::Ttft, Some(answer.ttft_ns()));
        of(Latency::Tpot, tpot_ns);
        of(Latency::Stall, answer.longest_gap_ns);
        of(Latency::E2e, Some(answer.e2e_ns()));
    }

    pub(crate) fn post(&mut self, summary: &RequestSummary) {
        // What failed before it had a latency waited at least as long as it lived.
        let ok = summary.outcome() == Outcome::Ok;
        let lived = summary.ended().since(summary.origin()).map_or(0, nanos);
        for (latency, distribution) in Latency::ALL.into_iter().zip(&mut self.0) {
            let told = latency.enters_percentiles(summary.outcome());
            if told && (ok || latency.of(summary).is_some()) {
                distribution.record_option(latency.of(summary));
            } else if lived > 0 {
                distribution.record_censored(lived);
            } else {
                // Nobody knows how long it waited.
                distribution.record_undefined();
            }
        }
    }

    pub(crate) fn of(&self, latency: Latency) -> &Distribution {
        &self.0[latency as usize]
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.merge(theirs);
        }
    }
}

/// What was asked and what was served, in tokens, over the measured requests that ended well.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Lengths {
    pub(crate) planned_input: Distribution,
    pub(crate) input: Distribution,
    pub(crate) planned_output: Distribution,
    pub(crate) output: Distribution,
    pub(crate) planned_input_sum: u64,
    pub(crate) planned_cached_sum: u64,
    /// Sums over requests whose cached tokens the server reported: (input, cached).
    pub(crate) reported: (u64, u64),
    pub(crate) characters: u64,
    pub(crate) words: u64,
    pub(crate) tokens: u64,
}

impl Lengths {
    pub(crate) fn post(&mut self, summary: &RequestSummary) {
        if summary.outcome() != Outcome::Ok {
            return;
        }
        let (arrival, end) = (summary.arrival(), summary.end());
        self.planned_input
            .record(u64::from(arrival.planned_input_tokens));
        self.planned_output
            .record(u64::from(arrival.planned_output_tokens));
        self.output.record(u64::from(summary.output_tokens()));
        self.planned_input_sum += u64::from(arrival.planned_input_tokens);
        self.planned_cached_sum += u64::from(arrival.planned_cached_tokens);
        match end.input_tokens {
            Some(tokens) => self.input.record(u64::from(tokens)),
            None => self.input.record_undefined(),
        }
        if let (Some(input), Some(cached)) = (end.input_tokens, end.cached_tokens) {
            self.reported.0 += u64::from(input);
            self.reported.1 += u64::from(cached);
        }
        self.characters += u64::from(end.characters);
        self.words += u64::from(end.words);
        self.tokens += u64::from(summary.output_tokens());
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.planned_input.merge(&other.planned_input);
        self.input.merge(&other.input);
        self.planned_output.merge(&other.planned_output);
        self.output.merge(&other.output);
        self.planned_input_sum += other.planned_input_sum;
        self.planned_cached_sum += other.planned_cached_sum;
        self.reported.0 += other.reported.0;
        self.reported.1 += other.reported.1;
        self.characters += other.characters;
        self.words += other.words;
        self.tokens += other.tokens;
    }
}
