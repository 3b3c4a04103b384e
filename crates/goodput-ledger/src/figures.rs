//! From the books of a point to its row.

use std::{collections::BTreeMap, ops::Range};

use goodput_record::{Outcome, Timestamp};
use goodput_stats::{
    Adjusted, Distribution, Watched, attainment_interval, looks_confidence, steady_mean,
};
use serde::{Deserialize, Serialize};

use crate::{
    bins::Bins,
    books::{
        GOOD_CHARACTERS, GOOD_TOKENS, GOOD_WORDS, Latency, MET, MISSED, PointBooks, SloBooks,
        TOKENS,
    },
    counts::{Counted, Lengths},
    row::{Between, ClauseRow, ClientRow, LengthRow, Mode, PointRow, SloRow, WithFailures},
};

/// Groups of bins from which an interval is made: enough for a t quantile near the normal one,
/// few enough that a group is longer than a burst of slow requests.
pub(crate) const GROUPS: u64 = 30;

/// What the intervals of a row depend on, beside their bins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Certainty {
    /// Two-sided, of each single interval.
    pub(crate) confidence: f64,
    /// Mean seconds of a request.
    request_s: f64,
    /// Requests under way together, where none waits for another: in an open loop.
    together: f64,
}

impl Certainty {
    /// What is known of groups of this span.
    pub(crate) fn watched(self, group_s: f64) -> Watched {
        Watched {
            memory: rate(self.request_s, group_s),
            together: self.together,
        }
    }
}

/// What the source of a point's load says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointFacts {
    /// The point's number within the run.
    pub point: u32,
    /// Closed or open loop.
    pub mode: Mode,
    /// Users of a closed loop.
    pub concurrency: Option<u32>,
    /// Arrivals a second asked of an open loop.
    pub rate_req_s: Option<f64>,
    /// Where the figures are taken.
    pub window: Range<Timestamp>,
    /// GPUs behind the endpoint.
    pub gpus: Option<u32>,
    /// Most requests in flight at once.
    pub in_flight_peak: Option<u32>,
    /// In flight when the window closed.
    pub in_flight_at_end: u32,
    /// Arrivals sent, of those due inside the window.
    pub sent_share: Option<f64>,
    /// Lateness of the source's own timer, in ns.
    pub loop_lag_p99_ns: Option<f64>,
    /// Share of one core that the source used.
    pub client_cpu_share: Option<f64>,
    /// What else the source saw of itself.
    pub client: ClientRow,
    /// Prefix-cache look-ups that hit, by the server's own counters over the window.
    pub server_cached_share: Option<f64>,
    /// Requests whose decode time both sides tell, those of them that differ by more than a factor
    /// of two, and by what factor the last one did.
    pub server_timings: (u64, u64, Option<f64>),
    /// Why the point may not be used.
    pub invalid: Vec<String>,
    /// What else a reader should know.
    pub warnings: Vec<String>,
}

impl PointFacts {
    /// Of a point of which nothing but this is known.
    #[must_use]
    pub fn new(point: u32, mode: Mode, window: Range<Timestamp>) -> Self {
        Self {
            point,
            mode,
            concurrency: None,
            rate_req_s: None,
            window,
            gpus: None,
            in_flight_peak: None,
            in_flight_at_end: 0,
            sent_share: None,
            loop_lag_p99_ns: None,
            client_cpu_share: None,
            client: ClientRow::default(),
            server_cached_share: None,
            server_timings: (0, 0, None),
            invalid: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// What the charts of a point draw from its books.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Charted {
    /// 101 quantiles in ms: TTFT, TPOT, E2E, longest gap. Empty where undefined.
    pub quantiles: [Vec<f64>; 4],
    /// Seconds since the window opened, tokens a second, good tokens a second.
    pub timeline: Vec<[f64; 3]>,
}

impl PointBooks {
    /// Works out the point's row.
    #[must_use]
    #[expect(clippy::too_many_lines, reason = "a table: one line a figure")]
    pub fn row(&self, facts: &PointFacts) -> PointRow {
        let steady = self.steady_part(&facts.window);
        let ([tokens, characters, words, busy_ns, ..], seconds) = self.received(&steady);
        let per_second = |n: u64| rate(n as f64, seconds);
        let in_flight_mean = rate(busy_ns as f64 / 1e9, seconds);
        let certainty = self.certainty(match facts.mode {
            Mode::Closed => 0.0,
            Mode::Open => in_flight_mean,
        });
        let wall = facts.window.end.seconds() - facts.window.start.seconds();
        let slos: Vec<SloRow> = self
            .slos
            .iter()
            .map(|s| s.row((&facts.window, &steady), wall, certainty))
            .collect();
        let first = slos.first();
        let ok = self.counted.outcomes[Outcome::Ok.index()];
        let per_gpu = |rate: f64| facts.gpus.map(|gpus| rate / f64::from(gpus.max(1)));
        let goodput = first.map_or(0.0, |s| s.goodput_tok_s);
        let p = |latency, q| ms(self.distribution(latency).quantile(q));
        let between = |latency| {
            let seen = (self.distribution(latency), &facts.window);
            self.paces.intervals(latency, seen, [0.5, 0.99], certainty)
        };
        let [ttft_p50_interval, ttft_p99_interval] = between(Latency::Ttft);
        let [tpot_p50_interval, tpot_p99_interval] = between(Latency::Tpot);
        PointRow {
            point: facts.point,
            mode: facts.mode,
            concurrency: facts.concurrency,
            rate_req_s: facts.rate_req_s,
            other_arrivals: None,
            window_s: wall,
            warm_up_s: steady.start.seconds() - facts.window.start.seconds(),
            requests: self.counted.measured,
            completed_req_s: rate(ok as f64, wall),
            throughput_tok_s: per_second(tokens),
            throughput_interval: rate_interval(&self.bins, TOKENS, &steady, certainty),
            goodput_tok_s: goodput,
            goodput_interval: first.and_then(|s| s.goodput_interval),
            goodput_req_s: first.map_or(0.0, |s| s.goodput_req_s),
            throughput_tok_s_per_gpu: per_gpu(per_second(tokens)),
            goodput_tok_s_per_gpu: per_gpu(goodput),
            characters_per_s: Some(per_second(characters)),
            words_per_s: Some(per_second(words)),
            stream_tok_s: p(Latency::Tpot, 0.5)
                .filter(|ms| *ms > 0.0)
                .map(|ms| 1e3 / ms),
            slo_attainment: first.and_then(|s| s.attainment),
            attainment_interval: first.and_then(|s| s.attainment_interval),
            trajectory_attainment: first.and_then(|s| s.trajectory_attainment),
            outcomes: self.counted.outcomes(),
            statuses: named(&self.counted.statuses, ToString::to_string),
            ttft_p50_ms: p(Latency::Ttft, 0.5),
            ttft_p50_interval,
            ttft_p90_ms: p(Latency::Ttft, 0.9),
            ttft_p95_ms: p(Latency::Ttft, 0.95),
            ttft_p99_ms: p(Latency::Ttft, 0.99),
            ttft_p99_interval,
            ttft_p95_with_failures: self.with_failures(Latency::Ttft, 0.95),
            ttft_p99_with_failures: self.with_failures(Latency::Ttft, 0.99),
            ttft_answer_p50_ms: p(Latency::TtftAnswer, 0.5),
            ttft_answer_p99_ms: p(Latency::TtftAnswer, 0.99),
            tpot_p50_ms: p(Latency::Tpot, 0.5),
            tpot_p50_interval,
            tpot_p90_ms: p(Latency::Tpot, 0.9),
            tpot_p95_ms: p(Latency::Tpot, 0.95),
            tpot_p99_ms: p(Latency::Tpot, 0.99),
            tpot_p99_interval,
            tpot_mean_ms: ms(self.distribution(Latency::Tpot).mean()),
            itl_mean_ms: ms(ratio(
                self.counted.between_tokens.0,
                self.counted.between_tokens.1,
            )),
            tpot_median_p50_ms: p(Latency::TpotMedian, 0.5),
            tpot_median_p99_ms: p(Latency::TpotMedian, 0.99),
            stall_p50_ms: p(Latency::Stall, 0.5),
            stall_p99_ms: p(Latency::Stall, 0.99),
            e2e_p50_ms: p(Latency::E2e, 0.5),
            e2e_p90_ms: p(Latency::E2e, 0.9),
            e2e_p95_ms: p(Latency::E2e, 0.95),
            e2e_p99_ms: p(Latency::E2e, 0.99),
            ttft_n: self.distribution(Latency::Ttft).count(),
            tpot_n: self.distribution(Latency::Tpot).count(),
            in_flight_mean,
            in_flight_peak: facts.in_flight_peak,
            in_flight_at_start: self.in_flight_at(facts.window.start),
            in_flight_at_end: facts.in_flight_at_end,
            cut_by_end_of_run: self.counted.outcomes[Outcome::Cancelled.index()],
            sent_share: facts.sent_share,
            send_lag_p50_ms: p(Latency::SendLag, 0.5),
            send_lag_p99_ms: p(Latency::SendLag, 0.99),
            loop_lag_p99_ms: ms(facts.loop_lag_p99_ns),
            client_cpu_share: facts.client_cpu_share,
            client: facts.client,
            connect_p50_ms: p(Latency::Connect, 0.5),
            reused_connections_share: self
                .share(self.counted.measured - self.counted.new_connections),
            burst_share: self.share(self.counted.bursts),
            not_streamed: self.counted.not_streamed,
            server_timings: facts.server_timings.0,
            server_timings_implausible: facts.server_timings.1,
            server_timing_ratio: facts.server_timings.2,
            lengths: LengthRow {
                server_cached_share: facts.server_cached_share,
                ..self.lengths.row(&self.counted, ok)
            },
            checks: self.check_row(facts.concurrency, &facts.window),
            server: None,
            slos,
            valid: facts.invalid.is_empty(),
            warnings: facts
                .invalid
                .iter()
                .chain(&facts.warnings)
                .cloned()
                .collect(),
        }
    }

    /// How far its intervals reach.
    fn certainty(&self, together: f64) -> Certainty {
        Certainty {
            confidence: looks_confidence(self.looks + 1),
            request_s: self.request_s(),
            together,
        }
    }

    /// Mean seconds from origin to last token; 0 where no request has ended well.
    pub(crate) fn request_s(&self) -> f64 {
        self.distribution(Latency::E2e).mean().unwrap_or(0.0) / 1e9
    }

    /// The share of the measured requests.
    fn share(&self, of: u64) -> Option<f64> {
        (self.counted.measured > 0).then(|| of as f64 / self.counted.measured as f64)
    }

    /// A percentile over all measured requests, with those that failed above all others.
    fn with_failures(&self, latency: Latency, q: f64) -> WithFailures {
        match self.distribution(latency).adjusted_quantile(q) {
            Adjusted::Nothing => WithFailures::default(),
            Adjusted::Value(ns) => WithFailures {
                ms: Some(ns / 1e6),
                over_ms: None,
            },
            Adjusted::Above(ns) => WithFailures {
                ms: None,
                over_ms: ms(ns),
            },
        }
    }

    /// What the charts of this point draw.
    #[must_use]
    pub fn charted(&self, window: &Range<Timestamp>) -> Charted {
        let curve = |latency| quantile_curve(self.distribution(latency));
        let (bins, _) = self.bins.whole_bins(window);
        let (all, seconds) = self.bins.groups(bins.clone(), 60);
        let good = self
            .slos
            .first()
            .map(|s| s.bins.groups(bins, 60).0)
            .unwrap_or_default();
        let timeline = all.iter().enumerate().map(|(i, group)| {
            let good = good.get(i).map_or(0, |g| g[GOOD_TOKENS]);
            [
                i as f64 * seconds,
                rate(group[0] as f64, seconds),
                rate(good as f64, seconds),
            ]
        });
        Charted {
            quantiles: [Latency::Ttft, Latency::Tpot, Latency::E2e, Latency::Stall].map(curve),
            timeline: timeline.collect(),
        }
    }
}

impl SloBooks {
    fn row(
        &self,
        (window, steady): (&Range<Timestamp>, &Range<Timestamp>),
        wall: f64,
        certainty: Certainty,
    ) -> SloRow {
        let [met, missed, excused, ..] = self.bins.sum(0..u64::MAX);
        let (bins, seconds) = self.bins.whole_bins(steady);
        let in_window = self.bins.sum(bins);
        let per_second = |column: usize| rate(in_window[column] as f64, seconds);
        let judged = met + missed;
        let clauses = self.slo.clauses().iter().zip(&self.clause_misses);
        let trajectories = self.trajectories[MET] + self.trajectories[MISSED];
        SloRow {
            slo: self.slo.name().to_owned(),
            attainment: ratio(met, judged),
            attainment_interval: attainment_between(&self.bins, window, (met, judged), certainty),
            met,
            missed,
            excused,
            outcome_misses: self.outcome_misses,
            goodput_tok_s: per_second(GOOD_TOKENS),
            goodput_interval: rate_interval(&self.bins, GOOD_TOKENS, steady, certainty),
            goodput_req_s: rate(met as f64, wall),
            good_characters_per_s: Some(per_second(GOOD_CHARACTERS)),
            good_words_per_s: Some(per_second(GOOD_WORDS)),
            clauses: clauses
                .enumerate()
                .map(|(index, (clause, &misses))| {
                    let share = ratio(judged.saturating_sub(misses), judged);
                    let needed = self.slo.required_share(index);
                    ClauseRow {
                        clause: clause.to_string(),
                        metric: clause.metric.to_string(),
                        holds: share.map(|_| needed.is_kept_by(judged - misses, judged)),
                        share,
                        needed: needed.share(),
                        misses,
                    }
                })
                .collect(),
            trajectory_attainment: ratio(self.trajectories[MET], trajectories),
            trajectories,
        }
    }
}

/// Where the books of one group of bins do not have a request, they say nothing of attainment.
fn attainment_between(
    bins: &Bins<6>,
    window: &Range<Timestamp>,
    (met, judged): (u64, u64),
    certainty: Certainty,
) -> Option<Between> {
    let (whole, _) = bins.whole_bins(window);
    let (groups, seconds) = bins.groups(whole, GROUPS);
    let mut pairs: Vec<(u64, u64)> = groups
        .iter()
        .map(|g| (g[MET], g[MET] + g[MISSED]))
        .collect();
    // What lies outside whole bins is judged all the same.
    let inside = pairs
        .iter()
        .fold((0, 0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
    pairs.push((
        met.saturating_sub(inside.0),
        judged.saturating_sub(inside.1),
    ));
    pairs.retain(|p| p.1 > 0);
    attainment_interval(&pairs, certainty.watched(seconds), certainty.confidence).map(Between::from)
}

/// The interval of what a column counts a second.
fn rate_interval<const N: usize>(
    bins: &Bins<N>,
    column: usize,
    window: &Range<Timestamp>,
    certainty: Certainty,
) -> Option<Between> {
    let (whole, _) = bins.whole_bins(window);
    let (groups, seconds) = bins.groups(whole, GROUPS);
    let rates: Vec<f64> = groups
        .iter()
        .map(|group| rate(group[column] as f64, seconds))
        .collect();
    let mean = steady_mean(&rates, certainty.watched(seconds).memory)?;
    let interval = mean.interval(certainty.confidence)?;
    Some(Between {
        low: interval.low.max(0.0),
        high: interval.high,
    })
}

impl Counted {
    fn outcomes(&self) -> BTreeMap<String, u64> {
        let all = Outcome::ALL.into_iter().zip(self.outcomes);
        all.filter(|(_, n)| *n > 0)
            .map(|(o, n)| (o.name().to_owned(), n))
            .collect()
    }
}

impl Lengths {
    fn row(&self, counted: &Counted, ok: u64) -> LengthRow {
        let three = |d: &Distribution| [0.5, 0.9, 0.99].map(|q| d.quantile(q));
        let share = |n: u64| (ok > 0).then(|| n as f64 / ok as f64);
        LengthRow {
            planned_input: three(&self.planned_input),
            input: three(&self.input),
            planned_output: three(&self.planned_output),
            output: three(&self.output),
            output_mean: self.output.mean(),
            planned_cached_share: ratio(self.planned_cached_sum, self.planned_input_sum),
            reported_cached_share: ratio(self.reported.1, self.reported.0),
            server_cached_share: None,
            early_stop_share: share(counted.ended_early),
            finish_reasons: named(&counted.finish_reasons, |r| r.name().to_owned())
                .into_iter()
                .filter_map(|(name, n)| Some((name, share(n)?)))
                .collect(),
            tokens_per_event: ratio(self.tokens, counted.events),
            characters_per_token: ratio(self.characters, self.tokens),
        }
    }
}

fn named<K>(counts: &BTreeMap<K, u64>, name: impl Fn(&K) -> String) -> BTreeMap<String, u64> {
    counts.iter().map(|(key, n)| (name(key), *n)).collect()
}

/// 101 quantiles in ms, or nothing where there is no value.
fn quantile_curve(distribution: &Distribution) -> Vec<f64> {
    let at = |percent: u32| ms(distribution.quantile(f64::from(percent) / 100.0));
    (0..=100)
        .map(at)
        .collect::<Option<Vec<f64>>>()
        .unwrap_or_default()
}

fn ms(nanos: Option<f64>) -> Option<f64> {
    nanos.map(|ns| ns / 1e6)
}

/// A rate over a span; nothing happens in no time.
fn rate(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
