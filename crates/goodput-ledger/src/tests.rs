use std::{ops::Range, time::Duration};

use goodput_record::{
    Answer, Arrival, End, FinishReason, Outcome, Phase, RequestRecord, Timestamp, TokenCount,
    testing,
};
use goodput_slo::{Slo, Verdict};
use proptest::prelude::*;

use super::*;

mod looks;

pub(crate) const BIN: Duration = Duration::from_millis(100);

/// A request as the tests write it down; times in ms.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    origin: u64,
    ttft: Option<u64>,
    gaps: Vec<u64>,
    tokens: u32,
    outcome: Outcome,
    ended: u64,
}

impl Case {
    pub(crate) fn ok(origin: u64, ttft: u64, gaps: &[u64]) -> Self {
        Self {
            origin,
            ttft: Some(ttft),
            gaps: gaps.to_vec(),
            tokens: u32::try_from(gaps.len() + 1).unwrap(),
            outcome: Outcome::Ok,
            ended: origin + ttft + gaps.iter().sum::<u64>(),
        }
    }

    pub(crate) fn failed(origin: u64, outcome: Outcome, after: u64) -> Self {
        Self {
            origin,
            ttft: None,
            gaps: Vec::new(),
            tokens: 0,
            outcome,
            ended: origin + after,
        }
    }

    fn record(&self) -> RequestRecord {
        self.step_of(0, 0, 1)
    }

    pub(crate) fn step_of(&self, session: u32, step: u16, steps: u16) -> RequestRecord {
        let arrival = Arrival {
            session,
            step,
            steps,
            planned_output_tokens: 200,
            ..testing::arrival(Timestamp::from_millis(self.origin))
        };
        let mut tokens_at = Vec::new();
        if let Some(ttft) = self.ttft {
            tokens_at.push(self.origin + ttft);
            for gap in &self.gaps {
                tokens_at.push(tokens_at[tokens_at.len() - 1] + gap);
            }
        }
        let end = End {
            output_tokens: (self.tokens > 0).then_some(TokenCount::Usage(self.tokens)),
            finish_reason: (self.outcome == Outcome::Ok).then_some(FinishReason::Length),
            ..End::of(self.outcome)
        };
        let at = tokens_at.into_iter().map(Timestamp::from_millis);
        testing::record(arrival, at, Timestamp::from_millis(self.ended), end)
    }
}

pub(crate) fn slo(text: &str) -> Slo {
    Slo::from_argument(text).unwrap()
}

fn books(slo: &Slo, cases: &[Case]) -> PointBooks {
    let mut books = PointBooks::new(std::slice::from_ref(slo), BIN);
    for record in cases.iter().map(Case::record) {
        books.arrived(record.summary.arrival());
        books.post(&record.summary, &record.gaps, Phase::Measured);
    }
    books
}

pub(crate) fn seconds(from: u64, to: u64) -> Range<Timestamp> {
    Timestamp::from_millis(from * 1000)..Timestamp::from_millis(to * 1000)
}

pub(crate) fn facts(window: Range<Timestamp>) -> PointFacts {
    PointFacts {
        concurrency: Some(8),
        ..PointFacts::new(0, Mode::Closed, window)
    }
}

fn row(slo_text: &str, cases: &[Case], window: Range<Timestamp>) -> PointRow {
    books(&slo(slo_text), cases).row(&facts(window))
}

fn near(value: Option<f64>, expected: f64) {
    let value = value.expect("a value");
    assert!((value - expected).abs() < 0.05, "{value} is not {expected}");
}

// O-ST-02: two averages with two names.
#[test]
fn the_mean_of_requests_is_not_the_mean_of_gaps() {
    let row = row(
        "ttft=1s",
        &[Case::ok(0, 10, &[100]), Case::ok(0, 10, &[10; 100])],
        seconds(0, 2),
    );
    near(row.tpot_mean_ms, 55.0);
    near(row.itl_mean_ms, 1100.0 / 101.0);
}

// O-ST-03: failures stay in the denominator, and in the percentile.
#[test]
fn failures_are_misses_and_lie_above_every_latency() {
    let mut cases = vec![Case::ok(0, 200, &[20, 20]); 90];
    cases.extend(vec![Case::failed(0, Outcome::TimedOut, 10_000); 10]);
    let row = row("ttft=500ms", &cases, seconds(0, 10));
    near(row.slo_attainment, 0.9);
    near(row.ttft_p95_ms, 200.0);
    assert_eq!(
        row.ttft_p95_with_failures,
        WithFailures {
            ms: None,
            over_ms: Some(10_000.0)
        }
    );
    assert_eq!(row.outcomes["timed_out"], 10);
    assert!(!row.holds_every_clause());
}

// O-ST-05: the steady window is not stretched by a straggler.
#[test]
fn tokens_count_by_arrival_inside_the_window() {
    let mut cases = Vec::new();
    for slot in 0..8_u64 {
        let rounds = if slot == 0 { 99 } else { 100 };
        cases.extend((0..rounds).map(|k| Case::ok(k * 1000, 10, &[9; 99])));
    }
    cases.push(Case::ok(99_000, 10, &vec![10; 5999]));
    let steady = row("ttft=1s", &cases, seconds(0, 99));
    near(Some(steady.throughput_tok_s), 800.0);
    let whole = row("ttft=1s", &cases, seconds(0, 159));
    near(Some(whole.throughput_tok_s), 85_900.0 / 159.0);
}

// `bench --requests 1` against a fast server: the run is shorter than a bin.
#[test]
fn a_run_shorter_than_a_bin_has_its_rates_all_the_same() {
    for from in [0, 40, 95] {
        let window = Timestamp::from_millis(from)..Timestamp::from_millis(from + 80);
        let row = row("ttft=1s", &[Case::ok(from, 4, &[4; 19])], window);
        near(Some(row.throughput_tok_s), 20.0 / 0.08);
        near(Some(row.goodput_tok_s), 20.0 / 0.08);
        near(Some(row.in_flight_mean), 1.0);
    }
}

// O-ST-06 and O-ST-09: nothing that did not happen is a zero.
#[test]
fn without_success_every_latency_is_undefined() {
    let none = row(
        "ttft=500ms",
        &vec![Case::failed(0, Outcome::Rejected, 5); 20],
        seconds(0, 1),
    );
    assert_eq!(none.slo_attainment, Some(0.0));
    assert!(none.goodput_tok_s == 0.0 && none.throughput_tok_s == 0.0);
    assert_eq!(
        (none.ttft_p50_ms, none.tpot_p50_ms, none.e2e_p99_ms),
        (None, None, None)
    );

    let mut cases = vec![Case::failed(0, Outcome::Empty, 5); 510];
    cases.extend(vec![Case::ok(0, 120, &[20]); 490]);
    let half = row("ttft=500ms", &cases, seconds(0, 1));
    near(half.ttft_p50_ms, 120.0);
    assert_eq!(half.ttft_n, 490);
    assert_eq!(half.slo_attainment, Some(0.49));
}

// O-ST-10: requests cut by the end of the window.
#[test]
fn what_the_end_of_the_run_cuts_off_is_neither_met_nor_missed() {
    let mut cases: Vec<Case> = (0..100)
        .map(|k| Case::ok(k * 400, 100, &[5; 199]))
        .collect();
    cases.extend((0..10_u64).map(|k| Case {
        tokens: 300,
        outcome: Outcome::Cancelled,
        ended: 60_000,
        ..Case::ok(50_000 + 100 * k, 100, &[25; 299])
    }));
    let row = row("ttft=500ms", &cases, seconds(0, 60));
    near(Some(row.throughput_tok_s), 23_000.0 / 60.0);
    near(Some(row.goodput_tok_s), 20_000.0 / 60.0);
    assert_eq!(
        (row.cut_by_end_of_run, row.ttft_n, row.tpot_n),
        (10, 110, 100)
    );
    let slo = row.first_slo().unwrap();
    assert_eq!((slo.met, slo.missed, slo.excused), (100, 0, 0));
}

#[test]
fn what_the_end_of_the_run_cuts_off_is_missed_if_it_was_late_already() {
    let mut cases: Vec<Case> = (0..90).map(|k| Case::ok(k * 100, 100, &[5; 9])).collect();
    // No answer at all for two minutes.
    cases.extend((0..10).map(|k| Case::failed(k * 100, Outcome::Cancelled, 120_000)));
    let row = row("ttft=500ms,tpot=50ms", &cases, seconds(0, 10));
    assert_eq!(row.slo_attainment, Some(0.9));
    let slo = row.first_slo().unwrap();
    assert_eq!((slo.met, slo.missed, slo.outcome_misses), (90, 10, 0));
    let misses: Vec<u64> = slo.clauses.iter().map(|c| c.misses).collect();
    assert_eq!(misses, [10, 0], "it is the first token that did not come");
}

#[test]
fn a_session_that_the_end_of_the_run_breaks_off_is_not_missed_within_its_deadline() {
    let slo = slo("trajectory=10s");
    let mut books = PointBooks::new(std::slice::from_ref(&slo), BIN);
    let mut post = |case: &Case, session, step| {
        let record = case.step_of(session, step, 2);
        books.post(&record.summary, &record.gaps, Phase::Measured);
    };
    // The first keeps its deadline, the second is cut within it, the third is cut past it.
    for session in 0..3 {
        post(&Case::ok(0, 100, &[10; 9]), session, 0);
    }
    post(&Case::ok(500, 100, &[10; 9]), 0, 1);
    post(&Case::failed(500, Outcome::Cancelled, 1_000), 1, 1);
    post(&Case::failed(500, Outcome::Cancelled, 20_000), 2, 1);
    let row = books.row(&facts(seconds(0, 1)));
    assert_eq!(row.slos[0].trajectories, 2);
    assert_eq!(row.trajectory_attainment, Some(0.5));
}

// O-ST-11: the SLO names which of the two it judges, and both are shown.
#[test]
fn the_clause_says_mean_or_median() {
    let case = [Case::ok(0, 10, &[45, 45, 45, 45, 45, 45, 45, 45, 45, 900])];
    let mean = row("tpot=50ms", &case, seconds(0, 2));
    let median = row("tpot_median=50ms", &case, seconds(0, 2));
    assert_eq!(
        (mean.slo_attainment, median.slo_attainment),
        (Some(0.0), Some(1.0))
    );
    near(mean.tpot_p50_ms, 130.5);
    near(mean.tpot_median_p50_ms, 45.0);
    near(mean.stall_p99_ms, 900.0);
}

#[test]
fn a_window_without_requests_says_nothing() {
    let row = row("ttft=500ms", &[], seconds(0, 60));
    assert_eq!((row.slo_attainment, row.attainment_interval), (None, None));
    assert_eq!(row.first_slo().unwrap().clauses[0].share, None);
}

#[test]
fn all_good_is_exactly_one() {
    let row = row(
        "ttft=500ms",
        &vec![Case::ok(100, 100, &[20; 10]); 1000],
        seconds(0, 1),
    );
    assert_eq!(row.slo_attainment, Some(1.0));
    assert!((row.goodput_tok_s - row.throughput_tok_s).abs() < f64::EPSILON);
}

prop_compose! {
    fn any_case()(
        origin in 0_u64..20_000,
        ttft in prop::option::weighted(0.9, 0_u64..1500),
        gaps in prop::collection::vec(0_u64..120, 0..30),
        many in 1_u32..3,
        kind in 0_usize..3,
    ) -> Case {
        match ttft {
            Some(ttft) => {
                let case = Case::ok(origin, ttft, &gaps);
                let outcome = [Outcome::Ok, Outcome::Ok, Outcome::Truncated][kind];
                Case { tokens: case.tokens * many, outcome, ..case }
            }
            None => Case::failed(origin, [Outcome::Failed, Outcome::Rejected, Outcome::Empty][kind], 50),
        }
    }
}

proptest! {
    #[test]
    fn order_and_shards_change_no_figure(
        cases in prop::collection::vec(any_case(), 1..60),
        cut in 0_usize..60,
    ) {
        let slo = slo("ttft=500ms,tpot=50ms");
        let whole = books(&slo, &cases).row(&facts(seconds(0, 20)));
        let mut reversed = cases.clone();
        reversed.reverse();
        prop_assert_eq!(&books(&slo, &reversed).row(&facts(seconds(0, 20))), &whole);
        let cut = cut.min(cases.len());
        let mut left = books(&slo, &cases[..cut]);
        left.merge(&books(&slo, &cases[cut..]));
        prop_assert_eq!(&left.row(&facts(seconds(0, 20))), &whole);
    }

    /// An answer is booked as its record is, and what both give up tells nothing else.
    #[test]
    fn an_answer_is_booked_as_its_record(
        answers in prop::collection::vec((0_u64..20_000, 0_u64..900, 0_u64..9_000, 1_u32..300, any::<bool>()), 1..80),
    ) {
        let slos = [slo("ttft=500ms,tpot=50ms"), slo("e2e=4s"), slo("tpot_median=9ms")];
        let (mut plain, mut by_record) = (PointBooks::new(&slos, BIN), PointBooks::new(&slos, BIN));
        for (origin, ttft, span, tokens, measured) in answers {
            let phase = if measured { Phase::Measured } else { Phase::Drain };
            let first = origin + ttft;
            let answer = Answer {
                origin: Timestamp::from_millis(origin),
                first: Timestamp::from_millis(first),
                last: Timestamp::from_millis(if tokens > 1 { first + span } else { first }),
                input_tokens: 7,
                tokens,
                longest_gap_ns: (tokens > 1).then_some(span),
            };
            plain.arrived_at(answer.origin);
            by_record.arrived_at(answer.origin);
            let summary = answer.summary(testing::arrival(answer.origin));
            prop_assert_eq!(plain.post_answer(&answer, phase), by_record.post_brief(&summary, phase));
        }
        plain.settle();
        by_record.settle();
        prop_assert_eq!(plain.row(&facts(seconds(0, 20))), by_record.row(&facts(seconds(0, 20))));
    }

    #[test]
    fn every_request_ends_in_one_place(cases in prop::collection::vec(any_case(), 0..60)) {
        let slo = slo("ttft=500ms,tpot=50ms");
        let row = books(&slo, &cases).row(&facts(seconds(0, 40)));
        let counted = row.first_slo().unwrap();
        prop_assert_eq!(row.outcomes.values().sum::<u64>(), cases.len() as u64);
        prop_assert_eq!(counted.met + counted.missed + counted.excused, cases.len() as u64);
        prop_assert!(row.goodput_tok_s <= row.throughput_tok_s);
        for clause in &counted.clauses {
            prop_assert!(clause.misses <= counted.missed);
        }
    }

    #[test]
    fn every_token_is_counted_once(cases in prop::collection::vec(any_case(), 0..40)) {
        let slo = slo("ttft=500ms");
        let books = books(&slo, &cases);
        let row = books.row(&facts(seconds(0, 100)));
        let tokens: u64 = cases.iter().map(|c| u64::from(c.tokens)).sum();
        prop_assert!((row.throughput_tok_s * 100.0 - tokens as f64).abs() < 1e-6);
    }

    #[test]
    fn a_verdict_is_what_the_slo_says(case in any_case()) {
        let slo = slo("ttft=500ms,tpot=50ms");
        let record = case.record();
        let mut books = PointBooks::new(std::slice::from_ref(&slo), BIN);
        let verdicts = books.post(&record.summary, &record.gaps, Phase::Measured);
        prop_assert_eq!(verdicts.as_slice(), &[slo.judge(&record.summary, &record.gaps)]);
        prop_assert!(case.outcome == Outcome::Ok || verdicts[0] != Verdict::Met);
    }
}

/// Two users in a closed loop whose tokens take `gap` ms, and `slower` ms from second 10 on.
fn two_users(gap: u64, slower: u64) -> PointRow {
    let mut cases = Vec::new();
    for offset in [0, 37] {
        let mut origin = offset;
        while origin < 20_000 {
            let gap = if origin < 10_000 { gap } else { slower };
            let case = Case::ok(origin, gap, &[gap; 9]);
            origin = case.ended;
            cases.push(case);
        }
    }
    let slo = slo("ttft=500ms,tpot=50ms");
    let row = books(&slo, &cases).row(&PointFacts {
        concurrency: Some(2),
        ..facts(seconds(1, 19))
    });
    // The law that the check of the in-flight count rests on holds in the books themselves.
    let law = row.requests as f64 / 20.0 * row.checks.e2e_mean_ms.unwrap() / 1e3;
    assert!((row.in_flight_mean - law).abs() < 0.05 * law, "{law}");
    row
}

#[test]
fn a_stream_that_became_slower_is_seen_where_it_did() {
    assert_eq!(two_users(20, 20).checks.speed_shift, None);
    let shift = two_users(20, 25).checks.speed_shift.expect("a shift");
    // The window opens at second 1.
    assert!((8.0..10.0).contains(&shift.at_s), "{shift:?}");
    assert!((shift.before_tok_s - 50.0).abs() < 2.0, "{shift:?}");
    assert!((shift.after_tok_s - 40.0).abs() < 2.0, "{shift:?}");
    assert!((shift.change() + 0.2).abs() < 0.05, "{shift:?}");
}

#[test]
fn first_requests_lengths_and_counts_are_checked() {
    let mut cases: Vec<Case> = (0..50)
        .map(|n| Case::ok(100 * n, 20, &[10, 0, 10]))
        .collect();
    cases[0].ttft = Some(400);
    let slo = slo("ttft=500ms,tpot=50ms");
    let mut all = PointBooks::new(std::slice::from_ref(&slo), BIN);
    for (session, case) in (0..).zip(&cases) {
        let record = case.step_of(session, 0, 1);
        all.post(&record.summary, &record.gaps, Phase::Measured);
    }
    let row = all.row(&PointFacts {
        concurrency: Some(4),
        ..facts(seconds(0, 5))
    });
    let checks = &row.checks;
    assert_eq!(checks.first_wave_measured, 4);
    assert_eq!(checks.first_wave_in_tail, 1);
    assert_eq!(checks.planned_input_range, Some([100, 100]));
    assert_eq!(checks.longer_share, Some(0.0));
    assert_eq!(checks.bunched_share, Some(1.0 / 3.0));
    assert_eq!(checks.events_per_bunch, Some(4.0 / 3.0));
    assert_eq!(checks.tokens_per_event, Some([1.0; 4]));
    assert_eq!((checks.usage_below_events, checks.cut), (0, 0));
}
