//! What the measured requests of a point tell of themselves, their server and the way between:
//! counts by which a point is checked, not judged.

use std::{collections::BTreeMap, ops::Range};

use goodput_record::{Outcome, Phase, RequestSummary, Timestamp, TokenCount, UsageReport, nanos};
use goodput_stats::{Distribution, level_shift};
use serde::{Deserialize, Serialize};

use crate::books::{BUSY_NS, Latency, PointBooks, TOKENS};

/// Sessions, by number, of whose first request the first token is kept.
const EARLY: u32 = 4_096;
/// Groups of bins in which the speed of a point is followed.
const SPEED_GROUPS: u64 = 40;
/// Tokens an event are kept per request as whole thousandths.
const THOUSANDTHS: f64 = 1_000.0;

/// Figures by which a point is checked. They judge nothing; findings are made of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CheckRow {
    /// Mean E2E over requests that have one: the W of Little's law.
    pub e2e_mean_ms: Option<f64>,
    /// Of the first request of every user of a closed loop, those that were measured.
    pub first_wave_measured: u64,
    /// Median TTFT of these.
    pub first_wave_ttft_p50_ms: Option<f64>,
    /// Of these, requests whose TTFT is at or above the point's p99.
    pub first_wave_in_tail: u64,
    /// Least and most input tokens asked for.
    pub planned_input_range: Option<[u32; 2]>,
    /// Least and most output tokens asked for.
    pub planned_output_range: Option<[u32; 2]>,
    /// Share of the answers that ended well whose `usage` has more output tokens than were asked.
    pub longer_share: Option<f64>,
    /// Of the gaps between token events of a stream, the share that is zero: both were read at the
    /// same instant, so they came in one piece.
    pub bunched_share: Option<f64>,
    /// Token events that came at one instant, on average. 1: each by itself.
    pub events_per_bunch: Option<f64>,
    /// Tokens an event by request: p10, p50, p90, and the largest.
    pub tokens_per_event: Option<[f64; 4]>,
    /// Requests whose `usage` has fewer output tokens than token events came.
    pub usage_below_events: u64,
    /// Token events of these over their tokens by `usage`.
    pub events_per_usage_token: Option<f64>,
    /// Requests with a number in their `usage` that cannot be a count.
    pub usage_not_a_count: u64,
    /// Requests without a `usage` although they ended well.
    pub usage_absent: u64,
    /// Output tokens by our tokenizer over those by `usage`, where both are known.
    pub tokenizer_over_usage: Option<f64>,
    /// The most streams that broke off within a fifth of a second.
    pub cut_together: u64,
    /// Streams that broke off, of every part of the point.
    pub cut: u64,
    /// Where the speed of a stream changed within the window of a closed loop.
    pub speed_shift: Option<SpeedShift>,
}

/// A lasting change of the speed of a stream: tokens received over time in flight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpeedShift {
    /// Seconds after the window opened.
    pub at_s: f64,
    /// Tokens a second a stream before.
    pub before_tok_s: f64,
    /// Tokens a second a stream after.
    pub after_tok_s: f64,
}

impl SpeedShift {
    /// The change as a share of the speed before: -0.2 is a fifth slower.
    #[must_use]
    pub fn change(&self) -> f64 {
        self.after_tok_s / self.before_tok_s - 1.0
    }
}

/// The counters behind a [`CheckRow`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Checks {
    /// The first requests of the first sessions: whether measured, and TTFT in ns.
    early: BTreeMap<u32, (bool, Option<u64>)>,
    planned_input: Option<[u32; 2]>,
    planned_output: Option<[u32; 2]>,
    longer: u64,
    ok: u64,
    /// Gaps between token events, and those of them that are zero.
    gaps: (u64, u64),
    /// Thousandths of a token an event, by request.
    tokens_per_event: Distribution,
    /// Requests, tokens told and events seen where `usage` is below the events.
    below: (u64, u64, u64),
    not_a_count: u64,
    absent: u64,
    /// Tokens by our tokenizer and by `usage`, of requests that have both.
    both: (u64, u64),
    /// Streams that broke off, by the bin of their end; of every phase.
    cut: BTreeMap<u64, u64>,
}

/// Width of the bins in which streams that break off are counted together.
const CUT_BIN_NS: u64 = 100_000_000;

impl Checks {
    /// Posts a request of any phase.
    pub(crate) fn post(&mut self, summary: &RequestSummary, phase: Phase) {
        let measured = phase == Phase::Measured;
        self.keep_early(summary, measured);
        if summary.outcome() == Outcome::Truncated {
            *self
                .cut
                .entry(summary.ended().nanos() / CUT_BIN_NS)
                .or_default() += 1;
        }
        if !measured {
            return;
        }
        let (arrival, end) = (summary.arrival(), summary.end());
        widen(&mut self.planned_input, arrival.planned_input_tokens);
        widen(&mut self.planned_output, arrival.planned_output_tokens);
        if let Some(gaps) = summary.events().checked_sub(1) {
            self.gaps.0 += u64::from(gaps);
            self.gaps.1 += u64::from(summary.bunched());
        }
        match end.usage {
            UsageReport::BelowEvents(told) => {
                self.below.0 += 1;
                self.below.1 += u64::from(told);
                self.below.2 += u64::from(summary.events());
            }
            UsageReport::NotACount => self.not_a_count += 1,
            UsageReport::Absent | UsageReport::Plausible => {}
        }
        if end.outcome != Outcome::Ok {
            return;
        }
        self.ok += 1;
        // A record from elsewhere may have the count and not the report.
        let counted = matches!(end.output_tokens, Some(TokenCount::Usage(_)));
        self.absent += u64::from(end.usage == UsageReport::Absent && !counted);
        if let Some(TokenCount::Usage(tokens)) = end.output_tokens {
            let planned = arrival.planned_output_tokens;
            self.longer += u64::from(planned > 0 && tokens > planned);
            if let Some(counted) = end.tokenizer_tokens {
                self.both.0 += u64::from(counted);
                self.both.1 += u64::from(tokens);
            }
            if summary.events() > 1 {
                self.tokens_per_event
                    .record(thousandths(tokens, summary.events()));
            }
        }
    }

    /// The first request of a user opens a session whose number is below that of the users.
    fn keep_early(&mut self, summary: &RequestSummary, measured: bool) {
        let arrival = summary.arrival();
        if arrival.step == 0 && arrival.session < EARLY {
            self.remember(arrival.session, (measured, summary.ttft().map(nanos)));
        }
    }

    fn remember(&mut self, session: u32, seen: (bool, Option<u64>)) {
        let kept = self.early.entry(session).or_insert(seen);
        *kept = seen.max(*kept);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (&session, &seen) in &other.early {
            self.remember(session, seen);
        }
        for (mine, theirs) in [
            (&mut self.planned_input, other.planned_input),
            (&mut self.planned_output, other.planned_output),
        ] {
            for tokens in theirs.into_iter().flatten() {
                widen(mine, tokens);
            }
        }
        self.longer += other.longer;
        self.ok += other.ok;
        self.gaps.0 += other.gaps.0;
        self.gaps.1 += other.gaps.1;
        self.tokens_per_event.merge(&other.tokens_per_event);
        self.below.0 += other.below.0;
        self.below.1 += other.below.1;
        self.below.2 += other.below.2;
        self.not_a_count += other.not_a_count;
        self.absent += other.absent;
        self.both.0 += other.both.0;
        self.both.1 += other.both.1;
        for (bin, cut) in &other.cut {
            *self.cut.entry(*bin).or_default() += cut;
        }
    }

    /// The most that broke off in two bins that follow each other.
    fn cut_together(&self) -> u64 {
        let pairs = self.cut.iter().map(|(bin, cut)| {
            let next = self.cut.get(&(bin + 1)).copied().unwrap_or(0);
            cut + next
        });
        pairs.max().unwrap_or(0)
    }

    /// The first requests of `users` users: how many were measured, and their TTFT.
    fn first_wave(&self, users: u32) -> (u64, Vec<u64>) {
        let wave = self.early.range(..users).map(|(_, seen)| seen);
        let measured = wave.filter(|(measured, _)| *measured);
        let ttft: Vec<Option<u64>> = measured.map(|(_, ttft)| *ttft).collect();
        (ttft.len() as u64, ttft.into_iter().flatten().collect())
    }
}

impl PointBooks {
    /// The figures by which the point is checked.
    pub(crate) fn check_row(&self, users: Option<u32>, window: &Range<Timestamp>) -> CheckRow {
        let checks = &self.checks;
        let (first_wave_measured, wave) = checks.first_wave(users.unwrap_or(0));
        let p99 = self.distribution(Latency::Ttft).quantile(0.99);
        let in_tail = wave
            .iter()
            .filter(|&&ns| p99.is_some_and(|p99| ns as f64 >= p99));
        let ms = |ns: Option<f64>| ns.map(|ns| ns / 1e6);
        let ratio = |(part, whole): (u64, u64)| (whole > 0).then(|| part as f64 / whole as f64);
        CheckRow {
            e2e_mean_ms: ms(self.distribution(Latency::E2e).mean()),
            first_wave_measured,
            first_wave_in_tail: in_tail.count() as u64,
            first_wave_ttft_p50_ms: ms(wave.into_iter().collect::<Distribution>().quantile(0.5)),
            planned_input_range: checks.planned_input,
            planned_output_range: checks.planned_output,
            longer_share: ratio((checks.longer, checks.ok)),
            bunched_share: ratio((checks.gaps.1, checks.gaps.0)),
            events_per_bunch: self.events_per_bunch(),
            tokens_per_event: checks.tokens_per_event_row(),
            usage_below_events: checks.below.0,
            events_per_usage_token: ratio((checks.below.2, checks.below.1)),
            usage_not_a_count: checks.not_a_count,
            usage_absent: checks.absent,
            tokenizer_over_usage: ratio(checks.both),
            cut_together: checks.cut_together(),
            cut: checks.cut.values().sum(),
            speed_shift: users.and_then(|_| self.speed_shift(window)),
        }
    }

    /// Events over the instants at which they came.
    fn events_per_bunch(&self) -> Option<f64> {
        let instants = self.counted.events.checked_sub(self.checks.gaps.1)?;
        (instants > 0).then(|| self.counted.events as f64 / instants as f64)
    }

    /// Where the speed of a stream changed for good. In a closed loop the number in flight is
    /// constant, so that a change of speed is the server's.
    fn speed_shift(&self, window: &Range<Timestamp>) -> Option<SpeedShift> {
        let (bins, _) = self.bins.whole_bins(window);
        let (groups, seconds) = self.bins.groups(bins, SPEED_GROUPS);
        let speeds: Vec<f64> = groups
            .iter()
            .filter(|group| group[BUSY_NS] > 0)
            .map(|group| group[TOKENS] as f64 / (group[BUSY_NS] as f64 / 1e9))
            .collect();
        // A group without anything in flight would shift the instants: there is none in a closed
        // loop that is one.
        if speeds.len() < groups.len() {
            return None;
        }
        let shift = level_shift(&speeds)?;
        (shift.before > 0.0).then_some(SpeedShift {
            at_s: shift.at as f64 * seconds,
            before_tok_s: shift.before,
            after_tok_s: shift.after,
        })
    }
}

impl Checks {
    fn tokens_per_event_row(&self) -> Option<[f64; 4]> {
        let at = |q| Some(self.tokens_per_event.quantile(q)? / THOUSANDTHS);
        Some([at(0.1)?, at(0.5)?, at(0.9)?, at(1.0)?])
    }
}

fn thousandths(tokens: u32, events: u32) -> u64 {
    let events = u64::from(events.max(1));
    (1_000 * u64::from(tokens) + events / 2) / events
}

fn widen(range: &mut Option<[u32; 2]>, tokens: u32) {
    let [low, high] = range.unwrap_or([tokens, tokens]);
    *range = Some([low.min(tokens), high.max(tokens)]);
}
