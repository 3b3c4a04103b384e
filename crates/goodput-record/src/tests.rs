use std::{cell::RefCell, rc::Rc, time::Duration};

use proptest::prelude::*;

use super::*;

#[derive(Default)]
struct Log(RefCell<(u32, Vec<RequestRecord>)>);

impl Sink for Log {
    fn arrived(&self, _: &Arrival) {
        self.0.borrow_mut().0 += 1;
    }
    fn ended(&self, record: RequestRecord) {
        self.0.borrow_mut().1.push(record);
    }
}

fn arrival(origin: Timestamp) -> Arrival {
    Arrival {
        id: 7,
        origin,
        series: SeriesId::default(),
        vantage: Vantage::Client,
        session: 7,
        step: 0,
        steps: 1,
        planned_input_tokens: 10,
        planned_cached_tokens: 0,
        planned_output_tokens: 10,
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A request due at 10 ms whose token events came at `events_ms`.
fn request(events_ms: &[u64], tokens: u32, choices: u16) -> RequestRecord {
    let log = Rc::new(Log::default());
    let mut open = OpenRequest::arrive(log.clone(), arrival(Timestamp::from_millis(10)));
    open.sent(Timestamp::from_millis(11));
    for &at in events_ms {
        open.token_event(Timestamp::from_millis(at), 0, true);
    }
    let end = End {
        output_tokens: Some(TokenCount::Usage(tokens)),
        choices,
        ..End::of(Outcome::Ok)
    };
    open.end(Timestamp::from_millis(10_000), end);
    log.0.take().1.remove(0)
}

#[test]
fn latency_does_not_exist_without_tokens() {
    let none = request(&[], 0, 1).summary;
    assert_eq!((none.ttft(), none.e2e(), none.tpot()), (None, None, None));
    let one = request(&[210], 1, 1).summary;
    assert_eq!(
        (one.ttft(), one.tpot(), one.stall()),
        (Some(ms(200)), None, None)
    );
    assert_eq!(one.tpot_within(ms(1)), None);
}

#[test]
fn tpot_is_the_mean_gap_after_the_first_token() {
    let summary = request(&[210, 250, 310], 3, 1).summary;
    assert_eq!(summary.tpot(), Some(ms(50)));
    assert_eq!(
        summary.tpot_within(ms(50)),
        Some(true),
        "a bound is inclusive"
    );
    assert_eq!(
        summary.tpot_within(ms(50) - Duration::from_nanos(1)),
        Some(false)
    );
    assert_eq!(summary.stall(), Some(ms(60)));
}

// O-ST-01: the wait for the first token is no gap.
#[test]
fn gaps_begin_after_the_first_token() {
    let record = request(&[510, 530, 550, 570], 4, 1);
    let gaps: Vec<u64> = record.gaps.kept().unwrap().iter().map(nanos).collect();
    assert_eq!(record.summary.ttft(), Some(ms(500)));
    assert_eq!(gaps, [20_000_000; 3]);
    assert_eq!(record.summary.tpot(), Some(ms(20)));
}

// O-ST-08: wall times are one anchor plus monotonic time, so a clock that steps moves nothing.
#[test]
fn a_wall_clock_that_steps_back_moves_no_latency() {
    let epoch = Epoch::from_unix_nanos(1_000_000_000_000);
    let stamps = [0, 100, 120, 140].map(Timestamp::from_millis);
    let spans: Vec<Duration> = stamps
        .windows(2)
        .map(|w| w[1].since(w[0]).unwrap())
        .collect();
    assert_eq!(spans, [ms(100), ms(20), ms(20)]);
    assert_eq!(stamps[0].since(stamps[1]), None, "nothing is ever negative");
    let minutes = stamps.map(|at| epoch.minute(at));
    assert!(minutes.windows(2).all(|w| w[0] <= w[1]));
}

#[test]
fn several_choices_and_one_burst_have_no_tpot() {
    assert_eq!(request(&[210, 250, 310], 6, 2).summary.tpot(), None);
    let burst = request(&[300, 300, 300], 3, 1).summary;
    assert!(burst.one_burst());
    assert_eq!((burst.tpot(), burst.tpot_median()), (None, None));
}

#[test]
fn a_preempted_request_has_a_good_median_and_a_long_stall() {
    let mut at = 100;
    let mut events = vec![at];
    for gap in [45, 45, 45, 45, 45, 45, 45, 45, 45, 900] {
        at += gap;
        events.push(at);
    }
    let summary = request(&events, 11, 1).summary;
    assert_eq!(summary.tpot(), Some(Duration::from_micros(130_500)));
    assert_eq!(summary.tpot_median(), Some(ms(45)));
    assert_eq!(summary.stall(), Some(ms(900)));
}

#[test]
fn a_gap_is_shared_out_over_the_tokens_of_its_event() {
    let summary = request(&[400, 500, 600, 700], 12, 1).summary;
    assert_eq!(summary.tpot().map(|t| t.as_nanos()), Some(300_000_000 / 11));
    assert_eq!(
        summary.tpot_median(),
        Some(Duration::from_nanos(33_333_333))
    );
}

#[test]
fn dropping_an_open_request_files_a_failure() {
    let log = Rc::new(Log::default());
    drop(OpenRequest::arrive(log.clone(), arrival(Timestamp::ZERO)));
    let (arrived, ended) = log.0.take();
    assert_eq!((arrived, ended.len()), (1, 1));
    assert_eq!(ended[0].summary.outcome(), Outcome::Failed);
}

#[test]
fn time_to_the_nth_token_counts_tokens_not_events() {
    let record = request(&[210, 250, 310], 3, 1);
    let to = |n| record.summary.time_to_token(n, &record.gaps);
    assert_eq!(
        (to(1), to(2), to(3), to(4)),
        (Some(ms(200)), Some(ms(240)), Some(ms(300)), None)
    );
    let double = request(&[210, 250, 310], 6, 1);
    assert_eq!(double.summary.time_to_token(3, &double.gaps), Some(ms(240)));
}

#[test]
fn a_trajectory_lasts_from_the_first_origin_to_the_last_token() {
    let mut step = request(&[210, 250, 310], 3, 1).summary;
    step.arrival.steps = 2;
    let mut whole = TrajectoryRecord::begin(&step);
    assert_eq!(whole.duration(), None, "a step is missing");
    whole.add(&step);
    assert_eq!(whole.duration(), Some(ms(300)));
    assert_eq!(whole.output_tokens, 6);
}

proptest! {
    #[test]
    fn gaps_survive_the_buffer(gaps in prop::collection::vec(0_u64..20_000_000_000, 0..50)) {
        let mut buffer = GapBuffer::default();
        for &gap in &gaps {
            buffer.push(Duration::from_nanos(gap), 0);
        }
        let back: Vec<u64> = buffer.iter().map(nanos).collect();
        prop_assert_eq!(back, gaps);
    }

    #[test]
    fn a_row_reads_back_as_the_same_record(gaps in prop::collection::vec(0_u64..5_000, 0..20), tokens in 0_u32..40) {
        let mut at = 20;
        let events: Vec<u64> = gaps.iter().map(|gap| { at += gap; at }).collect();
        let record = request(&events, tokens, 1);
        let context = RowContext {
            run: "r-1", point: 0, series: &Series::default(), phase: Phase::Measured,
            verdicts: std::collections::BTreeMap::default(), keep_gaps: true, text: None, error: None,
        };
        let json = serde_json::to_string(&RequestRow::new(&record, context)).unwrap();
        let row: RequestRow = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(row.to_record(SeriesId::default()), record);
    }

    #[test]
    fn e2e_is_ttft_plus_tpot_times_the_gaps(gaps in prop::collection::vec(1_u64..5_000, 1..20)) {
        let mut at = 20;
        let events: Vec<u64> = gaps.iter().map(|gap| { at += gap; at }).collect();
        let n = u32::try_from(events.len()).unwrap();
        let s = request(&events, n, 1).summary;
        if let (Some(ttft), Some(tpot), Some(e2e)) = (s.ttft(), s.tpot(), s.e2e()) {
            let sum = ttft + tpot * (n - 1);
            prop_assert!(e2e >= sum && e2e - sum < Duration::from_nanos(u64::from(n)));
        }
    }
}

#[test]
fn latencies_of_a_closed_loop_run_from_the_send_and_its_lag_is_kept() {
    let at = Timestamp::from_millis;
    let filed = |closed: bool| {
        let log = Rc::new(Log::default());
        let mut open = OpenRequest::arrive(Rc::clone(&log), arrival(at(100)));
        if closed {
            open.begins_when_sent();
        }
        open.sent(at(130));
        // A second attempt moves nothing.
        open.sent(at(140));
        open.token_event(at(230), 1, true);
        open.end(at(230), End::of(Outcome::Ok));
        log.0.take().1.remove(0).summary
    };
    let (open, closed) = (filed(false), filed(true));
    assert_eq!(open.ttft(), Some(ms(130)));
    assert_eq!(closed.ttft(), Some(ms(100)));
    for summary in [open, closed] {
        assert_eq!(summary.send_lag(), Some(ms(30)));
    }
}
